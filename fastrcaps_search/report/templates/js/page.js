"use strict";
// Keys, links, and whether there is a newer page.
(() => {
  const { marked, byId } = report;

  // In a figure the arrows go from trial to trial along its axes; in a table from row to row.
  const steps = {
    ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowDown: [1, -1], ArrowUp: [1, 1],
    Home: [0, -Infinity], End: [0, Infinity],
  };
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !event.target.closest?.("input, select")) marked.pick(null);
    if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in steps)) return;
    const place = event.target.closest?.(".plot[tabindex]");
    const row = event.target.closest?.("tr[data-trial]");
    if (place) {
      const number = report.figures.along(place.id, ...steps[event.key]);
      if (number !== undefined) marked.pick(number);
    } else if (row && steps[event.key][0] === 1) {
      const next = event.key === "ArrowUp" ? row.previousElementSibling : row.nextElementSibling;
      next?.querySelector("button").focus();
      if (next) marked.pick(Number(next.dataset.trial));
    } else return;
    event.preventDefault();
  });

  // Links to sections move the view and leave the address to what is shown.
  for (const link of document.querySelectorAll('a[href^="#"]')) {
    link.addEventListener("click", (event) => {
      const section = byId(link.getAttribute("href").slice(1));
      if (!section) return;
      event.preventDefault();
      section.scrollIntoView();
      section.setAttribute("tabindex", "-1");
      section.focus({ preventScroll: true });
    });
  }

  // While trials are to come, the page opens itself in a frame that only tells its date.
  const watch = () => {
    const mine = document.querySelector('meta[name="written"]').content;
    const banner = byId("newer");
    let frame = null;
    const look = () => {
      if (document.hidden || !banner.hidden) return;
      frame?.remove();
      const src = location.href.split("#")[0];
      frame = report.make("iframe", { hidden: true, name: "fastrcaps-newer", src, title: "newer page" });
      document.body.append(frame);
    };
    addEventListener("message", (event) => {
      if (!frame || event.source !== frame.contentWindow) return;
      const written = event.data?.fastrcapsReport;
      if (typeof written === "string" && written !== mine) banner.hidden = false;
      frame.remove();
      frame = null;
    });
    byId("reload").addEventListener("click", () => location.reload());
    setInterval(look, 20_000);
    addEventListener("focus", look);
    document.addEventListener("visibilitychange", look);
  };
  if (report.data.study.inProgress) watch();

  for (const start of report.starts) start();

  // Plotly takes a second or two to start: words, tables and choice are there before it.
  const drawFigures = () => {
    document.head.append(report.make("script", { textContent: byId("plotly").textContent }));
    report.figures.start();
    report.card.draw();
    document.documentElement.dataset.ready = "1";
  };
  if (document.hidden) setTimeout(drawFigures);
  else requestAnimationFrame(() => setTimeout(drawFigures));
})();
