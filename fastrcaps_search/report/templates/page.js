"use strict";
(() => {
  const { figures, dark } = JSON.parse(document.getElementById("figures-data").textContent);
  const darkScheme = matchMedia("screen and (prefers-color-scheme: dark)");
  const coarse = matchMedia("(pointer: coarse)").matches;
  const config = { displayModeBar: false, displaylogo: false, responsive: true, scrollZoom: false };

  // Figures carry light colours; on a dark page each is swapped for its dark counterpart.
  const recolour = (value) => {
    if (typeof value === "string") return Object.hasOwn(dark, value) ? dark[value] : value;
    if (Array.isArray(value)) return value.map(recolour);
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, recolour(part)]));
  };

  const hasWebGL = () => {
    const canvas = document.createElement("canvas");
    return Boolean(canvas.getContext("webgl2") || canvas.getContext("webgl"));
  };

  const places = new Map();
  for (const name of Object.keys(figures)) {
    const place = document.getElementById(name);
    if (name === "space" && !hasWebGL()) {
      place.classList.add("absent");
      place.textContent =
        "This browser has no WebGL, which the 3D view needs. " +
        "The other figures show the same trials.";
    } else {
      places.set(name, place);
    }
  }

  const draw = (isDark) => {
    for (const [name, place] of places) {
      const { data, layout } = structuredClone(figures[name]);
      // A finger that scrolls the page must not zoom a figure.
      if (coarse && !layout.scene) layout.dragmode = false;
      // A narrow place needs the camera further away, or the axes' names are cut off.
      if (layout.scene && place.clientWidth < 420) {
        for (const axis of ["x", "y", "z"]) layout.scene.camera.eye[axis] *= 1.45;
      }
      const painted = isDark ? recolour({ data, layout }) : { data, layout };
      Plotly.react(place, painted.data, painted.layout, config);
    }
  };

  draw(darkScheme.matches);
  darkScheme.addEventListener("change", (event) => draw(event.matches));
  addEventListener("beforeprint", () => draw(false));
  addEventListener("afterprint", () => draw(darkScheme.matches));
})();
