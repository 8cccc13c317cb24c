// What would become of the lab: who runs, waits and is evicted, before and after.

import { plural } from "viewer/amounts";
import { h, table } from "viewer/dom";

export function foretold(found) {
  return h("div", { id: "foretold" },
    found.notes.length ? h("ul", { class: "notes" }, found.notes.map((note) => h("li", {}, note))) : null,
    h("p", { id: "foretold-summary" }, h("strong", {}, `${found.summary}.`)),
    h("p", { class: "quiet" }, `After ${found.after} of lab time, tried on a copy (${found.scheduler} decides), beside the lab left alone.`),
    found.workloads.length ? table("Workloads that would stand otherwise", ["Workload", "Queue", "Unchanged", "With the change", "Evicted"], found.workloads.map((one) => [
      named(one), one.queue || "none", standing(one.before), one.after ? standing(one.after) + moved(one) : "gone", evicted(one),
    ])) : h("p", {}, "No workload would stand otherwise."),
    found.queues.length ? table("Queues that would stand otherwise", ["Queue", "GPUs", "Fair share", "Quota", "Limit", "Asked for"], found.queues.map((one) => [
      one.name, ...["allocated", "fairShare", "quota", "limit", "requested"].map((field) => fromTo(one, field)),
    ])) : h("p", {}, "No queue would stand otherwise."));
}

function named(one) {
  const kind = one.kind.split(".")[0];
  return one.namespace === "default" ? `${kind}/${one.name}` : `${kind}/${one.name} in ${one.namespace}`;
}

function standing(one) {
  if (!one) return "not there";
  return [one.running && `${one.running} run`, one.waiting && `${one.waiting} wait`, one.done && `${one.done} done`, one.refused && `${one.refused} refused by the API server`].filter(Boolean).join(", ") || "no pods";
}

function moved(one) {
  return one.moved ? `; ${one.moved} elsewhere` : "";
}

function evicted(one) {
  if (!one.evicted.length) return "";
  const counts = new Map();
  for (const { action, beneficiary } of one.evicted) {
    const told = `${beneficiary ? `for ${named(beneficiary)} ` : ""}(${action})`;
    counts.set(told, (counts.get(told) ?? 0) + 1);
  }
  return h("span", { class: "kind-evict" }, [...counts].map(([told, count]) => `${plural(count, "pod")} ${told}`).join("; "));
}

function fromTo(one, field) {
  const [before, after] = [one.before, one.after].map((side) => (side ? amount(side[field]) : "not there"));
  return before === after ? before : h("strong", {}, `${before} → ${after}`);
}

function amount(value) {
  if (value === null || value === undefined) return "not known";
  return value === -1 ? "unlimited" : String(Math.round(value * 1000) / 1000);
}
