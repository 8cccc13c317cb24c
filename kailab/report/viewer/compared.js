// Two moments of a lab side by side: what stands otherwise between them.

import { amount, ofGpus, plural } from "viewer/amounts";
import { button, h, table, replace } from "viewer/dom";
import { momentName } from "viewer/facts";
import { Fleet } from "viewer/fleet";
import { NONE } from "viewer/lab";
import { Rows } from "viewer/rows";

const FIELDS = [["quota", "quota"], ["limit", "limit"], ["fair_share", "fair share"], ["allocated", "allocated"], ["requested", "requested"]];

export class Compared {
  constructor(lab, colours, facts) {
    Object.assign(this, { lab, facts, other: 0 });
    this.then = new Fleet(lab, colours, facts, { title: "Then", id: "then", whole: false });
    this.now = new Fleet(lab, colours, facts, { title: "Now", id: "now", whole: false });
    this.choice = h("select", { id: "other", onchange: () => { this.other = Number(this.choice.value); this.show(this.moment); } });
    this.renew();
    this.queues = h("div", {});
    this.note = h("p", {});
    this.rows = new Rows({ label: "Pods that stand otherwise", columns: [
      { title: "Pod", width: "minmax(12rem, 1.5fr)" }, { title: "Queue", width: "minmax(6rem, .8fr)" }, { title: "Then", width: "minmax(10rem, 1fr)" }, { title: "Now", width: "minmax(10rem, 1fr)" },
    ], file: "cycles.jsonl" });
    this.element = h("section", { class: "panel", id: "compared", "aria-labelledby": "compared-title" },
      h("div", { class: "panel-head" }, h("h3", { id: "compared-title" }, "Two moments"),
        h("span", { class: "tools" }, h("label", { for: "other" }, "compare with "), this.choice)),
      this.note, h("div", { class: "beside" }, this.then.element, this.now.element), this.queues, this.rows.element);
  }

  // The lab is there, or went on.
  renew() {
    const { lab } = this;
    this.other = Math.max(0, Math.min(this.other, lab.moments.length - 1));
    replace(this.choice, lab.moments.map((_, place) => h("option", { value: place }, momentName(lab, place))));
    this.choice.value = this.other;
  }

  show(moment) {
    this.moment = moment;
    const { lab, other } = this;
    this.note.textContent = `Then: ${momentName(lab, other)}. Now: ${momentName(lab, moment)}.`;
    this.then.heading.textContent = `Then: ${momentName(lab, other)}`;
    this.now.heading.textContent = `Now: ${momentName(lab, moment)}`;
    this.then.show(other);
    this.now.show(moment);
    replace(this.queues, this.#queues(other, moment));
    const pods = [];
    for (let pod = 0; pod < lab.pods.name.length; pod++) {
      const then = lab.podAt(pod, other), now = lab.podAt(pod, moment);
      if (then !== now && this.#said(then) !== this.#said(now)) pods.push({ pod, then, now });
    }
    this.rows.show(pods.length, (at) => {
      const { pod, then, now } = pods[at];
      const cell = (segment, when) => button(this.#said(segment), () => this.facts.pod(pod, when), { class: "link" });
      return [button(lab.pods.name[pod], () => this.facts.pod(pod, moment), { class: "link", title: lab.pods.name[pod] }),
        lab.queues.name[lab.queueOfPod(pod)] ?? "none", cell(then, other), cell(now, moment)];
    }, "All pods stand as they stood.");
    this.note.textContent += ` ${plural(pods.length, "pod")} stand${pods.length === 1 ? "s" : ""} otherwise.`;
  }

  redraw(paper) {
    this.then.redraw(paper);
    this.now.redraw(paper);
  }

  #said(segment) {
    const { lab } = this;
    if (segment === NONE) return "not there";
    const node = lab.pods.node[segment];
    return `${lab.stateName(segment)}${node === NONE ? "" : ` on ${lab.nodes.name[node]}`}${lab.pods.milli[segment] ? `, ${ofGpus(lab.pods.milli[segment])}` : ""}`;
  }

  #queues(then, now) {
    const rows = [];
    this.lab.queues.name.forEach((name, queue) => {
      const one = this.lab.queueAt(queue, then), other = this.lab.queueAt(queue, now);
      if (one === other || (one && other && one.ref === other.ref)) return;
      const cells = FIELDS.map(([field]) => {
        const [before, after] = [one, other].map((each) => (each?.state.gpu ? amount("gpu", each.state.gpu[field]) : "-"));
        return before === after ? after : h("strong", {}, `${before} → ${after}`);
      });
      rows.push([button(name, () => this.facts.queue(queue, now), { class: "link" }), ...cells]);
    });
    return rows.length ? table("Queues that stand otherwise, in GPUs", ["Queue", ...FIELDS.map(([, title]) => title)], rows) : h("p", { class: "quiet" }, "All queues stand as they stood.");
  }
}
