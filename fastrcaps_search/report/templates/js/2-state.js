"use strict";
// What is shown lives in the fragment of the address, so that a link shows the same view.
report.state = (() => {
  const defaults = {
    trial: "", "min-accuracy": "", "max-seconds": "", "max-parameters": "", prefer: "accuracy",
    time: "seconds", paper: "", space: "", by: "epochs", sort: "trial", filter: "", only: "",
  };
  const allowed = {
    prefer: /^(accuracy|time|size|knee|weights=.*)$/,
    time: new RegExp(`^(${report.data.axes.join("|")})$`),
    by: /^(epochs|seconds)$/,
    sort: /^-?[a-z_]+$/,
    trial: /^\d+$/,
    only: /^(|front|complete|stopped|failed|running|infeasible)$/,
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

  const written = () => {
    const said = Object.entries(current).filter(([key, value]) => value !== defaults[key]);
    return new URLSearchParams(said).toString();
  };

  const write = () => {
    clearTimeout(due);
    history.replaceState(null, "", `#${written()}`);
  };

  const tell = (before) => {
    const changed = new Set(Object.keys(defaults).filter((key) => before[key] !== current[key]));
    if (changed.size) for (const listener of listeners) listener(changed);
  };

  const set = (changes) => {
    const before = current;
    current = { ...current, ...changes };
    tell(before);
    // Later and at once for several: browsers limit how often the address may change.
    clearTimeout(due);
    due = setTimeout(write, 100);
  };

  addEventListener("hashchange", () => {
    // A link to a section is not a view.
    if (location.hash && !location.hash.includes("=")) return;
    clearTimeout(due);
    const before = current;
    current = read();
    tell(before);
  });
  addEventListener("pagehide", write);

  current = read();
  return { get: (key) => current[key], set, listen: (listener) => listeners.push(listener) };
})();
