// Light or dark theme: the system's, or the one chosen here.

import { isDark } from "viewer/colours";
import { button } from "viewer/dom";

// A button that switches the theme; turned: called for each change, including the system's.
export function themeButton(turned) {
  const choice = button("", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    name();
    turned();
  }, { class: "theme" });
  const name = () => {
    choice.textContent = isDark() ? "Light" : "Dark";
    choice.setAttribute("aria-label", `Show it ${isDark() ? "light" : "dark"}`);
  };
  name();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { name(); turned(); });
  return choice;
}

// True if a key moves between moments and is not meant for the focused element.
export function travels(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return false;
  const at = event.target;
  if (at.closest?.("input, select, textarea, dialog")) return false;
  // A list scrolls with these keys itself.
  return !(at.closest?.(".scroll, .fleet-scroll, pre") && (event.key === "Home" || event.key === "End"));
}
