// The time line: a slider, buttons, and a picture of the number of decisions.

import { plural, seconds } from "viewer/amounts";
import { isDark } from "viewer/colours";
import { button, h } from "viewer/dom";
import { WORDS } from "viewer/decided";
import { momentName } from "viewer/facts";

export const KINDS = ["bind", "pipeline", "evict", "failure"];
export const BAR_LETTERS = { bind: "b", pipeline: "p", evict: "e", failure: "f" };
const FILLS = { bind: ["#1f7a4d", "#58c08c"], pipeline: ["#8a6d00", "#d9b640"], evict: ["#b3261e", "#f2857d"], failure: ["#6b3fa0", "#b794e6"] };
// Bars, and the time axis below them.
const HEIGHT = 40, AXIS = 14;
const WIDE_ENOUGH = 48;
const BETWEEN_TIMES = 64;
const SMALLEST_LETTER = 9;

export class Timeline {
  // checks: expectations with their moments.
  constructor(lab, travel, checks = []) {
    Object.assign(this, { lab, travel, checks: checksAt(checks), paper: false });
    const last = () => Math.max(0, lab.moments.length - 1);
    this.slider = h("input", { type: "range", id: "moment", min: 0, max: last(), step: 1, value: 0, "aria-label": "Moment", oninput: () => travel(Number(this.slider.value)) });
    this.picture = h("canvas", { class: "strip", "aria-hidden": "true" });
    this.picture.addEventListener("click", (event) => {
      const bounds = this.picture.getBoundingClientRect();
      travel(Math.floor(((event.clientX - bounds.left) / bounds.width) * lab.moments.length));
    });
    this.following = button("next eviction", () => this.next(), { class: "wide", title: "E", hidden: !lab.evictions.length });
    this.label = h("output", { class: "moment", for: "moment", "aria-live": "polite" });
    this.element = h("div", { class: "timeline", role: "group", "aria-label": "Time line" },
      h("div", { class: "timeline-head" },
        button("|◀", () => travel(0), { "aria-label": "First moment", title: "Home" }),
        button("◀", () => travel(this.moment - 1), { "aria-label": "Moment before", title: "Left arrow" }),
        button("▶", () => travel(this.moment + 1), { "aria-label": "Next moment", title: "Right arrow" }),
        button("▶|", () => travel(last()), { "aria-label": "Last moment", title: "End" }),
        this.following,
        this.label),
      this.picture, this.slider);
    this.#fold();
    new ResizeObserver(() => this.draw()).observe(this.picture);
  }

  // Called when the lab has changed.
  renew() {
    this.slider.max = Math.max(0, this.lab.moments.length - 1);
    this.following.hidden = !this.lab.evictions.length;
    this.#fold();
  }

