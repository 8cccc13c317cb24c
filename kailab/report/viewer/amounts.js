// Format amounts as words.

export const UNLIMITED = -1;

export function gpus(milli) {
  return trimmed(milli / 1000);
}

// An amount of a resource in the engine's units: milli-GPU, millicores, bytes.
export function amount(resource, value) {
  if (value === undefined || value === null) return "not known";
  if (value === UNLIMITED) return "unlimited";
  if (resource === "memory" || resource === "Memory") return trimmed(value / 2 ** 30) + " GiB";
  return trimmed(value / 1000);
}

export function ofGpus(milli) {
  return milli === 1000 ? "1 GPU" : `${gpus(milli)} GPUs`;
}

export function seconds(t) {
  return `${trimmed(t)} s`;
}

export function plural(count, one, many = `${one}s`) {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}

function trimmed(value) {
  return String(Math.round(value * 1000) / 1000);
}
