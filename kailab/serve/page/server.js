// The connection to the server: it reads data for the viewer, follows updates of the lab, and sends actions.

const SEPARATOR = "\u001e";
const HEADER = "X-Kailab-Token";
const KEY = "kailab-token";
const POLL_MILLISECONDS = 1000;

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
    this.token = token();
  }

  // Callbacks: told for each update; lost, ended and refused for the connection. A browser opens six connections to a host at most, so all tabs
  // share one stream of updates; where a browser can't share it, each tab asks from time to time.
  follow({ told, lost, ended, refused }) {
    const heard = ({ news, what, why }) => {
      if (what === "news") told(news);
      else if (what === "lost") lost();
      else if (what === "ended") ended();
      else refused(why);
    };
    if (!("SharedWorker" in window)) return void this.#poll(heard);
    // Of this run of the server: another one has another token, and is followed by another worker.
    const worker = new SharedWorker("/files/page-follower.js", { name: this.token });
    let heardOf = false;
    worker.port.onmessage = ({ data }) => {
      heardOf = true;
      heard(data);
    };
    worker.onerror = () => {
      if (!heardOf) this.#poll(heard);
    };
    worker.port.postMessage({ token: this.token });
  }

  async #poll(heard) {
    for (let version = "none"; ; await new Promise((done) => setTimeout(done, POLL_MILLISECONDS))) {
      try {
        const answer = await fetch(`/news/${version}`, { headers: this.#headers() });
        if (answer.status === 401 || answer.status === 403) return heard({ what: "refused", why: await answer.text() });
        if (answer.status !== 200) continue;
        const news = await answer.json();
        version = news.version;
        heard({ what: "news", news });
      } catch {
        heard({ what: "lost" });
      }
    }
  }

  #headers(more = {}) {
    return { [HEADER]: this.token, ...more };
  }

  async #got(path) {
    const answer = await fetch(path, { headers: this.#headers() });
    if (answer.status === 410) return null;
    if (!answer.ok) throw new Error((await answer.text()).trim() || `the server answered ${answer.status}`);
    return answer;
  }

  // Fetch the increments since the view that is shown, or the whole lab if they do not continue it. Null if a later update has come meanwhile.
  async view({ version, view }) {
    const goesOn = this.shown?.showing === view.showing && this.shown.number >= view.first;
    const from = goesOn ? this.shown.number : view.first;
    const [whole, since] = await Promise.all([goesOn ? null : this.#got(`/data/${version}/lab`), from === view.number ? null : this.#got(`/data/${version}/since/${view.showing}/${from}`)]);
    if ((!whole && !goesOn) || (!since && from !== view.number)) return null;
    const found = { whole: whole && (await whole.json()), since: since ? await since.json() : [] };
    this.version = version;
    this.shown = view;
    this.#texts.clear();
    return found;
  }

  // What can be changed. Null where the lab has changed since.
  async editable() {
    return (await this.#got(`/data/${this.version}/editable`))?.json() ?? null;
  }

  // The raw entries of a chunk.
  async entries(chunk) {
    if (!this.#texts.has(chunk)) {
      const found = await this.#got(`/data/${this.version}/raw/${chunk}`);
      if (!found) return [];
      this.#texts.set(chunk, (await found.text()).split(SEPARATOR));
    }
    return this.#texts.get(chunk);
  }

  async examples() {
    return (await this.#got("/examples")).json();
  }

  // Raises Refused.
  async ask(path, what) {
    let answer;
    try {
      answer = await fetch(path, { method: "POST", headers: this.#headers({ "Content-Type": "application/json" }), body: JSON.stringify(what) });
    } catch {
      throw new Refused(["the server does not answer"]);
    }
    if (answer.ok) return answer.json();
    if (answer.headers.get("Content-Type")?.startsWith("application/json")) throw new Refused((await answer.json()).errors);
    throw new Refused([(await answer.text()).trim() || `the server answered ${answer.status}`]);
  }
}

// From the address that was printed; the tabs of this server, and of no other port, find it again where that one left it.
function token() {
  const found = new URLSearchParams(location.search).get("token");
  try {
    if (found) localStorage.setItem(KEY, found);
    return found ?? localStorage.getItem(KEY) ?? "";
  } catch {
    return found ?? "";
  }
}
