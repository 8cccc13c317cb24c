// Queues as a tree, with quota, limit, fair share, holdings and requests.

import { amount } from "viewer/amounts";
import { isDark } from "viewer/colours";
import { button, h } from "viewer/dom";
import { momentName } from "viewer/facts";
import { Rows } from "viewer/rows";

const RESOURCES = { gpu: "GPUs", cpu: "CPUs", memory: "memory" };
const ORDER = Object.keys(RESOURCES);

export class Queues {
  constructor(lab, colours, facts) {
    Object.assign(this, { lab, colours, facts, resource: "gpu" });
    this.choice = h("select", { id: "resource", onchange: () => { this.resource = this.choice.value; this.show(this.moment); } },
      Object.entries(RESOURCES).map(([value, name]) => h("option", { value }, name)));
    const number = (least) => `minmax(${least}rem, .5fr)`;
    this.rows = new Rows({ label: "Queues", columns: [
      { title: "Queue", width: "minmax(7rem, 1.6fr)" }, { title: "Quota", width: number(4.3) }, { title: "Limit", width: number(4.3) },
      { title: "Fair share", width: number(4.4) }, { title: "Allocated", width: number(4.4) }, { title: "Borrowed", width: number(4.4) },
      { title: "Requested", width: number(4.6) }, { title: "Held", width: "minmax(2.4rem, 1fr)" },
    ], most: 520, file: "cycles.jsonl, queues" });
    this.note = h("p", { class: "quiet" });
    this.element = h("section", { class: "panel", id: "queues", "aria-labelledby": "queues-title" },
      h("div", { class: "panel-head" }, h("h3", { id: "queues-title" }, "Queues"),
        h("span", { class: "tools" }, h("label", { for: "resource" }, "in "), this.choice)),
      this.note, this.rows.element);
  }

  show(moment) {
    this.moment = moment;
    const there = this.#tree(moment);
    const fair = there.some((one) => one.now.state.gpu);
    const at = this.lab.moments[moment];
    const found = !fair ? "as the objects say it: this scheduler told no shares"
      : at?.kind === "now" ? "as they stand now" : at?.kind === "state" ? "as the last cycle found them" : "as the cycle found them";
    this.note.textContent = there.length ? `In ${RESOURCES[this.resource]}, ${found}.` : "";
    const most = Math.max(1, ...there.map((one) => this.#scale(one)));
    this.rows.show(there.length, (place) => this.#row(there[place], most), "No queues.");
  }

  #tree(moment) {
    const children = new Map();
    this.lab.queues.name.forEach((name, queue) => {
      const now = this.lab.queueAt(queue, moment);
      if (!now) return;
      const parent = now.state.parent ?? "";
      if (!children.has(parent)) children.set(parent, []);
      children.get(parent).push({ name, queue, now });
    });
    const found = [], seen = new Set();
    const walk = (parent, depth) => {
      for (const one of (children.get(parent) ?? []).sort((a, b) => (a.name < b.name ? -1 : 1))) {
        if (seen.has(one.queue)) continue;
        seen.add(one.queue);
        found.push({ ...one, depth });
        walk(one.name, depth + 1);
      }
    };
    walk("", 0);
    // Show a queue whose parent does not exist, too.
    for (const parent of children.keys()) if (parent && !found.some((one) => one.name === parent)) walk(parent, 0);
    return found;
  }

  #scale({ now }) {
    const share = now.state[this.resource];
    return share ? Math.max(share.allocated, share.fair_share, share.quota, 0) : 0;
  }

  #row({ name, queue, now, depth }, most) {
    const share = now.state[this.resource];
    const open = () => this.facts.queue(queue, this.moment);
    const label = h("span", { class: "queue-name", style: { paddingLeft: `${depth * 1.1}rem` } },
      this.colours.places.has(queue)
        ? h("span", { class: `chip pattern-${this.colours.pattern(queue)}`, style: { background: this.colours.fill(queue, isDark()) } }, this.colours.letter(queue)) : null,
      button(name, open, { class: "link", title: `Priority ${now.state.priority ?? "not known"}; since ${momentName(this.lab, now.since)}` }));
    if (!share) return [label, ...told(now.state, this.resource), "", ""];
    const value = (field) => button(amount(this.resource, share[field]), open, { class: "number", "aria-label": `${name}: ${field.replace("_", " ")} ${amount(this.resource, share[field])}` });
    const borrowed = now.borrowed[ORDER.indexOf(this.resource)];
    return [label, value("quota"), value("limit"), value("fair_share"), value("allocated"),
      button(amount(this.resource, borrowed), open, { class: borrowed ? "number strong" : "number", "aria-label": `${name}: borrowed ${amount(this.resource, borrowed)}` }),
      value("requested"), this.#bar(share, most, queue)];
  }

  #bar(share, most, queue) {
    const part = (value) => `${Math.min(100, (100 * Math.max(0, value)) / most)}%`;
    return h("span", { class: "bar", "aria-hidden": "true" },
      h("span", { class: "held", style: { width: part(share.allocated), background: this.colours.places.has(queue) ? this.colours.fill(queue, isDark()) : "" } }),
      h("span", { class: "due", style: { left: part(share.fair_share) } }),
      share.quota >= 0 ? h("span", { class: "quota", style: { left: part(share.quota) } }) : null);
  }
}

// Quantities as the object has them. Fields that the object lacks are omitted.
export function told(state, resource) {
  const spec = state.resources?.[resource] ?? {};
  const key = resource === "gpu" ? "nvidia.com/gpu" : resource;
  const text = (value) => (value === undefined || value === null ? "not told" : value === -1 ? "unlimited" : String(value));
  const written = (part) => (state.status?.[part] ? text(state.status[part][key] ?? 0) : "not told");
  return [text(spec.quota), text(spec.limit), "not told", written("allocated"), "not told", written("requested")];
}
