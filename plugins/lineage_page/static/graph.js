// The graph view: choose a version or the newest of everything, see what it hangs together with, open one.

import { get } from "./api.js";
import { Canvas } from "./canvas.js";
import { detailPanel } from "./detail.js";
import { h } from "./dom.js";
import { empty, failure, into, loading, to, versionOf } from "./parts.js";

const ROOMS = ["corpus", "synthesis", "retrieval", "curation", "training", "evaluation"];
let shown = null;

/** `words`: the chosen version, if any. The graph stays while versions inside it are opened. */
export async function graphView(root, [ref = ""]) {
  if (shown && root.contains(shown.element)) {
    shown.select(ref);
    return;
  }
  shown = new GraphView(root);
  await shown.load("");
  if (ref) shown.select(ref);
}

class GraphView {
  constructor(root) {
    this.stage = h("div", { class: "stage" });
    this.panel = h("aside", { class: "panel", hidden: true, "aria-label": "Version" });
    this.note = h("span", { class: "quiet" });
    this.picker = h("input", { type: "search", list: "versions", placeholder: "Find a dataset or version …",
      "aria-label": "Find a version", onchange: () => this.find(this.picker.value) });
    this.list = h("datalist", { id: "versions" });
    this.around = h("button", { onclick: () => this.load(this.focus ? "" : this.selected), disabled: true }, "Only what it touches");
    const zoom = (factor) => () => this.canvas?.zoom(factor);
    this.element = h("div", { class: "graph-view" },
      h("div", { class: "toolbar" }, this.picker, this.list, this.around,
        h("span", { class: "group" },
          h("button", { onclick: zoom(1 / 1.3), title: "Zoom out (−)", "aria-label": "Zoom out" }, "−"),
          h("button", { onclick: zoom(1.3), title: "Zoom in (+)", "aria-label": "Zoom in" }, "+"),
          h("button", { onclick: () => this.canvas?.fit(), title: "Show all (0)" }, "Fit")),
        h("span", { class: "legend" }, ROOMS.map((room) => h("span", { class: `room ${room}` }, room))),
        this.note),
      h("div", { class: "split" }, this.stage, this.panel));
    root.replaceChildren(this.element);
    this.focus = "";
    this.selected = "";
    this.versions = this.fillList();
  }

  async fillList() {
    const versions = await get("versions").catch(() => []);
    this.list.replaceChildren(...versions.map((v) => h("option", { value: v.ref }, v.is_latest ? "latest" : "")));
    return versions;
  }

  /** Waits for the list, which may come later than what is typed. */
  async find(text) {
    const versions = await this.versions;
    const wanted = versionOf(versions, text) ?? versions.find((v) => v.ref.includes(text));
    if (wanted && text) location.hash = to("graph", wanted.ref);
    this.picker.value = "";
  }

  async load(focus) {
    const wait = setTimeout(() => this.stage.replaceChildren(loading()), 120);
    try {
      this.draw(await get("graph", { focus }), focus);
    } catch (error) {
      this.stage.replaceChildren(failure(error, () => this.load(focus)));
    } finally {
      clearTimeout(wait);
    }
  }

  draw(graph, focus) {
    this.focus = focus;
    this.around.textContent = focus ? "The newest of everything" : "Only what it touches";
    const left = graph.n_left_out ? `, ${graph.n_left_out} further away not shown` : "";
    this.note.textContent = `${graph.nodes.length} versions${left}`;
    if (!graph.nodes.length) {
      this.stage.replaceChildren(empty("No dataset version yet", "Run a DAG, for example corpus_refresh, and come back."));
      return;
    }
    this.canvas = new Canvas(graph, (ref) => { location.hash = to("graph", ref); });
    this.stage.replaceChildren(this.canvas.element, this.canvas.map);
    this.canvas.open(focus || this.selected);
    if (this.selected) this.canvas.select(this.selected);
  }

  /** Open `ref`, drawing another graph where this one does not hold it; "" closes. */
  async select(ref) {
    this.selected = ref;
    this.around.disabled = !ref && !this.focus;
    this.panel.hidden = !ref;
    if (this.canvas && ref && !this.canvas.find(ref)) await this.load(ref);
    this.canvas?.select(ref);
    if (ref) into(this.panel, () => detailPanel(ref, () => { location.hash = "#/graph"; }));
  }
}
