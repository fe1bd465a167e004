"use strict";
// What is shown lives in the fragment of the address, so that a link shows the same view.
report.state = (() => {
  const bounds = (report.data.panels.mine?.bounds ?? []).map(({ flag }) => [flag, ""]);
  const defaults = {
    trial: "", ...Object.fromEntries(bounds), prefer: "accuracy", time: "seconds",
    paper: "", space: "", by: "epochs", sort: "trial", filter: "", only: "",
  };
  const allowed = {
    prefer: new RegExp(`^(${[...Object.keys(report.data.panels.mine?.first ?? {}), "knee", "weights=.*"].join("|")})$`),
    time: new RegExp(`^(${Object.keys(report.data.fronts).join("|")})$`),
    by: /^(epochs|seconds)$/,
    sort: /^-?[\w-]+$/,
    trial: /^\d+$/,
    only: /^(|front|complete|failed|running|infeasible)$/,
  };
  let current = { ...defaults };
  const listeners = [];
  let due = 0;

  const read = () => {
    const found = { ...defaults };
    for (const [key, value] of new URLSearchParams(location.hash.slice(1))) {
      const fits = !Object.hasOwn(allowed, key) || allowed[key].test(value);
      if (Object.hasOwn(defaults, key) && fits) found[key] = value;
    }
    return found;
  };

  const write = () => {
    clearTimeout(due);
    const said = Object.entries(current).filter(([key, value]) => value !== defaults[key]);
    history.replaceState(null, "", `#${new URLSearchParams(said)}`);
  };

  const show = (next) => {
    const before = current;
    current = next;
    const changed = new Set(Object.keys(defaults).filter((key) => before[key] !== current[key]));
    if (changed.size) for (const listener of listeners) listener(changed);
    clearTimeout(due);
  };

  addEventListener("hashchange", () => {
    // A link to a section is not a view.
    if (!location.hash || location.hash.includes("=")) show(read());
  });
  addEventListener("pagehide", write);

  current = read();
  return {
    get: (key) => current[key],
    set: (changes) => {
      show({ ...current, ...changes });
      // Later and at once for several: browsers limit how often the address may change.
      due = setTimeout(write, 100);
    },
    // Calls back when one of the keys has changed.
    listen: (keys, callback) =>
      listeners.push((changed) => { if (keys.some((key) => changed.has(key))) callback(changed); }),
  };
})();
