"use strict";
(() => {
  const data = JSON.parse(document.getElementById("rates-data").textContent);
  const darkScheme = matchMedia("screen and (prefers-color-scheme: dark)");
  // The figure carries light colours; on a dark page each is swapped for its dark counterpart.
  const painted = (value) => {
    if (typeof value === "string") return data.dark[value] ?? value;
    if (value === null || typeof value !== "object") return value;
    if (Array.isArray(value)) return value.map(painted);
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, painted(item)]));
  };
  const draw = () => {
    const { data: traces, layout } = darkScheme.matches ? painted(data.figure) : data.figure;
    Plotly.react("curve", traces, layout, { responsive: true, displaylogo: false, displayModeBar: false });
  };
  darkScheme.addEventListener("change", draw);
  draw();
})();
