// The line of a test from which something was done or expected.

import { h } from "viewer/dom";

// Nothing where no test did it.
export function lineOf(source) {
  return source ? h("span", { class: "line" }, h("span", { class: "quiet" }, placeOf(source)), source.text ? h("code", {}, source.text) : null) : null;
}

export function placeOf(source) {
  return `${source.file}:${source.line}`;
}

// As facts of what is opened.
export function lineFacts(source) {
  return source ? [["from", placeOf(source)], ...(source.text ? [["line", source.text]] : [])] : [];
}
