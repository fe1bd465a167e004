"use strict";
// Which trial is marked: the one under the pointer, else the one that was picked, else the one that
// the criteria name.
report.marked = (() => {
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
    due = false;
    if (current() === shown) return;
    shown = current();
    for (const listener of listeners) listener(shown);
  };

  report.state.listen(["trial"], show);

  return {
    current, picked,
    named: () => named,
    // A trial that is picked is there at once: who asked for it reads the card next.
    pick: (number) => {
      hovered = null;
      report.state.set({ trial: number === null ? "" : String(number) });
      show();
    },
    // The pointer passes over many points: what it leaves again at once is not drawn.
    hover: (number) => {
      hovered = number;
      if (!due) requestAnimationFrame(show);
      due = true;
    },
    name: (number) => { named = number; show(); },
    listen: (listener) => listeners.push(listener),
  };
})();
