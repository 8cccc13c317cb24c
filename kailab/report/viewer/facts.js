// Details of a pod, PodGroup, node, queue or decision: its facts at a moment and its raw entries.

import { amount, gpus, ofGpus, plural, seconds, UNLIMITED } from "viewer/amounts";
import { button, h, replace } from "viewer/dom";
import { NONE } from "viewer/lab";

const present = (refs) => refs.filter((ref) => ref !== undefined && ref !== null && ref !== NONE);

export class Facts {
  // explain(podgroup), change(form, sought): see LabPage.
  constructor(lab, detail, { explain = null, change = null } = {}) {
    Object.assign(this, { lab, detail, explain, change });
  }

  // A button to change the workload of a PodGroup; null if the PodGroup has no pods now, whatever moment is shown.
  changeGroup(group) {
    const { lab } = this, found = /^(\S+) ([^/]*)\/(.+)$/.exec(lab.groups.workload[group]);
    if (!found || !lab.groupAt(group, lab.moments.length - 1).some(Boolean)) return null;
    const [, kind, namespace, name] = found, workload = `${kind.split(".")[0]}/${name}`;
    return this.#changing("workloads", `${workload} ${namespace}`, workload);
  }

  // A button to change a node; null if the node is gone now.
  changeNode(node) {
    const { lab } = this, name = lab.nodes.name[node];
    return lab.nodeAt(node, lab.moments.length - 1) ? this.#changing("nodes", name, name) : null;
  }

