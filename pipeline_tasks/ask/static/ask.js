// A question and what two systems find, side by side.

import { get } from "./api.js";
import { hitCard } from "./hit.js";
import { count, h } from "./dom.js";
import { empty, into, to } from "./parts.js";

const NOTHING = "";
let known;

export function askView(root, [question = "", intent = "", ...systems]) {
  into(root, async () => {
    known ??= await get("about");
    const results = h("div", { class: "results" });
    const asked = systems.length ? systems : known.chosen;
    const page = h("div", { class: "page ask-page" }, form(question, intent, asked), corpus(), results);
    const wait = "Asking. The first question to a system takes longer: it is loaded, and its vectors are made where none are stored.";
    if (question) into(results, () => answers(question, intent || known.intents[0], asked.filter(Boolean)), wait);
    else results.append(empty("Ask what a reader would ask", "Whole sentences are welcome. Each passage tells its page, its score and what it was used for."));
    return page;
  });
}

function form(question, intent, systems) {
  const text = h("input", { type: "search", name: "question", value: question, required: true, maxlength: 2000, autocomplete: "off", placeholder: "How long does a flooded car float?" });
  const first = choice("first", known.systems, systems[0]);
  const beside = choice("beside", [NOTHING, ...known.systems], systems[1] ?? NOTHING, { [NOTHING]: "nothing" });
  const wish = choice("intent", known.intents, intent);
  const submit = (event) => {
    event.preventDefault();
    if (!text.value.trim()) return;
    const address = to("ask", text.value.trim(), wish.value, first.value, beside.value);
    if (location.hash === address) dispatchEvent(new Event("hashchange"));
    else location.hash = address;
  };
  const field = (name, control, kind = "") => h("label", { class: `field ${kind}` }, h("span", {}, name), control);
  return h("form", { class: "ask-form", onsubmit: submit },
    field("Question", text, "question"), field("System", first), field("Beside it", beside), field("Intent", wish),
    h("button", { class: "primary" }, "Ask"));
}

const choice = (name, values, chosen, titles = {}) =>
  h("select", { name }, values.map((value) => h("option", { value, selected: value === chosen }, titles[value] ?? value)));

const corpus = () =>
  h("p", { class: "quiet" }, `${count(known.n_passages)} passages of ${count(known.n_documents)} documents, ${known.corpus}. `,
    known.saves_to ? `Judgements go to ${known.saves_to}.` : "Judgements are not kept: start with --save questions.jsonl to keep them.");

async function answers(question, intent, systems) {
  const found = await get("ask", { question, intent, system: systems });
  const said = h("p", { class: "said", role: "status" }, found.columns.map((c) => `${c.hits.length} passages by ${c.system}`).join(", "));
  const say = (words, kind) => {
    said.className = `said ${kind}`;
    said.replaceChildren(words);
  };
  const ranks = Object.fromEntries(found.columns.map((c) => [c.system, new Map(c.hits.map((hit) => [hit.passage_id, hit.rank]))]));
  const shown = { ...found, ranks, saves: Boolean(known.saves_to), say, again: [] };
  return [said, found.note && h("p", { class: "quiet" }, found.note), h("div", { class: "columns" }, found.columns.map((column) => columnOf(column, shown)))];
}

function columnOf(column, shown) {
  const [, version = ""] = column.version.split("@");
  const facts = [column.unit, `${column.seconds.toFixed(2)} s`,
    column.trained_on.length > 0 && `trained on ${column.trained_on.map((ref) => ref.split("@")[0]).join(", ")}`];
  return h("section", { class: "column", "aria-label": column.system },
    h("h2", {}, column.system, version && h("span", { class: "version", title: column.version }, ` ${version.slice(0, 8)}`)),
    h("p", { class: "quiet", title: column.trained_on.join(", ") }, facts.filter(Boolean).join(" · ")),
    column.hits.length ? h("ol", { class: "hits" }, column.hits.map((hit) => hitCard(hit, column, shown)))
      : empty("Nothing found", "No passage shares a word with the question."));
}
