// Compare two moments side by side, of one lab or of the same test's labs in two runs.

import { amount, ofGpus, plural } from "viewer/amounts";
import { Colours } from "viewer/colours";
import { button, h, table, replace } from "viewer/dom";
import { Facts, momentName } from "viewer/facts";
import { Fleet } from "viewer/fleet";
import { NONE } from "viewer/lab";
import { told } from "viewer/queues";
import { Rows } from "viewer/rows";

const FIELDS = [["quota", "quota"], ["limit", "limit"], ["fair_share", "fair share"], ["allocated", "allocated"], ["requested", "requested"]];
const RUN = "run ";

export class Compared {
  // others: [{title, load()}]: labs of other runs, each a promise of a Lab.
  constructor(lab, colours, facts, others = []) {
    Object.assign(this, { lab, colours, facts, others, other: 0, beside: null });
    this.then = new Fleet(lab, colours, facts, { title: "Then", id: "then", whole: false });
    this.now = new Fleet(lab, colours, facts, { title: "Now", id: "now", whole: false });
    this.choice = h("select", { id: "other", onchange: () => this.#choose(this.choice.value) });
    this.renew();
    this.queues = h("div", {});
    this.note = h("p", { role: "status" });
    this.fleets = h("div", { class: "beside" }, this.then.element, this.now.element);
    this.rows = new Rows({ label: "Pods that stand otherwise", columns: [
      { title: "Pod", width: "minmax(12rem, 1.5fr)" }, { title: "Queue", width: "minmax(6rem, .8fr)" }, { title: "Then", width: "minmax(10rem, 1fr)" }, { title: "Now", width: "minmax(10rem, 1fr)" },
    ], file: "cycles.jsonl" });
    this.element = h("section", { class: "panel", id: "compared", "aria-labelledby": "compared-title" },
      h("div", { class: "panel-head" }, h("h3", { id: "compared-title" }, others.length ? "Two moments, or two runs" : "Two moments"),
        h("span", { class: "tools" }, h("label", { for: "other" }, "compare with "), this.choice)),
      this.note, this.fleets, this.queues, this.rows.element);
  }

  // Called when the lab has loaded or has changed.
  renew() {
    const { lab } = this;
    this.other = Math.max(0, Math.min(this.other, lab.moments.length - 1));
    replace(this.choice, lab.moments.map((_, place) => h("option", { value: place }, momentName(lab, place))),
      this.others.map((one, place) => h("option", { value: `${RUN}${place}` }, one.title)));
    this.choice.value = this.beside ? `${RUN}${this.beside.place}` : this.other;
  }

  async #choose(value) {
    const place = value.startsWith(RUN) ? Number(value.slice(RUN.length)) : NONE;
    if (place === NONE) {
      this.other = Number(value);
      this.#side(null);
    } else if (this.beside?.place !== place) {
      this.note.textContent = "Reading the other run ...";
      const lab = await this.others[place].load();
      if (this.choice.value !== value) return;
      // A queue keeps the colour and letter of the first lab.
      const colours = new Colours(lab, this.colours.known);
      this.#side({ place, lab, title: this.others[place].title, colours, facts: new Facts(lab, this.facts.detail) });
    }
    this.show(this.moment);
  }

  #side(beside) {
    if (this.beside === beside) return;
    this.beside = beside;
    const { lab, colours, facts } = beside ?? this;
    const fleet = new Fleet(lab, colours, facts, { title: "Then", id: "then", whole: false });
    this.then.element.replaceWith(fleet.element);
    this.then = fleet;
  }

