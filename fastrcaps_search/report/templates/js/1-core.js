"use strict";
// One object that the scripts of the page share. Every text goes in as text, never as markup.
const report = (() => {
  const data = JSON.parse(document.getElementById("report-data").textContent);
  const trials = data.rows.map((row, place) => ({
    ranges: {}, positions: {}, runs: [], workers: [], sharing: [], note: "", rates: "",
    ...data.more[place], number: row.trial, row, values: row.values,
  }));
  // Learning curves come packed, 16 bits a number: accuracies, and seconds as parts of the longest.
  const unpacked = (text, whole) => {
    const bytes = Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
    const view = new DataView(bytes.buffer);
    return Array.from({ length: bytes.length / 2 }, (_, place) => {
      const value = view.getUint16(2 * place, true);
      return value === data.study.unknown ? null : (whole * value) / data.study.units;
    });
  };
  const curves = (run) => ("curve" in run
    ? { accuracies: unpacked(run.curve, 1), seconds: unpacked(run.spent, run.longest) }
    : null);
  const byNumber = new Map(trials.map((trial) => [trial.number, trial]));
  const marks = new Map(data.marks.map((mark) => [mark.policy, mark]));
  const nothing = "–";

  // Made once: a formatter is slow to make, and there are thousands of numbers.
  const formats = [0, 1, 2].map((digits) => new Intl.NumberFormat("en-US",
    { minimumFractionDigits: digits, maximumFractionDigits: digits }));
  const fixed = (value, digits) => formats[digits].format(value);
  const known = (value) => value !== null && value !== undefined;
  // Ties to the even digit, as Python rounds: the front's table and the list must agree.
  const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0, roundingMode: "halfEven" });
  const share = (value) => (known(value) ? `${whole.format(100 * value)}\u00a0%` : nothing);
  const percent = (value) => (known(value) ? `${(100 * value).toFixed(2)}\u00a0%` : nothing);
  const seconds = (value, like = value) =>
    known(value) ? fixed(value, like < 10 ? 2 : like < 1000 ? 1 : 0) : nothing;
  const count = (value) =>
    known(value) ? fixed(value, Number.isInteger(value) ? 0 : 1) : nothing;

  const make = (tag, properties = {}, ...children) => {
    const made = document.createElement(tag);
    for (const [key, value] of Object.entries(properties)) {
      if (key in made && !key.startsWith("aria-")) made[key] = value;
      else made.setAttribute(key, value);
    }
    made.append(...children.filter((child) => child !== null));
    return made;
  };

  const symbol = (trial) => {
    const mark = marks.get(trial.policy);
    const space = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(space, "svg");
    svg.setAttribute("class", trial.row.params.weight_sharing ? "mark open" : "mark");
    svg.setAttribute("viewBox", "0 0 16 16");
    svg.setAttribute("aria-hidden", "true");
    svg.style.setProperty("--light", mark.light);
    svg.style.setProperty("--dark", mark.dark);
    const path = document.createElementNS(space, "path");
    path.setAttribute("d", mark.outline);
    svg.append(path);
    return svg;
  };

  const isFinal = (trial) => trial.row.state === "complete" && "seconds" in trial.positions;
  const front = (axis) => data.fronts[axis] ?? [];
  const onFront = new Set(front("seconds"));
  const isOnFront = (number) => onFront.has(number);
  const save = (name, text, type) => {
    const address = URL.createObjectURL(new Blob([text], { type }));
    make("a", { href: address, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  };
  const byId = (id) => document.getElementById(id);

  return {
    data, trials, byNumber, marks, nothing, known, share, percent, seconds, count, make, symbol,
    isFinal, front, isOnFront, byId, curves, save,
  };
})();