  // With one moment there is nowhere to travel.
  #fold() {
    this.picture.hidden = this.slider.hidden = this.lab.moments.length < 2;
  }

  show(moment) {
    this.moment = moment;
    this.slider.value = moment;
    const text = this.#told(moment);
    this.slider.setAttribute("aria-valuetext", text);
    this.label.textContent = text;
    this.draw();
  }

  #told(moment) {
    const one = this.lab.moments[moment];
    if (!one) return "No moment was recorded.";
    const counts = Object.entries(one.counts).map(([kind, count]) => `${count} ${WORDS[kind] ?? kind}`).join(", ");
    const what = one.kind === "cycle" ? counts || "nothing new decided" : one.kind === "now" ? "how the lab stands" : "how the cluster stood";
    return `${momentName(this.lab, moment)} (${moment + 1} of ${this.lab.moments.length}): ${[what, ofChecks(this.checks.get(moment))].filter(Boolean).join("; ")}`;
  }

  next() {
    const count = this.lab.moments.length;
    for (let by = 1; by <= count; by++) {
      const at = (this.moment + by) % count;
      if (this.lab.evictionsOf[at].length) return this.travel(at);
    }
  }

  // Expectations: a tick, or a cross if one failed. In narrow columns a short stroke, or a long one.
  #mark(context, at, x, each, dark, paper) {
    const checks = this.checks.get(at);
    if (!checks) return;
    const held = checks.every((one) => one.held);
    context.fillStyle = paper ? "#000" : FILLS[held ? "bind" : "evict"][dark ? 1 : 0];
    context.font = "700 12px system-ui, sans-serif";
    context.textAlign = "right";
    context.textBaseline = "top";
    if (each >= 24) context.fillText(held ? "✓" : "✗", x + each - 2, 0);
    else context.fillRect(x + each / 2 - 1.5, 0, 3, held ? 4 : 10);
  }

  draw(paper = this.paper) {
    this.paper = paper;
    const canvas = this.picture, { moments } = this.lab;
    const width = canvas.clientWidth, ratio = Math.min(2, devicePixelRatio || 1);
    if (!width) return;
    canvas.width = width * ratio;
    canvas.height = (HEIGHT + AXIS) * ratio;
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    const dark = isDark() && !paper;
    const each = width / Math.max(1, moments.length);
    const most = Math.max(1, ...moments.map((one) => KINDS.reduce((sum, kind) => sum + (one.counts[kind] ?? 0), 0)));
    moments.forEach((one, at) => {
      const x = at * each;
      if (at === this.moment) {
        context.fillStyle = paper ? "#ddd" : dark ? "#3a4454" : "#d5dfef";
        context.fillRect(x, 0, Math.max(2, each), HEIGHT);
      }
      let y = HEIGHT - 2;
      const total = KINDS.reduce((sum, kind) => sum + (one.counts[kind] ?? 0), 0);
      for (const kind of KINDS) {
        const count = one.counts[kind] ?? 0;
        if (!count) continue;
        // The square root keeps one decision visible beside a thousand.
        const high = Math.max(3, ((HEIGHT - 10) * Math.sqrt(total / most) * count) / total);
        const wide = Math.max(1, each * 0.6);
        context.fillStyle = paper ? "#fff" : FILLS[kind][dark ? 1 : 0];
        context.fillRect(x + each * 0.2, y - high, wide, high);
        if (paper) {
          context.strokeStyle = "#000";
          context.strokeRect(x + each * 0.2, y - high, wide, high);
        }
        if (wide >= SMALLEST_LETTER && high >= SMALLEST_LETTER) {
          context.fillStyle = paper || dark ? "#000" : "#fff";
          context.font = "600 9px system-ui, sans-serif";
          context.textAlign = "center";
          context.textBaseline = "middle";
          context.fillText(wide >= WIDE_ENOUGH ? WORDS[kind] : BAR_LETTERS[kind], x + each * 0.5, y - high / 2);
        }
        y -= high + 1;
      }
      if (one.steps.length) {
        context.fillStyle = dark ? "#e8eaed" : "#222";
        context.beginPath();
        context.moveTo(x + 1, 0); context.lineTo(x + 9, 0); context.lineTo(x + 5, 6);
        context.fill();
      }
      this.#mark(context, at, x, each, dark, paper);
    });
    context.fillStyle = paper ? "#000" : dark ? "#5b6573" : "#9aa3b0";
    context.fillRect(0, HEIGHT - 1, width, 1);
    // Times of moments, as many as fit.
    context.fillStyle = paper ? "#000" : dark ? "#a9b2bf" : "#525b68";
    context.font = "10px system-ui, sans-serif";
    context.textBaseline = "top";
    context.textAlign = "center";
    let free = 0, told = null;
    moments.forEach((one, at) => {
      const x = (at + 0.5) * each;
      if (x - BETWEEN_TIMES / 2 < free || one.t === told) return;
      context.fillText(seconds(one.t), x, HEIGHT + 2);
      free = x + BETWEEN_TIMES / 2;
      told = one.t;
    });
  }
}

// Expectations by the moment that shows the lab as it was then.
export function checksAt(checks) {
  const found = new Map();
  for (const one of checks) found.set(one.moment, [...(found.get(one.moment) ?? []), one]);
  return found;
}

// A moment in words.
export function ofChecks(checks = []) {
  const held = checks.filter((one) => one.held).length, not = checks.length - held;
  return [held ? `${held} held` : "", not ? `${not} not held` : ""].filter(Boolean).join(", ");
}

export function summaryOf(lab) {
  const cycles = lab.moments.filter((one) => one.kind === "cycle").length;
  return `${plural(cycles, "cycle")}, ${plural(lab.decisions.moment.length, "decision")}, ${plural(lab.evictions.length, "eviction")}`;
}
