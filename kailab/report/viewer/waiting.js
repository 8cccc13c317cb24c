// What waits at a moment, and why.

import { plural } from "viewer/amounts";
import { button, h, replace } from "viewer/dom";
import { momentName } from "viewer/facts";
import { Rows } from "viewer/rows";

export class Waiting {
  constructor(lab, facts) {
    Object.assign(this, { lab, facts, only: "" });
    this.reasons = h("div", { class: "filters", role: "group", "aria-label": "Only one reason" });
    this.rows = new Rows({ label: "Waiting PodGroups", columns: [
      { title: "PodGroup", width: "minmax(10rem, 1.5fr)" }, { title: "Queue", width: "minmax(5rem, .7fr)" },
      { title: "Reason", width: "minmax(8rem, .9fr)" }, { title: "In words", width: "minmax(12rem, 3fr)" }, { title: "Waits since", width: "minmax(7rem, .8fr)" },
      ...(facts.explain ? [{ title: "And now", width: "8rem" }] : []),
    ], height: 42, file: "decisions.jsonl" });
    this.note = h("p", {});
    this.element = h("section", { class: "panel", id: "waiting", "aria-labelledby": "waiting-title" },
      h("div", { class: "panel-head" }, h("h3", { id: "waiting-title" }, "Waiting")), this.note, this.reasons, this.rows.element);
  }

  show(moment) {
    this.moment = moment;
    const { lab } = this;
    const waits = lab.waitsAt(moment);
    const counts = new Map();
    for (const one of waits) counts.set(one.code, (counts.get(one.code) ?? 0) + 1);
    if (!counts.has(this.only)) this.only = "";
    const after = lab.moments[moment]?.kind === "cycle" ? "after this cycle" : "now";
    this.note.textContent = waits.length ? `${plural(waits.length, "PodGroup")} wait ${after}.` : `Nothing waits ${after}.`;
    replace(this.reasons, counts.size > 1 ? [["", waits.length], ...counts].map(([code, count]) =>
      button(`${code || "all"} (${count})`, () => { this.only = code; this.show(this.moment); }, { "aria-pressed": code === this.only })) : null);
    const shown = this.only ? waits.filter((one) => one.code === this.only) : waits;
    this.rows.show(shown.length, (at) => {
      const one = shown[at];
      return [
        button(lab.groupLabel(one.group), () => this.facts.group(one.group, moment), { class: "link", title: lab.groups.name[one.group] }),
        lab.queues.name[lab.groups.queue[one.group]] ?? "none",
        button(one.code, () => this.facts.wait(one), { class: "link" }),
        h("span", { class: "words", title: one.message }, one.message),
        momentName(lab, lab.waitsSince(one)),
        ...(this.facts.explain ? [h("span", { class: "tools" }, button("explain", () => this.facts.group(one.group, moment, true), { class: "link" }), this.facts.changeGroup(one.group))] : []),
      ];
    }, "");
  }
}
