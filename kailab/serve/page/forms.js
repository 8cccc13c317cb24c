// The forms. Each makes a wish and hands it on to be previewed; none changes anything.

import { Listed } from "page/listed";
import { plural } from "viewer/amounts";
import { button, h, replace } from "viewer/dom";

let fields = 0;

// A label and what it names.
function labelled(text, control) {
  control.id ||= `field-${++fields}`;
  return h("span", { class: "field" }, h("label", { for: control.id }, text), control);
}

function options(select, values, chosen) {
  const before = chosen ?? select.value;
  replace(select, values.map((value) => (Array.isArray(value) ? h("option", { value: value[0] }, value[1]) : h("option", { value }, value))));
  if ([...select.options].some((one) => one.value === before)) select.value = before;
}

export class SubmitForm {
  constructor(server, preview) {
    Object.assign(this, { server, examples: [], loaded: null });
    this.choice = h("select", { id: "example", onchange: () => this.#take() });
    this.about = h("p", { class: "quiet", id: "example-about" });
    this.namespace = h("input", { id: "submit-namespace", value: "default", list: "namespaces", autocomplete: "off" });
    this.namespaces = h("datalist", { id: "namespaces" });
    this.text = h("textarea", { id: "manifest", rows: 18, spellcheck: "false", autocomplete: "off", "aria-describedby": "example-about" });
    this.element = h("form", { onsubmit: (event) => { event.preventDefault(); preview({ do: "submit", text: this.text.value, namespace: this.namespace.value }); } },
      h("div", { class: "fields" }, labelled("Example", this.choice), labelled("Namespace", this.namespace), this.namespaces),
      this.about, labelled("Manifests (YAML or JSON)", this.text),
      h("div", { class: "tools" }, h("button", { type: "submit", id: "preview", class: "main" }, "Check and preview")));
    this.text.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.element.requestSubmit();
    });
  }

  renew(editable) {
    options(this.namespaces, editable.namespaces);
    this.loaded ??= this.#load().catch(() => { this.loaded = null; });
  }

  // Show the first example, where nothing was typed yet.
  async begin() {
    await this.loaded;
    if (this.text.value || !this.examples.length) return;
    this.choice.value = this.examples[0].name;
    this.#take();
  }

  focus() {
    this.choice.focus();
  }

  // Chooses a line of the text, and brings it into view.
  goTo(line) {
    const lines = this.text.value.split("\n"), before = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    this.text.focus();
    this.text.setSelectionRange(before, before + (lines[line - 1] ?? "").length);
    this.text.scrollTop = Math.max(0, (line - 4) * (this.text.scrollHeight / lines.length));
  }

  async #load() {
    this.examples = await this.server.examples();
    options(this.choice, [["", "own text"], ...this.examples.map((one) => [one.name, one.title])], "");
  }

  #take() {
    const found = this.examples.find((one) => one.name === this.choice.value);
    this.about.textContent = found?.about ?? "";
    if (found) this.text.value = found.text;
  }
}

export class WorkloadsForm {
  constructor(server, preview) {
    this.preview = preview;
    this.typed = new Map();
    this.none = h("p", { tabindex: -1 }, "There is no workload yet: submit one.");
    this.list = new Listed("workload", [
      { title: "Workload", width: "minmax(11rem, 2fr)" }, { title: "Namespace", width: "minmax(6rem, 1fr)" }, { title: "Queue", width: "minmax(5rem, 1fr)" },
      { title: "Run", width: "3.5rem" }, { title: "Wait", width: "3.5rem" }, { title: "Replicas", width: "10.5rem" }, { title: "", width: "5rem" },
    ], (one) => `${named(one)} ${one.namespace}`, (one) => one.queue, (one) => this.#row(one));
    this.element = h("div", {}, this.none, this.list.element);
  }

  renew({ workloads }) {
    this.none.hidden = workloads.length > 0;
    this.list.element.hidden = !workloads.length;
    this.typed.clear();
    this.list.show(workloads);
  }

  focus() {
    if (this.none.hidden) this.list.focus();
    else this.none.focus();
  }

  #row(one) {
    const what = `${one.kind}/${one.name}`;
    return [h("span", { title: named(one) }, named(one)), one.namespace, one.queue || "none", String(one.running), String(one.waiting), one.replicas === null ? "" : this.#scaling(one, what),
      button("Delete", () => this.preview({ do: "delete", what, namespace: one.namespace }), { "aria-label": `Delete ${named(one)}` })];
  }

  #scaling(one, what) {
    // What was typed stays where its row is scrolled away and back.
    const count = h("input", { type: "number", min: 0, step: 1, value: this.typed.get(one) ?? one.replicas, required: true, class: "number",
      "aria-label": `Replicas of ${named(one)}`, oninput: () => this.typed.set(one, count.value) });
    return h("form", { class: "tools", onsubmit: (event) => { event.preventDefault(); this.preview({ do: "set", fields: [`${what}.replicas=${count.value}`], namespace: one.namespace }); } },
      count, h("button", { type: "submit", "aria-label": `Scale ${named(one)}` }, "Scale"));
  }
}

function named(one) {
  return `${one.kind.split(".")[0]}/${one.name}`;
}

