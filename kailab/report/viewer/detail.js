// The raw object, decision or event behind a fact, with its file and position.

import { button, h, replace } from "viewer/dom";

const AT_ONCE = 40;

export class Detail {
  constructor() {
    this.title = h("h2", { id: "detail-title" });
    this.content = h("div", { class: "detail-content" });
    this.dialog = h("dialog", { class: "detail", "aria-labelledby": "detail-title" },
      h("div", { class: "detail-head" }, this.title, button("Close", () => this.dialog.close(), { class: "close" })),
      this.content);
    // A click beside the box closes it, as Escape does.
    this.dialog.addEventListener("click", (event) => { if (event.target === this.dialog) this.dialog.close(); });
  }

  // facts: [[name, text]]; groups: [{title, refs}] of a lab; lead: elements above the raw entries.
  async open(lab, title, facts, groups, lead = null) {
    this.title.textContent = title;
    const shown = groups.filter((group) => group.refs.length);
    replace(this.content,
      facts.length ? h("dl", { class: "facts" }, facts.map(([name, text]) => [h("dt", {}, name), h("dd", {}, text)])) : null,
      lead, shown.map((group, place) => this.#group(lab, group, place === 0)),
      shown.length ? null : h("p", { class: "quiet" }, "The evidence has no entry of it."));
    if (!this.dialog.open) this.dialog.showModal();
    this.content.scrollTop = 0;
  }

  #group(lab, group, first) {
    const refs = group.refs.slice(0, AT_ONCE);
    const rest = group.refs.slice(AT_ONCE);
    const list = h("div", {}, refs.map((ref, place) => entry(lab, ref, first && place === 0)));
    const more = rest.length ? button(`${rest.length} more`, () => {
      list.append(...rest.map((ref) => entry(lab, ref, false)));
      more.remove();
    }) : null;
    return h("section", {}, h("h3", {}, `${group.title} (${group.refs.length})`), list, more);
  }
}

function entry(lab, ref, open) {
  const { file, place } = lab.where(ref);
  const text = h("pre", { tabindex: 0, role: "region", "aria-label": `Raw entry, ${file}, ${place}` }, "...");
  const box = h("details", { class: "raw" }, h("summary", {}, h("code", {}, file), h("span", {}, `, ${place}`)), text);
  let asked = false;
  const fill = async () => {
    if (asked || !box.open) return;
    asked = true;
    text.textContent = pretty(await lab.raw(ref));
  };
  box.addEventListener("toggle", fill);
  box.open = open;
  return box;
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
