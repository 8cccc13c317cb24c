// The source of the data, which answers page(), lab(chunk) and entries(chunk). This one reads the compressed data in the page;
// a source on a server would fetch the same chunks.

const SEPARATOR = "\u001e";
const KEPT = 6;

export class EmbeddedSource {
  #texts = new Map();

  async page() {
    return JSON.parse(await unpacked("page"));
  }

  async lab(chunk) {
    return JSON.parse(await unpacked(chunk));
  }

  // The raw entries of a chunk. Only the last few chunks stay unpacked.
  async entries(chunk) {
    if (!this.#texts.has(chunk)) {
      this.#texts.set(chunk, (await unpacked(chunk)).split(SEPARATOR));
      if (this.#texts.size > KEPT) this.#texts.delete(this.#texts.keys().next().value);
    }
    return this.#texts.get(chunk);
  }
}

async function unpacked(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`the page has no data ${id}`);
  const text = element.textContent;
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}
