"use strict";
// Before anything is shown: what needs scripts is hidden without this, and a sentence says so.
document.documentElement.classList.add("scripted");
// A page that is still being written looks at itself in a frame to see whether there is a newer
// one: the frame only says when it was written and reads no further.
if (window.name === "fastrcaps-newer") {
  const written = document.querySelector('meta[name="written"]').content;
  window.parent.postMessage({ fastrcapsReport: written }, "*");
  window.stop();
}
