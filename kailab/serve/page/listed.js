// Things of the lab that can be changed, a row each, however many there are: only rows in view are elements, and some can be looked for.

import { plural } from "viewer/amounts";
import { h, replace } from "viewer/dom";
import { Rows } from "viewer/rows";

const HEIGHT = 36;

export class Listed {
  // what: what one is called; columns: as of Rows; name(one), more(one): what it is found by; row(one): its cells.
  constructor(what, columns, name, more, row) {
    Object.assign(this, { what, name, more, row, all: [], filled: null });
    this.find = h("input", { type: "search", id: `find-${what}`, autocomplete: "off", oninput: () => this.#show() });
    this.count = h("span", { class: "quiet", role: "status" });
    this.rows = new Rows({ label: `Change a ${what}`, columns, height: HEIGHT, most: 12 * HEIGHT });
    this.element = h("div", { class: "listed" }, h("div", { class: "tools" }, h("label", { for: this.find.id }, "Find"), this.find, this.count), this.rows.element);
  }

  // Fill in the name of the only one to show with the next list. null: take out a name that was filled in; what somebody typed stays.
  seek(name) {
    if (name !== null || this.find.value === this.filled) this.find.value = name ?? "";
    this.filled = name;
  }

  show(all) {
    this.all = all;
    this.#show();
  }

  focus() {
    (this.rows.body.querySelector("input, button") ?? this.find).focus();
  }

  #show() {
    const sought = this.find.value.trim().toLowerCase();
    const within = (one) => `${this.name(one)} ${this.more(one)}`.toLowerCase().includes(sought);
    // A name that was filled in is that of one row: node-1 is not node-10.
    const takes = this.find.value === this.filled ? (one) => this.name(one) === this.filled : within;
    const found = sought ? this.all.filter(takes) : this.all;
    replace(this.count, sought ? `${found.length.toLocaleString("en")} of ${plural(this.all.length, this.what)}` : plural(this.all.length, this.what));
    this.rows.show(found.length, (at) => this.row(found[at]), `No ${this.what} is called so.`);
  }
}
