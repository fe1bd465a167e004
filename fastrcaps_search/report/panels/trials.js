"use strict";
// All trials: sorted, filtered, a part at a time; and as files.
report.starts.push(() => {
  const { make, known, state, byId, data } = report;
  const { columns, cells } = data.panels.trials;
  const step = 100;
  let most = step;
  let kept = step;

  const texts = columns.flatMap(({ path }, place) => (path ? [] : [place]));
  const searched = new Map();
  const searchable = (trial) => {
    if (!searched.has(trial.number)) {
      const words = [trial.number, trial.row.device, trial.words, trial.note, trial.rates, ...texts.map((place) => cells[trial.place][place])];
      searched.set(trial.number, words.filter(known).join(" ").toLowerCase());
    }
    return searched.get(trial.number);
  };

  const chosen = () => {
    const wanted = state.get("filter").toLowerCase().split(/\s+/).filter(Boolean);
    const only = state.get("only");
    const belongs = ({ number, row }) => only === "" || row.state === only ||
      (only === "front" ? report.isOnFront(number) : only === "infeasible" && row.feasible === false);
    return report.trials.filter((trial) =>
      belongs(trial) && wanted.every((word) => searchable(trial).includes(word)));
  };

  // A number of the row, or a text; trials without one come last, whichever way round.
  const value = (trial, place) => (columns[place].path
    ? columns[place].path.split(".").reduce((part, key) => part?.[key], trial.row)
    : cells[trial.place][place] || null);
  const sorted = (trials) => {
    const sort = state.get("sort");
    const down = sort.startsWith("-");
    const place = Math.max(0, columns.findIndex(({ key }) => key === sort.replace(/^-/, "")));
    const compare = (a, b) => (typeof a === "number" ? a - b : a.localeCompare(b));
    return [...trials].sort((first, second) => {
      const [a, b] = [value(first, place), value(second, place)];
      if (known(a) !== known(b)) return known(a) ? -1 : 1;
      const order = known(a) ? compare(a, b) : 0;
      return (down ? -order : order) || first.number - second.number;
    });
  };

  const cell = (trial, { key, path }, place) => {
    const shown = cells[trial.place][place] || "–";
    const small = (words) => (words ? make("small", {}, words) : null);
    if (key === "trial") {
      return make("th", { scope: "row" }, make("button", { type: "button", className: "link" }, shown));
    }
    if (key === "state") {
      return make("td", { className: "state" }, make("span", { className: shown }, shown),
        report.isOnFront(trial.number) ? make("span", { className: "badge" }, "front") : null, small(trial.note));
    }
    if (key === "policy") {
      return make("td", { className: "policy" }, report.symbol(trial), shown, small(trial.rates));
    }
    return make("td", { className: path && key !== "p" ? "number" : key }, shown);
  };

  const head = () => {
    const sort = state.get("sort");
    byId("trials-head").replaceChildren(...columns.map(({ key, title, path }) => {
      const isSorted = sort.replace(/^-/, "") === key;
      const down = isSorted && sort.startsWith("-");
      const made = make("th", { scope: "col", className: path && !["trial", "p"].includes(key) ? "number" : "" },
        make("button", {
          type: "button", className: "sort", id: `sort-${key}`,
          onclick: () => {
            state.set({ sort: isSorted && !down ? `-${key}` : key });
            byId(`sort-${key}`).focus();
          },
        }, title, make("span", { "aria-hidden": "true" }, isSorted ? (down ? " ↓" : " ↑") : "")));
      if (isSorted) made.setAttribute("aria-sort", down ? "descending" : "ascending");
      return made;
    }));
  };

  const mark = () => {
    for (const row of document.querySelectorAll("tr[data-trial]")) {
      const isMarked = Number(row.dataset.trial) === report.marked.current();
      row.classList.toggle("marked", isMarked);
      row.toggleAttribute("aria-current", isMarked);
    }
  };

  const counted = (number) => number.toLocaleString("en-US");
  const render = () => {
    const [found, all] = [sorted(chosen()), report.trials.length];
    const rows = found.slice(0, most);
    head();
    byId("trials-body").replaceChildren(...rows.map((trial) =>
      make("tr", { "data-trial": trial.number, "data-state": trial.row.state },
        ...columns.map((column, place) => cell(trial, column, place)))));
    const more = byId("trials-more");
    more.hidden = found.length <= most;
    more.textContent = `show ${Math.min(step, found.length - most)} more of ${found.length - most}`;
    const of = found.length < all ? `${counted(found.length)} of ` : "";
    const part = found.length > rows.length ? `, the first ${counted(rows.length)} shown` : "";
    byId("trials-count").textContent = `${of}${counted(all)} trial${all === 1 ? "" : "s"}${part}`;
    mark();
  };

  // What a screen reader says of the trial that is marked.
  const spoken = (trial) => {
    const said = Object.fromEntries(columns.map(({ key }, place) => [key, cells[trial.place][place]]));
    const values = `accuracy ${said.accuracy}, ${said.seconds} seconds, ${said.parameters} parameters`;
    return `Trial ${said.trial}, ${said.policy}: ${said.accuracy ? values : said.state}`;
  };
  report.marked.listen((number) => {
    byId("said").textContent = number === null ? "" : spoken(report.byNumber.get(number));
  });

  const rowOf = (event) => event.target.closest("tr[data-trial]");
  for (const body of document.querySelectorAll("tbody.trials")) {
    const number = (event) => (rowOf(event) ? Number(rowOf(event).dataset.trial) : null);
    body.addEventListener("click", (event) => { if (rowOf(event)) report.marked.pick(number(event)); });
    body.addEventListener("mouseover", (event) => report.marked.hover(number(event)));
    body.addEventListener("mouseleave", () => report.marked.hover(null));
  }
  report.marked.listen(mark);
  if (!byId("trials-body")) return;

  const [filter, only] = [byId("filter"), byId("only")];
  const fill = () => {
    if (filter.value !== state.get("filter")) filter.value = state.get("filter");
    only.value = state.get("only");
    render();
  };
  fill();
  filter.addEventListener("input", () => state.set({ filter: filter.value }));
  only.addEventListener("input", () => state.set({ only: only.value }));
  byId("trials-more").addEventListener("click", () => {
    const first = most;
    most += step;
    render();
    byId("trials-body").rows[first]?.querySelector("button").focus();
  });
  const { name } = data.study;
  byId("save-csv").addEventListener("click", () => report.save(`${name}.csv`, data.csv, "text/csv"));
  byId("save-json").addEventListener("click", () =>
    report.save(`${name}.json`, `${JSON.stringify(data.rows, null, 2)}\n`, "application/json"));
  state.listen(["sort", "filter", "only"], fill);
  // A printed list cannot be shown part by part.
  addEventListener("beforeprint", () => { kept = most; most = Math.max(most, 1000); render(); });
  addEventListener("afterprint", () => { most = kept; render(); });
});
