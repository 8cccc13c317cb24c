// A table with any number of rows, of which only those in view are elements; in print, more of them.

import { h, put, replace } from "viewer/dom";

const ON_PAPER = 400;
const BESIDE = 8;
const CAN_HAVE_FOCUS = "button, input, a";

export class Rows {
  // columns: [{title, width}]; height: of a row in pixels; most: of the list. over(body, first, last): draws over the rows that are
  // elements now.
  constructor({ label, columns, height = 28, most = 360, file = "the evidence", over = null }) {
    Object.assign(this, { label, columns, height, most, file, over, count: 0, top: 0, paper: false });
    const grid = { gridTemplateColumns: columns.map((one) => one.width ?? "1fr").join(" ") };
    this.grid = grid;
    this.head = h("div", { role: "row", class: "row head", "aria-rowindex": 1, style: grid },
      columns.map((one) => h("span", { role: "columnheader" }, one.title)));
    this.body = h("div", { role: "rowgroup", class: "body" });
    this.table = h("div", { role: "table", "aria-label": label }, h("div", { role: "rowgroup", class: "head-group" }, this.head), this.body);
    this.scroll = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `${label}, list`, onscroll: () => { this.top = this.scroll.scrollTop; this.#draw(); } }, this.table);
    this.more = h("p", { class: "more", hidden: true });
    this.empty = h("p", { class: "quiet", hidden: true });
    this.element = h("div", { class: "rows" }, this.empty, this.scroll, this.more);
    this.element.rows = this;
  }

  // render(n): the cells of the n-th row, as an array of texts and elements.
  show(count, render, nothing = "Nothing.") {
    this.count = count;
    this.render = render;
    this.empty.hidden = count > 0;
    this.empty.textContent = nothing;
    this.scroll.hidden = count === 0;
    this.table.setAttribute("aria-rowcount", count + 1);
    this.body.style.height = `${count * this.height}px`;
    this.scroll.style.maxHeight = `${this.most}px`;
    // Remember the scroll position, because reading it forces a layout of the whole page. The browser corrects a position beyond the end
    // and reports it.
    this.top = Math.min(this.top, count * this.height);
    this.drawn = "";
    this.#draw(true);
  }

  toPaper(paper) {
    this.paper = paper;
    this.element.classList.toggle("paper", paper);
    this.more.hidden = !(paper && this.count > ON_PAPER);
    this.more.textContent = `${(this.count - ON_PAPER).toLocaleString("en")} more rows: on the screen, and in ${this.file}.`;
    this.drawn = "";
    this.#draw(true);
  }

  // Change the number of rows.
  redraw() {
    this.#draw(true);
  }

  #draw(anew = false) {
    if (!this.render) return;
    const first = this.paper ? 0 : Math.max(0, Math.floor(this.top / this.height) - BESIDE);
    const last = this.paper ? Math.min(this.count, ON_PAPER)
      : Math.min(this.count, Math.ceil((this.top + this.most) / this.height) + BESIDE);
    if (!anew && this.drawn === `${first}-${last}`) return;
    this.drawn = `${first}-${last}`;
    // Keep the focus on its row.
    const active = document.activeElement?.closest?.(".row");
    const focus = active && this.body.contains(active) ? active.dataset.at : null;
    const place = focus === null ? 0 : [...active.querySelectorAll(CAN_HAVE_FOCUS)].indexOf(document.activeElement);
    replace(this.body);
    for (let at = first; at < last; at++) {
      const style = { ...this.grid, height: `${this.height}px`, top: `${at * this.height}px` };
      const row = h("div", { role: "row", class: "row", "aria-rowindex": at + 2, style, "data-at": at });
      put(row, this.render(at).map((cell) => h("span", { role: "cell" }, cell)));
      this.body.append(row);
      if (focus === String(at)) row.querySelectorAll(CAN_HAVE_FOCUS)[place]?.focus({ preventScroll: true });
    }
    // In print, rows are as high as their text.
    if (!this.paper) this.over?.(this.body, first, last);
  }
}

// Before printing, show the rows of every list and open folded tables; restore them afterwards.
export function onPaper(redraw) {
  const all = (paper) => {
    document.querySelectorAll(paper ? "details.as-table:not([open])" : "details.as-table[data-paper]").forEach((element) => {
      element.open = paper;
      element.toggleAttribute("data-paper", paper);
    });
    document.querySelectorAll(".rows").forEach((element) => element.rows?.toPaper(paper));
    redraw(paper);
  };
  addEventListener("beforeprint", () => all(true));
  addEventListener("afterprint", () => all(false));
}
