"use strict";
// Switches, keys, and whether there is a newer page.
(() => {
  const { state, selection } = report;

  const switches = () => {
    const time = report.byId("time");
    if (!time) return;
    const paper = report.byId("paper");
    const space = report.byId("show-space");
    const fill = () => {
      space.hidden = Boolean(state.get("space"));
      report.byId("space-note").hidden = !space.hidden;
      time.value = state.get("time");
      if (paper) paper.checked = Boolean(state.get("paper"));
      const has = report.data.overlays[state.get("time")];
      if (paper) {
        paper.disabled = !has;
        report.byId("paper-legend").hidden = !(has && paper.checked);
      }
      const note = report.byId("time-note");
      const [now, measured] = [report.front(state.get("time")), report.front("seconds")];
      const gone = measured.filter((number) => !now.includes(number));
      const come = now.filter((number) => !measured.includes(number));
      const list = (word, numbers) => (numbers.length ? `${word} ${numbers.slice(0, 8).join(", ")}${numbers.length > 8 ? "…" : ""}` : "");
      const changes = [list("without", gone), list("with", come)].filter(Boolean).join("; ");
      note.textContent = state.get("time") === "seconds" ? ""
        : `Front in this measure: ${changes || "the same trials"} (against training seconds, by which tables, badges, the criteria and select go).`;
    };
    fill();
    time.addEventListener("input", () => state.set({ time: time.value }));
    paper?.addEventListener("input", () => state.set({ paper: paper.checked ? "1" : "" }));
    space.addEventListener("click", () => {
      state.set({ space: "1" });
      report.byId("space").focus();
    });
    state.listen((changed) => {
      if (["time", "paper", "space"].some((key) => changed.has(key))) fill();
    });
  };

  // In a figure the arrows go from trial to trial along its axes; in a table from row to row.
  const keys = () => {
    const axes = {
      "projection-time-accuracy": ["time", "accuracy"],
      "projection-parameters-accuracy": ["parameters", "accuracy"],
      "projection-time-parameters": ["time", "parameters"],
    };
    const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowDown: [1, -1], ArrowUp: [1, 1] };
    const value = (trial, axis) =>
      axis === "time" ? trial.positions[state.get("time")] : trial.values[axis];

    const along = (name, key) => {
      const [column, direction] = steps[key] ?? [0, key === "Home" ? -1 : 1];
      const axis = (axes[name] ?? ["time", "accuracy"])[column];
      const known = report.trials.filter((trial) => report.isFinal(trial) && report.known(value(trial, axis)));
      known.sort((a, b) => value(a, axis) - value(b, axis) || a.number - b.number);
      if (!known.length) return null;
      if (key === "Home") return known[0].number;
      if (key === "End") return known.at(-1).number;
      const place = known.findIndex((trial) => trial.number === selection.current());
      if (place < 0) return known[0].number;
      return known[Math.min(known.length - 1, Math.max(0, place + direction))].number;
    };

    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !event.target.closest?.("input, select")) selection.pick(null);
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const place = event.target.closest?.(".plot[tabindex]");
      if (place && (event.key in steps || event.key === "Home" || event.key === "End")) {
        const number = along(place.id, event.key);
        if (number !== null) selection.pick(number);
        event.preventDefault();
        return;
      }
      const row = event.target.closest?.("tr[data-trial]");
      if (row && (event.key === "ArrowUp" || event.key === "ArrowDown")) {
        const next = event.key === "ArrowUp" ? row.previousElementSibling : row.nextElementSibling;
        const button = next?.querySelector("button");
        if (button) { button.focus(); selection.pick(Number(next.dataset.trial)); }
        event.preventDefault();
      }
    });
  };

  // Links to sections move the view and leave the address to what is shown.
  const links = () => {
    for (const link of document.querySelectorAll('a[href^="#"]')) {
      link.addEventListener("click", (event) => {
        const section = report.byId(link.getAttribute("href").slice(1));
        if (!section) return;
        event.preventDefault();
        section.scrollIntoView();
        section.setAttribute("tabindex", "-1");
        section.focus({ preventScroll: true });
      });
    }
  };

  // While trials are to come, the page opens itself in a frame that only tells its date.
  const watch = () => {
    if (!report.data.study.inProgress) return;
    const mine = document.querySelector('meta[name="written"]').content;
    const banner = report.byId("newer");
    const pause = 20_000;
    let frame = null;
    const look = () => {
      if (document.hidden || !banner.hidden) return;
      frame?.remove();
      const name = "fastrcaps-newer";
      frame = report.make("iframe", { hidden: true, name, src: location.href.split("#")[0], title: "newer page" });
      document.body.append(frame);
    };
    addEventListener("message", (event) => {
      if (!frame || event.source !== frame.contentWindow) return;
      const written = event.data?.fastrcapsReport;
      if (typeof written === "string" && written !== mine) banner.hidden = false;
      frame.remove();
      frame = null;
    });
    report.byId("reload").addEventListener("click", () => location.reload());
    setInterval(look, pause);
    addEventListener("focus", look);
    document.addEventListener("visibilitychange", look);
  };

  report.selection.listen((number) => {
    report.byId("said").textContent = number === null ? "" : spoken(number);
  });
  const spoken = (number) => {
    const { row, values, policy } = report.byNumber.get(number);
    return report.known(values.accuracy)
      ? `Trial ${number}, ${policy}: accuracy ${report.percent(values.accuracy)}, ${report.seconds(values.training_seconds)} seconds, ${report.count(values.parameters)} parameters`
      : `Trial ${number}, ${policy}: ${row.state}`;
  };

  report.criteria.start();
  report.card.start();
  report.table.start();
  switches();
  keys();
  links();
  watch();

  // Plotly takes a second or two to start: words, tables and choice are there before it.
  const drawFigures = () => {
    const library = report.make("script", { textContent: report.byId("plotly").textContent });
    document.head.append(library);
    report.figures.start();
    report.card.draw();
    document.documentElement.dataset.ready = "1";
  };
  if (document.hidden) setTimeout(drawFigures);
  else requestAnimationFrame(() => setTimeout(drawFigures));
})();
