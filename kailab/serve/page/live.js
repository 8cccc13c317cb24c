// The live page: the viewer's views of a lab that goes on, and what can be done to it.

import { Changes } from "page/changes";
import { Controls } from "page/controls";
import { Server } from "page/server";
import { plural, seconds } from "viewer/amounts";
import { Detail } from "viewer/detail";
import { button, h, put, replace } from "viewer/dom";
import { Lab } from "viewer/lab";
import { LabPage } from "viewer/lab_page";
import { onPaper } from "viewer/rows";
import { themeButton, travels } from "viewer/theme";

class Live {
  constructor(element) {
    this.server = new Server();
    this.lab = null;
    this.page = null;
    this.wanted = null;
    this.element = element;
    this.detail = new Detail();
    this.title = h("h1", {}, "kailab");
    this.facts = h("span", { class: "quiet", id: "facts" });
    this.state = h("span", { class: "verdict small", id: "connection", role: "status" }, "connecting");
    this.said = h("p", { id: "said", role: "status", "aria-live": "polite" });
    this.trouble = h("p", { id: "trouble", class: "warning", role: "alert", hidden: true });
    this.empty = h("p", { id: "empty", hidden: true }, "Nothing is in this lab yet. ",
      button("Submit an example", () => this.changes.open("submit", { first: true }), { class: "main" }), " to see it scheduled: queues first, then what borrows, and an owner that takes its GPUs back.");
    this.controls = new Controls(this.server, (text, bad) => this.#say(text, bad));
    this.changes = new Changes(this.server, (text) => this.#say(text));
    this.views = h("div", { id: "views" });
    this.bar = h("section", { class: "actions", "aria-label": "What can be done", hidden: true },
      h("div", { class: "between" }, this.controls.element, this.changes.element), this.empty, this.said);
    replace(element,
      h("header", { class: "page-head" }, this.title, this.facts, h("span", { class: "tools" }, this.state, themeButton(() => this.#redraw()))),
      h("main", { id: "main", tabindex: -1 }, this.bar, this.trouble, this.views),
      this.detail.dialog, this.changes.dialog);
    addEventListener("keydown", (event) => this.#key(event));
    onPaper((paper) => this.page?.redraw(paper));
  }

  begin() {
    // The token has done its work: it need not stay in the address, nor in the history.
    history.replaceState(null, "", "/");
    this.server.follow({
      told: (news) => this.#news(news),
      lost: () => this.#connection("bad", "connection lost, trying again"),
      ended: () => this.#connection("bad", "the server has ended"),
      refused: (why) => {
        this.#connection("bad", "not let in");
        this.#troubled(why.trim());
      },
    });
  }

  // Views that came in between are passed over: only the latest counts.
  async #news(news) {
    this.#connection("good", "live");
    const busy = this.wanted !== null;
    this.wanted = news;
    if (busy) return;
    try {
      while (this.shown !== this.wanted) {
        const latest = this.wanted;
        await this.#show(latest);
        this.shown = latest;
      }
    } catch (error) {
      this.#troubled(String(error?.message ?? error));
    } finally {
      this.wanted = null;
    }
  }

  async #show(news) {
    this.#troubled(news.there ? "" : news.trouble);
    this.bar.hidden = !news.there;
    if (!news.there) return;
    const view = await this.server.view(news);
    if (!view) return;
    this.#name(news.lab);
    this.controls.renew(news.controls);
    if (!this.lab) this.lab = new Lab(view.whole, this.server);
    else if (view.whole) this.lab.take(view.whole);
    this.lab.goOn(view.since);
    if (this.page) this.page.renew();
    else {
      this.page = new LabPage(this.lab, this.detail, () => {}, [], [], {
        explain: async (podgroup) => (await this.server.ask("/explain", { podgroup })).lines,
        change: (form, sought) => this.changes.open(form, { sought }),
      });
      put(this.views, this.page.element);
      this.page.travel(this.lab.moments.length - 1);
    }
    this.changes.renew();
    this.controls.seen = news.revision;
    this.empty.hidden = this.lab.queues.name.length > 0;
    if (news.said) this.#say(news.said);
    this.element.dataset.ready = news.version;
  }

  #name(lab) {
    document.title = `${lab.fleet} - kailab`;
    this.title.textContent = `Lab ${lab.fleet}`;
    this.facts.textContent = `${plural(lab.nodes, "node")}, ${plural(lab.gpus, "GPU")}; ${lab.scheduler}, ${lab.backend}; ${lab.time}, ${seconds(lab.age)} old`;
  }

  #say(text, bad = false) {
    this.said.textContent = text;
    this.said.classList.toggle("warning", bad);
  }

  #troubled(text) {
    this.trouble.hidden = !text;
    this.trouble.textContent = text;
  }

  #connection(how, text) {
    if (this.state.textContent === text) return;
    this.state.textContent = text;
    this.state.className = `verdict small ${how}`;
  }

  #key(event) {
    if (!this.page || this.detail.dialog.open || this.changes.dialog.open || !travels(event)) return;
    if (this.page.key(event.key)) event.preventDefault();
  }

  #redraw() {
    if (this.page) this.page.travel(this.page.moment);
  }
}

new Live(document.getElementById("app")).begin();
