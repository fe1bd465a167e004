"use strict";
// Everything about the marked trial.
report.card = (() => {
  const { make, known, share, percent, seconds, count } = report;
  let shown = null;
  let due = 0;

  const pair = (label, value) =>
    known(value) && value !== "" ? [make("dt", {}, label), make("dd", {}, value)] : [];

  const epochsOf = (schedule) => schedule.sizes.reduce((sum, [, epochs]) => sum + epochs, 0);

  // Learning rate at enough points of every stretch; a restart has two values at one progress.
  // Training may cut the last cycle short.
  const rates = (schedule) => {
    const [xs, ys] = [[], []];
    const end = epochsOf(schedule);
    for (const [curve, start, length, times, first, last, power] of schedule.rates) {
      const isStraight = curve === "constant" || curve === "linear";
      const parts = isStraight ? 1 : Math.max(4, Math.min(32, Math.floor(1600 / times)));
      for (let turn = 0; turn < times; turn += 1) {
        const most = Math.min(1, (end - start) / length - turn);
        for (let part = 0; part <= parts; part += 1) {
          const t = (most * part) / parts;
          xs.push(start + (turn + t) * length);
          ys.push({
            constant: () => first,
            exponential: () => first * Math.exp(-(t * length) / power),
            linear: () => first + (last - first) * t,
            cosine: () => first - (first - last) * 0.5 * (1 - Math.cos(Math.PI * t)),
            polynomial: () => first - (first - last) * (1 - (1 - t) ** power),
          }[curve]());
        }
      }
    }
    return [xs, ys];
  };

  const sizes = (schedule) => {
    const [xs, ys] = [[0], []];
    for (const [size, epochs] of schedule.sizes) {
      ys.push(size);
      xs.push(xs.at(-1) + epochs);
    }
    return [xs, [...ys, ys.at(-1)]];
  };

  const line = (trial) => {
    const { light } = report.marks.get(trial.policy);
    return { type: "scatter", mode: "lines", line: { color: light, width: 2 } };
  };

  const plot = (id, traces, x, y) => {
    const layout = structuredClone(report.data.card.layout);
    layout.xaxis = { ...layout.xaxis, ...x, title: { ...layout.xaxis.title, text: x.title } };
    layout.yaxis = { ...layout.yaxis, ...y, title: { ...layout.yaxis.title, text: y.title } };
    if (report.figures.isOnPaper()) layout.width = 680;
    const made = report.figures.painted({ data: traces, layout });
    Plotly.react(report.byId(id), made.data, made.layout, report.figures.plotOptions);
  };

  const drawCurve = (trial) => {
    const bySeconds = report.state.get("by") === "seconds";
    const runs = trial.runs.map((run, index) => ({ ...report.curves(run), index }))
      .filter((curve) => curve.accuracies?.length);
    const note = report.byId("card-curve-note");
    report.byId("card-curve").hidden = !runs.length;
    note.hidden = runs.length > 0;
    if (!runs.length) {
      note.textContent = trial.runs.some((run) => "curve" in run) || !trial.runs.length
        ? "No epoch is stored yet."
        : "This page leaves this curve out: the study has too many epochs.";
      return;
    }
    const traces = runs.map(({ accuracies, seconds: lengths, index }) => {
      let spent = 0;
      const sums = lengths.map((length) => { spent += length ?? 0; return spent; });
      const x = bySeconds ? sums : sums.map((_, epoch) => epoch + 1);
      return {
        ...line(trial), x, y: accuracies, mode: x.length <= 40 ? "lines+markers" : "lines",
        marker: { size: 5, color: report.marks.get(trial.policy).light },
        hovertemplate: `${runs.length > 1 ? `run ${index + 1}, ` : ""}%{y:.2%}<extra></extra>`,
      };
    });
    plot("card-curve", traces,
      { title: bySeconds ? "training seconds" : "epoch", rangemode: bySeconds ? "tozero" : "normal",
        dtick: !bySeconds && epochsOf(report.data.schedules[trial.schedule]) <= 12 ? 1 : undefined },
      { title: "accuracy", tickformat: ".4~p" });
  };

  const drawSchedules = (trial) => {
    const schedule = report.data.schedules[trial.schedule];
    const x = { title: "progress in epochs", range: [0, epochsOf(schedule)] };
    const [epochs, values] = rates(schedule);
    plot("card-rate", [{ ...line(trial), x: epochs, y: values, hovertemplate: "%{y:.3g}<extra></extra>" }],
      x, { title: "learning rate", rangemode: "tozero", tickformat: "~g" });
    const [starts, batches] = sizes(schedule);
    plot("card-batch", [{
      ...line(trial), line: { ...line(trial).line, shape: "hv" }, x: starts, y: batches,
      hovertemplate: "batch %{y}<extra></extra>",
    }], x, { title: "batch size", rangemode: "tozero" });
  };

  const utc = (seconds) => `${new Date(1000 * seconds).toISOString().slice(0, 16).replace("T", " ")} UTC`;

  const facts = (trial) => {
    const { params, values, test_accuracy: test, feasible, set_aside: aside } = trial.row;
    const { positions, ranges, runs } = trial;
    const spread = trial.row.spread ?? {};
    const isComplete = trial.row.state === "complete";
    const accuracies = runs.map((run) => run.accuracy).filter(known);
    const margin = (name, format) => (spread[name] ? ` ± ${format(spread[name].margin)}` : "");
    const { measured } = trial.row;
    const of = trial.row.runs > 1 ? `mean of ${trial.row.runs} runs` : measured ? "its run" : "";
    const mean = !of ? "" : measured ? ` (estimate; ${of} ${percent(measured.accuracy)})` : ` (${of})`;
    const reach = (found, format) => (found ? ` (runs ${format(found[0])} to ${format(found[1])})` : "");
    const distinct = (of) => [...new Set(runs.map(of).filter(known))].join(", ");
    return [
      ...pair("state", trial.row.state),
      ...pair("note", trial.note),
      ...pair("set aside", aside ? `by ${aside.by} on ${aside.host}, ${utc(aside.at)}` : ""),
      ...pair("on the front", !isComplete ? "" : !feasible ? "no, for it is infeasible"
        : known(trial.row.front_probability) ? share(trial.row.front_probability) : "? (nothing was repeated)"),
      ...pair("P", params.adabatch_exponent),
      ...pair("batch size", trial.batch),
      ...pair("schedule", trial.rates),
      ...pair("decoder", params.decoder),
      ...pair("shared weights", known(params.weight_sharing) ? (params.weight_sharing ? "yes" : "no") : ""),
      ...pair("accuracy", known(values.accuracy)
        ? percent(values.accuracy) + margin("accuracy", (part) => (100 * part).toFixed(2)) + mean : ""),
      ...pair("each run", accuracies.length > 1 ? accuracies.map(percent).join(", ") : ""),
      ...runs.flatMap((run, index) => pair(`run ${index + 1} failed`, run.failure)),
      ...pair("test accuracy", known(test) ? percent(test) : ""),
      ...pair("training time", known(values.training_seconds)
        ? `${seconds(values.training_seconds)} s${margin("training_seconds",
          (part) => seconds(part, values.training_seconds))}${reach(ranges.training_seconds, seconds)}` : ""),
      ...pair("parameters", known(values.parameters) ? count(values.parameters) : ""),
      ...pair("best epoch", known(positions.epochs) ? count(positions.epochs) : ""),
      ...pair("samples", known(positions.samples) ? `${count(positions.samples)} up to the best epoch` : ""),
      ...pair("steps", known(positions.steps) ? `${count(positions.steps)} up to the best epoch` : ""),
      ...pair("device", distinct((run) => run.device)),
      ...pair("threads", distinct((run) => run.threads)),
      ...pair("workers per device", trial.sharing.join(", ")),
      ...pair("torch", distinct((run) => `${run.torch}, ${run.precision}`)),
      ...pair(runs.length > 1 ? "seeds" : "seed", distinct((run) => run.seed)),
      ...pair("trained by", trial.workers.join(", ")),
      ...pair("claims with a stored epoch", trial.claims > 1 ? `${trial.claims} (continued or taken over${trial.row.runs > 1 ? "; repeats apart" : ""})` : ""),
      ...pair("bit-equal", runs.some((run) => !run.bitEqual) ? "no: continued with other threads, kernels or device" : ""),
    ];
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

  const commands = (trial) => {
    const found = [];
    if (report.isFinal(trial) && report.isOnFront(trial.number)) {
      found.push(command("names this trial, or one of equal values", report.commands.select(trial)));
    } else if (report.isFinal(trial) && trial.row.feasible !== false) {
      found.push(command("names a trial at least as good in every objective", report.commands.select(trial)));
    }
    if (report.isFinal(trial) && trial.runs.some((run) => known(run.accuracy) && !run.removed)) {
      found.push(command("writes its network out", report.commands.exported(trial)));
    }
    const save = make("button", {
      type: "button",
      onclick: () => report.save(report.commands.fileName(trial), report.commands.file(trial), "text/plain"),
    }, `save ${report.commands.fileName(trial)}`);
    found.push(make("div", { className: "command" },
      make("span", { className: "label" }, "trains it again, with the same seed: save the study file, then"),
      save),
    command("", report.commands.repeat(trial)));
    return found;
  };

  const failure = (trial) => (trial.failure
    ? make("details", { className: "failure" },
      make("summary", {}, `${trial.failure.kind}: ${trial.note}`),
      trial.failure.log ? make("p", {}, `log: ${trial.failure.log}`) : null,
      make("pre", {}, trial.failure.trace))
    : null);

  const why = (number) => {
    if (number === report.selection.picked()) return "picked";
    return number === report.selection.named() ? "named by the criteria" : "";
  };

  const title = (number) => {
    if (number === null) return;
    report.byId("card-title").replaceChildren(`Trial ${number}`,
      report.isOnFront(number) ? make("span", { className: "badge" }, "front") : "",
      why(number) ? make("span", { className: "badge quiet" }, why(number)) : "");
  };

  const show = (number) => {
    shown = number;
    const card = report.byId("card");
    card.dataset.trial = number ?? "";
    const empty = report.byId("card-empty");
    empty.hidden = number !== null;
    report.byId("card-body").hidden = number === null;
    if (number === null) return;
    const trial = report.byNumber.get(number);
    title(number);
    report.byId("card-policy").replaceChildren(report.symbol(trial), ` ${trial.policy}`);
    report.byId("card-facts").replaceChildren(...facts(trial));
    report.byId("card-failure").replaceChildren(...[failure(trial)].filter(Boolean));
    report.byId("card-commands").replaceChildren(...commands(trial));
    // The words first: the figures follow when the browser has shown them, unless another trial does.
    clearTimeout(due);
    due = setTimeout(draw, 0);
  };

  const draw = () => {
    if (shown === null || !window.Plotly) return;
    drawCurve(report.byNumber.get(shown));
    drawSchedules(report.byNumber.get(shown));
  };

  const start = () => {
    report.selection.listen(show);
    show(report.selection.current());
    for (const button of document.querySelectorAll("#card [data-by]")) {
      button.addEventListener("click", () => report.state.set({ by: button.dataset.by }));
    }
    const by = () => {
      for (const button of document.querySelectorAll("#card [data-by]")) {
        button.setAttribute("aria-pressed", button.dataset.by === report.state.get("by"));
      }
    };
    by();
    report.state.listen((changed) => {
      if (changed.has("by")) { by(); draw(); }
      // Another trial comes by the selection; the same one may now be picked, or no longer.
      if (changed.has("trial") && shown === report.selection.current()) title(shown);
    });
    report.figures.darkScheme.addEventListener("change", draw);
  };

  return { start, draw, rates };
})();
