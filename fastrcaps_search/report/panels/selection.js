"use strict";
// Bounds and preference, and the trial that `select` names for them: the rule of
// fastrcaps_search/front/selection.py over its data, operation for operation.
report.criteria = (() => {
  const { make, state, byId, data } = report;
  const { bounds, reasons, first } = data.panels.mine;
  const knee = bounds.map(() => 1);
  const sum = (parts) => parts.reduce((total, part) => total + part, 0);

  // Less is better in every column, and a number breaks the last tie.
  const front = report.front("seconds").map((number) => {
    const { values } = report.byNumber.get(number).row;
    const costs = bounds.map(({ objective, sign }) => sign * values[objective]);
    return { number, costs, order: [...costs, number] };
  });
  const columns = bounds.map((_, place) => front.map(({ costs }) => costs[place]));
  const best = columns.map((column) => Math.min(...column));
  const spans = columns.map((column) => Math.max(...column) - Math.min(...column));

  const distance = ({ costs }, weights) => sum(weights.map((weight, place) =>
    weight * (spans[place] ? (costs[place] - best[place]) / spans[place] : 0)));
  const sorted = (found, key) => {
    const keyed = found.map((one) => [key(one), ...one.order, one]);
    keyed.sort((a, b) => {
      const place = a.findIndex((value, index) => value !== b[index]);
      return place < 0 ? 0 : a[place] - b[place];
    });
    return keyed.map((row) => row.at(-1));
  };

  const missing = (one, limits) => {
    const amounts = limits.map((limit, place) => (limit === null ? 0 : Math.max(0, one.costs[place] - limit)));
    const shortfall = sum(amounts.map((amount, place) =>
      amount / (spans[place] || Math.abs(limits[place] || 0) || 1)));
    return { number: one.number, order: one.order, amounts, shortfall };
  };

  const reason = (isBounded, { rule, weights = knee }, fitting) => {
    if (fitting === 1) return `the only trial on the front${isBounded ? " that fits" : ""}`;
    const words = bounds.map(({ weighs }, place) => `${weighs} ${weights[place]}`).join(", ");
    return `${reasons[rule].replace("{}", words)} of the ${fitting} trials on the front${isBounded ? " that fit" : ""}`;
  };

  // Limits are numbers or null, in the order of the bounds; the preference is { rule, weights }.
  const choose = (limits, prefer) => {
    const costs = limits.map((limit, place) => (limit === null ? null : bounds[place].sign * limit));
    const fitting = front.filter((one) => costs.every((limit, place) => limit === null || one.costs[place] <= limit));
    if (!fitting.length) {
      const nearest = sorted(front.map((one) => missing(one, costs)), ({ shortfall }) => shortfall);
      return { number: null, nearest: nearest.slice(0, 3) };
    }
    const key = prefer.rule in first ? ({ costs: own }) => own[first[prefer.rule]]
      : (one) => distance(one, prefer.weights ?? knee);
    const why = reason(costs.some((limit) => limit !== null), prefer, fitting.length);
    return { number: sorted(fitting, key)[0].number, why };
  };

  const read = (bound) => {
    const text = state.get(bound.flag).trim();
    const found = new RegExp(bound.pattern).exec(text);
    // The exponent, not a division: 98.7% must be the same float as 0.987.
    const value = found ? Number(found[2] ? `${found[1]}e-2` : found[1]) : NaN;
    const fits = (value > 0 || (bound.zeroFits && value === 0)) && value <= (bound.most ?? Infinity);
    return text === "" ? null : fits ? value : NaN;
  };
  // What is not a number yet bounds nothing.
  const limits = () => bounds.map(read).map((value) => (Number.isNaN(value) ? null : value));

  const preference = () => {
    const text = state.get("prefer");
    if (!text.startsWith("weights=")) return { rule: text };
    const weights = text.slice(8).split(",").map((part) => (part.trim() === "" ? NaN : Number(part)));
    const usable = weights.length === bounds.length && weights.every((one) => one >= 0 && one < Infinity) && weights.some(Boolean);
    return usable ? { rule: "weights", weights } : { rule: "accuracy" };
  };

  const missed = ({ amounts }) => bounds.map(({ factor, whole, missed: words }, place) => {
    const amount = factor * amounts[place];
    const told = whole ? amount.toLocaleString("en-US") : amount >= 0.01 ? amount.toFixed(2) : amount.toPrecision(1);
    return amount > 0 ? words.replace("{}", told) : "";
  }).filter(Boolean).join(", ");

  const link = (number) => make("button",
    { type: "button", className: "link", onclick: () => report.marked.pick(number) }, `trial ${number}`);

  const answer = () => {
    const wrong = bounds.map((bound) => Number.isNaN(read(bound)));
    const found = wrong.some(Boolean) ? { number: null } : choose(limits(), preference());
    report.marked.name(found.number);
    const place = byId("answer");
    place.dataset.trial = found.number ?? "";
    place.classList.toggle("none", found.number === null);
    byId("answer-line").hidden = wrong.some(Boolean);
    if (found.number !== null) place.replaceChildren(link(found.number), `: ${found.why}.`);
    else if (!found.nearest) place.replaceChildren("Fix the bound that is marked: until then no trial is named.");
    else {
      place.replaceChildren(
        make("strong", {}, `None of the ${front.length} trials on the front fits.`), " Nearest: ",
        ...found.nearest.flatMap((miss, index) => [index ? "; " : "", link(miss.number), ` (${missed(miss)})`]), ".");
    }
    byId("answer-command").textContent = report.commands.select(flags());
    bounds.forEach(({ flag, typed }, index) => {
      byId(flag).setAttribute("aria-invalid", wrong[index]);
      byId(`${flag}-wrong`).textContent = wrong[index] ? `Must be ${typed}.` : "";
    });
  };

  // The words with which `select` names what the page names.
  const flags = () => {
    const words = bounds.filter((_, place) => limits()[place] !== null)
      .flatMap(({ flag }) => [`--${flag}`, state.get(flag).trim()]);
    return preference().rule === "accuracy" ? words : [...words, "--prefer", state.get("prefer")];
  };

  const fields = [...bounds.map(({ flag }) => flag), "prefer"];
  const fill = () => {
    for (const name of fields) {
      const [input, value] = [byId(name), state.get(name)];
      if (input.options && ![...input.options].some((option) => option.value === value)) {
        input.append(make("option", { value }, value));
      }
      if (input.value !== value) input.value = value;
    }
    answer();
  };

  report.starts.push(() => {
    const form = byId("criteria-form");
    fill();
    // A number or preference of one's own stands for itself again: a picked trial gives way.
    form.addEventListener("input", (event) =>
      state.set({ [event.target.name]: event.target.value, trial: "" }));
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("reset", (event) => {
      event.preventDefault();
      state.set({ ...Object.fromEntries(fields.map((name) => [name, ""])), prefer: "accuracy", trial: "" });
    });
    state.listen(fields, fill);
  });

  return { choose, limits, fields };
})();
