// The drawing: an SVG that can be panned, zoomed and walked through with the keyboard, and a small map of it.

import { count, h, s } from "./dom.js";
import { versionOf } from "./parts.js";

const WIDTH = 192, HEIGHT = 46, COLUMN = 246, ROW = 66, MARGIN = 40, LEGIBLE = 0.8, LONGEST = 22;

/** "embeddings/all-minilm-l6-v2" as "embed…/all-minilm-l6-v2": the end tells more. */
function short(name) {
  if (name.length <= LONGEST) return name;
  const end = name.slice(name.lastIndexOf("/")), head = LONGEST - end.length - 1;
  return head > 1 ? `${name.slice(0, head)}…${end}` : `…${name.slice(1 - LONGEST)}`;
}

export class Canvas {
  constructor(graph, onopen) {
    this.onopen = onopen;
    this.nodes = new Map(graph.nodes.map((node) => [node.ref, { ...node, x: node.layer * COLUMN, y: node.row * ROW }]));
    this.edges = graph.edges;
    this.width = Math.max(...[...this.nodes.values()].map((n) => n.x)) + WIDTH;
    this.height = Math.max(...[...this.nodes.values()].map((n) => n.y)) + HEIGHT;
    this.paths = this.edges.map((edge) => s("path", { d: this.path(edge), class: "edge" }));
    this.boxes = new Map([...this.nodes].map(([ref, node]) => [ref, this.box(node)]));
    this.layer = s("g", {}, this.paths, ...this.boxes.values());
    this.element = s("svg", { class: "canvas", role: "group", "aria-label": "Dataset versions, arrows from input to output" }, this.layer);
    this.frame = s("rect", { class: "frame" });
    this.map = h("div", { class: "map", "aria-hidden": "true" },
      s("svg", { viewBox: `${-MARGIN} ${-MARGIN} ${this.width + 2 * MARGIN} ${this.height + 2 * MARGIN}` },
        [...this.nodes.values()].map((n) => s("rect", { x: n.x, y: n.y, width: WIDTH, height: HEIGHT, class: `dot ${n.room}` })), this.frame));
    this.view = { x: 0, y: 0, scale: 1 };
    this.listen();
  }

  find(ref) {
    return versionOf([...this.nodes.values()], ref);
  }

  path({ source, target, bends }) {
    const a = this.nodes.get(source), b = this.nodes.get(target), middle = HEIGHT / 2;
    let [x, y] = [a.x + WIDTH, a.y + middle];
    const parts = [`M${x} ${y}`];
    const curve = (to_x, to_y) => {
      const half = (x + to_x) / 2;
      parts.push(`C${half} ${y} ${half} ${to_y} ${to_x} ${to_y}`);
      [x, y] = [to_x, to_y];
    };
    for (const [layer, row] of bends) {
      curve(layer * COLUMN, row * ROW + middle);
      parts.push(`H${x += WIDTH}`);
    }
    curve(b.x, b.y + middle);
    return parts.join("");
  }

  box(node) {
    const size = node.is_missing ? "gone" : node.rows_schema === "files" ? `${node.parts} files` : `${count(node.rows)} rows`;
    const label = `${node.dataset}, version ${node.version}, ${size}${node.is_latest ? ", latest" : ""}`;
    return s("g", { class: `node ${node.room} ${node.is_latest ? "latest" : "older"}`, tabindex: 0, role: "button", "aria-label": label,
      transform: `translate(${node.x} ${node.y})`, onclick: () => this.moved || this.onopen(node.ref),
      onkeydown: (event) => this.walk(event, node), onfocus: (event) => event.target.matches(":focus-visible") && this.show(node) },
      s("title", {}, label),
      s("rect", { class: "card", width: WIDTH, height: HEIGHT, rx: 6 }),
      s("rect", { class: "bar", width: 4, height: HEIGHT - 12, x: 5, y: 6, rx: 2 }),
      s("text", { class: "name", x: 16, y: 20 }, short(node.dataset)),
      s("text", { class: "meta", x: 16, y: 36 }, `${node.version.slice(0, 8)} · ${size}`),
      node.non_commercial && s("text", { class: "nc", x: WIDTH - 8, y: 36, "text-anchor": "end" }, "NC"));
  }

  /** Arrow keys follow the edges; up and down stay in the column; Enter opens. */
  walk(event, node) {
    const all = [...this.nodes.values()];
    const next = {
      Enter: () => void this.onopen(node.ref),
      " ": () => void this.onopen(node.ref),
      ArrowLeft: () => this.nodes.get(this.edges.find((e) => e.target === node.ref)?.source),
      ArrowRight: () => this.nodes.get(this.edges.find((e) => e.source === node.ref)?.target),
      ArrowUp: () => all.filter((n) => n.x === node.x && n.y < node.y).sort((a, b) => b.y - a.y)[0],
      ArrowDown: () => all.filter((n) => n.x === node.x && n.y > node.y).sort((a, b) => a.y - b.y)[0],
    }[event.key];
    if (!next) return;
    event.preventDefault();
    const found = next();
    if (found) this.boxes.get(found.ref).focus();
  }

