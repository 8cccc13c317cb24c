// What was done before a moment, and what its cycle decided.

import { button, h, replace } from "viewer/dom";
import { NONE } from "viewer/lab";
import { lineFacts, lineOf } from "viewer/line";
import { Rows } from "viewer/rows";

export const WORDS = { bind: "bind", evict: "evict", pipeline: "promise", pending: "waits", failure: "refused" };

export class Decided {
  constructor(lab, facts) {
    Object.assign(this, { lab, facts, only: "" });
    this.steps = h("ul", { class: "steps" });
    this.kinds = h("div", { class: "filters", role: "group", "aria-label": "Only one kind of decision" });
    this.rows = new Rows({ label: "Decisions of this moment", columns: [
      { title: "Decision", width: "6rem" }, { title: "Action", width: "8rem" }, { title: "Pod or PodGroup", width: "minmax(12rem, 2fr)" },
      { title: "Queue", width: "minmax(6rem, 1fr)" }, { title: "Node", width: "minmax(6rem, 1fr)" }, { title: "For", width: "minmax(8rem, 1.5fr)" },
    ], most: 300, file: "decisions.jsonl" });
    this.element = h("section", { class: "panel", id: "decided", "aria-labelledby": "decided-title" },
      h("div", { class: "panel-head" }, h("h3", { id: "decided-title" }, "Done and decided")), this.steps, this.kinds, this.rows.element);
  }

  // Show only this kind in the next rendering.
  pick(kind) {
    this.only = kind;
  }

  show(moment) {
    this.moment = moment;
    const { lab } = this;
    const one = lab.moments[moment];
    replace(this.steps, (one?.steps ?? []).map((place) => {
      const step = lab.steps[place];
      return h("li", {}, button(`${step.operation} ${step.text}`.trim(),
        () => this.facts.refs(`Step ${place + 1}: ${step.operation}`, [["at", `${step.t} s`], ...lineFacts(step.source)], [step.ref]), { class: "link" }), lineOf(step.source));
    }));
    const all = lab.decisionsOf[moment] ?? [];
    const counts = one?.counts ?? {};
    if (!(this.only in counts)) this.only = "";
    const places = this.only ? all.filter((place) => lab.decision(place).kind === this.only) : all;
    replace(this.kinds, Object.keys(counts).length > 1 ? [["", all.length], ...Object.entries(counts)].map(([kind, count]) =>
      button(`${WORDS[kind] ?? (kind || "all")} (${count})`, () => { this.only = kind; this.show(this.moment); }, { "aria-pressed": kind === this.only })) : null);
    this.rows.show(places.length, (at) => this.#row(lab.decision(places[at])), one?.kind !== "cycle" ? "A look at the cluster: nothing is decided here." : "This cycle decided nothing new.");
  }

  #row(one) {
    const { lab, facts } = this;
    const evicted = lab.evictionOf.get(one.place);
    const served = evicted === undefined ? null : lab.evictions[evicted];
    const about = one.pod !== NONE ? [lab.pods.name[one.pod], () => facts.pod(one.pod, this.moment)] : [lab.groupLabel(one.group), () => facts.group(one.group, this.moment)];
    return [
      button(WORDS[one.kind] ?? one.kind, () => facts.decision(one), { class: `link kind-${one.kind}` }), one.action,
      button(about[0], about[1], { class: "link", title: about[0] }),
      lab.queues.name[lab.groups.queue[one.group]] ?? "", one.node === NONE ? "" : lab.nodes.name[one.node],
      served ? served.beneficiary === NONE ? "nobody" : lab.groupLabel(served.beneficiary) : "",
    ];
  }
}
