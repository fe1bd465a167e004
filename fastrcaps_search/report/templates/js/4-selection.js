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

  const show = () => {
    if (current() === shown) return;
    shown = current();
    for (const listener of listeners) listener(shown);
  };

  // The pointer passes over many points: what it leaves again at once is not drawn.
  const showSoon = () => {
    if (due) return;
    due = true;
    requestAnimationFrame(() => {
      due = false;
      show();
    });
  };

  // A trial that is picked is there at once: who asked for it reads the card next.
  const pick = (number) => {
    hovered = null;
    report.state.set({ trial: number === null ? "" : String(number) });
    show();
  };

  report.state.listen((changed) => changed.has("trial") && show());

  return {
    current, picked, pick,
    named: () => named,
    hover: (number) => { hovered = number; showSoon(); },
    name: (number) => { named = number; show(); },
    listen: (listener) => listeners.push(listener),
  };
})();
