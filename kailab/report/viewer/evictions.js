// Evictions with arrows to their beneficiaries: action, rule, and the level, resource and numbers that decided.

import { amount, ofGpus, plural, UNLIMITED } from "viewer/amounts";
import { isDark } from "viewer/colours";
import { button, h, replace } from "viewer/dom";
import { momentName } from "viewer/facts";
import { NONE } from "viewer/lab";
import { Rows } from "viewer/rows";

export class Evictions {
  constructor(lab, colours, facts, travel) {
    Object.assign(this, { lab, colours, facts, travel, all: false });
    this.note = h("p", {});
    this.scope = h("div", { class: "filters", role: "group", "aria-label": "Which evictions" });
    this.rows = new Rows({ label: "Evictions", columns: [
      { title: "Victim", width: "minmax(11rem, 1.4fr)" }, { title: "Action", width: "9.5rem" }, { title: "Served", width: "minmax(11rem, 1.4fr)" },
      { title: "By which right, and the numbers", width: "minmax(16rem, 2.6fr)" }, { title: "When", width: "7rem" },
    ], height: 62, most: 440, file: "decisions.jsonl" });
    this.element = h("section", { class: "panel", id: "evictions", "aria-labelledby": "evictions-title" },
      h("div", { class: "panel-head" }, h("h3", { id: "evictions-title" }, "Evictions")), this.note, this.scope, this.rows.element);
  }

  show(moment) {
    this.moment = moment;
    const { lab } = this;
    const here = lab.evictionsOf[moment] ?? [];
    const places = this.all ? lab.evictions.map((_, place) => place) : here;
    this.note.textContent = lab.evictions.length
      ? `${plural(here.length, "eviction")} at this moment, ${lab.evictions.length} in all.` : "Nothing was evicted in this lab.";
    replace(this.scope, lab.evictions.length ? [[false, "this moment"], [true, "all moments"]].map(([all, name]) =>
      button(name, () => { this.all = all; this.show(this.moment); }, { "aria-pressed": this.all === all })) : null);
    this.rows.show(places.length, (at) => this.#row(lab.evictions[places[at]]), "");
  }

  #row(one) {
    const { lab, facts } = this;
    const decided = lab.decision(one.decision);
    const victimQueue = lab.groups.queue[decided.group];
    return [
      h("span", { class: "end victim" }, this.#chip(victimQueue), h("span", {},
        button(lab.pods.name[decided.pod], () => facts.pod(decided.pod, decided.moment), { class: "link", title: lab.pods.name[decided.pod] }),
        h("small", {}, `${lab.queues.name[victimQueue] ?? "no queue"}, on ${lab.nodes.name[decided.node] ?? "no node"}`))),
      h("span", { class: "arrow" }, button(decided.action, () => facts.decision(decided), { class: "link", "aria-label": `${decided.action}: evicted for` })),
      h("span", { class: "end" }, one.beneficiary === NONE ? "nobody" : [this.#chip(one.beneficiary_queue), h("span", {},
        button(lab.groupLabel(one.beneficiary), () => facts.group(one.beneficiary, decided.moment), { class: "link", title: one.beneficiary_name }),
        h("small", {}, lab.queues.name[one.beneficiary_queue] ?? "no queue"))]),
      button([ground(one.ground), taking(one.taking)].filter(Boolean).join(" ") || one.reason, () => facts.decision(decided), { class: "link words", title: one.reason }),
      button(momentName(lab, decided.moment), () => this.travel(decided.moment), { class: "link" }),
    ];
  }

  #chip(queue) {
    if (!this.colours.places.has(queue)) return null;
    return h("span", { class: `chip pattern-${this.colours.pattern(queue)}`, style: { background: this.colours.fill(queue, isDark()) } }, this.colours.letter(queue));
  }
}

// The recorded ground of an eviction in one line, with its recorded numbers.
export function ground(one) {
  if (!one) return "";
  const compared = one.beside && one.beside !== one.queue ? `${one.queue} against ${one.beside}` : one.queue;
  if (one.rule === "priority") return one.priorities ? `Priority ${one.priorities[0]} gives way to ${one.priorities[1]}, in ${compared}.` : `By priority, in ${compared}.`;
  if (one.rule === "move") return `Moved: ${one.queue} loses nothing.`;
  if (one.rule === "gang") return "Fewer of its gang run than must.";
  const resource = one.resource ?? "GPU";
  const said = (value) => (value === UNLIMITED ? "unlimited" : resource === "GPU" ? ofGpus(value) : `${amount(resource, value)}${resource === "CPU" ? " CPUs" : ""}`);
  return `${compared}: beyond its ${one.rule} of ${said(one.bound)} in ${resource}; held ${said(one.before)}, then ${said(one.after)}.`;
}

function taking(one) {
  if (!one) return "";
  const moved = one.pods_moved ? `, ${plural(one.pods_moved, "pod")} moved` : "";
  return `Asked ${ofGpus(one.asked.gpu)}, taken ${ofGpus(one.lost.gpu)} from ${plural(one.pods_lost, "pod")}${moved}.`;
}
