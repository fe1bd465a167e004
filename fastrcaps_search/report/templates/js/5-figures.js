"use strict";
// Draws the figures when they come into view, and marks the selected trial in them.
report.figures = (() => {
  const { data } = report;
  const darkScheme = matchMedia("screen and (prefers-color-scheme: dark)");
  const coarse = matchMedia("(pointer: coarse)").matches;
  const plotOptions = { displayModeBar: false, displaylogo: false, responsive: true, scrollZoom: false };
  const overlayOf = "http://www.w3.org/2000/svg";
  let paper = false;

  // Figures carry light colours; on a dark page each is swapped for its dark counterpart.
  const recolour = (value) => {
    if (typeof value === "string") {
      return Object.hasOwn(data.dark, value) ? data.dark[value] : value;
    }
    if (Array.isArray(value)) {
      return typeof value[0] === "number" ? value : value.map(recolour);
    }
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, recolour(part)]));
  };
  const painted = (figure) => (darkScheme.matches && !paper ? recolour(figure) : figure);

  const escaped = (text) =>
    String(text).replace(/[&<>]/g, (sign) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[sign]);

  const hoverTexts = new Map();
  const hoverText = (number) => {
    if (!hoverTexts.has(number)) hoverTexts.set(number, written(report.byNumber.get(number)));
    return hoverTexts.get(number);
  };
  const chance = ({ row }) => (report.known(row.front_probability)
    ? ` (${report.isOnFront(row.trial) ? "" : "on the front "}${report.share(row.front_probability)})` : "");
  const written = (trial) => {
    const { params, values, test_accuracy: test } = trial.row;
    const isFront = report.isOnFront(trial.number);
    const exponent = "adabatch_exponent" in params ? `, P = ${params.adabatch_exponent}` : "";
    const lines = [
      `<b>trial ${trial.number}</b>${isFront ? ", on the front" : ""}${chance(trial)}`,
      `${escaped(trial.policy)}${exponent}`,
      `batch ${escaped(trial.batch)}`,
      escaped(trial.rates),
      "decoder" in params
        ? `${params.decoder === "none" ? "no" : params.decoder} decoder, weights ${params.weight_sharing ? "shared" : "not shared"}`
        : "",
      `accuracy ${report.percent(values.accuracy)}` +
        (report.known(test) ? `, test ${report.percent(test)}` : ""),
      `${report.seconds(values.training_seconds)} s, ${report.count(values.parameters)} parameters`,
      trial.row.feasible === false ? `infeasible: ${escaped(trial.row.reason)}` : "",
    ];
    return lines.filter(Boolean).join("<br>");
  };

  const bound = (axis, at) => ({
    type: "line", line: { color: data.card.muted, width: 1.5, dash: "dot" },
    ...(axis === "x" ? { x0: at, x1: at, y0: 0, y1: 1, yref: "paper" }
      : { y0: at, y1: at, x0: 0, x1: 1, xref: "paper" }),
  });
  const bounds = (name, time) => {
    const { accuracy, seconds, parameters } = report.criteria.bounds();
    const timed = time === "seconds" ? seconds : null;
    const at = {
      "projection-time-accuracy": { x: timed, y: accuracy },
      "projection-parameters-accuracy": { x: parameters, y: accuracy },
      "projection-time-parameters": { x: timed, y: parameters },
    }[name];
    if (!at) return null;
    return ["x", "y"].filter((axis) => at[axis] !== null).map((axis) => bound(axis, at[axis]));
  };

  const hasWebGL = () => {
    const canvas = document.createElement("canvas");
    return Boolean(canvas.getContext("webgl2") || canvas.getContext("webgl"));
  };

  const figure = (name, place) => {
    let drawn = false;
    let stale = true;
    const ring = document.createElementNS(overlayOf, "svg");
    ring.setAttribute("class", "ring");
    ring.setAttribute("aria-hidden", "true");

    const variant = () =>
      data.figures[name].always ?? data.figures[name][report.state.get("time")] ?? null;

    const assembled = () => {
      const time = report.state.get("time");
      const { data: own, layout } = structuredClone(variant());
      const laid = structuredClone(report.state.get("paper") && data.overlays[time]?.[name]);
      // What goes by the ends of the axes, below all the rest.
      const below = laid ? [laid.attained, ...laid.infeasible] : [];
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
      const lines = bounds(name, time);
      if (lines) layout.shapes = lines;
      // Another measure of time or the paper's points bring other ranges; a bound keeps the zoom.
      layout.uirevision = `${time} ${Boolean(laid)}`;
      // The width of a sheet of A4, or of half of it; the place still has that of the screen.
      if (paper) layout.width = place.closest(".plots") ? 330 : 680;
      // A finger that scrolls the page must not zoom a figure.
      if (coarse && !layout.scene) layout.dragmode = false;
      // A narrow place needs the camera further away, or the axes' names are cut off.
      if (layout.scene && place.clientWidth < 420) {
        for (const axis of ["x", "y", "z"]) layout.scene.camera.eye[axis] *= 1.45;
      }
      if (layout.scene) {
        const marker = { symbol: "circle-open", size: 16, color: data.card.text };
        traces.push({
          type: "scatter3d", mode: "markers", x: [], y: [], z: [], hoverinfo: "skip", marker,
        });
      }
      return painted({ data: traces, layout });
    };

    const draw = () => {
      stale = false;
      const found = variant();
      place.classList.toggle("absent", !found);
      if (!found) {
        if (drawn) Plotly.purge(place);
        drawn = false;
        place.textContent = "No trial has this measure of training time.";
        return;
      }
      if (!drawn) place.textContent = "";
      const made = assembled();
      Plotly.react(place, made.data, made.layout, plotOptions);
      if (!drawn) listen();
      drawn = true;
      mark();
    };

    const listen = () => {
      const number = (event) => event.points?.[0]?.customdata;
      place.on("plotly_hover", (event) => {
        if (report.byNumber.has(number(event))) report.selection.hover(number(event));
      });
      place.on("plotly_unhover", () => report.selection.hover(null));
      place.on("plotly_click", (event) => {
        if (report.byNumber.has(number(event))) report.selection.pick(number(event));
        // Plotly keeps the browser from moving the focus: the keys go on from here.
        place.focus({ preventScroll: true });
      });
      place.on("plotly_afterplot", () => mark());
    };

    // Where the trial is in this figure: one list of pixels for each unbroken piece.
    const pieces = (number) => {
      const { xaxis, yaxis } = place._fullLayout;
      const pixel = (x, y) => [xaxis._offset + xaxis.d2p(x), yaxis._offset + yaxis.d2p(y)];
      if (name === "curves") {
        const { runs } = report.byNumber.get(number);
        return runs.map(report.curves).map((curve) => (curve?.accuracies ?? []).flatMap(
          (value, epoch) => (value === null ? [] : [pixel(epoch + 1, value)]))).filter((piece) => piece.length);
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
          else if (trace.mode === "markers" || trace.mode === "markers+text" || name.startsWith("hyper")) found.push([pixel(x, y)], []);
          else found.at(-1).push(pixel(x, y));
        });
      }
      return found.filter((piece) => piece.length);
    };

    const mark = () => {
      if (!drawn || variant() === null) return;
      const number = report.selection.current();
      if (place._fullLayout.scene) return markInSpace(number);
      if (ring.parentNode !== place) place.append(ring);
      ring.replaceChildren();
      ring.removeAttribute("data-trial");
      if (number === null) return;
      for (const piece of pieces(number)) {
        const shape = document.createElementNS(overlayOf, piece.length > 1 ? "polyline" : "circle");
        if (piece.length > 1) shape.setAttribute("points", piece.map(String).join(" "));
        else {
          shape.setAttribute("cx", piece[0][0]);
          shape.setAttribute("cy", piece[0][1]);
          shape.setAttribute("r", 12);
        }
        ring.append(shape);
      }
      if (ring.childElementCount) ring.setAttribute("data-trial", number);
    };

    const markInSpace = (number) => {
      const at = { x: [], y: [], z: [] };
      for (const trace of variant().data) {
        const index = trace.customdata?.indexOf(number) ?? -1;
        if (index >= 0) for (const key of ["x", "y", "z"]) at[key].push(trace[key][index]);
      }
      const last = place.data.length - 1;
      const before = place.data[last];
      if (["x", "y", "z"].every((key) => String(before[key]) === String(at[key]))) return;
      Plotly.restyle(place, { x: [at.x], y: [at.y], z: [at.z] }, [last]);
    };

    return {
      name, place, draw, mark,
      outdate: () => { stale = true; },
      drawIfStale: () => { if (stale) draw(); },
    };
  };

  const all = new Map();
  const seen = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) {
        const found = all.get(entry.target.id);
        found.inView = entry.isIntersecting;
        if (found.inView) found.drawIfStale();
      }
    },
    { rootMargin: "300px" },
  );

  const add = (name) => {
    const place = report.byId(name);
    if (!place) return null;
    const made = figure(name, place);
    all.set(name, made);
    seen.observe(place);
    return made;
  };

  // What is out of view is drawn when it comes into view, or when the page is printed.
  const redraw = (names) => {
    for (const made of all.values()) {
      if (names && !names(made.name)) continue;
      made.outdate();
      if (made.inView) made.drawIfStale();
    }
  };

  const showSpace = () => {
    const place = report.byId("space");
    if (!place || all.has("space")) return;
    place.hidden = false;
    if (hasWebGL()) add("space").draw();
    else {
      place.classList.add("absent");
      place.textContent =
        "This browser has no WebGL, which the 3D view needs. " +
        "The other figures show the same trials.";
    }
  };

  const start = () => {
    for (const name of Object.keys(data.figures)) if (name !== "space") add(name);
    for (const made of all.values()) if (made.name.startsWith("projection-")) made.drawIfStale();
    const space = () => { if (report.state.get("space")) showSpace(); };
    space();
    report.selection.listen(() => { for (const made of all.values()) made.mark(); });
    report.state.listen((changed) => {
      space();
      if (changed.has("time") || changed.has("paper")) redraw((name) => "seconds" in data.figures[name]);
      else if (["min-accuracy", "max-seconds", "max-parameters"].some((key) => changed.has(key))) {
        redraw((name) => name.startsWith("projection-"));
      }
    });
    darkScheme.addEventListener("change", () => redraw());
    addEventListener("beforeprint", () => {
      paper = true;
      for (const made of all.values()) made.draw();
      report.card.draw();
    });
    addEventListener("afterprint", () => { paper = false; redraw(); report.card.draw(); });
  };

  return { start, painted, plotOptions, darkScheme, isOnPaper: () => paper };
})();
