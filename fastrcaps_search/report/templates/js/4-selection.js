"use strict";
// Which trial is marked: the one under the pointer, else the one that was picked, else the one that
// the criteria name.
report.selection = (() => {
  let hovered = null;
  let named = null;
  let shown = null;
  let due = false;
  const listeners = [];

  const picked = () => {
    const number = report.state.get("trial");
    return number !== "" && report.byNumber.has(Number(number)) ? Number(number) : null;
  };
  const current = () => hovered ?? picked() ?? named;

  // The pointer passes over many points: what it leaves again at once is not drawn.
  const refresh = () => {
    if (due) return;
    due = true;
    requestAnimationFrame(() => {
      due = false;
      if (current() === shown) return;
      shown = current();
      for (const listener of listeners) listener(shown);
    });
  };

  const pick = (number) => {
    hovered = null;
    report.state.set({ trial: number === null ? "" : String(number) });
    refresh();
  };

  report.state.listen((changed) => changed.has("trial") && refresh());

  return {
    current, picked, pick,
    named: () => named,
    hover: (number) => { hovered = number; refresh(); },
    name: (number) => { named = number; refresh(); },
    listen: (listener) => listeners.push(listener),
  };
})();
