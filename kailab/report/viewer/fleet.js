// The fleet as a grid of GPUs by rack, on a canvas that draws what is in view, with the same facts in a table beside it.

import { gpus, ofGpus, plural } from "viewer/amounts";
import { hatch, isDark } from "viewer/colours";
import { button, h, replace } from "viewer/dom";
import { NONE } from "viewer/lab";
import { Rows } from "viewer/rows";

const SIZES = [3, 4, 6, 9, 13, 18, 24];
const GAP = 1;
const BETWEEN = 4;
const LABEL = 15;
const HIGHEST = 460;
const WITH_LETTERS = 9;
const WITH_NAMES = 18;
// rack-2 before rack-10.
const natural = new Intl.Collator("en", { numeric: true }).compare;

export class Fleet {
  // title, id: of the picture; whole: with the table and the legend.
  constructor(lab, colours, facts, { title = "Fleet", id = "fleet", whole = true } = {}) {
    Object.assign(this, { lab, colours, facts, whole, zoom: null, paper: false });
    this.canvas = h("canvas", { role: "img" });
    this.space = h("div", { class: "fleet-space" }, this.canvas);
    this.scroll = h("div", { class: "fleet-scroll", tabindex: 0, role: "region", "aria-label": `${title}, picture` }, this.space);
    this.tip = h("div", { class: "tip", hidden: true, "aria-hidden": "true" });
    this.legend = h("ul", { class: "legend", "aria-label": "Colours and letters of queues" });
    this.note = h("p", { class: "quiet" });
    this.rows = new Rows({ label: "Nodes", columns: [
      { title: "Node", width: "minmax(9rem, 1.4fr)" }, { title: "Rack", width: "minmax(6rem, 1fr)" }, { title: "GPUs", width: "4rem" },
      { title: "Pods", width: "4rem" }, { title: "GPUs of pods, by queue", width: "minmax(10rem, 2fr)" }, { title: "New pods", width: "minmax(6rem, 1fr)" },
      { title: "In this cycle", width: "minmax(10rem, 2fr)" }, ...(facts.change ? [{ title: "And now", width: "4rem" }] : []),
    ], most: 300, file: "cycles.jsonl, states/" });
    this.heading = h("h3", { id: `${id}-title` }, title);
    this.element = h("section", { class: "panel", id, "aria-labelledby": `${id}-title` },
      h("div", { class: "panel-head" }, this.heading,
        h("span", { class: "tools" },
          button("−", () => this.#zoomed(-1), { "aria-label": "Smaller cells" }),
          button("+", () => this.#zoomed(1), { "aria-label": "Larger cells" }))),
      this.note, whole ? this.legend : null, this.scroll, this.tip,
      whole ? h("details", { class: "as-table" }, h("summary", {}, "The same as a table"), this.rows.element) : null);
    this.scroll.addEventListener("scroll", () => this.#draw());
    this.canvas.addEventListener("mousemove", (event) => this.#hover(event));
    this.canvas.addEventListener("mouseleave", () => { this.tip.hidden = true; });
    this.canvas.addEventListener("click", (event) => {
      const node = this.#nodeAt(event);
      if (node !== NONE) this.facts.node(node, this.moment, this.placed.found.get(node) ?? []);
    });
    new ResizeObserver(() => { if (this.placed) { this.#lay(); this.#draw(); } }).observe(this.scroll);
  }

  show(moment) {
    this.moment = moment;
    this.placed = this.lab.placed(moment);
    this.marks = this.#marks(moment);
    this.#lay();
    this.#draw();
    this.#tell();
  }

  redraw(paper) {
    this.paper = paper;
    if (this.placed) { this.#lay(); this.#draw(); }
  }

  // Decisions of the cycle: pods that leave, and pods that are placed on a node or promised a place there.
  #marks(moment) {
    const going = new Set(), coming = new Map();
    for (const place of this.lab.decisionsOf[moment]) {
      const one = this.lab.decision(place);
      if (one.kind === "evict") going.add(one.pod);
      else if ((one.kind === "bind" || one.kind === "pipeline") && one.node !== NONE) {
        if (!coming.has(one.node)) coming.set(one.node, []);
        coming.get(one.node).push({ pod: one.pod, promised: one.kind === "pipeline" });
      }
    }
    return { going, coming };
  }

  #zoomed(by) {
    this.zoom = Math.min(SIZES.length - 1, Math.max(0, (this.zoom ?? this.fitting) + by));
    this.#lay();
    this.#draw();
  }

  // Positions of racks and nodes: the largest cells with which everything is in view, but never too small to see.
  #lay() {
    const width = Math.max(200, this.scroll.clientWidth - 2);
    const there = [];
    this.lab.nodes.racks.forEach(() => there.push([]));
    this.lab.nodes.name.forEach((_, node) => {
      const now = this.lab.nodeAt(node, this.moment);
      if (now) there[this.lab.nodes.rack[node]].push({ node, cells: Math.ceil(now.milli / 1000), now });
    });
    for (const nodes of there) nodes.sort((one, other) => natural(this.lab.nodes.name[one.node], this.lab.nodes.name[other.node]));
    this.there = there;
    this.order = there.map((_, rack) => rack).sort((one, other) => natural(this.lab.nodes.racks[one], this.lab.nodes.racks[other]));
    this.fitting = 0;
    for (let size = SIZES.length - 1; size >= 0; size--) {
      this.fitting = size;
      if (this.#arrange(SIZES[size], width) <= HIGHEST) break;
    }
    const size = SIZES[this.zoom ?? this.fitting];
    this.height = this.#arrange(size, width);
    this.size = size;
    this.space.style.height = `${this.height}px`;
    this.scroll.style.height = `${this.paper ? this.height : Math.min(HIGHEST + 2, this.height + 2)}px`;
    this.width = width;
  }

  #arrange(size, width) {
    this.boxes = [];
    let x = 0, y = 0, deepest = 0;
    const named = size >= WITH_NAMES;
    this.order.forEach((rack) => {
      const nodes = this.there[rack];
      if (!nodes.length) return;
      const most = Math.max(1, ...nodes.map((one) => one.cells));
      const across = most <= 4 || size >= WITH_LETTERS ? Math.min(most, 8) : Math.min(4, most);
      const down = Math.ceil(most / across);
      const wide = across * (size + GAP) + BETWEEN;
      const high = down * (size + GAP) + BETWEEN + (named ? 12 : 0);
      const fits = Math.max(1, Math.floor(width / wide));
      const square = Math.ceil(Math.sqrt((nodes.length * high * 1.6) / wide));
      const columns = Math.min(fits, nodes.length, Math.max(square, Math.ceil(56 / wide)));
      const boxWidth = Math.max(columns * wide, 46), boxHeight = LABEL + Math.ceil(nodes.length / columns) * high + 4;
      if (x > 0 && x + boxWidth > width) { x = 0; y += deepest; deepest = 0; }
      this.boxes.push({ rack, x, y, width: boxWidth, height: boxHeight, nodes, columns, wide, high, across, named });
      x += boxWidth + 6;
      deepest = Math.max(deepest, boxHeight);
    });
    return y + deepest + 2;
  }

  #draw() {
    const { canvas, width } = this;
    const shown = this.paper ? this.height : Math.min(HIGHEST, this.height);
    const ratio = Math.min(2, devicePixelRatio || 1);
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(shown * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(shown * ratio);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${shown}px`;
    }
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, shown);
    const top = this.paper ? 0 : this.scroll.scrollTop;
    const dark = isDark() && !this.paper;
    const ink = { text: dark ? "#c8cdd5" : "#333a45", free: dark ? "#2c323c" : "#e4e7ec", line: dark ? "#4a525f" : "#b4bac5", mark: dark ? "#fff" : "#000", dark };
    context.textBaseline = "top";
    for (const box of this.boxes) {
      if (box.y + box.height < top || box.y > top + shown) continue;
      context.fillStyle = ink.text;
      context.font = "11px system-ui, sans-serif";
      context.fillText(fitted(context, this.lab.nodes.racks[box.rack], box.width), box.x, box.y - top + 1);
      box.nodes.forEach((one, place) => {
        const x = box.x + (place % box.columns) * box.wide, y = box.y + LABEL + Math.floor(place / box.columns) * box.high - top;
        if (y + box.high >= 0 && y <= shown) this.#node(context, ink, box, one, x, y);
      });
    }
  }

  #node(context, ink, box, { node, cells, now }, left, top) {
    const { size } = this;
    if (box.named) {
      context.fillStyle = ink.text;
      context.font = "10px system-ui, sans-serif";
      context.fillText(fitted(context, this.lab.nodes.name[node], box.wide - BETWEEN), left, top);
      top += 12;
    }
    const at = (cell) => [left + (cell % box.across) * (size + GAP), top + Math.floor(cell / box.across) * (size + GAP)];
    for (let cell = 0; cell < cells; cell++) {
      const [x, y] = at(cell);
      context.fillStyle = ink.free;
      context.fillRect(x, y, size, size);
    }
    const slots = this.#slots(node);
    let used = 0;
    for (const slot of slots.held) {
      for (const [x, y, part, from] of spread(slot, used, at, cells)) this.#cell(context, ink, slot, x, y, part, from);
      used += slot.cells;
    }
    for (const slot of slots.coming) {
      for (const [x, y] of spread(slot, used, at, cells)) this.#coming(context, ink, slot, x, y);
      used += slot.cells;
    }
    if (now.unavailable) {
      context.strokeStyle = ink.mark;
      context.lineWidth = 1;
      context.beginPath();
      context.moveTo(left, top + box.high - BETWEEN - (box.named ? 12 : 0));
      context.lineTo(left + box.wide - BETWEEN, top);
      context.stroke();
    }
  }

  // The record does not say which device of a node a whole-GPU pod has: cells are filled in the order of pods. Pods on one shared
  // device share a cell.
  #slots(node) {
    const { pods } = this.lab;
    const held = [], shared = new Map(), coming = [];
    for (const { pod, segment, state } of this.placed.found.get(node) ?? []) {
      const milli = pods.milli[segment];
      if (milli <= 0) continue;
      const one = { queue: this.lab.queueOfPod(pod), pod, milli, leaves: state === "leaves", going: this.marks.going.has(pod) };
      const group = pods.shared[segment];
      if (milli % 1000 === 0) held.push({ cells: milli / 1000, parts: [one] });
      else if (group !== NONE && shared.has(group)) shared.get(group).parts.push(one);
      else {
        const slot = { cells: Math.ceil(milli / 1000), parts: [one] };
        if (group !== NONE) shared.set(group, slot);
        held.push(slot);
      }
    }
    const incoming = [
      ...(this.placed.promised.get(node) ?? []).map(({ pod, segment }) => ({ pod, milli: pods.milli[segment], promised: true })),
      ...(this.marks.coming.get(node) ?? []).map(({ pod, promised }) => ({ pod, milli: this.#wanted(pod), promised })),
    ];
    for (const one of incoming) {
      if (one.milli > 0) coming.push({ cells: Math.ceil(one.milli / 1000), parts: [{ ...one, queue: this.lab.queueOfPod(one.pod) }] });
    }
    return { held, coming };
  }

  #wanted(pod) {
    const segment = this.lab.podAt(pod, this.moment);
    return segment === NONE ? 0 : this.lab.pods.milli[segment];
  }

  #cell(context, ink, slot, x, y, whole) {
    const { size } = this;
    let from = y + size;
    slot.parts.forEach((part) => {
      const high = slot.parts.length === 1 && whole ? size : Math.max(1, Math.round((size * (part.milli % 1000 || 1000)) / 1000));
      from -= high;
      context.fillStyle = this.paper ? "#fff" : this.colours.fill(part.queue, ink.dark);
      context.globalAlpha = part.leaves ? 0.45 : 1;
      context.fillRect(x, from, size, high);
      context.globalAlpha = 1;
      if (this.paper) {
        context.strokeStyle = "#000";
        context.lineWidth = 0.5;
        context.strokeRect(x + 0.25, from + 0.25, size - 0.5, high - 0.5);
        hatch(context, this.colours.pattern(part.queue), x, from, size, high);
      }
      if (part.going && size >= 4) {
        context.strokeStyle = "#000";
        context.lineWidth = size > 12 ? 2 : 1.2;
        context.beginPath();
        context.moveTo(x + 1, from + 1); context.lineTo(x + size - 1, from + high - 1);
        context.moveTo(x + size - 1, from + 1); context.lineTo(x + 1, from + high - 1);
        context.stroke();
      } else if (part.leaves && size >= 4) {
        context.strokeStyle = ink.mark;
        context.lineWidth = 1;
        context.beginPath();
        context.moveTo(x + 1, from + high - 1); context.lineTo(x + size - 1, from + 1);
        context.stroke();
      }
      const crossed = part.going || part.leaves;
      if (size >= (crossed ? WITH_NAMES : WITH_LETTERS) && high >= 8) {
        this.#letter(context, part, x, from, high, "#000", this.paper || crossed ? (this.paper ? "#fff" : this.colours.fill(part.queue, ink.dark)) : null);
      }
    });
  }

  #coming(context, ink, slot, x, y) {
    const { size } = this;
    const [part] = slot.parts;
    const colour = this.paper ? "#000" : this.colours.fill(part.queue, ink.dark);
    context.strokeStyle = colour;
    context.lineWidth = size >= 9 ? 2 : 1;
    context.setLineDash(part.promised && size >= 9 ? [3, 2] : []);
    context.strokeRect(x + 1, y + 1, size - 2, size - 2);
    context.setLineDash([]);
    if (size >= 13) this.#letter(context, part, x, y, size, ink.text, this.paper ? "#fff" : null);
  }

  // ground: background of the letter, which keeps it readable over lines.
  #letter(context, part, x, y, high, colour, ground) {
    const { size } = this;
    const letter = this.colours.letter(part.queue);
    context.font = `600 ${Math.min(12, size - 2)}px system-ui, sans-serif`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    if (ground) {
      const wide = context.measureText(letter).width;
      context.fillStyle = ground;
      context.fillRect(x + size / 2 - wide / 2 - 1, y + high / 2 - 6, wide + 2, 12);
    }
    context.fillStyle = colour;
    context.fillText(letter, x + size / 2, y + high / 2 + 0.5);
    context.textAlign = "left";
    context.textBaseline = "top";
  }

  #nodeAt(event) {
    const bounds = this.canvas.getBoundingClientRect();
    const x = event.clientX - bounds.left, y = event.clientY - bounds.top + this.scroll.scrollTop;
    for (const box of this.boxes) {
      if (x < box.x || x >= box.x + box.width || y < box.y + LABEL || y >= box.y + box.height) continue;
      const column = Math.floor((x - box.x) / box.wide), row = Math.floor((y - box.y - LABEL) / box.high);
      const one = column < box.columns ? box.nodes[row * box.columns + column] : null;
      if (one) return one.node;
    }
    return NONE;
  }

  #hover(event) {
    const node = this.#nodeAt(event);
    this.tip.hidden = node === NONE;
    if (node === NONE) return;
    this.tip.textContent = `${this.lab.nodes.name[node]}: ${ofGpus(this.lab.nodeAt(node, this.moment).milli)}; ${this.#byQueue(node) || "no pods"}`;
    const bounds = this.element.getBoundingClientRect();
    this.tip.style.left = `${Math.min(event.clientX - bounds.left + 12, bounds.width - 220)}px`;
    this.tip.style.top = `${event.clientY - bounds.top + 16}px`;
  }

  #byQueue(node) {
    return this.#summed((this.placed.found.get(node) ?? []).map(({ pod, segment }) => ({ pod, milli: this.lab.pods.milli[segment] })));
  }

  // GPUs of pods by queue, in words.
  #summed(pods) {
    const sums = new Map();
    for (const { pod, milli } of pods) {
      const queue = this.lab.queueOfPod(pod);
      sums.set(queue, (sums.get(queue) ?? 0) + milli);
    }
    return [...sums].map(([queue, milli]) => `${this.lab.queues.name[queue] ?? "no queue"} ${gpus(milli)}`).join(", ");
  }

  // The GPUs of each model that new work can have.
  #byModel(nodes) {
    const sums = new Map();
    for (const { node, now } of nodes) {
      const model = this.lab.nodes.models[this.lab.nodes.model[node]] || "no model named";
      const sum = sums.get(model) ?? { used: 0, milli: 0, free: 0, closed: 0 };
      const used = (this.placed.found.get(node) ?? []).reduce((all, { segment }) => all + this.lab.pods.milli[segment], 0);
      sum.used += used;
      sum.milli += now.milli;
      sum[now.unavailable ? "closed" : "free"] += Math.max(0, now.milli - used);
      sums.set(model, sum);
    }
    const order = [...sums].filter(([, sum]) => sum.milli || sum.used).sort(([one, a], [other, b]) => b.milli - a.milli || (one < other ? -1 : 1));
    const closed = order.reduce((all, [, sum]) => all + sum.closed, 0);
    return order.length ? ` Free GPUs: ${order.map(([model, sum]) => `${model} ${gpus(sum.free)} of ${gpus(sum.milli)}`).join(", ")}${closed ? `; ${gpus(closed)} more on nodes that take nothing new` : ""}.` : "";
  }

  // What the picture shows of a node in addition to its pods: crosses, strokes and outlines.
  #changing(node) {
    const held = (this.placed.found.get(node) ?? []).map(({ pod, segment, state }) => ({ pod, state, milli: this.lab.pods.milli[segment] }));
    const coming = (this.marks.coming.get(node) ?? []).map(({ pod, promised }) => ({ pod, promised, milli: this.#wanted(pod) }));
    const promised = (this.placed.promised.get(node) ?? []).map(({ pod, segment }) => ({ pod, milli: this.lab.pods.milli[segment] }));
    return [
      ["evicted", held.filter((one) => this.marks.going.has(one.pod))], ["leaving", held.filter((one) => one.state === "leaves")],
      ["bound", coming.filter((one) => !one.promised)], ["promised", [...promised, ...coming.filter((one) => one.promised)]],
    ].filter(([, pods]) => pods.length).map(([what, pods]) => `${what}: ${this.#summed(pods)}`).join("; ");
  }

  #tell() {
    const { lab } = this;
    const nodes = this.order.flatMap((rack) => this.there[rack]);
    const { found, promised } = this.placed, pods = found.pods.length;
    const racks = this.there.filter((list) => list.length).length;
    const total = nodes.reduce((sum, one) => sum + one.now.milli, 0);
    this.note.textContent = `${plural(nodes.length, "node")} with ${ofGpus(total)} in ${plural(racks, "group")} by ${lab.nodes.by}; ${plural(pods, "pod")} placed.${this.#byModel(nodes)}`;
    this.canvas.setAttribute("aria-label", this.whole ? `${this.note.textContent} The table below has each node.` : `${this.note.textContent} The list below has each pod that stands otherwise.`);
    if (!this.whole) return;
    const queues = new Set();
    for (const { pods: there } of [found, promised]) for (const pod of there) queues.add(lab.queueOfPod(pod));
    for (const list of this.marks.coming.values()) for (const { pod } of list) queues.add(lab.queueOfPod(pod));
    const order = lab.leafQueues.filter((queue) => queues.has(queue));
    replace(this.legend, order.map((queue) => h("li", {},
      h("span", { class: `chip pattern-${this.colours.pattern(queue)}`, style: { background: this.colours.fill(queue, isDark()) } }, this.colours.letter(queue)),
      lab.queues.name[queue])),
      h("li", {}, h("span", { class: "chip free" }), "free"),
      this.marks.going.size ? h("li", {}, h("span", { class: "chip going" }, "✕"), "evicted in this cycle") : null,
      found.there.has("leaves") ? h("li", {}, h("span", { class: "chip going" }, "╱"), "leaves") : null,
      nodes.some((one) => one.now.unavailable) ? h("li", {}, h("span", { class: "chip going" }, "╱"), "over a whole node: takes nothing new") : null,
      this.marks.coming.size ? h("li", {}, h("span", { class: "chip coming" }), "bound in this cycle (dashed: promised)") : null);
    this.rows.show(nodes.length, (at) => {
      const { node, now } = nodes[at];
      const there = this.placed.found.get(node) ?? [];
      return [
        button(lab.nodes.name[node], () => this.facts.node(node, this.moment, there), { class: "link" }),
        lab.nodes.racks[lab.nodes.rack[node]], gpus(now.milli), String(there.length), this.#byQueue(node) || "none", now.unavailable || "taken", this.#changing(node) || "nothing",
        ...(this.facts.change ? [this.facts.changeNode(node)] : []),
      ];
    }, "No nodes.");
  }
}

function* spread(slot, used, at, cells) {
  for (let cell = 0; cell < slot.cells && used + cell < cells; cell++) {
    const whole = slot.parts.length === 1 && slot.parts[0].milli % 1000 === 0;
    yield [...at(used + cell), whole];
  }
}

function fitted(context, text, width) {
  let shown = text;
  while (shown.length > 1 && context.measureText(shown).width > width) shown = shown.slice(0, -1);
  return shown;
}
