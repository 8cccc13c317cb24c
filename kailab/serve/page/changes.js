// Changes of the lab: a form, what would become of the lab, and only then the change itself. All in one dialog.

import { foretold } from "page/foretold";
import { AddNodesForm, NodesForm, QueuesForm, SubmitForm, WorkloadsForm } from "page/forms";
import { button, h, replace } from "viewer/dom";

const FORMS = [["submit", "Submit", SubmitForm], ["workloads", "Workloads", WorkloadsForm], ["queues", "Queues", QueuesForm], ["nodes", "Nodes", NodesForm], ["add-nodes", "Add nodes", AddNodesForm]];

export class Changes {
  #opener = null;

  // say(text): what became of it.
  constructor(server, say) {
    Object.assign(this, { server, say, editable: null, form: null });
    this.title = h("h2", { id: "change-title", tabindex: -1 });
    this.errors = h("pre", { class: "message", role: "alert", id: "change-errors", hidden: true });
    this.busy = h("p", { role: "status", class: "quiet", id: "change-busy" });
    this.content = h("div", {});
    this.dialog = h("dialog", { class: "detail change", "aria-labelledby": "change-title" },
      h("div", { class: "detail-head" }, this.title, button("Close", () => this.dialog.close(), { class: "close" })),
      h("div", { class: "detail-content" }, this.errors, this.busy, this.content));
    this.dialog.addEventListener("close", () => this.#goBack());
    this.forms = new Map(FORMS.map(([id, name, Form]) => [id, { name, form: new Form(server, (wish) => this.#preview(wish)) }]));
    this.element = h("div", { role: "group", "aria-label": "Change the lab", class: "tools" },
      h("span", { id: "change-what" }, "Change:"),
      FORMS.map(([id, name]) => button(`${name} ...`, () => this.open(id, { sought: null }), { id: `change-${id}`, "aria-haspopup": "dialog" })));
  }

  // The lab went on. What somebody is filling in stays as it is. Call it after the rows are drawn.
  renew() {
    this.editable = null;
    // The answer to a change may come before the rows that it changes: the button that has the focus then goes with its row.
    if (!this.dialog.open && document.activeElement === document.body) this.#goBack();
    if (!this.dialog.open) this.#opener = null;
  }

  // A form; first: of the examples the first one is chosen; sought: the only row that a list shows, null for all of them. Without it, a list
  // stays as it was.
  async open(id, { first = false, sought } = {}) {
    this.current = id;
    const { name, form } = this.forms.get(id);
    if (sought !== undefined) form.list?.seek(sought);
    if (!this.dialog.open) this.#opener = document.activeElement;
    this.#show(name, h("p", { role: "status", class: "quiet" }, "Reading the lab ..."));
    if (!this.dialog.open) this.dialog.showModal();
    const editable = await this.#read();
    // Another form may have been opened meanwhile, or none.
    if (this.current !== id || !this.dialog.open || !editable) return;
    form.renew(editable);
    this.#show(name, form.element);
    form.focus();
    if (first) await form.begin();
  }

  // The browser returns the focus to the button that opened the dialog. Rows are made anew when the lab changes, and their buttons with them.
  #goBack() {
    const opener = this.#opener, label = opener?.getAttribute("aria-label");
    if (!opener || opener.isConnected || !label) return;
    (document.querySelector(`main button[aria-label="${CSS.escape(label)}"]`) ?? document.getElementById("main")).focus();
  }

  async #read() {
    // Where the lab changes meanwhile what is there then is asked for.
    for (let times = 0; !this.editable && times < 50; times++) {
      try {
        this.editable = await this.server.editable();
      } catch (error) {
        this.#wrong([String(error?.message ?? error)]);
        return null;
      }
      if (!this.editable) await new Promise((done) => setTimeout(done, 100));
    }
    return this.editable;
  }

  #show(title, element) {
    this.title.textContent = title;
    this.#wrong([]);
    this.busy.textContent = "";
    replace(this.content, element);
  }

  #wrong(errors) {
    this.errors.hidden = !errors.length;
    // Of a line of the editor it is a button, which goes there.
    replace(this.errors, errors.flatMap((text) => text.split("\n")).flatMap((text, place) => {
      const line = /^editor:(\d+):/.exec(text), { form } = this.forms.get(this.current) ?? {};
      return [place ? "\n" : "", line && form?.goTo ? button(text, () => form.goTo(Number(line[1])), { class: "link fault" }) : text];
    }));
  }

  async #preview(wish) {
    this.#wrong([]);
    this.busy.textContent = "Trying it on a copy of the lab ...";
    try {
      const found = await this.server.ask("/preview", wish);
      this.#show(found.title, h("div", {},
        h("div", { class: "tools" },
          button("Apply", () => this.#apply(found.id), { id: "apply", class: "main" }),
          button("Back", () => this.open(this.current), { id: "back" })),
        foretold(found)));
      this.title.focus();
    } catch (error) {
      this.busy.textContent = "";
      this.#wrong(error.errors ?? [String(error)]);
    }
  }

  async #apply(id) {
    this.#wrong([]);
    this.busy.textContent = "Applying ...";
    try {
      const { said } = await this.server.ask("/apply", { id });
      this.dialog.close();
      this.say(said);
    } catch (error) {
      this.busy.textContent = "";
      this.#wrong(error.errors ?? [String(error)]);
    }
  }
}
