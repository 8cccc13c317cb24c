() => {
  // Ink is there where a text has boxes, and no box around it cuts it off.
  const whole = (box, element) => {
    for (let around = element; around; around = around.parentElement) {
      const style = getComputedStyle(around), outer = around.getBoundingClientRect();
      if (style.visibility === "hidden" || style.opacity === "0" || style.clipPath !== "none") return false;
      if (style.overflowX !== "visible" && (box.left < outer.left - 1 || box.right > outer.right + 1)) return false;
      if (style.overflowY !== "visible" && (box.top < outer.top - 1 || box.bottom > outer.bottom + 1)) return false;
    }
    return true;
  };
  const text = (element) => {
    const found = [], walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT), range = document.createRange();
    while (walker.nextNode()) {
      range.selectNodeContents(walker.currentNode);
      const boxes = [...range.getClientRects()];
      if (boxes.length && boxes.every((box) => whole(box, walker.currentNode.parentElement))) found.push(walker.currentNode.textContent);
    }
    return found.join(" ");
  };
  return Object.fromEntries([...document.querySelectorAll("[role=table]")].map((table) => [
    table.getAttribute("aria-label"), [...table.querySelectorAll(".body [role=row]")].map((row) => [...row.querySelectorAll("[role=cell]")].map(text)),
  ]));
}