  // The moment of the other side: the chosen one, or in another run the last one that is not later; the end is compared with the end.
  get #then() {
    if (!this.beside) return this.other;
    const { moments } = this.beside.lab, t = this.lab.moments[this.moment].t;
    if (this.moment === this.lab.moments.length - 1) return moments.length - 1;
    let found = 0;
    moments.forEach((one, place) => { if (one.t <= t) found = place; });
    return found;
  }

  show(moment) {
    this.moment = moment;
    const { lab, beside } = this, other = this.#then, old = beside?.lab ?? lab;
    const names = [beside ? `${beside.title}: ${momentName(old, other)}` : `Then: ${momentName(old, other)}`,
      `${beside ? "This run" : "Now"}: ${momentName(lab, moment)}`];
    this.then.heading.textContent = names[0];
    this.now.heading.textContent = names[1];
    this.then.show(other);
    this.now.show(moment);
    replace(this.queues, this.#queues(old, other, moment));
    const pods = beside ? this.#podsByName(old, other, moment) : this.#pods(other, moment);
    this.rows.show(pods.length, (at) => {
      const { was, is, then, now } = pods[at];
      const [name, queue] = is === NONE ? [old.pods.name[was], old.queues.name[old.queueOfPod(was)]] : [lab.pods.name[is], lab.queues.name[lab.queueOfPod(is)]];
      const open = () => (is === NONE ? beside.facts.pod(was, other) : this.facts.pod(is, moment));
      return [button(name, open, { class: "link", title: name }), queue ?? "none",
        was === NONE ? "not there" : button(said(old, then), () => (beside ?? this).facts.pod(was, other), { class: "link" }),
        is === NONE ? "not there" : button(said(lab, now), () => this.facts.pod(is, moment), { class: "link" })];
    }, "All pods stand as they stood.");
    this.note.textContent = `${names.join(". ")}. ${plural(pods.length, "pod")} stand${pods.length === 1 ? "s" : ""} otherwise.`;
  }

  redraw(paper) {
    this.then.redraw(paper);
    this.now.redraw(paper);
  }

  #pods(other, moment) {
    const { lab } = this, before = lab.segments(other), after = lab.segments(moment), found = [];
    for (let pod = 0; pod < before.length; pod++) {
      const then = before[pod], now = after[pod];
      if (then !== now && said(lab, then) !== said(lab, now)) found.push({ was: pod, is: pod, then, now });
    }
    return found;
  }

  // Pods of two runs are matched by name. Names may differ in their suffix (another scheduler's Deployment has another hash), so the
  // remaining pods of each workload are paired, starting with those in equal states.
  #podsByName(old, other, moment) {
    const { lab } = this, before = there(old, other), after = there(lab, moment), found = [], left = new Map();
    const rest = (one, pod, side, segment) => {
      const group = one.pods.group[pod], key = one.groups.workload[group] || one.pods.name[pod];
      if (!left.has(key)) left.set(key, [[], []]);
      left.get(key)[side].push([pod, segment]);
    };
    for (const [name, [was, then]] of before) {
      const [is, now] = after.get(name) ?? [NONE, NONE];
      if (is === NONE) rest(old, was, 0, then);
      else if (said(old, then) !== said(lab, now)) found.push({ was, is, then, now });
    }
    for (const [name, [is, now]] of after) if (!before.has(name)) rest(lab, is, 1, now);
    for (const [pods, others] of left.values()) {
      const [then, now] = without(pods, others, old, lab);
      for (let at = 0; at < Math.max(then.length, now.length); at++) {
        const [was, before] = then[at] ?? [NONE, NONE], [is, after] = now[at] ?? [NONE, NONE];
        found.push({ was, is, then: before, now: after });
      }
    }
    return found;
  }

  #queues(old, then, now) {
    const { lab } = this, rows = [], places = new Map(old.queues.name.map((name, place) => [name, place]));
    lab.queues.name.forEach((name, queue) => {
      const before = places.has(name) ? old.queueAt(places.get(name), then) : null, after = lab.queueAt(queue, now);
      if (before === after) return;
      const pairs = FIELDS.map(([field]) => [before, after].map((each) => figure(each, field)));
      if (pairs.every(([was, is]) => was === is)) return;
      const open = () => this.facts.queue(queue, now), openThen = () => (this.beside ?? this).facts.queue(places.get(name), then);
      const value = (text, field, at, opens) => button(text, opens, { class: "number", "aria-label": `${name}: ${field} ${at} ${text}` });
      rows.push([button(name, open, { class: "link" }), ...pairs.map(([was, is], at) => (was === is ? value(is, FIELDS[at][1], "now", open)
        : h("strong", {}, places.has(name) ? value(was, FIELDS[at][1], "then", openThen) : was, " → ", value(is, FIELDS[at][1], "now", open))))]);
    });
    return rows.length ? table("Queues that stand otherwise, in GPUs", ["Queue", ...FIELDS.map(([, title]) => title)], rows) : h("p", { class: "quiet" }, "All queues stand as they stood.");
  }
}

// Pods that exist at a moment: name -> index and segment.
function there(lab, moment) {
  const found = new Map();
  lab.segments(moment).forEach((segment, pod) => {
    if (segment !== NONE && lab.stateName(segment) !== "gone") found.set(lab.pods.name[pod], [pod, segment]);
  });
  return found;
}

// Remove pairs with equal states from two lists of [pod, segment].
function without(pods, others, lab, other) {
  const by = new Map();
  for (const one of others) {
    const key = said(other, one[1]);
    by.set(key, [...(by.get(key) ?? []), one]);
  }
  const then = pods.filter((one) => !by.get(said(lab, one[1]))?.shift());
  return [then, [...by.values()].flat()];
}

// The queue's object, for a scheduler that reported no shares.
function figure(one, field) {
  if (!one) return "not there";
  if (one.state.gpu) return amount("gpu", one.state.gpu[field]);
  const [quota, limit, fair_share, allocated, , requested] = told(one.state, "gpu");
  return { quota, limit, fair_share, allocated, requested }[field];
}

function said(lab, segment) {
  if (segment === NONE) return "not there";
  const node = lab.pods.node[segment];
  return `${lab.stateName(segment)}${node === NONE ? "" : ` on ${lab.nodes.name[node]}`}${lab.pods.milli[segment] ? `, ${ofGpus(lab.pods.milli[segment])}` : ""}`;
}