  #changing(form, sought, name) {
    const open = () => {
      // Details are closed first: the focus returns to what opened them, and from the form to the same place.
      this.detail.dialog.close();
      this.change(form, sought);
    };
    return this.change && button("change", open, { class: "link", "aria-label": `Change ${name}`, "aria-haspopup": "dialog" });
  }

  pod(pod, moment) {
    const { lab } = this, { pods } = lab;
    const segment = lab.podAt(pod, moment);
    const group = pods.group[pod];
    const facts = [["state", lab.stateName(segment)]];
    if (segment !== NONE && pods.node[segment] !== NONE) facts.push(["node", lab.nodes.name[pods.node[segment]]]);
    if (segment !== NONE) facts.push(["GPUs", gpus(pods.milli[segment])]);
    facts.push(["PodGroup", lab.groups.name[group]], ["queue", lab.queues.name[lab.groups.queue[group]] ?? "none"]);
    if (lab.groups.workload[group]) facts.push(["workload", lab.groups.workload[group]]);
    const records = [];
    for (let at = pods.first[pod]; at < pods.first[pod + 1]; at++) records.push(pods.ref[at]);
    this.#open(`Pod ${pods.name[pod]}`, facts, [
      { title: "Record at this moment", refs: segment === NONE ? [] : [pods.ref[segment]] },
      { title: "Decisions", refs: lab.decisionsAbout("pod", pod).map((one) => one.ref) },
      { title: "Events", refs: lab.eventsOf(`Pod ${pods.name[pod]}`) },
      { title: "Object at the end", refs: [pods.after[pod]] },
      { title: "Object at the beginning", refs: [pods.before[pod]] },
      { title: "All records", refs: records },
    ]);
  }

  // explained: with the answer of the running lab at once, not only on demand.
  group(group, moment, explained = false) {
    const { lab } = this, { groups } = lab;
    const [waits, promised, placed, leaves] = lab.groupAt(group, moment);
    const facts = [
      ["queue", lab.queues.name[groups.queue[group]] ?? "none"],
      ["pods", `${placed} placed, ${promised} promised a place, ${waits} waiting, ${leaves} leaving`],
    ];
    if (groups.members[group] > 0) facts.push(["minimum", plural(groups.members[group], "pod")]);
    if (groups.workload[group]) facts.push(["workload", groups.workload[group]]);
    const waiting = lab.waits.filter((one) => one.group === group);
    const now = waiting.find((one) => one.begins <= moment && (one.ends === NONE || moment < one.ends));
    if (now) facts.push(["waits for", `${now.code}: ${now.message}`]);
    const pods = [];
    lab.pods.group.forEach((of, pod) => {
      const segment = of === group ? lab.podAt(pod, moment) : NONE;
      if (segment !== NONE) pods.push(lab.pods.ref[segment]);
    });
    this.#open(`PodGroup ${groups.name[group]}`, facts, [
      { title: "Why it waits", refs: now ? [now.ref] : [] },
      { title: "Record", refs: [groups.ref[group]] },
      { title: "Decisions", refs: lab.decisionsAbout("group", group).map((one) => one.ref) },
      { title: "Evicted for it", refs: lab.evictions.filter((one) => one.beneficiary === group).map((one) => lab.decisions.ref0 + one.decision) },
      { title: "Its pods' records", refs: pods },
      { title: "Events", refs: lab.eventsOf(`PodGroup ${groups.name[group]}`) },
    ], [this.explain && explanation(() => this.explain(groups.name[group]), explained), this.changeGroup(group)]);
  }

  node(node, moment, there) {
    const { lab } = this;
    const now = lab.nodeAt(node, moment);
    const name = lab.nodes.name[node];
    const facts = [
      ["rack", lab.nodes.racks[lab.nodes.rack[node]]],
      ["model", lab.nodes.models[lab.nodes.model[node]] || "not named"],
      ["GPUs", now ? gpus(now.milli) : "the node is gone"],
    ];
    if (now?.unavailable) facts.push(["takes nothing new", now.unavailable]);
    for (const { pod, segment, state } of there) {
      facts.push([`pod ${lab.pods.name[pod]}`, `${ofGpus(lab.pods.milli[segment])}, ${lab.queues.name[lab.queueOfPod(pod)] ?? "no queue"}, ${state}`]);
    }
    this.#open(`Node ${name}`, facts, [
      { title: "Record", refs: now ? [now.ref] : [] },
      { title: "Its pods' records", refs: there.map(({ segment }) => lab.pods.ref[segment]) },
      { title: "Decisions", refs: lab.decisionsAbout("node", node).map((one) => one.ref) },
      { title: "Events", refs: lab.eventsOf(`Node ${name}`) },
    ], this.changeNode(node));
  }

  queue(queue, moment) {
    const { lab } = this;
    const now = lab.queueAt(queue, moment);
    const facts = [];
    for (const resource of ["gpu", "cpu", "memory"]) {
      const share = now?.state[resource];
      if (!share) continue;
      facts.push([resource === "gpu" ? "GPUs" : resource,
        ["quota", "limit", "fair_share", "allocated", "requested", "non_preemptible"]
          .map((name) => `${name.replace("_", " ")} ${amount(resource, share[name])}`).join(", ")]);
    }
    if (now && now.since !== moment) facts.push(["unchanged since", this.momentName(now.since)]);
    const refs = lab.queues.changes[queue].filter((one) => one[0] <= moment).map((one) => one[2]);
    this.#open(`Queue ${lab.queues.name[queue]}`, facts, [
      { title: "State at this moment", refs: now ? [now.ref] : [] },
      { title: "States before", refs: refs.slice(0, -1).reverse() },
    ]);
  }

  decision(one) {
    const { lab } = this;
    const facts = [["when", this.momentName(one.moment)], ["action", one.action]];
    if (one.node !== NONE) facts.push(["node", lab.nodes.name[one.node]]);
    const about = one.pod !== NONE ? lab.pods.name[one.pod] : lab.groupLabel(one.group);
    this.#open(`${one.kind} ${about}`, facts, [{ title: "The decision", refs: [one.ref] }]);
  }

  wait(one) {
    const { lab } = this;
    const facts = [["queue", lab.queues.name[lab.groups.queue[one.group]] ?? "none"], ["reason", one.code], ["in words", one.message]];
    if (one.queue_context) facts.push(["stopped by queue", one.queue_context]);
    if (one.place) facts.push(["place in the order", one.because ? `${one.place}, behind by ${one.because}` : String(one.place)]);
    for (const [action, outcome] of one.tried) facts.push([`${action} was tried`, outcome]);
    for (const [pod, nodes, reasons] of one.fits) {
      facts.push([`pod ${pod}`, reasons.map(([reason, count]) => `${count} of ${plural(nodes, "node")}: ${reason}`).join("; ")]);
    }
    for (const [name, value] of Object.entries(one.numbers)) {
      facts.push([name.replaceAll("_", " "), value === UNLIMITED ? "unlimited" : typeof value === "object" ? JSON.stringify(value) : String(value)]);
    }
    facts.push(["waits since", this.momentName(this.lab.waitsSince(one))], ["this reason since", this.momentName(one.begins)]);
    this.#open(`${lab.groups.name[one.group]} waits`, facts, [
      { title: "The reason", refs: [one.ref] },
      { title: "All decisions about it", refs: lab.decisionsAbout("group", one.group).map((each) => each.ref) },
    ]);
  }

  refs(title, facts, refs) {
    this.#open(title, facts, [{ title: "Raw", refs }]);
  }

  momentName(place) {
    return momentName(this.lab, place);
  }

  #open(title, facts, groups, lead = null) {
    this.detail.open(this.lab, title, facts, groups.map((group) => ({ ...group, refs: present(group.refs) })), lead);
  }
}

// A button, and below it the answer as it was given. at_once: asks without the button.
function explanation(ask, at_once) {
  const answer = h("div", { class: "answer", role: "status" });
  const show = async () => {
    asking.setAttribute("aria-disabled", "true");
    replace(answer, h("p", { class: "quiet" }, "Asking the lab why, and trying on a copy what would help ..."));
    try {
      replace(answer, (await ask()).map((line) => h("p", {}, line)));
    } catch (error) {
      replace(answer, h("p", { class: "warning" }, error.message));
    } finally {
      asking.removeAttribute("aria-disabled");
    }
  };
  const asking = button("Explain", () => asking.hasAttribute("aria-disabled") || show(), { id: "explain", title: "Why it is as it is now, and what would help" });
  if (at_once) show();
  return h("section", {}, asking, answer);
}

export function momentName(lab, place) {
  const one = lab.moments[place];
  if (!one) return "at no moment";
  const what = one.kind === "cycle" ? `cycle ${one.number}` : one.kind === "now" ? "now" : `after step ${one.number}`;
  return `${what}, ${seconds(one.t)}`;
}
