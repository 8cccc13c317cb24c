// One test: its verdict, its expectations, and its labs.

import { plural } from "viewer/amounts";
import { button, h, table } from "viewer/dom";
import { lineOf } from "viewer/line";
import { reasonOf, verdictClass } from "viewer/summary";

// address(lab, moment): the address of a lab. opened(one): shows the raw entry of an expectation.
export function testHead(run, test, lab, address, opened) {
  // The time of the check, with a link to the lab at that moment.
  const then = (one) => (one.moment < 0 ? `${one.t} s` : h("a", {
    href: address(test.labs.findIndex((each) => each.name === one.lab), one.moment), "aria-label": `${one.t} s: how the lab stood then` }, `${one.t} s`));
  const lines = test.expectations.some((one) => one.source);
  return h("div", {},
    h("p", {}, h("span", { class: `verdict ${verdictClass(test.outcome)}` }, test.outcome), " ", test.sentence),
    test.reason ? h("p", {}, reasonOf(test)) : null,
    test.message ? h("pre", { class: "message" }, test.message) : null,
    test.source ? h("p", { class: "failed-at" }, "Failed at ", lineOf(test.source)) : null,
    test.warnings.length ? h("div", { class: "warning" }, h("p", {}, "Warnings about what was applied:"), h("ul", {}, test.warnings.map((one) =>
      h("li", {}, `${one.lab}, ${one.t} s, ${one.step}: ${one.text}`)))) : null,
    test.expectations.length ? h("section", { class: "panel", "aria-labelledby": "expected-title" }, h("h2", { id: "expected-title" }, "Expected and seen"),
      table("Expected and seen", ["", "At", "Expected", "Seen", ...(lines ? ["In the test"] : []), "From"], test.expectations.map((one) => [
        h("span", { class: `verdict small ${one.held ? "good" : "bad"}` }, one.held ? "held" : "not held"), then(one), one.expected, one.seen,
        ...(lines ? [lineOf(one.source)] : []),
        button(h("code", {}, `${one.lab}/expectations.jsonl:${one.line}`), () => opened(one), { class: "link", "aria-label": `Raw entry: ${one.expected}` }),
      ]))) : null,
    test.differs.length ? h("section", { class: "panel", "aria-labelledby": "differs-title" }, h("h2", { id: "differs-title" }, "Otherwise than under the reference"),
      h("ul", {}, test.differs.map((one) => h("li", {}, one)))) : null,
    test.labs.length > 1 ? h("nav", { class: "within", "aria-label": "Labs" }, test.labs.map((one, place) =>
      h("a", { href: address(place), "aria-current": place === lab ? "page" : null }, one.name))) : null);
}

export function labFacts(one) {
  return `${one.name === "lab" ? "Lab" : `Lab ${one.name}`}: fleet ${one.fleet}, ${plural(one.nodes, "node")}, ${plural(one.gpus, "GPU")}, scheduler ${one.scheduler}, ${one.backend}`;
}
