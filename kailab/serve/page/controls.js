// Pause, step, advance, undo. What a lab does not allow is there with its reason.

import { button, h } from "viewer/dom";

const TIMES = [[1, "1 s"], [10, "10 s"], [60, "1 min"], [600, "10 min"], [3600, "1 h"], [86400, "1 day"]];

export class Controls {
  // say(text, bad): what became of it. seen: the revision of the lab that is shown; what is asked for is done to that one, or not at all.
  constructor(server, say) {
    Object.assign(this, { server, say, paused: false, seen: 0 });
    this.pause = button("Pause", () => this.#do(this.paused ? "go-on" : "pause"), { id: "pause" });
    this.step = button("Step", () => this.#do("step"), { id: "step", title: "The scheduler's next cycle" });
    this.time = h("select", { id: "time" }, TIMES.map(([value, name]) => h("option", { value }, name)));
    this.time.value = "60";
    this.advance = button("Advance", () => this.#do("advance", { seconds: Number(this.time.value) }), { id: "advance" });
    this.undo = button("Undo", () => this.#do("undo"), { id: "undo" });
    this.mode = h("span", { class: "verdict small", id: "mode" });
    this.why = h("p", { class: "quiet", id: "why-not" });
    this.element = h("div", { role: "group", "aria-label": "Time and scheduler" },
      h("div", { class: "tools" }, this.mode, this.pause, this.step, h("span", { class: "tools" }, this.advance, h("label", { for: "time" }, "by "), this.time), this.undo),
      this.why);
  }

  renew(controls) {
    this.paused = controls.paused;
    this.pause.textContent = this.paused ? "Go on" : "Pause";
    this.pause.title = this.paused ? "The scheduler acts until nothing changes" : "Changes wait until the scheduler is stepped or goes on";
    this.mode.textContent = this.paused ? "scheduler paused" : "scheduler acts on each change";
    this.mode.classList.toggle("bad", this.paused);
    this.undo.textContent = controls.undo.what ? `Undo: ${short(controls.undo.what)}` : "Undo";
    this.undo.title = controls.undo.what || controls.undo.why;
    const reasons = new Map();
    for (const name of ["pause", "step", "advance", "undo"]) {
      const { why } = controls[name];
      // Not the attribute "disabled": who comes here by keyboard is to hear why not.
      this[name].setAttribute("aria-disabled", why ? "true" : "false");
      if (why && name !== "undo") reasons.set(why, [...(reasons.get(why) ?? []), name]);
      this[name].dataset.why = why;
    }
    this.why.textContent = [...reasons].map(([why, names]) => `No ${names.join(", ")}: ${why}.`).join(" ");
    this.why.hidden = !reasons.size;
  }

  async #do(what, more = {}) {
    const { why } = this[what === "go-on" ? "pause" : what].dataset;
    if (why) return this.say(`Not possible: ${why}.`, true);
    this.element.setAttribute("aria-busy", "true");
    this.say("working ...");
    try {
      this.say((await this.server.ask("/do", { do: what, seen: this.seen, ...more })).said);
    } catch (error) {
      this.say(error.message, true);
    } finally {
      this.element.removeAttribute("aria-busy");
    }
  }
}

function short(text) {
  return text.length > 40 ? `${text.slice(0, 39)}…` : text;
}
