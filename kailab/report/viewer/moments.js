// The time line as a table: what was done before each moment, and the number of decisions in it.

import { button, h } from "viewer/dom";
import { momentName } from "viewer/facts";
import { Rows } from "viewer/rows";
import { BAR_LETTERS, KINDS, checksAt, ofChecks } from "viewer/timeline";

const TITLES = { bind: "Binds", pipeline: "Promises", evict: "Evictions", failure: "Refused" };

export class Moments {
  // checks: expectations with their moments. decided(moment, kind): shows decisions of that kind at that moment.
  constructor(lab, travel, checks, decided) {
    Object.assign(this, { lab, travel, decided, checks: checksAt(checks) });
    this.rows = new Rows({ label: "Moments", columns: [
      { title: "Moment", width: "minmax(8rem, 1fr)" }, ...KINDS.map((kind) => ({ title: TITLES[kind], width: "5.5rem" })),
      ...(checks.length ? [{ title: "Expected", width: "minmax(6rem, .8fr)" }] : []), { title: "Done before", width: "minmax(12rem, 3fr)" },
    ], most: 300, file: "cycles.jsonl, states/" });
    this.element = h("section", { class: "panel", id: "moments", "aria-labelledby": "moments-title" },
      h("div", { class: "panel-head" }, h("h3", { id: "moments-title" }, "Moments")),
      h("ul", { class: "legend", "aria-label": "Marks of the time line" },
        KINDS.map((kind) => h("li", {}, `${BAR_LETTERS[kind]}: ${TITLES[kind].toLowerCase()}`)), h("li", {}, "▼ something was done"),
        checks.length ? [h("li", {}, "✓ as expected"), h("li", {}, "✗ not as expected")] : null),
      this.rows.element);
  }

  show(moment) {
    const { lab } = this;
    this.rows.show(lab.moments.length, (at) => {
      const { counts, steps } = lab.moments[at];
      const name = momentName(lab, at);
      return [
        button(at === moment ? `${name} (shown)` : name, () => this.travel(at), { class: at === moment ? "link strong" : "link" }),
        ...KINDS.map((kind) => (counts[kind] ? button(String(counts[kind]), () => this.decided(at, kind), { class: "number", "aria-label": `${name}: ${counts[kind]} ${TITLES[kind].toLowerCase()}` }) : "0")),
        ...(this.checks.size ? [ofChecks(this.checks.get(at)) || "nothing"] : []),
        steps.map((place) => `${lab.steps[place].operation} ${lab.steps[place].text}`.trim()).join("; ") || "nothing",
      ];
    });
  }
}
