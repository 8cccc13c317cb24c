// Light or dark: as the system has it, or as it was chosen here.

import { isDark } from "viewer/colours";
import { button } from "viewer/dom";

// A button that turns it; turned: told of each change, also of the system's.
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

// Whether a key that was pressed is for travelling, not for what has the focus.
export function travels(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return false;
  const at = event.target;
  if (at.closest?.("input, select, textarea, dialog")) return false;
  // A list scrolls by these keys itself.
  return !(at.closest?.(".scroll, .fleet-scroll, pre") && (event.key === "Home" || event.key === "End"));
}
