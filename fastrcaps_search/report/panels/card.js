"use strict";
// Everything about the marked trial.
report.card = (() => {
  const { make, known, data, state, byId } = report;
  const own = data.panels.card;
  let shown = null;
  let due = 0;

  // Learning curves come packed, 16 bits a number: accuracies, and seconds as parts of the longest.
  const unpacked = (text, whole) => {
    const bytes = Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
    const view = new DataView(bytes.buffer);
    return Array.from({ length: bytes.length / 2 }, (_, place) => {
      const value = view.getUint16(2 * place, true);
      return value === own.unknown ? null : (whole * value) / own.units;
    });
  };
  const curves = (trial) => (own.trials[trial.place].runs ?? []).map(({ curve, spent, longest }) =>
    ({ accuracies: unpacked(curve, 1), seconds: unpacked(spent, longest) }));

  const facts = (trial) => own.trials[trial.place].facts.map((place) => own.said[place]);
  // The same in brief, as Plotly's markup, beside the pointer.
  const hover = (trial) => {
    const said = new Map(facts(trial));
    const word = (label) => (label !== "note" ? `${label} ` : trial.row.feasible === false ? "infeasible: " : "");
    const lines = own.brief.filter((label) => said.has(label)).map((label) => word(label) + said.get(label));
    const title = `trial ${trial.number}${report.isOnFront(trial.number) ? ", on the front" : ""}`;
    const [head, ...rest] = [title, trial.policy, ...lines].map((line) =>
      line.replace(/[&<>]/g, (sign) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[sign]));
    return [`<b>${head}</b>`, ...rest].join("<br>");
  };

  const plot = (id, trial, traces, x, y) => {
    const { light: color } = data.marks[trial.policy];
    const layout = structuredClone(own.layout);
    layout.xaxis = { ...layout.xaxis, ...x, title: { ...layout.xaxis.title, text: x.title } };
    layout.yaxis = { ...layout.yaxis, ...y, title: { ...layout.yaxis.title, text: y.title } };
    if (report.figures.isOnPaper()) layout.width = 680;
    const lines = traces.map(({ shape = "linear", ...trace }) => ({
      type: "scatter", mode: "lines", line: { color, width: 2, shape }, marker: { size: 5, color }, ...trace,
    }));
    const made = report.figures.painted({ data: lines, layout });
    Plotly.react(byId(id), made.data, made.layout, report.figures.plotOptions);
  };

  const drawCurve = (trial) => {
    const bySeconds = state.get("by") === "seconds";
    const runs = curves(trial).map((run, index) => ({ ...run, index })).filter((run) => run.accuracies.length);
    const note = byId("card-curve-note");
    byId("card-curve").hidden = !runs.length;
    note.hidden = runs.length > 0;
    note.textContent = own.trials[trial.place].runs ? "No epoch is stored yet."
      : "This page leaves this curve out: the study has too many epochs.";
    if (!runs.length) return;
    const traces = runs.map(({ accuracies, seconds, index }) => {
      let spent = 0;
      const sums = seconds.map((length) => { spent += length ?? 0; return spent; });
      return {
        x: bySeconds ? sums : sums.map((_, epoch) => epoch + 1), y: accuracies,
        mode: sums.length <= 40 ? "lines+markers" : "lines",
        hovertemplate: `${runs.length > 1 ? `run ${index + 1}, ` : ""}%{y:.2%}<extra></extra>`,
      };
    });
    const epochs = own.lines[own.trials[trial.place].batch[0]].at(-1);
    plot("card-curve", trial, traces,
      { title: bySeconds ? "training seconds" : "epoch", rangemode: bySeconds ? "tozero" : "normal",
        dtick: !bySeconds && epochs <= 12 ? 1 : undefined },
      { title: "accuracy", tickformat: ".4~p" });
  };

  // Progress and value of the learning rate, then of the batch size.
  const schedules = (trial) => ["rate", "batch"].map((key) => {
    const [progress, shape, low, high] = own.trials[trial.place][key];
    return [own.lines[progress], own.lines[shape].map((part) => low + (high - low) * part)];
  });
  const drawSchedules = (trial) => {
    const [rate, batch] = schedules(trial);
    const x = { title: "progress in epochs", range: [0, batch[0].at(-1)] };
    plot("card-rate", trial, [{ x: rate[0], y: rate[1], hovertemplate: "%{y:.3g}<extra></extra>" }],
      x, { title: "learning rate", rangemode: "tozero", tickformat: "~g" });
    plot("card-batch", trial, [{ x: batch[0], y: batch[1], shape: "hv", hovertemplate: "batch %{y}<extra></extra>" }],
      x, { title: "batch size", rangemode: "tozero" });
  };

  const copied = (text, button) => {
    const done = (word) => {
      button.textContent = word;
      setTimeout(() => { button.textContent = "copy"; }, 1500);
    };
    // Without https there is no clipboard; a click selects the whole line.
    const written = navigator.clipboard?.writeText(text) ?? Promise.reject(new Error("none"));
    written.then(() => done("copied"), () => done("select it"));
  };
  const command = (label, text) => make("div", { className: "command" },
    make("span", { className: "label" }, label), make("code", {}, text),
    make("button", {
      type: "button", "aria-label": `copy: ${text}`,
      onclick: (event) => copied(text, event.target),
    }, "copy"));

  // Quoted for a POSIX shell where a shell would read more into it.
  const quoted = (word) =>
    /^[\w@%+=:,./-]+$/.test(word) ? word : `'${String(word).replaceAll("'", "'\\''")}'`;
  const line = (begin, ...words) => [begin, ...words.map(quoted)].join(" ");
  const select = (flags) => line(own.select, ...flags);

  const commands = (trial) => {
    const { values, params, feasible } = trial.row;
    const found = [];
    if (trial.isFinal && feasible !== false) {
      // Bounds at the trial's own values: nothing on the front but its equals fits them.
      found.push(command(report.isOnFront(trial.number) ? "names this trial, or one of equal values"
        : "names a trial at least as good in every objective",
        select((data.panels.mine?.bounds ?? []).flatMap(({ flag, objective }) => [`--${flag}`, values[objective]]))));
    }
    // A study's name has at most 63 characters.
    const ending = `-trial-${trial.number}`;
    const name = data.study.name.slice(0, 63 - ending.length) + ending;
    if (trial.isFinal && own.trials[trial.place].isKept) {
      found.push(command("writes its network out", line(own.export, "--trial", trial.number, "--out", name)));
    }
    // JSON writes strings, numbers and truth as TOML does.
    const toml = ([key, value]) => `${key} = ${JSON.stringify(value)}`;
    const file = [toml(["name", name]), own.file, "", "[[configuration]]", ...Object.entries(params).map(toml), ""];
    const save = make("button", {
      type: "button", onclick: () => report.save(`${name}.toml`, file.join("\n"), "text/plain"),
    }, `save ${name}.toml`);
    const label = "trains it again, with the same seed: save the study file, then";
    found.push(make("div", { className: "command" }, make("span", { className: "label" }, label), save));
    found.push(command("", line("fastrcaps-search run --study", `${name}.toml`, "--trials", 1, "--seed", own.seed)));
    return found;
  };

  const failure = (trial) => {
    const found = own.trials[trial.place].failure;
    return found ? [make("details", { className: "failure" },
      make("summary", {}, `${found.kind}: ${trial.note}`),
      found.log ? make("p", {}, `log: ${found.log}`) : null, make("pre", {}, found.trace))] : [];
  };

  const title = (number) => {
    if (number === null) return;
    const why = number === report.marked.picked() ? "picked"
      : number === report.marked.named() ? "named by the criteria" : "";
    byId("card-title").replaceChildren(`Trial ${number}`,
      report.isOnFront(number) ? make("span", { className: "badge" }, "front") : "",
      why ? make("span", { className: "badge quiet" }, why) : "");
  };

  const show = (number) => {
    shown = number;
    byId("card").dataset.trial = number ?? "";
    byId("card-empty").hidden = number !== null;
    byId("card-body").hidden = number === null;
    if (number === null) return;
    const trial = report.byNumber.get(number);
    title(number);
    byId("card-policy").replaceChildren(report.symbol(trial), ` ${trial.policy}`);
    byId("card-facts").replaceChildren(...facts(trial).flatMap(
      ([label, said]) => [make("dt", {}, label), make("dd", {}, said)]));
    byId("card-failure").replaceChildren(...failure(trial));
    byId("card-commands").replaceChildren(...commands(trial));
    // The words first: the figures follow when the browser has shown them, unless another trial does.
    clearTimeout(due);
    due = setTimeout(draw, 0);
  };

  const draw = () => {
    if (shown === null || !window.Plotly) return;
    drawCurve(report.byNumber.get(shown));
    drawSchedules(report.byNumber.get(shown));
  };

  report.starts.push(() => {
    report.marked.listen(show);
    show(report.marked.current());
    const buttons = document.querySelectorAll("#card [data-by]");
    const by = () => {
      for (const button of buttons) button.setAttribute("aria-pressed", button.dataset.by === state.get("by"));
    };
    by();
    for (const button of buttons) button.addEventListener("click", () => state.set({ by: button.dataset.by }));
    state.listen(["by"], () => { by(); draw(); });
    // Another trial comes by the mark; the same one may now be picked, or no longer.
    state.listen(["trial"], () => { if (shown === report.marked.current()) title(shown); });
    report.figures.darkScheme.addEventListener("change", draw);
  });

  report.commands = { select };
  return { draw, curves, hover, schedules };
})();
