"use strict";
// All trials: sorted, filtered, a part at a time; and as files.
report.table = (() => {
  const { make, known } = report;
  const step = 100;
  let most = step;
  let kept = step;

  const sharing = { true: "yes", false: "no" };
  const columns = [
    { key: "trial", title: "trial", of: (t) => t.number, number: true },
    { key: "state", title: "state", of: (t) => t.row.state },
    { key: "policy", title: "policy", of: (t) => t.policy },
    { key: "accuracy", title: "accuracy", of: (t) => t.values.accuracy, show: report.percent, number: true },
    { key: "test", title: "test", of: (t) => t.row.test_accuracy, show: report.percent, number: true },
    { key: "seconds", title: "seconds", of: (t) => t.values.training_seconds, show: report.seconds, number: true },
    { key: "parameters", title: "parameters", of: (t) => t.values.parameters, show: report.count, number: true },
    { key: "sure", title: "on front", of: (t) => t.row.front_probability, show: report.share, number: true },
    { key: "p", title: "P", of: (t) => t.row.params.adabatch_exponent, number: true },
    { key: "batch", title: "batch size", of: (t) => t.batch },
    { key: "decoder", title: "decoder", of: (t) => t.row.params.decoder },
    { key: "shared", title: "shared", of: (t) => sharing[t.row.params.weight_sharing] },
    { key: "device", title: "device", of: (t) => t.row.device },
  ];
  const byKey = new Map(columns.map((column) => [column.key, column]));
  const devices = new Set(report.trials.map((trial) => trial.row.device).filter(known));
  // A column that says nothing would only push the others out of view.
  const says = {
    device: devices.size > 1,
    p: report.trials.some((trial) => "adabatch_exponent" in trial.row.params),
    decoder: report.trials.some((trial) => "decoder" in trial.row.params),
    shared: report.trials.some((trial) => "weight_sharing" in trial.row.params),
    sure: report.trials.some((trial) => known(trial.row.front_probability)),
    test: report.trials.some((trial) => known(trial.row.test_accuracy)),
  };
  const shownColumns = columns.filter(({ key }) => says[key] ?? true);

  const words = (trial) => [
    trial.number, trial.row.state, trial.policy, trial.batch, trial.rates, trial.row.params.decoder,
    trial.row.device, trial.note, trial.workers.join(" "),
    report.isOnFront(trial.number) ? "front" : "", trial.row.feasible === false ? "infeasible" : "",
  ].filter(known).join(" ").toLowerCase();
  const searched = new Map();
  const searchable = (trial) => {
    if (!searched.has(trial.number)) searched.set(trial.number, words(trial));
    return searched.get(trial.number);
  };

  const chosen = () => {
    const wanted = report.state.get("filter").toLowerCase().split(/\s+/).filter(Boolean);
    const only = report.state.get("only");
    return report.trials.filter((trial) =>
      wanted.every((word) => searchable(trial).includes(word)) &&
      (only === "" || (only === "front" ? report.isOnFront(trial.number) : trial.row.state === only ||
          (only === "infeasible" && trial.row.feasible === false))));
  };

  // Trials without a value come last, whichever way round.
  const sorted = (trials) => {
    const sort = report.state.get("sort");
    const down = sort.startsWith("-");
    const column = byKey.get(sort.replace("-", "")) ?? columns[0];
    const compare = (a, b) => (typeof a === "number" ? a - b : String(a).localeCompare(String(b)));
    return [...trials].sort((first, second) => {
      const [a, b] = [column.of(first), column.of(second)];
      if (known(a) !== known(b)) return known(a) ? -1 : 1;
      const order = known(a) ? compare(a, b) : 0;
      return (down ? -order : order) || first.number - second.number;
    });
  };

  const cell = (trial, column) => {
    const value = column.of(trial);
    const shown = column.show ? column.show(value) : known(value) ? String(value) : report.nothing;
    if (column.key === "trial") {
      return make("th", { scope: "row" },
        make("button", { type: "button", className: "link" }, shown));
    }
    if (column.key === "state") {
      const isFront = report.isOnFront(trial.number);
      return make("td", { className: "state" },
        make("span", { className: trial.row.state }, shown),
        isFront ? make("span", { className: "badge" }, "front") : null,
        trial.note ? make("small", {}, trial.note) : null);
    }
    if (column.key === "policy") {
      return make("td", { className: "policy" }, report.symbol(trial), shown,
        trial.rates ? make("small", {}, trial.rates) : null);
    }
    return make("td", { className: column.number && column.key !== "p" ? "number" : column.key }, shown);
  };

  const head = () => {
    const sort = report.state.get("sort");
    report.byId("trials-head").replaceChildren(...shownColumns.map((column) => {
      const isSorted = sort.replace("-", "") === column.key;
      const down = isSorted && sort.startsWith("-");
      const cell = make("th", { scope: "col", className: column.number && !["trial", "p"].includes(column.key) ? "number" : "" },
        make("button", {
          type: "button", className: "sort", id: `sort-${column.key}`,
          onclick: () => {
            report.state.set({ sort: isSorted && !down ? `-${column.key}` : column.key });
            report.byId(`sort-${column.key}`).focus();
          },
        }, column.title, make("span", { "aria-hidden": "true" }, isSorted ? (down ? " ↓" : " ↑") : "")));
      if (isSorted) cell.setAttribute("aria-sort", down ? "descending" : "ascending");
      return cell;
    }));
  };

  const mark = () => {
    const current = report.selection.current();
    for (const row of document.querySelectorAll("tr[data-trial]")) {
      const isMarked = Number(row.dataset.trial) === current;
      row.classList.toggle("marked", isMarked);
      row.toggleAttribute("aria-current", isMarked);
    }
  };

  const render = () => {
    const found = sorted(chosen());
    const rows = found.slice(0, most);
    head();
    report.byId("trials-body").replaceChildren(...rows.map((trial) =>
      make("tr", { "data-trial": trial.number, "data-state": trial.row.state },
        ...shownColumns.map((column) => cell(trial, column)))));
    const more = report.byId("trials-more");
    more.hidden = found.length <= most;
    more.textContent = `show ${Math.min(step, found.length - most)} more of ${found.length - most}`;
    report.byId("trials-count").textContent = found.length === report.trials.length
      ? `${report.count(found.length)} trial${found.length === 1 ? "" : "s"}`
      : `${report.count(found.length)} of ${report.count(report.trials.length)} trials`;
    if (found.length > rows.length) {
      report.byId("trials-count").textContent += `, the first ${report.count(rows.length)} shown`;
    }
    mark();
  };

  // The same columns as `report --format csv`, in its order.
  const csv = () => {
    const used = report.data.parameters.filter((key) => report.trials.some((trial) => key in trial.row.params));
    const has = report.trials.some(({ row }) => "spread" in row);
    const spreads = !has ? [] : ["accuracy", "training_seconds"].flatMap((name) =>
      ["deviation", "margin", "low", "high"].map((part) => [name, part]));
    const measured = report.trials.some(({ row }) => "measured" in row) ? ["accuracy"] : [];
    const heads = [
      "trial", "state", ...used.map((key) => `params.${key}`), "values.accuracy",
      "values.training_seconds", "values.parameters",
      ...measured.map((name) => `measured.${name}`),
      ...spreads.map(([name, part]) => `spread.${name}.${part}`),
      "runs", "device", "front_probability", "test_accuracy", "feasible", "reason",
    ];
    const quoted = (value) => {
      const text = known(value) ? String(value) : "";
      return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    };
    const lines = report.trials.map(({ row }) => [
      row.trial, row.state, ...used.map((key) => row.params[key]), row.values.accuracy,
      row.values.training_seconds, row.values.parameters,
      ...measured.map((name) => row.measured?.[name]),
      ...spreads.map(([name, part]) => row.spread?.[name]?.[part]),
      row.runs, row.device, row.front_probability, row.test_accuracy, row.feasible, row.reason,
    ]);
    return [heads, ...lines].map((line) => `${line.map(quoted).join(",")}\n`).join("");
  };

  const pickRow = (event) => {
    const row = event.target.closest("tr[data-trial]");
    if (row) report.selection.pick(Number(row.dataset.trial));
  };
  const hoverRow = (event) => {
    const row = event.target.closest("tr[data-trial]");
    report.selection.hover(row ? Number(row.dataset.trial) : null);
  };

  const start = () => {
    for (const body of document.querySelectorAll("tbody.trials")) {
      body.addEventListener("click", pickRow);
      body.addEventListener("mouseover", hoverRow);
      body.addEventListener("mouseleave", () => report.selection.hover(null));
    }
    report.selection.listen(mark);
    if (!report.byId("trials-body")) return;
    const filter = report.byId("filter");
    const only = report.byId("only");
    const fill = () => {
      if (filter.value !== report.state.get("filter")) filter.value = report.state.get("filter");
      only.value = report.state.get("only");
    };
    fill();
    render();
    filter.addEventListener("input", () => report.state.set({ filter: filter.value }));
    only.addEventListener("input", () => report.state.set({ only: only.value }));
    report.byId("trials-more").addEventListener("click", () => {
      const first = most;
      most += step;
      render();
      report.byId("trials-body").rows[first]?.querySelector("button").focus();
    });
    report.byId("save-csv").addEventListener("click", () =>
      report.save(`${report.data.study.name}.csv`, csv(), "text/csv"));
    report.byId("save-json").addEventListener("click", () =>
      report.save(`${report.data.study.name}.json`, `${JSON.stringify(report.data.rows, null, 2)}\n`, "application/json"));
    report.state.listen((changed) => {
      if (["sort", "filter", "only"].some((key) => changed.has(key))) { fill(); render(); }
    });
    // A printed list cannot be shown part by part.
    addEventListener("beforeprint", () => { kept = most; most = Math.max(most, 1000); render(); });
    addEventListener("afterprint", () => { most = kept; render(); });
  };

  return { start };
})();
