"use strict";
// Bounds and preference, and the trial that `select` names for them.
report.criteria = (() => {
  const { make } = report;
  const fields = {
    "min-accuracy": { key: "accuracy", read: fraction, says: "a fraction from 0 to 1, or a percentage such as 98.5%" },
    "max-seconds": { key: "seconds", read: positive, says: "seconds above 0" },
    "max-parameters": { key: "parameters", read: whole, says: "a whole number above 0" },
  };
  // The texts that the flags of `select` take, and the same floats from them.
  const accuracies = /^(\d{1,3}(?:\.\d{1,20})?|\.\d{1,20})( ?%)?$/;
  const plain = /^\d{1,9}(\.\d{1,30})?$/;

  function fraction(text) {
    const found = accuracies.exec(text);
    // The exponent, not a division: 98.7% must be the same float as 0.987.
    const value = found ? Number(found[2] ? `${found[1]}e-2` : found[1]) : NaN;
    return value >= 0 && value <= 1 ? value : NaN;
  }
  function positive(text) {
    const value = plain.test(text) ? Number(text) : NaN;
    return value > 0 ? value : NaN;
  }
  function whole(text) {
    const value = /^\d{1,13}$/.test(text) ? Number(text) : NaN;
    return value > 0 && value <= 1e12 ? value : NaN;
  }

  const value = (name) => {
    const text = report.state.get(name).trim();
    return text === "" ? null : fields[name].read(text);
  };
  const wrong = (name) => Number.isNaN(value(name));
  // What is not a number yet bounds nothing.
  const bound = (name) => (wrong(name) ? null : value(name));
  const bounds = () => Object.fromEntries(
    Object.entries(fields).map(([name, { key }]) => [key, bound(name)]),
  );

  const preference = () => {
    const text = report.state.get("prefer");
    if (!text.startsWith("weights=")) return { rule: text };
    const weights = text.slice(8).split(",").map((part) => (part.trim() === "" ? NaN : Number(part)));
    const usable = weights.length === 3 && weights.every((one) => one >= 0 && one < Infinity) && weights.some(Boolean);
    return usable ? { rule: "weights", weights } : { rule: "accuracy" };
  };

  const amount = (value) => (value >= 0.01 ? value.toFixed(2) : value.toPrecision(1));
  const missed = (miss) => [
    miss.accuracy > 0 ? `accuracy ${amount(100 * miss.accuracy)} percentage points too low` : "",
    miss.seconds > 0 ? `${amount(miss.seconds)} s too long` : "",
    miss.parameters > 0 ? `${report.count(miss.parameters)} parameters too many` : "",
  ].filter(Boolean).join(", ");

  const link = (number) =>
    make("button", { type: "button", className: "link", onclick: () => report.selection.pick(number) },
      `trial ${number}`);

  const answer = () => {
    const isWrong = Object.keys(fields).some(wrong);
    const found = isWrong ? { number: null } : report.choice.choose(bounds(), preference());
    report.selection.name(found.number);
    const place = report.byId("answer");
    place.dataset.trial = found.number ?? "";
    place.classList.toggle("none", found.number === null);
    report.byId("answer-line").hidden = isWrong;
    if (isWrong) {
      place.replaceChildren("Mend the bound that is marked: until then no trial is named.");
    } else if (!found.of) {
      place.replaceChildren("No trial is complete yet, so there is nothing to choose from.");
    } else if (found.number === null) {
      place.replaceChildren(
        make("strong", {}, `None of the ${found.of} trials on the front fits.`), " Nearest: ",
        ...found.nearest.flatMap((miss, index) => [
          index ? "; " : "", link(miss.number), ` (${missed(miss)})`,
        ]), ".",
      );
    } else {
      place.replaceChildren(link(found.number), `: ${found.why}.`);
    }
    report.byId("answer-command").textContent = report.commands.choose(flags());
    for (const name of Object.keys(fields)) {
      report.byId(name).setAttribute("aria-invalid", wrong(name));
      report.byId(`${name}-wrong`).textContent = wrong(name) ? `Must be ${fields[name].says}.` : "";
    }
  };

  // The words with which `select` names what the page names.
  const flags = () => {
    const words = Object.keys(fields)
      .filter((name) => bound(name) !== null)
      .flatMap((name) => [`--${name}`, report.state.get(name).trim()]);
    if (preference().rule === "accuracy") return words;
    return [...words, "--prefer", report.state.get("prefer")];
  };

  const fill = () => {
    for (const name of [...Object.keys(fields), "prefer"]) {
      const input = report.byId(name);
      if (input.value === report.state.get(name)) continue;
      const isOffered = name !== "prefer" || [...input.options].some(({ value }) => value === report.state.get(name));
      if (!isOffered) {
        input.append(make("option", { value: report.state.get(name) }, report.state.get(name)));
      }
      input.value = report.state.get(name);
    }
  };

  const start = () => {
    const form = report.byId("criteria-form");
    if (!form) return;
    fill();
    answer();
    // A number or preference of one's own stands for itself again: a picked trial gives way.
    form.addEventListener("input", (event) =>
      report.state.set({ [event.target.name]: event.target.value, trial: "" }));
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("reset", (event) => {
      event.preventDefault();
      report.state.set({
        "min-accuracy": "", "max-seconds": "", "max-parameters": "", prefer: "accuracy", trial: "",
      });
    });
    report.state.listen((changed) => {
      if (["min-accuracy", "max-seconds", "max-parameters", "prefer"].some((key) => changed.has(key))) {
        fill();
        answer();
      }
    });
  };

  return { start, bounds };
})();
