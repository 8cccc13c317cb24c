// The line of a test that did or expected something.

import { h } from "viewer/dom";

// Empty if no test did it.
export function lineOf(source) {
  return source ? h("span", { class: "line" }, h("span", { class: "quiet" }, placeOf(source)), source.text ? h("code", {}, source.text) : null) : null;
}

export function placeOf(source) {
  return `${source.file}:${source.line}`;
}

// The same as facts for the details.
export function lineFacts(source) {
  return source ? [["from", placeOf(source)], ...(source.text ? [["line", source.text]] : [])] : [];
}
