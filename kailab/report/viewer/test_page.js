// One test: its verdict, what was expected and seen, and its labs.

import { h, table } from "viewer/dom";
import { verdictClass } from "viewer/summary";

export function testHead(run, test, lab, address) {
  return h("div", {},
    h("p", {}, h("span", { class: `verdict ${verdictClass(test.outcome)}` }, test.outcome), " ", test.sentence),
    test.message ? h("pre", { class: "message" }, test.message) : null,
    test.expectations.length ? h("section", { class: "panel", "aria-labelledby": "expected-title" }, h("h2", { id: "expected-title" }, "Expected and seen"),
      table("Expected and seen", ["", "At", "Expected", "Seen", "From"], test.expectations.map((one) => [
        h("span", { class: `verdict small ${one.held ? "good" : "bad"}` }, one.held ? "held" : "not held"), `${one.t} s`, one.expected, one.seen,
        h("code", {}, `${one.lab}/expectations.jsonl:${one.line}`),
      ]))) : null,
    test.labs.length > 1 ? h("nav", { class: "within", "aria-label": "Labs" }, test.labs.map((one, place) =>
      h("a", { href: address(place), "aria-current": place === lab ? "page" : null }, one.name))) : null);
}

export function labFacts(one) {
  return `Lab ${one.name}: fleet ${one.fleet}, ${one.nodes} nodes, ${one.gpus} GPUs, scheduler ${one.scheduler}, ${one.backend}`;
}
