// Pods by node at one moment, as numbers, because a fleet has tens of thousands. Objects are created on request.

export class ByNode {
  #first;
  #of;

  // segments: of each pod, or NONE (-1); of: { pods: the lab's columns, states: names }; takes(state): whether a state counts.
  constructor(segments, nodes, of, takes) {
    const { pods: { node, state }, states } = of, counts = states.map(takes), found = [], first = new Int32Array(nodes + 1);
    for (let pod = 0; pod < segments.length; pod++) {
      const segment = segments[pod];
      if (segment < 0 || node[segment] < 0 || !counts[state[segment]]) continue;
      found.push(pod);
      first[node[segment] + 1]++;
    }
    for (let at = 0; at < nodes; at++) first[at + 1] += first[at];
    const next = first.slice(), pods = new Int32Array(found.length), there = new Set();
    for (const pod of found) {
      pods[next[node[segments[pod]]]++] = pod;
      there.add(states[state[segments[pod]]]);
    }
    Object.assign(this, { pods, there });
    this.#first = first;
    this.#of = { segments, state, states };
  }

  // [{pod, segment, state}] of a node, or undefined.
  get(node) {
    const from = this.#first[node], to = this.#first[node + 1], { segments, state, states } = this.#of;
    if (!(to > from)) return undefined;
    return Array.from(this.pods.subarray(from, to), (pod) => ({ pod, segment: segments[pod], state: states[state[segments[pod]]] }));
  }
}
