// Arrows over a list of rows, from one row to another, at a position in a column.

const SVG = "http://www.w3.org/2000/svg";
const MOST = 250;

function svg(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

// arrows: [{from, to, at, strong}]: rows, and the position in the column from 0 to 1. body: of the list; its rows first to last - 1 are
// elements, each height pixels high. column: selects the column's element in a row. Returns the number of arrows that were not drawn.
export function drawArrows(body, { arrows, first, last, height, column }) {
  const place = body.querySelector(column)?.getBoundingClientRect();
  if (!place?.width) return 0;
  const seen = arrows.filter(({ from, to }) => Math.max(from, to) >= first && Math.min(from, to) < last);
  if (!seen.length) return 0;
  // Strong arrows are never omitted in favour of others.
  seen.sort((one, other) => Number(other.strong) - Number(one.strong));
  const left = place.left - body.getBoundingClientRect().left, top = first * height, high = (last - first) * height;
  const picture = svg("svg", { class: "arrows", "aria-hidden": "true", width: place.width, height: high },
    svg("defs", {}, ...["quiet", "strong"].map((how) =>
      svg("marker", { id: `arrow-${how}`, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" },
        svg("path", { d: "M0 0 L8 4 L0 8 z", class: how })))));
  picture.style.left = `${left}px`;
  picture.style.top = `${top}px`;
  // Later arrows are drawn on top.
  for (const { from, to, at, strong } of seen.slice(0, MOST).reverse()) {
    const x = at * place.width, middle = (row) => row * height + height / 2 - top;
    const begin = middle(from), end = middle(to), side = at > 0.9 ? -1 : 1;
    const wide = side * Math.min(60, 14 + Math.abs(end - begin) / 6);
    picture.append(svg("path", {
      class: strong ? "strong" : "quiet", "marker-end": `url(#arrow-${strong ? "strong" : "quiet"})`,
      d: `M${x + side * 6} ${begin} C${x + wide} ${begin} ${x + wide} ${end} ${x + side * 7} ${end}`,
    }));
  }
  body.append(picture);
  return Math.max(0, seen.length - MOST);
}
