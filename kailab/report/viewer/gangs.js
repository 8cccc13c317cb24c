// PodGroups over all moments: waiting, promised a place, running, leaving; and where pods of them were evicted, for whom.

import { plural } from "viewer/amounts";
import { button, h } from "viewer/dom";
import { momentName } from "viewer/facts";
import { NONE } from "viewer/lab";
import { Rows } from "viewer/rows";

const LETTERS = { waits: "w", promised: "p", runs: "r", leaves: "x", part: "r" };

export class Gangs {
  constructor(lab, colours, facts, travel) {
    Object.assign(this, { lab, colours, facts, travel, only: "" });
    this.find = h("input", { type: "search", id: "find-gang", placeholder: "PodGroup, workload or queue", oninput: () => this.#show() });
    this.touched = h("input", { type: "checkbox", id: "touched", onchange: () => this.#show() });
    this.note = h("p", { class: "quiet" });
    this.rows = new Rows({ label: "PodGroups over time", columns: [
      { title: "PodGroup", width: "minmax(10rem, 16rem)" }, { title: "Queue", width: "7rem" }, { title: "Moments, from the first to the last", width: "minmax(16rem, 1fr)" }, { title: "At this moment", width: "11rem" },
    ], height: 30, most: 460, file: "cycles.jsonl, decisions.jsonl" });
    this.choice = h("span", {}, this.touched, h("label", { for: "touched" }, " only with evictions"));
    this.marks = h("li", {}, "✕ evicted, ▲ others were evicted for it");
    this.element = h("section", { class: "panel", id: "gangs", "aria-labelledby": "gangs-title" },
      h("div", { class: "panel-head" }, h("h3", { id: "gangs-title" }, "Gangs"),
        h("span", { class: "tools" }, h("label", { for: "find-gang" }, "Find "), this.find,
          this.choice)),
      h("ul", { class: "legend", "aria-label": "Marks" },
        [["waits", "w: waits"], ["promised", "p: promised a place"], ["runs", "r: runs"], ["part", "r, striped: a part of it runs"], ["leaves", "x: leaves"]].map(([kind, text]) =>
          h("li", {}, h("span", { class: `swatch span-${kind}` }), text)),
        this.marks),
      this.note, this.rows.element);
    this.renew();
  }

  // The lab is there, or went on.
  renew() {
    const { lab } = this;
    this.choice.hidden = this.marks.hidden = !lab.evictions.length;
    this.victims = new Map();
    lab.evictions.forEach((one) => {
      const decided = lab.decision(one.decision);
      this.#mark(decided.group, decided.moment, { evicted: one });
      if (one.beneficiary !== NONE) this.#mark(one.beneficiary, decided.moment, { served: decided });
    });
    this.order = lab.groups.name.map((_, place) => place).filter((place) => lab.groups.counts[place].length)
      .sort((one, other) => lab.groups.counts[one][0][0] - lab.groups.counts[other][0][0] || one - other);
  }

  show(moment) {
    this.moment = moment;
    this.#show();
  }

  #mark(group, moment, what) {
    if (!this.victims.has(group)) this.victims.set(group, new Map());
    const moments = this.victims.get(group);
    const one = moments.get(moment) ?? { evicted: 0, served: 0 };
    if (what.evicted) one.evicted++; else one.served++;
    moments.set(moment, one);
  }

  #show() {
    const { lab } = this, text = this.find.value.toLowerCase();
    const shown = this.order.filter((group) => (!this.touched.checked || this.victims.has(group)) && (!text ||
      `${lab.groups.name[group]} ${lab.groups.workload[group]} ${lab.queues.name[lab.groups.queue[group]] ?? ""}`.toLowerCase().includes(text)));
    this.note.textContent = `${plural(shown.length, "PodGroup")}.`;
    this.rows.show(shown.length, (at) => this.#row(shown[at]), "No PodGroups.");
  }

  #row(group) {
    const { lab } = this;
    const [waits, promised, placed, leaves] = lab.groupAt(group, this.moment);
    const now = [placed && `${placed} placed`, promised && `${promised} promised`, waits && `${waits} waiting`, leaves && `${leaves} leaving`].filter(Boolean).join(", ") || "not there";
    return [
      button(lab.groupLabel(group), () => this.facts.group(group, this.moment), { class: "link", title: lab.groups.name[group] }),
      lab.queues.name[lab.groups.queue[group]] ?? "none", this.#spans(group), now,
    ];
  }

  #spans(group) {
    const { lab } = this, count = lab.moments.length;
    const part = (moment) => `${(100 * moment) / count}%`;
    const line = h("span", { class: "gantt" });
    const spans = stretches(lab.groups.counts[group], count);
    for (const { from, to, kind } of spans) {
      line.append(h("span", { class: `span span-${kind}`, style: { left: part(from), width: part(to - from) } }, LETTERS[kind]));
    }
    for (const [moment, { evicted, served }] of this.victims.get(group) ?? []) {
      if (evicted) line.append(h("span", { class: "mark", style: { left: part(moment + 0.5) } }, "✕"));
      if (served) line.append(h("span", { class: "mark", style: { left: part(moment + 0.5) } }, "▲"));
    }
    line.append(h("span", { class: "now", style: { left: part(this.moment), width: part(1) } }));
    const told = spans.map(({ from, to, kind }) => `${kind === "part" ? "runs in part" : kind} from ${momentName(lab, from)}${to < count ? ` until ${momentName(lab, to)}` : ""}`);
    for (const [moment, { evicted, served }] of this.victims.get(group) ?? []) {
      if (evicted) told.push(`${plural(evicted, "pod")} evicted in ${momentName(lab, moment)}`);
      if (served) told.push(`${plural(served, "pod")} of others evicted for it in ${momentName(lab, moment)}`);
    }
    line.append(h("span", { class: "hidden" }, told.join("; ")));
    line.addEventListener("click", (event) => {
      const bounds = line.getBoundingClientRect();
      this.travel(Math.floor(((event.clientX - bounds.left) / bounds.width) * count));
    });
    return line;
  }
}

// Runs of moments in which a PodGroup is in one way.
function stretches(changes, count) {
  const found = [];
  changes.forEach(([from, waits, promised, placed, leaves], at) => {
    const to = at + 1 < changes.length ? changes[at + 1][0] : count;
    const kind = placed ? (waits || promised ? "part" : "runs") : promised ? "promised" : waits ? "waits" : leaves ? "leaves" : null;
    const before = found.at(-1);
    if (before && before.kind === kind && before.to === from) before.to = to;
    else if (kind) found.push({ from, to, kind });
  });
  return found;
}

