// A run at a glance: verdicts, and each test with its sentence and its expectations.

import { plural } from "viewer/amounts";
import { button, h, replace } from "viewer/dom";
import { Rows } from "viewer/rows";

export const BAD = new Set(["failed", "interrupted", "xpassed", "error"]);

// Filters for tests in addition to verdicts.
const EXPECTING = "+expecting", NOT_HELD = "+not held";

export class Summary {
  // address(run, test): the address of a test's page.
  constructor(page, address) {
    Object.assign(this, { page, address });
    this.tests = page.runs.flatMap((run, at) => run.tests.map((test, place) => ({ run: at, place, test })));
    // Show tests that did not pass first.
    this.tests.sort((one, other) => Number(BAD.has(other.test.outcome)) - Number(BAD.has(one.test.outcome)));
    this.search = h("input", { type: "search", id: "search", placeholder: "name or sentence", oninput: () => this.#show() });
    const outcomes = [...new Set(this.tests.map((one) => one.test.outcome))].sort();
    this.outcome = h("select", { id: "outcome", onchange: () => this.#show() },
      h("option", { value: "" }, "all verdicts"), outcomes.map((one) => h("option", { value: one }, one)),
      h("option", { value: EXPECTING }, "with expectations"), h("option", { value: NOT_HELD }, "with one not held"));
    this.count = h("span", { class: "quiet", role: "status" });
    const columns = page.runs.length > 1 ? [
      { title: "Test", width: "minmax(14rem, 2fr)" }, { title: "In a sentence", width: "minmax(14rem, 3fr)" },
      ...page.runs.map((one) => ({ title: one.run, width: "minmax(14.5rem, 1fr)" })), { title: "Compared", width: "8rem" },
    ] : [
      { title: "Verdict", width: "7.5rem" }, { title: "Test", width: "minmax(14rem, 2fr)" },
      { title: "In a sentence", width: "minmax(14rem, 3fr)" }, { title: "Expected", width: "8rem" }, { title: "Cycles, decisions", width: "9rem" },
    ];
    this.rows = new Rows({ label: "Tests", columns, height: 44, most: 640, file: "the run's folders" });
    this.rows.element.classList.toggle("tests", page.runs.length === 1);
    this.element = h("div", {},
      page.runs.map((run) => this.#run(run)),
      h("section", { class: "panel", "aria-labelledby": "tests-title" },
        h("div", { class: "panel-head" }, h("h2", { id: "tests-title" }, "Tests"),
          h("span", { class: "tools" }, h("label", { for: "search" }, "Find "), this.search, h("label", { for: "outcome", class: "hidden" }, "Verdict"), this.outcome)),
        this.count, this.rows.element));
    this.#show();
  }

  #run(run) {
    const { facts } = run;
    const expected = run.tests.reduce((sum, test) => sum + test.expectations.length, 0);
    const failed = run.tests.flatMap((test) => test.expectations).filter((one) => !one.held).length;
    const name = runName(this.page, run);
    // Each number selects the tests that it counts.
    const counted = (count, words, choice, classes = "verdict") => h("li", {},
      button([h("strong", {}, String(count)), words], () => this.#choose(choice), { class: classes, disabled: count === 0 }));
    return h("section", { class: "panel", "aria-label": name },
      h("h2", {}, name),
      h("ul", { class: "verdicts" },
        Object.entries(run.outcomes).map(([outcome, count]) => counted(count, ` ${outcome}`, outcome, `verdict ${verdictClass(outcome)}`)),
        counted(expected, expected === 1 ? " expectation" : " expectations", EXPECTING), counted(failed, " not held", NOT_HELD)),
      run.about ? h("p", { class: "quiet" }, run.about) : facts ? h("p", { class: "quiet" }, `${when(facts.begun, facts.ended)}. `, (facts.labs ?? []).map((one) =>
        `${plural(one.labs, "lab")} on ${one.backend}, fleet ${one.fleet}, scheduler ${one.versions?.scheduler ?? one.scheduler}. `))
        : h("p", { class: "warning" }, "This run did not finish: it has no run.json."),
      run.problems.length ? h("div", { class: "warning" }, h("p", {}, "The folder is not what was written:"), h("ul", {}, run.problems.map((one) => h("li", {}, one)))) : null);
  }

  // The same test of several runs in one row.
  #pairs(shown) {
    const names = [...new Set(shown.map((one) => one.test.name))];
    const of = new Map(this.tests.map((one) => [`${one.run} ${one.test.name}`, one]));
    this.rows.show(names.length, (at) => {
      const both = this.page.runs.map((_, run) => of.get(`${run} ${names[at]}`));
      const verdicts = new Set(both.map((one) => one?.test.outcome ?? "not there"));
      const differs = both.reduce((sum, one) => sum + (one?.test.differs.length ?? 0), 0);
      return [
        h("span", { title: names[at] }, names[at]), h("span", { class: "words" }, both.find((one) => one)?.test.sentence ?? ""),
        ...both.map((one, run) => (one ? h("a", { href: this.address(one.run, one.place), class: `verdict small ${verdictClass(one.test.outcome)}`, "aria-label": `${names[at]}, ${inWords(this.page, this.page.runs[run])}: ${one.test.outcome}` },
          `${one.test.outcome}: ${one.test.cycles} cycles, ${one.test.decisions} decisions`) : "not there")),
        differs ? h("strong", {}, plural(differs, "difference")) : verdicts.size > 1 ? h("strong", {}, "differ") : "the same",
      ];
    }, "No test is so.");
  }

  #choose(outcome) {
    this.outcome.value = outcome;
    this.search.value = "";
    this.#show();
    this.rows.element.scrollIntoView({ block: "nearest" });
  }

  #show() {
    const text = this.search.value.toLowerCase(), outcome = this.outcome.value;
    const shown = this.tests.filter(({ test }) => fits(test, outcome) && (!text || `${test.name} ${test.sentence}`.toLowerCase().includes(text)));
    replace(this.count, shown.length === this.tests.length ? "" : `${shown.length} of ${plural(this.tests.length, "test")}`);
    if (this.page.runs.length > 1) return this.#pairs(shown);
    this.rows.show(shown.length, (at) => {
      const { run, place, test } = shown[at];
      const held = test.expectations.filter((one) => one.held).length;
      return [
        h("span", { class: `verdict small ${verdictClass(test.outcome)}` }, test.outcome),
        h("a", { href: this.address(run, place), title: test.name }, test.name),
        inASentence(test),
        test.expectations.length ? `${held} of ${test.expectations.length} held` : "nothing",
        `${test.cycles}, ${test.decisions}`,
      ];
    }, "No test is so.");
  }
}

// When a run began and how long it took.
function when(begun, ended) {
  const took = (Date.parse(ended) - Date.parse(begun)) / 1000;
  return `${begun.slice(0, 19).replace("T", " ")} UTC, ${Number.isFinite(took) ? `${took.toFixed(took < 10 ? 1 : 0)} s` : `until ${ended}`}`;
}

// The test's sentence. A test that did not pass adds what was seen instead of the expected, or why; a test that was skipped or
// expected to fail adds the reason.
function inASentence(test) {
  const missed = test.expectations.find((one) => !one.held);
  const why = missed ? `expected ${missed.expected}; seen: ${missed.seen}` : test.message.split("\n", 1)[0];
  const bad = BAD.has(test.outcome) && why, below = bad ? why : reasonOf(test);
  if (!below) return h("span", { class: "words", title: test.sentence }, test.sentence);
  return h("span", { class: "told", title: `${test.sentence}\n${below}` }, h("span", {}, test.sentence), h("span", { class: bad ? "why" : "quiet" }, below));
}

// Why it was skipped or expected to fail.
export function reasonOf(test) {
  return !test.reason ? "" : test.outcome === "skipped" ? `skipped: ${test.reason}` : `expected to fail: ${test.reason}`;
}

// In a trial each contender is a run with its own name.
export function runName(page, run) {
  return page.kind === "trial" ? run.run : `Run ${run.run}`;
}

export function inWords(page, run) {
  return page.kind === "trial" ? run.run : `run ${run.run}`;
}

function fits(test, choice) {
  if (choice === EXPECTING) return test.expectations.length > 0;
  if (choice === NOT_HELD) return test.expectations.some((one) => !one.held);
  return !choice || test.outcome === choice;
}

export function verdictClass(outcome) {
  return BAD.has(outcome) ? "bad" : outcome === "passed" || outcome === "captured" || outcome === "xfailed" ? "good" : "";
}
