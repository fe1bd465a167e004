"use strict";
// One object that the scripts of the page share. Every text goes in as text, never as markup.
const report = (() => {
  const data = JSON.parse(document.getElementById("report-data").textContent);
  const known = (value) => value !== null && value !== undefined;
  const trials = data.rows.map((row, place) => ({
    rates: "", note: "", words: "", ...data.trials[place], place, number: row.trial, row,
    isFinal: row.state === "complete" && Object.values(row.values).every(known),
  }));
  const byNumber = new Map(trials.map((trial) => [trial.number, trial]));
  const byId = (id) => document.getElementById(id);

  const make = (tag, properties = {}, ...children) => {
    const made = document.createElement(tag);
    for (const [key, value] of Object.entries(properties)) {
      if (key in made && !key.startsWith("aria-")) made[key] = value;
      else made.setAttribute(key, value);
    }
    made.append(...children.filter((child) => child !== null));
    return made;
  };

  const draw = (tag, attributes, ...children) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };
  const symbol = (trial) => {
    const mark = data.marks[trial.policy];
    const look = { class: trial.row.params.weight_sharing ? "mark open" : "mark", viewBox: "0 0 16 16", "aria-hidden": "true" };
    const svg = draw("svg", look, draw("path", { d: mark.outline }));
    svg.style.setProperty("--light", mark.light);
    svg.style.setProperty("--dark", mark.dark);
    return svg;
  };

  const front = (axis) => data.fronts[axis] ?? [];
  const onFront = new Set(front("seconds"));
  const save = (name, text, type) => {
    const address = URL.createObjectURL(new Blob([text], { type }));
    make("a", { href: address, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  };

  return {
    data, trials, byNumber, known, byId, make, draw, symbol, front, save,
    isOnFront: (number) => onFront.has(number),
    // What each panel's script does when all are there.
    starts: [],
  };
})();
