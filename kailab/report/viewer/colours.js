// Distinguish queues by a colour, a letter and, in print, a pattern.

const HUES = [212, 28, 150, 330, 50, 270, 185, 0, 95, 240];

export class Colours {
  // known: colours of queues by name in another lab.
  constructor(lab, known = new Map()) {
    this.lab = lab;
    this.known = known;
    this.renew();
  }

  // Update a running lab. A queue keeps its colour and letter; a new one gets the next.
  renew() {
    const { lab } = this;
    for (const queue of lab.leafQueues) {
      const name = lab.queues.name[queue];
      if (!this.known.has(name)) this.known.set(name, this.known.size);
    }
    this.places = new Map(lab.leafQueues.map((queue) => [queue, this.known.get(lab.queues.name[queue])]));
  }

  letter(queue) {
    const place = this.places.get(queue);
    return place === undefined ? "?" : letters(place);
  }

  fill(queue, dark) {
    const place = this.places.get(queue);
    if (place === undefined) return "#a9aeb6";
    // Light enough for black letters. After ten queues the hues repeat in a lighter shade.
    const round = Math.floor(place / HUES.length);
    const light = (dark ? 62 : 66) + [0, 14, 7, 20, 10][round % 5];
    return `hsl(${HUES[place % HUES.length]} ${round % 2 ? 38 : 68}% ${light}%)`;
  }

  pattern(queue) {
    return (this.places.get(queue) ?? 0) % 6;
  }
}

function letters(place) {
  let text = "";
  for (let rest = place; rest >= 0; rest = Math.floor(rest / 26) - 1) text = String.fromCharCode(65 + (rest % 26)) + text;
  return text;
}

// Six line patterns over a cell, for printing in black and white.
export function hatch(context, pattern, x, y, width, height) {
  if (pattern === 0) return;
  context.save();
  context.beginPath();
  context.rect(x, y, width, height);
  context.clip();
  context.beginPath();
  const step = 4;
  for (let at = -height; at < width + height; at += step) {
    if (pattern === 1 || pattern === 3) { context.moveTo(x + at, y + height); context.lineTo(x + at + height, y); }
    if (pattern === 2 || pattern === 3) { context.moveTo(x + at, y); context.lineTo(x + at + height, y + height); }
    if (pattern === 4 && at >= 0 && at < height) { context.moveTo(x, y + at); context.lineTo(x + width, y + at); }
    if (pattern === 5 && at >= 0 && at < width) { context.moveTo(x + at, y); context.lineTo(x + at, y + height); }
  }
  context.stroke();
  context.restore();
}

export function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}
