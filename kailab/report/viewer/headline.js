// What a moment means, above everything else: a sentence, and the waiting and the evicted work by workload.

import { plural } from "viewer/amounts";
import { button, h, replace } from "viewer/dom";
import { NONE, shortName } from "viewer/lab";

const MOST = 5;

export class Headline {
  // checks: expectations with their moments. goTo(id): shows a section of the page.
  constructor(lab, checks, facts, goTo) {
    Object.assign(this, { lab, checks, facts, goTo });
    this.sentence = h("p", { class: "strong", role: "status" });
    this.evicted = h("div", {});
    this.waiting = h("div", {});
    this.element = h("section", { class: "panel headline", "aria-label": "This moment in words" }, this.sentence, h("div", { class: "beside" }, this.evicted, this.waiting));
  }

  show(moment) {
    const evicted = evictionsByWorkload(this.lab, moment), waiting = waitsByWorkload(this.lab, moment);
    this.sentence.textContent = [this.#missed(moment), happened(this.lab, moment, evicted), stands(this.lab, moment, waiting)].filter(Boolean).join(" ");
    replace(this.evicted, list("Evicted now", "evictions", evicted.map((one) => [one.victim, `${plural(one.pods, "pod")} (${one.action}), for ${one.beneficiary}`]), this.goTo));
    replace(this.waiting, list("Waiting", "waiting", waiting.map((one) => [button(one.workload, () => this.facts.group(one.group, moment, true), { class: "link", title: this.facts.explain ? "Explain" : "" }), `${plural(one.pods, "pod")}: ${one.code}. ${one.message}`]), this.goTo));
  }

  #missed(moment) {
    const missed = this.checks.find((one) => one.moment === moment && !one.held);
    return missed ? `Expected ${missed.expected}; seen: ${missed.seen}.` : "";
  }
}

function happened(lab, moment, evicted) {
  if (evicted.length) {
    const pods = evicted.reduce((sum, one) => sum + one.pods, 0), [first] = evicted;
    const most = evicted.length === 1 ? "" : `, most of them (${first.pods}) from ${first.victim}`;
    return evicted.length === 1
      ? `${capital(first.action)}: ${plural(pods, "pod")} of ${first.victim} evicted for ${first.beneficiary}.`
      : `${plural(pods, "pod")} evicted${most}, for ${first.beneficiary}.`;
  }
  const bound = lab.moments[moment]?.counts.bind ?? 0;
  return bound ? `${plural(bound, "pod")} bound to nodes.` : "";
}

function stands(lab, moment, waiting) {
  const placed = lab.groups.name.reduce((sum, _, group) => sum + lab.groupAt(group, moment)[2], 0);
  const waits = waiting.reduce((sum, one) => sum + one.pods, 0);
  const codes = [...new Set(waiting.map((one) => one.code))];
  return `${plural(placed, "pod")} placed; ${waits ? `${plural(waits, "pod")} of ${plural(waiting.length, "workload")} waiting (${codes.slice(0, 3).join(", ")}${codes.length > 3 ? ", ..." : ""})` : "nothing waits"}.`;
}

// Waiting work: {workload, group (one of it), code, message, pods}, most pods first. Workloads that wait for several reasons are there several times.
export function waitsByWorkload(lab, moment) {
  const found = new Map();
  for (const one of lab.waitsAt(moment)) {
    const workload = named(lab, one.group), key = `${workload}\n${one.code}`;
    const before = found.get(key) ?? { workload, group: one.group, code: one.code, message: one.message, pods: 0 };
    before.pods += lab.groupAt(one.group, moment)[0];
    found.set(key, before);
  }
  return [...found.values()].sort((one, other) => other.pods - one.pods);
}

// Evictions of one moment: {victim, beneficiary, action, pods}, most pods first.
export function evictionsByWorkload(lab, moment) {
  const found = new Map();
  for (const place of lab.evictionsOf[moment] ?? []) {
    const one = lab.evictions[place], decided = lab.decision(one.decision);
    const victim = named(lab, decided.group), beneficiary = one.beneficiary === NONE ? "nobody" : named(lab, one.beneficiary), key = `${victim}\n${beneficiary}\n${decided.action}`;
    const before = found.get(key) ?? { victim, beneficiary, action: decided.action, pods: 0 };
    before.pods += 1;
    found.set(key, before);
  }
  return [...found.values()].sort((one, other) => other.pods - one.pods);
}

function named(lab, group) {
  const workload = lab.groups.workload[group] || shortName(lab.groups.name[group] ?? ""), queue = lab.queues.name[lab.groups.queue[group]];
  return queue ? `${workload} (${queue})` : workload;
}

function list(title, section, rows, goTo) {
  if (!rows.length) return null;
  return [h("h3", {}, button(title, () => goTo(section), { class: "link" })),
    h("ul", {}, rows.slice(0, MOST).map(([name, words]) => h("li", {}, typeof name === "string" ? h("strong", {}, name) : name, " ", words)),
      rows.length > MOST ? h("li", { class: "quiet" }, `and ${rows.length - MOST} more`) : null)];
}

function capital(word) {
  return word.slice(0, 1).toUpperCase() + word.slice(1);
}
