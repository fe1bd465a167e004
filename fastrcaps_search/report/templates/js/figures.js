"use strict";
// Draws the figures when they come into view, and marks the selected trial in them.
report.figures = (() => {
  const { data, known, state } = report;
  const { axes, overlays } = data.panels.front;
  const darkScheme = matchMedia("screen and (prefers-color-scheme: dark)");
  const coarse = matchMedia("(pointer: coarse)").matches;
  const plotOptions = { displayModeBar: false, displaylogo: false, responsive: true, scrollZoom: false };
  let paper = false;

  // Figures carry light colours; on a dark page each is swapped for its dark counterpart.
  const recolour = (value) => {
    if (typeof value === "string") return Object.hasOwn(data.dark, value) ? data.dark[value] : value;
    if (Array.isArray(value)) return typeof value[0] === "number" ? value : value.map(recolour);
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, recolour(part)]));
  };
  const painted = (figure) => (darkScheme.matches && !paper ? recolour(figure) : figure);

  // A dotted line at each bound of the criteria that a figure has an axis for.
  const boundLines = (name, time) => {
    if (!axes[name] || !report.criteria) return null;
    const limits = Object.fromEntries(data.panels.mine.bounds.map(
      ({ objective }, place) => [objective, report.criteria.limits()[place]]));
    const line = { color: data.muted, width: 1.5, dash: "dot" };
    return ["x", "y"].flatMap((axis, place) => {
      const objective = axes[name][place];
      const at = objective === "training_seconds" && time !== "seconds" ? null : limits[objective];
      if (at === null) return [];
      const other = axis === "x" ? "y" : "x";
      return [{
        type: "line", line, [`${axis}0`]: at, [`${axis}1`]: at,
        [`${other}0`]: 0, [`${other}1`]: 1, [`${other}ref`]: "paper",
      }];
    });
  };

  const hoverTexts = new Map();
  const hoverText = (number) => {
    if (!hoverTexts.has(number)) hoverTexts.set(number, report.card.hover(report.byNumber.get(number)));
    return hoverTexts.get(number);
  };

  const hasWebGL = () => {
    const canvas = document.createElement("canvas");
    return Boolean(canvas.getContext("webgl2") || canvas.getContext("webgl"));
  };

  const variant = (name) => data.figures[name].always ?? data.figures[name][state.get("time")] ?? null;

  // What Plotly draws: the figure with the paper's points, bounds and texts.
  const assembled = (name, place) => {
    const time = state.get("time");
    const { data: own, layout } = structuredClone(variant(name));
    const laid = structuredClone(state.get("paper") && overlays[time]?.[name]);
    // What goes by the ends of the axes, below all the rest.
    const below = laid ? laid.below : [];
    const moved = new Set(below.map(({ meta }) => meta));
    const traces = [...below, ...own.filter(({ meta }) => !moved.has(meta))];
    if (laid) {
      traces.push(laid.trace);
      Object.assign(layout, { xaxis: laid.xaxis, yaxis: laid.yaxis });
    }
    for (const trace of traces) {
      if (trace.customdata && trace.hoverinfo === "text") {
        trace.hovertext = trace.customdata.map(hoverText);
      }
    }
    const lines = boundLines(name, time);
    if (lines) layout.shapes = lines;
    // Another measure of time or the paper's points bring other ranges; a bound keeps the zoom.
    layout.uirevision = `${time} ${Boolean(laid)}`;
    // The width of a sheet of A4, or of half of it; the place still has that of the screen.
    if (paper) layout.width = place.closest(".plots") ? 330 : 680;
    // A finger that scrolls the page must not zoom a figure.
    if (coarse && !layout.scene) layout.dragmode = false;
    if (layout.scene) {
      // A narrow place needs the camera further away, or the axes' names are cut off.
      if (place.clientWidth < 420) for (const axis of ["x", "y", "z"]) layout.scene.camera.eye[axis] *= 1.45;
      const marker = { symbol: "circle-open", size: 16, color: data.text };
      traces.push({ type: "scatter3d", mode: "markers", x: [], y: [], z: [], hoverinfo: "skip", marker });
    }
    return painted({ data: traces, layout });
  };

  // Where a trial is in a figure: one list of pixels for each unbroken piece.
  const pieces = (name, place, number) => {
    const { xaxis, yaxis } = place._fullLayout;
    const pixel = (x, y) => [xaxis._offset + xaxis.d2p(x), yaxis._offset + yaxis.d2p(y)];
    if (name === "curves") {
      return report.card.curves(report.byNumber.get(number)).map(({ accuracies }) => accuracies.flatMap(
        (value, epoch) => (value === null ? [] : [pixel(epoch + 1, value)])));
    }
    const found = [[]];
    for (const trace of place.data) {
      trace.customdata?.forEach((owner, index) => {
        if (owner !== number) return;
        const [x, y] = [trace.x[index], trace.y[index]];
        if (trace.base) {
          // A bar of the timeline: from its date on, as long as its milliseconds.
          const end = xaxis.d2c(trace.base[index]) + x;
          found.push([pixel(trace.base[index], y), [xaxis._offset + xaxis.l2p(end), pixel(x, y)[1]]], []);
        } else if (x === null || y === null) found.push([]);
        else if (trace.mode.startsWith("markers") || name.startsWith("hyper")) found.push([pixel(x, y)], []);
        else found.at(-1).push(pixel(x, y));
      });
    }
    return found;
  };

  const shapeOf = (piece) => (piece.length > 1
    ? report.draw("polyline", { points: piece.map(String).join(" ") })
    : report.draw("circle", { cx: piece[0][0], cy: piece[0][1], r: 12 }));

  const markInSpace = (place, number) => {
    const at = { x: [], y: [], z: [] };
    for (const trace of variant("space").data) {
      const index = trace.customdata?.indexOf(number) ?? -1;
      if (index >= 0) for (const key of ["x", "y", "z"]) at[key].push(trace[key][index]);
    }
    const last = place.data.length - 1;
    if (["x", "y", "z"].every((key) => String(place.data[last][key]) === String(at[key]))) return;
    Plotly.restyle(place, { x: [at.x], y: [at.y], z: [at.z] }, [last]);
  };

  const figure = (name, place) => {
    let drawn = false;
    let stale = true;
    const ring = report.draw("svg", { class: "ring", "aria-hidden": "true" });

    const mark = () => {
      if (!drawn || variant(name) === null) return;
      const number = report.marked.current();
      if (place._fullLayout.scene) return markInSpace(place, number);
      if (ring.parentNode !== place) place.append(ring);
      const shapes = number === null ? []
        : pieces(name, place, number).filter((piece) => piece.length).map(shapeOf);
      ring.replaceChildren(...shapes);
      ring.removeAttribute("data-trial");
      if (shapes.length) ring.setAttribute("data-trial", number);
    };

    const listen = () => {
      const number = (event) => event.points?.[0]?.customdata;
      place.on("plotly_hover", (event) => {
        if (report.byNumber.has(number(event))) report.marked.hover(number(event));
      });
      place.on("plotly_unhover", () => report.marked.hover(null));
      place.on("plotly_click", (event) => {
        if (report.byNumber.has(number(event))) report.marked.pick(number(event));
        // Plotly keeps the browser from moving the focus: the keys go on from here.
        place.focus({ preventScroll: true });
      });
      place.on("plotly_afterplot", mark);
    };

    const draw = () => {
      stale = false;
      const isAbsent = variant(name) === null;
      place.classList.toggle("absent", isAbsent);
      if (isAbsent) {
        if (drawn) Plotly.purge(place);
        drawn = false;
        place.textContent = "No trial has this measure of training time.";
        return;
      }
      if (!drawn) place.textContent = "";
      const made = assembled(name, place);
      Plotly.react(place, made.data, made.layout, plotOptions);
      if (!drawn) listen();
      drawn = true;
      mark();
    };

    return { name, place, draw, mark, outdate: () => { stale = true; }, drawIfStale: () => { if (stale) draw(); } };
  };

  const all = new Map();
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const found = all.get(entry.target.id);
      found.inView = entry.isIntersecting;
      if (found.inView) found.drawIfStale();
    }
  }, { rootMargin: "300px" });

  const add = (name) => {
    const place = report.byId(name);
    if (!place) return null;
    const made = figure(name, place);
    all.set(name, made);
    seen.observe(place);
    return made;
  };

  // What is out of view is drawn when it comes into view, or when the page is printed.
  const redraw = (fits = () => true) => {
    for (const made of all.values()) {
      if (!fits(made.name)) continue;
      made.outdate();
      if (made.inView) made.drawIfStale();
    }
  };

  const showSpace = () => {
    const place = report.byId("space");
    if (!state.get("space") || !place || all.has("space")) return;
    place.hidden = false;
    if (hasWebGL()) return add("space").draw();
    place.classList.add("absent");
    place.textContent =
      "This browser has no WebGL, which the 3D view needs. The other figures show the same trials.";
  };

  const start = () => {
    for (const name of Object.keys(data.figures)) if (name !== "space") add(name);
    for (const name of Object.keys(axes)) all.get(name)?.drawIfStale();
    showSpace();
    report.marked.listen(() => { for (const made of all.values()) made.mark(); });
    state.listen(["space"], showSpace);
    state.listen(["time", "paper"], () => redraw((name) => "seconds" in data.figures[name]));
    state.listen(report.criteria?.fields ?? [], () => redraw((name) => name in axes));
    darkScheme.addEventListener("change", () => redraw());
    addEventListener("beforeprint", () => {
      paper = true;
      for (const made of all.values()) made.draw();
      report.card.draw();
    });
    addEventListener("afterprint", () => { paper = false; redraw(); report.card.draw(); });
  };

  // The trial to which an arrow key goes, along the axes of a projection.
  const along = (name, column, step) => {
    const projection = name in axes ? name : Object.keys(axes)[0];
    const found = (variant(projection)?.data ?? []).flatMap(({ customdata = [], x, y }) =>
      customdata.map((number, index) => [[x, y][column][index], number]));
    found.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    const place = found.findIndex(([, number]) => number === report.marked.current());
    const next = Number.isFinite(step) ? Math.max(0, place < 0 ? 0 : place + step) : step < 0 ? 0 : Infinity;
    return found[Math.min(found.length - 1, next)]?.[1];
  };

  return { start, painted, plotOptions, darkScheme, along, isOnPaper: () => paper };
})();
