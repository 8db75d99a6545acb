// The map of nodes: what is under the pointer or the cursor is told in a line below, and opened by a click or Enter. A block's drawing says what its cells are.

const side = 10; // cells in a row of a block
const pitch = 12; // from one cell to the next, in the drawing's units

// defineNodeMap makes <node-map> work.
export function defineNodeMap() {
  customElements.define("node-map", NodeMap);
}

class NodeMap extends HTMLElement {
  #at = 0; // index of the cell under the cursor

  connectedCallback() {
    this.addEventListener("pointermove", (e) => this.#tell(this.#under(e)));
    this.addEventListener("pointerleave", () => this.#tell(null));
    this.addEventListener("click", (e) => this.#open(this.#under(e)));
    this.addEventListener("keydown", (e) => this.#key(e));
    this.addEventListener("focus", () => this.#mark());
    this.addEventListener("blur", () => this.#unmark());
    this.addEventListener("shown", () => this === document.activeElement && this.#mark());
  }

  // under returns the cell under the pointer, or null.
  #under(e) {
    const svg = e.target.closest?.("svg[data-cells]");
    if (!svg) return null;
    const box = svg.getBoundingClientRect();
    const scale = svg.viewBox.baseVal.width / box.width;
    const column = Math.floor(((e.clientX - box.left) * scale) / pitch);
    const row = Math.floor(((e.clientY - box.top) * scale) / pitch);
    return this.#cell(svg, row * side + column);
  }

  #cell(svg, index) {
    const text = svg.dataset.cells.split(" ")[index];
    if (!text) return null;
    const [name, word, fill] = text.split("|");
    return { svg, index, name, word, fill };
  }

  // numbered returns the cell of that number on the whole map, or null.
  #numbered(n) {
    for (const svg of this.querySelectorAll("svg[data-cells]")) {
      const count = svg.dataset.cells.split(" ").length;
      if (n < count) return this.#cell(svg, n);
      n -= count;
    }
    return null;
  }

  #tell(cell) {
    this.querySelector("output").textContent = cell ? `${cell.name} · ${cell.word} · ${cell.fill} % full` : "\u00a0";
  }

  #open(cell) {
    if (cell) location.assign(`/nodes/${encodeURIComponent(cell.name)}`);
  }

  #key(e) {
    const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -side, ArrowDown: side }[e.key];
    if (e.key === "Enter") this.#open(this.#numbered(this.#at));
    else if (by && this.#numbered(Math.max(0, this.#at + by))) {
      this.#at = Math.max(0, this.#at + by);
      this.#mark();
    } else if (e.key === "Home") {
      this.#at = 0;
      this.#mark();
    } else if (!by) return;
    e.preventDefault();
  }

  #unmark() {
    this.querySelector(".at-cell")?.remove();
  }

  #mark() {
    this.#unmark();
    const cell = this.#numbered(this.#at);
    this.#tell(cell);
    if (!cell) return;
    const frame = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    const x = (cell.index % side) * pitch;
    const y = Math.floor(cell.index / side) * pitch;
    for (const [name, value] of Object.entries({ class: "at-cell", x, y, width: 10, height: 10 })) frame.setAttribute(name, value);
    cell.svg.append(frame);
    cell.svg.scrollIntoView({ block: "nearest" });
  }
}
