"use strict";
const slides = [...document.querySelectorAll("section")];
const where = document.getElementById("where");
let at = 0;
// A slide that is higher than the window gets smaller letters, down to 55 %.
function fit() {
  const slide = slides[at];
  slide.style.fontSize = "";
  for (let percent = 95; percent >= 55 && slide.offsetHeight > innerHeight; percent -= 5) slide.style.fontSize = `${percent}%`;
}
function show(to) {
  at = Math.max(0, Math.min(slides.length - 1, to));
  slides.forEach((slide, i) => slide.classList.toggle("shown", i === at));
  fit();
  where.textContent = `${at + 1} / ${slides.length}`;
  history.replaceState(null, "", `#${at + 1}`);
}
document.getElementById("back").onclick = () => show(at - 1);
document.getElementById("next").onclick = () => show(at + 1);
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || (event.key === " " && event.target.tagName === "BUTTON")) return;
  const to = { ArrowRight: at + 1, PageDown: at + 1, " ": at + 1, ArrowLeft: at - 1, PageUp: at - 1, Home: 0, End: slides.length - 1 }[event.key];
  if (to !== undefined) { event.preventDefault(); show(to); }
});
addEventListener("resize", fit);
addEventListener("hashchange", () => show((parseInt(location.hash.slice(1), 10) || 1) - 1));
show((parseInt(location.hash.slice(1), 10) || 1) - 1);
