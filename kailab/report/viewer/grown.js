// Apply increments to a lab's form.

const SEGMENTS = { moment: Int32Array, state: Uint8Array, node: Int32Array, milli: Int32Array, shared: Int32Array, ref: Int32Array };
const OF_POD = ["name", "group", "before", "after"];
const WHOLE = ["racks", "models", "by"];

// Columns of pods in the most compact form.
export function packed(pods) {
  const found = { ...pods, first: Int32Array.from(pods.first) };
  for (const [name, Kind] of Object.entries(SEGMENTS)) found[name] = Kind.from(pods[name]);
  return found;
}

// The same column with equal entries shared, which must not be changed.
export function shared(column) {
  const known = new Map();
  return column.map((one) => {
    const key = typeof one === "object" ? JSON.stringify(one) : one;
    if (!known.has(key)) known.set(key, one);
    return known.get(key);
  });
}

// Apply an increment to a form, except for its pods.
export function grow(form, one) {
  for (const part of ["moments", "waits"]) put(form[part], one[part], one[part].values);
  append(form.steps, one.steps);
  for (const part of ["nodes", "queues", "groups"]) {
    for (const [name, values] of Object.entries(one[part].values)) {
      if (WHOLE.includes(name)) form[part][name] = values; else put(form[part][name], one[part], values);
    }
  }
  const { kinds, actions, ref0, ...columns } = one.decisions;
  Object.assign(form.decisions, { kinds, actions, ref0 });
  for (const [name, values] of Object.entries(columns)) append(form.decisions[name], values);
  if (one.events_gone) form.events.splice(0, one.events_gone);
  append(form.events, one.events);
  append(form.raw.parts, one.parts);
}

function put(column, { count, places }, values) {
  column.length = Math.min(column.length, count);
  // Append one after the other: an array with holes stays slow.
  places.forEach((place, at) => { if (place < column.length) column[place] = values[at]; else column.push(values[at]); });
}

function append(list, more) {
  for (const one of more) list.push(one);
}

// Columns of pods with some pods replaced; unchanged runs are copied as a whole.
export function withPods(pods, { count, places, values }) {
  const before = pods.first.length - 1, first = new Int32Array(count + 1), from = Int32Array.from(values.first);
  const changed = new Map(places.map((place, at) => [place, at]));
  for (let pod = 0, end = 0; pod < count; pod++) {
    const at = changed.get(pod);
    end += at === undefined ? pods.first[pod + 1] - pods.first[pod] : from[at + 1] - from[at];
    first[pod + 1] = end;
  }
  const found = { ...pods, first, sharing: values.sharing };
  for (const [name, Kind] of Object.entries(SEGMENTS)) {
    const column = new Kind(first[count]);
    let pod = 0;
    places.forEach((place, at) => {
      if (place > pod) column.set(pods[name].subarray(pods.first[pod], pods.first[Math.min(place, before)]), first[pod]);
      column.set(values[name].slice(from[at], from[at + 1]), first[place]);
      pod = place + 1;
    });
    if (pod < count) column.set(pods[name].subarray(pods.first[pod], pods.first[Math.min(count, before)]), first[pod]);
    found[name] = column;
  }
  for (const name of OF_POD) put(found[name], { count, places }, values[name]);
  return found;
}
