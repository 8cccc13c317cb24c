// The page: the shown run, test and lab, and keyboard input. The fragment of the address holds the choice, so a link leads to a moment.

import { Detail } from "viewer/detail";
import { h, replace } from "viewer/dom";
import { Lab } from "viewer/lab";
import { LabPage } from "viewer/lab_page";
import { lineFacts } from "viewer/line";
import { onPaper } from "viewer/rows";
import { EmbeddedSource } from "viewer/source";
import { Summary, inWords } from "viewer/summary";
import { labFacts, testHead } from "viewer/test_page";
import { themeButton, travels } from "viewer/theme";

export async function start(source = new EmbeddedSource()) {
  const app = document.getElementById("app");
  try {
    await new App(app, source, await source.page()).show();
  } catch (error) {
    replace(app, h("main", { id: "main" }, h("h1", {}, "This page can't be shown"), h("p", { role: "alert" }, String(error?.message ?? error))));
    throw error;
  }
}

class App {
  constructor(element, source, page) {
    Object.assign(this, { element, source, page, labPage: null, shown: "" });
    this.detail = new Detail();
    this.main = h("main", { id: "main", tabindex: -1 });
    this.crumbs = h("nav", { "aria-label": "Where you are", class: "crumbs" });
    replace(element, h("header", { class: "page-head" }, this.crumbs, themeButton(() => this.#redraw())), this.main, this.detail.dialog);
    addEventListener("hashchange", () => this.show());
    addEventListener("keydown", (event) => this.#key(event));
    onPaper((paper) => this.labPage?.redraw(paper));
  }

  async show() {
    const { run, test, lab, moment } = this.#address();
    const place = `${run}/${test}/${lab}`;
    if (this.labPage && this.shown === place) {
      if (moment !== this.labPage.moment) this.labPage.travel(moment ?? this.#start());
      return;
    }
    this.shown = place;
    this.labPage = null;
    const told = this.page.runs[run]?.tests[test];
    if (told) await this.#test(run, test, lab, moment, place);
    else this.#summary();
    this.element.dataset.ready = this.shown;
  }

  #summary() {
    document.title = `${this.page.title} - kailab`;
    replace(this.crumbs, h("span", { "aria-current": "page" }, "kailab report"));
    this.summary ??= new Summary(this.page, address);
    replace(this.main, h("h1", {}, this.page.kind === "run" ? "Test run" : this.page.title), this.summary.element);
  }

  async #test(run, test, lab, moment, place) {
    const told = this.page.runs[run].tests[test];
    document.title = `${told.name} - kailab`;
    replace(this.crumbs, h("a", { href: "#/" }, "kailab report"), " / ", h("span", { "aria-current": "page" }, told.name));
    const ref = told.labs[lab];
    const waiting = h("p", { role: "status" }, ref ? "Reading the lab ..." : "This test opened no lab.");
    const under = this.page.kind === "trial" ? ` under ${this.page.runs[run].run}` : "";
    replace(this.main, h("h1", {}, `${told.name}${under}`), testHead(run, told, lab, (other, at) => address(run, test, other, at), (one) => this.#expectation(told, one)),
      ref ? h("h2", {}, labFacts(ref)) : null, waiting);
    scrollTo(0, 0);
    if (!ref) return;
    const data = new Lab(await this.source.lab(ref.chunk), this.source);
    if (this.shown !== place) return;
    const checks = told.expectations.filter((one) => one.lab === ref.name);
    this.labPage = new LabPage(data, this.detail, (at) => history.replaceState(null, "", address(run, test, lab, at)), this.#others(run, told.name, ref.name), checks);
    waiting.replaceWith(this.labPage.element);
    this.labPage.travel(moment ?? this.#start());
  }

  // The first moment shown of a lab. For a snapshot it is the state before any decision.
  #start() {
    return this.page.kind === "snapshot" ? 0 : this.labPage.start;
  }

  // Shows the raw entry of an expectation, in any of the test's labs.
  async #expectation(test, one) {
    const { chunk } = test.labs.find((each) => each.name === one.lab);
    this.detail.open(new Lab(await this.source.lab(chunk), this.source), one.expected,
      [["seen", one.seen], ["at", `${one.t} s`], ["verdict", one.held ? "held" : "not held"], ...lineFacts(one.source)], [{ title: "The expectation", refs: [one.ref] }]);
  }

  // The lab with this name in the same test of the other runs.
  #others(run, test, lab) {
    return this.page.runs.flatMap((one, place) => {
      const ref = place === run ? null : one.tests.find((each) => each.name === test)?.labs.find((each) => each.name === lab);
      return ref ? [{ title: inWords(this.page, one), load: async () => new Lab(await this.source.lab(ref.chunk), this.source) }] : [];
    });
  }

  #address() {
    // A page with a single test shows it at once.
    const only = this.page.runs.length === 1 && this.page.runs[0].tests.length === 1 ? "#/0/0" : "";
    const parts = (location.hash.length > 2 ? location.hash : only).slice(2).split("/").map(Number);
    const whole = (value) => (Number.isInteger(value) && value >= 0 ? value : 0);
    return parts.length < 2 ? { run: -1, test: -1, lab: 0, moment: null } : { run: whole(parts[0]), test: whole(parts[1]), lab: whole(parts[2]), moment: parts.length > 3 ? whole(parts[3]) : null };
  }

  #key(event) {
    if (!this.labPage || this.detail.dialog.open || !travels(event)) return;
    if (this.labPage.key(event.key)) event.preventDefault();
  }

  #redraw() {
    if (this.labPage) this.labPage.travel(this.labPage.moment);
  }
}

// Without a moment in the address: the best first moment of a lab.
function address(run, test, lab = 0, moment = null) {
  return `#/${run}/${test}/${lab}${moment === null ? "" : `/${moment}`}`;
}