const PARTS = [["quota", "Quota"], ["limit", "Limit"], ["overQuotaWeight", "Over-quota weight"]];
const RESOURCES = [["gpu", "GPUs"], ["cpu", "CPU (millicores)"], ["memory", "memory (MB)"]];

export class QueuesForm {
  constructor(server, preview) {
    Object.assign(this, { preview, queues: [] });
    this.queue = h("select", { id: "queue", onchange: () => this.#fill() });
    this.resource = h("select", { id: "queue-resource", onchange: () => this.#fill() }, RESOURCES.map(([value, name]) => h("option", { value }, name)));
    this.inputs = new Map(PARTS.map(([part]) => [part, h("input", { id: `queue-${part}`, class: "number", autocomplete: "off", "aria-describedby": "queue-about" })]));
    this.priority = h("input", { id: "queue-priority", class: "number", autocomplete: "off" });
    this.none = h("p", {}, "There is no queue yet: submit one.");
    this.form = h("form", { onsubmit: (event) => { event.preventDefault(); this.#send(); } },
      h("div", { class: "fields" }, labelled("Queue", this.queue), labelled("Resource", this.resource)),
      h("div", { class: "fields" }, PARTS.map(([part, name]) => labelled(name, this.inputs.get(part))), labelled("Priority", this.priority)),
      h("p", { class: "quiet", id: "queue-about" }, "A number, or unlimited. Only what you change is sent."),
      h("div", { class: "tools" }, h("button", { type: "submit", class: "main" }, "Preview"), button("Delete this queue", () => preview({ do: "delete", what: `Queue/${this.queue.value}` }))));
    this.element = h("div", {}, this.none, this.form);
  }

  renew({ queues }) {
    this.queues = queues;
    this.none.hidden = queues.length > 0;
    this.form.hidden = !queues.length;
    options(this.queue, queues.map((one) => one.name));
    this.#fill();
  }

  focus() {
    this.queue.focus();
  }

  #fill() {
    const queue = this.queues.find((one) => one.name === this.queue.value);
    const own = queue?.resources[this.resource.value] ?? {};
    this.before = new Map(PARTS.map(([part]) => [part, text(own[part])]));
    for (const [part, input] of this.inputs) input.value = this.before.get(part);
    this.before.set("priority", text(queue?.priority));
    this.priority.value = this.before.get("priority");
  }

  #send() {
    const place = `queue/${this.queue.value}`;
    const changed = [...this.inputs].filter(([part, input]) => input.value.trim() !== this.before.get(part))
      .map(([part, input]) => `${place}.${this.resource.value}.${part}=${input.value.trim()}`);
    if (this.priority.value.trim() !== this.before.get("priority")) changed.push(`${place}.priority=${this.priority.value.trim()}`);
    this.preview({ do: "set", fields: changed });
  }
}

export class NodesForm {
  constructor(server, preview) {
    this.preview = preview;
    this.list = new Listed("node", [{ title: "Node", width: "minmax(9rem, 1fr)" }, { title: "New pods", width: "minmax(9rem, 1fr)" }, { title: "", width: "11rem" }],
      (one) => one.name, (one) => one.unavailable || "taken", (one) => this.#row(one));
    this.element = this.list.element;
  }

  renew({ nodes }) {
    this.list.show(nodes);
  }

  focus() {
    this.list.focus();
  }

  #row(one) {
    const turn = one.cordoned ? "Uncordon" : "Cordon";
    return [one.name, one.unavailable || "taken", h("span", { class: "tools" },
      button(turn, () => this.preview({ do: "set", fields: [`node/${one.name}.unschedulable=${!one.cordoned}`] }), { "aria-label": `${turn} ${one.name}` }),
      button("Drain", () => this.preview({ do: "drain", node: one.name }), { "aria-label": `Drain ${one.name}` }))];
  }
}

export class AddNodesForm {
  constructor(server, preview) {
    this.pool = h("select", { id: "pool" });
    this.count = h("input", { id: "pool-count", type: "number", min: 1, step: 1, value: 1, required: true, class: "number", "aria-describedby": "pool-about" });
    this.none = h("p", { tabindex: -1 }, "There is no node that another could be like.");
    this.form = h("form", { onsubmit: (event) => { event.preventDefault(); preview({ do: "add-nodes", nodes: `${this.pool.value}:${this.count.value}` }); } },
      h("div", { class: "fields" }, labelled("Pool", this.pool), labelled("Nodes to add", this.count)),
      h("p", { class: "quiet", id: "pool-about" }, "Each is like the last node of its pool: the same resources, labels and taints."),
      h("div", { class: "tools" }, h("button", { type: "submit", class: "main" }, "Preview")));
    this.element = h("div", {}, this.none, this.form);
  }

  renew({ pools }) {
    this.none.hidden = pools.length > 0;
    this.form.hidden = !pools.length;
    options(this.pool, pools.map((one) => [one.name, `${one.name} (${plural(one.nodes, "node")})`]));
  }

  focus() {
    (this.none.hidden ? this.pool : this.none).focus();
  }
}

function text(value) {
  if (value === undefined || value === null) return "";
  return value === -1 ? "unlimited" : String(value);
}
