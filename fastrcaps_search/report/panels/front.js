"use strict";
// The measure of time, the paper's points and the third dimension.
report.starts.push(() => {
  const { state, byId, data } = report;
  const [time, paper, space] = ["time", "paper", "show-space"].map(byId);
  if (!time) return;
  const fill = () => {
    const measure = state.get("time");
    space.hidden = Boolean(state.get("space"));
    byId("space-note").hidden = !space.hidden;
    time.value = measure;
    if (paper) {
      paper.checked = Boolean(state.get("paper"));
      paper.disabled = !data.panels.front.overlays[measure];
      byId("paper-legend").hidden = paper.disabled || !paper.checked;
    }
    byId("time-note").textContent = data.panels.front.changes[measure] ?? "";
  };
  fill();
  time.addEventListener("input", () => state.set({ time: time.value }));
  paper?.addEventListener("input", () => state.set({ paper: paper.checked ? "1" : "" }));
  space.addEventListener("click", () => {
    state.set({ space: "1" });
    byId("space").focus();
  });
  state.listen(["time", "paper", "space"], fill);
});
