// One lab's data by moment. It only looks up recorded amounts and shares.

import { grow, packed, shared, withPods } from "viewer/grown";
import { ByNode } from "viewer/placed";

export const NONE = -1;

const PLACED = new Set(["starts", "runs", "leaves"]);

// Number of moments whose placements are cached: the shown one, the one beside it, and the previous one.
const KEPT = 3;

export class Lab {
  #segments = new Map();
  #placed = new Map();

  constructor(form, source) {
    this.source = source;
    this.take(form);
  }

  // Replace the data. Indices may change.
  take(form) {
    Object.assign(this, {
      form,
      name: form.name,
      moments: form.moments,
      steps: form.steps,
      nodes: form.nodes,
      queues: form.queues,
      groups: form.groups,
      waits: form.waits,
      evictions: form.decisions.evictions,
      decisions: form.decisions,
      pods: packed(form.pods),
    });
    // Release the parsed columns, which are as large as the compact ones.
    form.pods = null;
    // Most of these repeat many times.
    form.events = shared(form.events);
    for (const name of ["workload", "counts"]) form.groups[name] = shared(form.groups[name]);
    this.decisionsOf = places(this.decisions.moment, this.moments.length);
    this.evictionsOf = places(this.evictions.map((one) => this.decisions.moment[one.decision]), this.moments.length);
    this.evictionOf = new Map(this.evictions.map((one, place) => [one.decision, place]));
    this.#changed();
  }

  // Apply an increment of a running lab.
  goOn(increments) {
    for (const one of increments) this.#takeIn(one);
    if (increments.length) this.#changed();
  }

