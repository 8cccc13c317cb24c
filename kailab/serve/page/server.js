// The server: a source of data as the viewer asks it (entries), news that are pushed, and what can be asked to be done.

const SEPARATOR = "\u001e";

// What the server refused, in the words of commands: one line for each fault.
export class Refused extends Error {
  constructor(errors) {
    super(errors.join("\n"));
    this.errors = errors;
  }
}

export class Server {
  #texts = new Map();

  constructor() {
    this.version = 0;
  }

  // told(news), lost(), ended(): of the connection and what it brings.
  follow({ told, lost, ended }) {
    const events = new EventSource("/events");
    events.addEventListener("lab", (event) => told(JSON.parse(event.data)));
    events.addEventListener("end", () => { events.close(); ended(); });
    // It comes back by itself.
    events.addEventListener("error", () => lost());
  }

  // A view of the lab: its form and what of it can be changed. Null where it is no longer the latest.
  async view(version) {
    const [lab, desk] = await Promise.all([got(`/data/${version}/lab`), got(`/data/${version}/desk`)]);
    if (!lab || !desk) return null;
    this.version = version;
    this.#texts.clear();
    return { lab: await lab.json(), desk: await desk.json() };
  }

  // The raw entries of a chunk.
  async entries(chunk) {
    if (!this.#texts.has(chunk)) {
      const found = await got(`/data/${this.version}/raw/${chunk}`);
      if (!found) return [];
      this.#texts.set(chunk, (await found.text()).split(SEPARATOR));
    }
    return this.#texts.get(chunk);
  }

  async examples() {
    return (await got("/examples")).json();
  }

  // Raises Refused.
  async ask(path, what) {
    let answer;
    try {
      answer = await fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(what) });
    } catch {
      throw new Refused(["the server does not answer"]);
    }
    if (answer.ok) return answer.json();
    if (answer.headers.get("Content-Type")?.startsWith("application/json")) throw new Refused((await answer.json()).errors);
    throw new Refused([(await answer.text()).trim() || `the server answered ${answer.status}`]);
  }
}

async function got(path) {
  const answer = await fetch(path);
  if (answer.status === 410) return null;
  if (!answer.ok) throw new Error((await answer.text()).trim() || `the server answered ${answer.status}`);
  return answer;
}
