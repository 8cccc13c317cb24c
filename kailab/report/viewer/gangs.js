// PodGroups over all moments: waiting, promised, running, leaving, and evictions with their beneficiaries.

import { plural } from "viewer/amounts";
import { drawArrows } from "viewer/arrows";
import { button, h } from "viewer/dom";
import { momentName } from "viewer/facts";
import { NONE } from "viewer/lab";
import { Rows } from "viewer/rows";

const HEIGHT = 30;
const LETTERS = { waits: "w", promised: "p", runs: "r", leaves: "x", part: "r/w" };

export class Gangs {
  constructor(lab, colours, facts, travel) {
    Object.assign(this, { lab, colours, facts, travel, only: "" });
    this.find = h("input", { type: "search", id: "find-gang", placeholder: "PodGroup, workload or queue", oninput: () => this.#show() });
    this.touched = h("input", { type: "checkbox", id: "touched", onchange: () => this.#show() });
    this.note = h("p", { class: "quiet" });
    this.rows = new Rows({ label: "PodGroups over time", columns: [
      { title: "PodGroup", width: "minmax(10rem, 16rem)" }, { title: "Queue", width: "7rem" }, { title: "Moments, from the first to the last", width: "minmax(16rem, 1fr)" }, { title: "At this moment", width: "11rem" },
      ...(facts.change ? [{ title: "And now", width: "4rem" }] : []),
    ], height: HEIGHT, most: 460, file: "cycles.jsonl, decisions.jsonl", over: (...rows) => this.#arrows(...rows) });
    new ResizeObserver(() => this.rows.redraw()).observe(this.rows.scroll);
    this.choice = h("span", {}, this.touched, h("label", { for: "touched" }, " only with evictions"));
    this.marks = h("li", {}, "✕ evicted, with an arrow to ▲ whom it served");
    this.element = h("section", { class: "panel", id: "gangs", "aria-labelledby": "gangs-title" },
      h("div", { class: "panel-head" }, h("h3", { id: "gangs-title" }, "Gangs"),
        h("span", { class: "tools" }, h("label", { for: "find-gang" }, "Find "), this.find,
          this.choice)),
      h("ul", { class: "legend", "aria-label": "Marks" },
        [["waits", "w: waits"], ["promised", "p: promised a place"], ["runs", "r: runs"], ["part", "r/w, striped: a part of it runs"], ["leaves", "x: leaves"]].map(([kind, text]) =>
          h("li", {}, h("span", { class: `swatch span-${kind}` }), text)),
        this.marks),
      this.note, this.rows.element);
    this.renew();
  }

  // Called when the lab has loaded or has changed.
  renew() {
    const { lab } = this;
    this.choice.hidden = this.marks.hidden = !lab.evictions.length;
    this.victims = new Map();
    // One arrow for all pods of a PodGroup that were evicted at a moment for the same beneficiary.
    const served = new Map();
    lab.evictions.forEach((one) => {
      const decided = lab.decision(one.decision);
      this.#mark(decided.group, decided.moment, one.beneficiary, "evicted");
      if (one.beneficiary === NONE) return;
      this.#mark(one.beneficiary, decided.moment, decided.group, "served");
      served.set(`${decided.group} ${one.beneficiary} ${decided.moment}`, { victim: decided.group, beneficiary: one.beneficiary, moment: decided.moment });
    });
    this.served = [...served.values()].filter((one) => one.victim !== one.beneficiary);
    // Gangs first: PodGroups of single pods are numerous.
    const alone = (group) => Number(lab.groups.members[group] < 2);
    this.order = lab.groups.name.map((_, place) => place).filter((place) => lab.groups.counts[place].length)
      .sort((one, other) => alone(one) - alone(other) || lab.groups.counts[one][0][0] - lab.groups.counts[other][0][0] || one - other);
  }

  show(moment) {
    this.moment = moment;
    this.#show();
  }

  // other: the beneficiary, or the PodGroup evicted for this one; with the number of pods.
  #mark(group, moment, other, what) {
    if (!this.victims.has(group)) this.victims.set(group, new Map());
    const moments = this.victims.get(group);
    const one = moments.get(moment) ?? { evicted: new Map(), served: new Map() };
    one[what].set(other, (one[what].get(other) ?? 0) + 1);
    moments.set(moment, one);
  }

  #show() {
    const { lab } = this, text = this.find.value.toLowerCase();
    const shown = this.order.filter((group) => (!this.touched.checked || this.victims.has(group)) && (!text ||
      `${lab.groups.name[group]} ${lab.groups.workload[group]} ${lab.queues.name[lab.groups.queue[group]] ?? ""}`.toLowerCase().includes(text)));
    this.rowOf = new Map(shown.map((group, at) => [group, at]));
    this.told = shown.length === this.order.length ? `${plural(shown.length, "PodGroup")}.` : `${shown.length} of ${plural(this.order.length, "PodGroup")}.`;
    this.note.textContent = this.told;
    this.rows.show(shown.length, (at) => this.#row(shown[at]), "No PodGroups.");
  }

  #arrows(body, first, last) {
    const { rowOf } = this, count = this.lab.moments.length;
    const arrows = this.served.filter((one) => rowOf.has(one.victim) && rowOf.has(one.beneficiary)).map(({ victim, beneficiary, moment }) =>
      ({ from: rowOf.get(victim), to: rowOf.get(beneficiary), at: (moment + 0.5) / count, strong: moment === this.moment }));
    const left = drawArrows(body, { arrows, first, last, height: HEIGHT, column: ".gantt" });
    this.note.textContent = left ? `${this.told} ${plural(left, "arrow")} of other moments not drawn: too many at once; the evictions above have all.` : this.told;
  }

  #row(group) {
    const { lab } = this;
    const [waits, promised, placed, leaves] = lab.groupAt(group, this.moment);
    const now = [placed && `${placed} placed`, promised && `${promised} promised`, waits && `${waits} waiting`, leaves && `${leaves} leaving`].filter(Boolean).join(", ") || "not there";
    const open = () => this.facts.group(group, this.moment), label = lab.groupLabel(group);
    return [
      button(label, open, { class: "link", title: lab.groups.name[group] }),
      lab.queues.name[lab.groups.queue[group]] ?? "none", this.#spans(group),
      button(now, open, { class: "number", "aria-label": `${label}: ${now}` }),
      ...(this.facts.change ? [this.facts.changeGroup(group)] : []),
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
      if (evicted.size) line.append(h("span", { class: "mark", style: { left: part(moment + 0.5) } }, "✕"));
      if (served.size) line.append(h("span", { class: "mark", style: { left: part(moment + 0.5) } }, "▲"));
    }
    line.append(h("span", { class: "now", style: { left: part(this.moment), width: part(1) } }));
    const told = spans.map(({ from, to, kind }) => `${kind === "part" ? "runs in part" : kind} from ${momentName(lab, from)}${to < count ? ` until ${momentName(lab, to)}` : ""}`);
    for (const [moment, { evicted, served }] of this.victims.get(group) ?? []) {
      for (const [other, pods] of evicted) told.push(`${plural(pods, "pod")} evicted in ${momentName(lab, moment)}, for ${lab.groupLabel(other) || "nobody"}`);
      for (const [other, pods] of served) told.push(`${plural(pods, "pod")} of ${lab.groupLabel(other)} evicted for it in ${momentName(lab, moment)}`);
    }
    line.append(h("span", { class: "hidden" }, told.join("; ")));
    line.addEventListener("click", (event) => {
      const bounds = line.getBoundingClientRect();
      this.travel(Math.floor(((event.clientX - bounds.left) / bounds.width) * count));
    });
    return line;
  }
}

// Runs of moments in which a PodGroup has one state.
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

