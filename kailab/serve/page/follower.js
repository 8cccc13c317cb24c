// A worker that all tabs of a browser share: it follows the news of the lab over one connection and passes them on.

const ports = new Set();
let following = false, latest = null;

onconnect = ({ ports: [port] }) => {
  ports.add(port);
  port.onmessage = ({ data }) => {
    if (latest) port.postMessage(latest);
    if (!following) {
      following = true;
      follow(data.token);
    }
  };
};

function pass(told) {
  // What a tab that opens later is told first.
  latest = told;
  for (const port of ports) port.postMessage(told);
}

async function follow(token) {
  for (;;) {
    try {
      const answer = await fetch("/events", { headers: { "X-Kailab-Token": token } });
      if (answer.status === 401 || answer.status === 403) return pass({ what: "refused", why: await answer.text() });
      if (answer.ok && (await read(answer.body))) return pass({ what: "ended" });
    } catch {
      // It is tried again.
    }
    pass({ what: "lost" });
    await new Promise((done) => setTimeout(done, 1000));
  }
}

// Server-sent events until the stream ends: whether the server said that it does.
async function read(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (let text = ""; ;) {
    const { value, done } = await reader.read();
    if (done) return false;
    const events = (text + value).split("\n\n");
    text = events.pop();
    for (const event of events) {
      const [, name, data] = /^event: (\w+)\ndata: ([^]*)$/.exec(event) ?? [];
      if (name === "lab") pass({ what: "news", news: JSON.parse(data) });
      if (name === "end") return true;
    }
  }
}
