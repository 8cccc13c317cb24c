// One lab: the time line, and views that all show the same moment.

import { Colours } from "viewer/colours";
import { Compared } from "viewer/compared";
import { Decided } from "viewer/decided";
import { h } from "viewer/dom";
import { Evictions } from "viewer/evictions";
import { Facts } from "viewer/facts";
import { Fleet } from "viewer/fleet";
import { Gangs } from "viewer/gangs";
import { Headline } from "viewer/headline";
import { NONE } from "viewer/lab";
import { Moments } from "viewer/moments";
import { Queues } from "viewer/queues";
import { Timeline, summaryOf } from "viewer/timeline";
import { Waiting } from "viewer/waiting";

export class LabPage {
  // moved: called for each shown moment. others: labs of other runs to compare with. checks: expectations of this lab.
  // running: of a running lab, {explain(podgroup): the lines of its answer, change(form, sought): opens a form for a workload or a node}.
  constructor(lab, detail, moved, others = [], checks = [], running = {}) {
    this.lab = lab;
    this.moved = moved;
    this.last = lab.moments.length - 1;
    // The first moment: that of a failed expectation, or of the last eviction, or else the end.
    const evicting = lab.evictionsOf.findLastIndex((places) => places.length);
    this.start = checks.find((one) => !one.held && one.moment !== NONE)?.moment ?? (evicting >= 0 ? evicting : this.last);
    const colours = this.colours = new Colours(lab), facts = new Facts(lab, detail, running);
    const travel = (moment) => this.travel(moment);
    this.timeline = new Timeline(lab, travel, checks);
    this.headline = new Headline(lab, checks, facts, (id) => this.#goTo(id));
    this.fleet = new Fleet(lab, colours, facts);
    const decided = new Decided(lab, facts);
    this.views = [
      this.headline, this.fleet, new Queues(lab, colours, facts), new Waiting(lab, facts),
      new Evictions(lab, colours, facts, travel), decided, new Gangs(lab, colours, facts, travel), new Compared(lab, colours, facts, others),
      new Moments(lab, travel, checks, (moment, kind) => {
        decided.pick(kind);
        this.travel(moment);
        this.#goTo("decided");
      }),
    ];
    const names = [["fleet", "Fleet"], ["queues", "Queues"], ["waiting", "Waiting"], ["evictions", "Evictions"], ["decided", "Done and decided"], ["gangs", "Gangs"], ["compared", others.length ? "Two moments, or two runs" : "Two moments"], ["moments", "Moments"]];
    this.summary = h("span", {}, summaryOf(lab));
    this.element = h("div", { class: "lab" },
      lab.moments.length ? [this.timeline.element,
        h("div", { class: "between" },
          h("nav", { class: "within", "aria-label": "Views" }, names.map(([id, name]) =>
            h("button", { type: "button", class: "link", onclick: () => this.#goTo(id) }, name))),
          h("p", { class: "quiet" }, this.summary, ". Arrow keys travel; names and numbers open raw entries.")),
        h("div", { class: "views" }, this.views.map((view) => view.element))] : h("p", {}, "No moment was recorded: nothing was done to this lab."));
  }

  // Replace the lab's data. A reader at the last moment follows to the new last moment.
  renew() {
    const { lab } = this, followed = this.moment === this.last;
    this.summary.textContent = summaryOf(lab);
    for (const each of [this.colours, this.timeline, ...this.views]) each.renew?.();
    this.last = lab.moments.length - 1;
    this.travel(followed ? this.last : this.moment);
  }

  travel(moment) {
    const { moments } = this.lab;
    if (!moments.length) return;
    this.moment = Math.min(moments.length - 1, Math.max(0, moment));
    this.timeline.show(this.moment);
    for (const view of this.views) view.show(this.moment);
    this.moved(this.moment);
  }

  // Handle a key. Returns true if it has a meaning here.
  key(key) {
    const to = { ArrowLeft: this.moment - 1, ArrowRight: this.moment + 1, Home: 0, End: this.lab.moments.length - 1 }[key];
    if (to !== undefined) this.travel(to);
    else if (key === "e") this.timeline.next();
    else return false;
    return true;
  }

  redraw(paper) {
    this.timeline.draw(paper);
    for (const view of this.views) view.redraw?.(paper);
  }

  #goTo(id) {
    const section = document.getElementById(id);
    section.scrollIntoView({ block: "start" });
    section.setAttribute("tabindex", "-1");
    section.focus({ preventScroll: true });
  }
}
