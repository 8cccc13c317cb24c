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
    this.shown = null;
  }

  // told(news), lost(), ended(): of the connection and what it brings.
  follow({ told, lost, ended }) {
    const events = new EventSource("/events");
    events.addEventListener("lab", (event) => told(JSON.parse(event.data)));
    events.addEventListener("end", () => { events.close(); ended(); });
    // It comes back by itself.
    events.addEventListener("error", () => lost());
  }

  // What is to be taken in to have the lab as it is by now: its whole form, where what is here can't go on, and what is new since.
  // Null where the news are no longer the latest.
  async view({ version, view }) {
    const goesOn = this.shown?.showing === view.showing && this.shown.number >= view.first;
    const from = goesOn ? this.shown.number : view.first;
    const [whole, since] = await Promise.all([goesOn ? null : got(`/data/${version}/lab`), from === view.number ? null : got(`/data/${version}/since/${view.showing}/${from}`)]);
    if ((!whole && !goesOn) || (!since && from !== view.number)) return null;
    const found = { whole: whole && (await whole.json()), since: since ? await since.json() : [] };
    this.version = version;
    this.shown = view;
    this.#texts.clear();
    return found;
  }

  // What can be changed. Null where the lab has changed since.
  async desk() {
    return (await got(`/data/${this.version}/desk`))?.json() ?? null;
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