  /** Bring out one version and everything up and down from it. */
  select(ref) {
    const chosen = this.find(ref);
    ref = chosen?.ref;
    const family = new Set(ref ? [ref] : []);
    const reach = (from, to) => {
      for (const queue = [ref]; queue.length;) {
        const at = queue.pop();
        for (const edge of this.edges) {
          if (edge[from] === at && !family.has(`${from}${edge[to]}`)) {
            family.add(`${from}${edge[to]}`).add(edge[to]);
            queue.push(edge[to]);
          }
        }
      }
    };
    if (ref) { reach("source", "target"); reach("target", "source"); }
    this.element.classList.toggle("chosen", Boolean(chosen));
    for (const [name, box] of this.boxes) {
      box.classList.toggle("selected", name === ref);
      box.classList.toggle("near", family.has(name));
      box.setAttribute("aria-pressed", name === ref);
    }
    const down = (name) => name === ref || family.has(`source${name}`), up = (name) => name === ref || family.has(`target${name}`);
    this.edges.forEach(({ source, target }, i) =>
      this.paths[i].classList.toggle("near", Boolean(ref) && (down(source) && down(target) || up(source) && up(target))));
    if (chosen) this.show(chosen, LEGIBLE);
  }

  /** First look: all of it where that can be read, else a legible part: `ref`, or the beginning. */
  open(ref) {
    this.fit();
    if (this.view.scale >= LEGIBLE) return;
    const { height } = this.size(), node = this.find(ref);
    this.view = { scale: 1, x: MARGIN / 2, y: (height - this.height) / 2 };
    node ? this.show(node) : this.apply();
  }

  size() {
    return this.element.getBoundingClientRect();
  }

  fit() {
    const { width, height } = this.size();
    const scale = Math.min((width - 2 * MARGIN) / this.width, (height - 2 * MARGIN) / this.height, 1.2);
    this.view = { scale, x: (width - this.width * scale) / 2, y: (height - this.height * scale) / 2 };
    this.apply();
  }

  /** Move just so far that `node` is in sight, and as near as `least` at least. */
  show(node, least = 0) {
    if (this.view.scale < least) this.zoom(least / this.view.scale);
    const { width, height } = this.size(), { scale } = this.view, room = 60;
    const left = node.x * scale, top = node.y * scale;
    const inside = (at, low, high) => Math.min(Math.max(at, low), Math.max(low, high));
    this.view.x = inside(this.view.x, room - left, width - room - left - WIDTH * scale);
    this.view.y = inside(this.view.y, room - top, height - room - top - HEIGHT * scale);
    this.apply();
  }

  zoom(factor, at = null) {
    const { width, height } = this.size(), { x, y, scale } = this.view;
    const [px, py] = at ?? [width / 2, height / 2], to = Math.min(Math.max(scale * factor, 0.05), 3);
    this.view = { scale: to, x: px - (px - x) * to / scale, y: py - (py - y) * to / scale };
    this.apply();
  }

  apply() {
    const { x, y, scale } = this.view, { width, height } = this.size();
    this.layer.setAttribute("transform", `translate(${x} ${y}) scale(${scale})`);
    for (const [name, value] of Object.entries({ x: -x / scale, y: -y / scale, width: width / scale, height: height / scale })) {
      this.frame.setAttribute(name, value);
    }
    this.map.hidden = x >= 0 && y >= 0 && this.width * scale + x <= width && this.height * scale + y <= height;
  }

  listen() {
    const { element } = this;
    let from = null;
    element.addEventListener("pointerdown", (event) => { from = event.button ? null : [event.clientX, event.clientY]; this.moved = false; });
    element.addEventListener("pointermove", (event) => {
      if (!from) return;
      const dx = event.clientX - from[0], dy = event.clientY - from[1];
      if (!this.moved && Math.hypot(dx, dy) < 4) return;
      if (!this.moved) element.setPointerCapture(event.pointerId);
      this.moved = true;
      from = [event.clientX, event.clientY];
      this.view.x += dx;
      this.view.y += dy;
      this.apply();
    });
    element.addEventListener("pointerup", () => { from = null; });
    element.addEventListener("pointercancel", () => { from = null; });
    element.addEventListener("wheel", (event) => {
      event.preventDefault();
      const { left, top } = this.size();
      this.zoom(Math.exp(-event.deltaY / 400), [event.clientX - left, event.clientY - top]);
    }, { passive: false });
    element.addEventListener("keydown", (event) => {
      const action = { "+": () => this.zoom(1.3), "-": () => this.zoom(1 / 1.3), 0: () => this.fit() }[event.key];
      if (action) action();
    });
    this.map.addEventListener("click", (event) => {
      const box = this.map.firstChild, point = new DOMPoint(event.clientX, event.clientY).matrixTransform(box.getScreenCTM().inverse());
      const { width, height } = this.size(), { scale } = this.view;
      this.view.x = width / 2 - point.x * scale;
      this.view.y = height / 2 - point.y * scale;
      this.apply();
    });
    new ResizeObserver(() => this.element.isConnected && this.apply()).observe(element);
  }
}