  #takeIn(one) {
    const { form, decisions, evictions } = this, decided = decisions.moment.length, evicted = evictions.length;
    grow(form, one);
    this.pods = withPods(this.pods, one.pods);
    const count = this.moments.length;
    for (const of of [this.decisionsOf, this.evictionsOf]) {
      of.length = Math.min(of.length, count);
      while (of.length < count) of.push([]);
    }
    for (let place = decided; place < decisions.moment.length; place++) if (decisions.moment[place] >= 0) this.decisionsOf[decisions.moment[place]].push(place);
    for (let place = evicted; place < evictions.length; place++) {
      const { decision } = evictions[place];
      if (decisions.moment[decision] >= 0) this.evictionsOf[decisions.moment[decision]].push(place);
      this.evictionOf.set(decision, place);
    }
  }

  #changed() {
    this.leafQueues = this.#leaves();
    this.eventPlaces = null;
    this.#segments.clear();
    this.#placed.clear();
  }

  // The index in the columns of a pod's state at a moment; NONE before it existed.
  podAt(pod, moment) {
    const { first, moment: moments } = this.pods;
    let low = first[pod], high = first[pod + 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (moments[middle] <= moment) low = middle + 1; else high = middle;
    }
    return low > first[pod] ? low - 1 : NONE;
  }

  // podAt for every pod. The result must not be changed.
  segments(moment) {
    return kept(this.#segments, moment, () => {
      const { first, moment: moments } = this.pods, count = first.length - 1;
      const found = new Int32Array(count).fill(NONE);
      for (let pod = 0; pod < count; pod++) {
        let at = first[pod + 1] - 1;
        while (at >= first[pod] && moments[at] > moment) at--;
        if (at >= first[pod]) found[pod] = at;
      }
      return found;
    });
  }

  stateName(segment) {
    return segment === NONE ? "gone" : this.form.states[this.pods.state[segment]];
  }

  // Pods by node at a moment, without those that are only promised a place.
  placed(moment) {
    return kept(this.#placed, moment, () => {
      const segments = this.segments(moment), of = { pods: this.pods, states: this.form.states }, nodes = this.nodes.name.length;
      const placed = (takes) => new ByNode(segments, nodes, of, takes);
      return { found: placed((state) => PLACED.has(state)), promised: placed((state) => state === "promised") };
    });
  }

  queueOfPod(pod) {
    return this.groups.queue[this.pods.group[pod]];
  }

  // {state, ref, borrowed, since}, or null if the queue does not exist at that moment.
  queueAt(queue, moment) {
    const one = last(this.queues.changes[queue], moment);
    return one && one[1] ? { since: one[0], state: one[1], ref: one[2], borrowed: one[3] } : null;
  }

  nodeAt(node, moment) {
    const one = last(this.nodes.changes[node], moment);
    return one && one[1] !== NONE ? { milli: one[1], unavailable: one[2], ref: one[3] } : null;
  }

  // [waits, promised, placed, leaves]: numbers of its pods.
  groupAt(group, moment) {
    const one = last(this.groups.counts[group], moment);
    return one ? one.slice(1) : [0, 0, 0, 0];
  }

  // The moment since when a group has waited without a break until this wait, for any reason.
  waitsSince(wait) {
    let found = wait.begins;
    for (let at = this.waits.indexOf(wait) - 1; at >= 0; at--) {
      const before = this.waits[at];
      if (before.group === wait.group && before.ends === found) found = before.begins;
    }
    return found;
  }

  waitsAt(moment) {
    return this.waits.filter((one) => one.begins <= moment && (one.ends === NONE || moment < one.ends));
  }

  decision(place) {
    const of = this.decisions;
    return {
      place, moment: of.moment[place], kind: of.kinds[of.kind[place]], action: of.actions[of.action[place]],
      pod: of.pod[place], group: of.group[place], node: of.node[place], ref: of.ref0 + place,
    };
  }

  // All decisions about a pod, or about a PodGroup.
  decisionsAbout(column, place) {
    const found = [];
    this.decisions[column].forEach((one, at) => { if (one === place) found.push(this.decision(at)); });
    return found;
  }

  eventsOf(object) {
    this.eventPlaces ??= groupedPlaces(this.form.events);
    return (this.eventPlaces.get(object) ?? []).map((place) => this.form.events_ref0 + place);
  }

  // The file and position of a raw entry.
  where(ref) {
    const parts = this.form.raw.parts;
    const [file, place, first] = parts[lastAtMost(parts, ref, 2)];
    const at = ref - first;
    return { file, place: place === "line" ? `line ${at + 1}` : `${place}[${at}]` };
  }

  async raw(ref) {
    const { chunks, each, name } = this.form.raw;
    const [chunk, first] = each ? [`${name}.${Math.floor(ref / each)}`, Math.floor(ref / each) * each] : chunks[lastAtMost(chunks, ref, 1)];
    return (await this.source.entries(chunk))[ref - first];
  }

  groupLabel(group) {
    if (group === NONE) return "";
    return shortName(this.groups.name[group]);
  }

  #leaves() {
    const parents = new Set();
    for (const changes of this.queues.changes) {
      for (const [, state] of changes) if (state?.parent) parents.add(state.parent);
    }
    const used = new Set(this.groups.queue);
    return this.queues.name
      .map((name, place) => ({ name, place }))
      .filter(({ name, place }) => !parents.has(name) || used.has(place))
      .sort((one, other) => (one.name < other.name ? -1 : 1))
      .map(({ place }) => place);
  }
}

// Omit the UID that a grouper appends to names of PodGroups.
export function shortName(name) {
  return name.replace(/-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/, "");
}

function kept(of, moment, make) {
  let found = of.get(moment);
  if (found) of.delete(moment); else found = make();
  // The latest entry goes last.
  of.set(moment, found);
  if (of.size > KEPT) of.delete(of.keys().next().value);
  return found;
}

function places(moments, count) {
  const found = Array.from({ length: count }, () => []);
  moments.forEach((moment, place) => { if (moment >= 0) found[moment].push(place); });
  return found;
}

function groupedPlaces(names) {
  const found = new Map();
  names.forEach((name, place) => {
    if (!found.has(name)) found.set(name, []);
    found.get(name).push(place);
  });
  return found;
}

function last(changes, moment) {
  let found = null;
  for (const one of changes) {
    if (one[0] > moment) break;
    found = one;
  }
  return found;
}

function lastAtMost(list, value, key) {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle][key] <= value) low = middle + 1; else high = middle;
  }
  return low - 1;
}
