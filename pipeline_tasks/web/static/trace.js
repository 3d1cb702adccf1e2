// The story of one query, from the page it was written from to every build it is in; or that of a passage.

import { get } from "./api.js";
import { count, h, outside, plain } from "./dom.js";
import { badge, empty, facts, into, table, to } from "./parts.js";

export function traceView(root, [id = ""]) {
  const results = h("div", { class: "results" }), story = h("div", { class: "story" });
  const search = h("input", { type: "search", value: id, name: "query", placeholder: "Query id, passage id, or words of a query", "aria-label": "Query" });
  const submit = (event) => {
    event.preventDefault();
    const text = search.value.trim();
    if (/^[0-9a-f]{16}$/.test(text)) location.hash = to("trace", text);
    else into(results, () => found(text));
  };
  root.replaceChildren(h("div", { class: "page" },
    h("form", { class: "toolbar", onsubmit: submit }, search, h("button", { class: "primary" }, "Trace")), results, story));
  if (id) into(story, () => told(id));
  else into(results, () => found(""));
}

async function found(contains) {
  const rows = await get("queries", { contains });
  if (!rows.length) return empty(contains ? "No query contains that" : "No query yet", contains ? "Try fewer words." : "Run synthesize_pairs first.");
  return [h("h3", {}, contains ? `Queries with “${contains}”` : "Some queries to start with"),
    table([["query", "query", (text, row) => h("a", { href: to("trace", row.query_id) }, text), "wide"], ["intent", "intent"], ["query_id", "id", null, "mono"]], rows, "Queries")];
}

async function told(id) {
  const { kind, story, texts, calls, others } = await get("trace", { id });
  return kind === "query" ? query(story, texts, calls) : [story, ...others].flatMap(passage);
}

const step = (title, ...content) => h("li", {}, h("h3", {}, title), ...content);
const quote = (text) => h("blockquote", {}, text);
const passageLink = (id) => h("a", { href: to("trace", id), class: "mono" }, id);
const cosine = (score) => (score === null || score === undefined ? "–" : score.toFixed(3));

function query(q, texts, calls) {
  return [
    h("h2", {}, q.query),
    h("div", { class: "badges" }, badge(q.intent), badge(q.split), badge(q.origin), h("span", { class: "mono quiet" }, q.query_id),
      q.is_labelled ? badge("accepted", "good") : q.rejections ? badge("rejected", "bad") : badge("not judged yet"),
      q.found_in && badge(`not of the latest versions: ${q.found_in}`)),
    h("ol", { class: "steps" },
      step("A document was found", facts([["title", q.title || "without title"], ["address", outside(q.url)], ["document", h("span", { class: "mono" }, q.doc_id)]])),
      step(q.page ? `On page ${q.page} there is this passage` : "There is this passage", quote(q.passage), passageLink(q.passage_id)),
      step("A reader's need was written", quote(q.need ?? "–"), call(q, "need", q.need_response_id, calls)),
      step("A query and its positive were written", facts([["query", q.query], ["positive", q.written_positive]]), call(q, "pair", q.response_id, calls)),
      step("The reference models voted", votes(q, texts)),
      step(q.is_labelled ? "Labelled" : "Verdict", verdict(q)),
      step(`It is in ${(q.builds ?? []).length || "no"} build${(q.builds ?? []).length === 1 ? "" : "s"}`, (q.builds ?? []).map(build))),
  ];
}

function call(row, kind, id, calls) {
  if (!id) return h("p", { class: "quiet" }, "No paid answer.");
  const model = row[`${kind}_model`], paid = calls[id];
  if (!model) return h("p", { class: "quiet" }, `The paid answer ${id.slice(0, 16)} is not in the store.`);
  const tokens = `${count(row[`${kind}_prompt_tokens`])} + ${count(row[`${kind}_completion_tokens`])} tokens`;
  return h("details", {}, h("summary", {}, `${model}, ${tokens}, $${row[`${kind}_cost_usd`].toFixed(6)}`, h("span", { class: "mono quiet" }, ` ${id.slice(0, 16)}`)),
    paid && [h("h4", {}, "Prompt"), h("pre", { class: "code" }, typeof paid.prompt === "string" ? paid.prompt : JSON.stringify(paid.prompt, null, 1)),
      h("h4", {}, "Answer"), h("pre", { class: "code" }, plain(paid.answer))]);
}

function votes(q, texts) {
  const rows = q.votes ?? (q.rankings ?? []).map((r) => ({ ...r, passage_ids: r.top_ids }));
  if (!rows.length) return h("p", { class: "quiet" }, "Not ranked yet.");
  const target = q.is_labelled ? "labelled positive" : "written positive", positive = q.agreed_positive_id;
  const best = (ids) => h("ol", { class: "best" }, (ids ?? []).map((id) =>
    h("li", { class: id === positive ? "hit" : "" }, passageLink(id), h("span", { class: "clip", title: texts[id] ?? "" }, ` ${texts[id] ?? ""}`))));
  return table([["model", "model"], ["positive_rank", `rank of the ${target}`, (n) => n ?? "not ranked", "number"],
    ["positive_score", "cosine", cosine, "number"], ["passage_ids", "best passages", best, "wide"]], rows, "Votes");
}

function verdict(q) {
  const refused = (q.rejections ?? []).map((r) => h("p", {}, badge("rejected", "bad"), ` by ${r.step} (${r.dataset}): `, h("strong", {}, r.reason), ` ${r.detail ?? ""}`));
  if (!q.is_labelled) return refused.length ? refused : h("p", { class: "quiet" }, "Not judged yet.");
  return [facts([["positive", q.agreed_positive], ["negatives by", q.best_model]]), ...refused];
}

function build(b) {
  const rows = b.negative_ids.map((id, i) => ({ id, score: b.negative_scores[i], text: b.negatives[i] }));
  const head = `${rows.length} negatives; positive at ${cosine(b.positive_score)} by ${b.mining_model}`;
  return h("details", {}, h("summary", {}, h("strong", {}, b.dataset), ` ${head}`),
    table([["id", "passage", passageLink], ["score", "cosine", cosine, "number"], ["text", "text", null, "wide"]], rows, `Negatives in ${b.dataset}`));
}

function passage(p) {
  const list = (rows, make) => (rows?.length ? h("ul", {}, rows.map((row) => h("li", {}, make(row)))) : h("p", { class: "quiet" }, "None."));
  const link = (row) => h("a", { href: to("trace", row.query_id) }, row.query ?? row.query_id);
  return [
    h("h2", {}, "Passage ", h("span", { class: "mono" }, p.passage_id)),
    h("div", { class: "badges" }, badge(p.source === "pdf" ? "from a PDF" : "written by the LLM")),
    h("ol", { class: "steps" },
      step("It comes from", facts([["title", p.title || "without title"], ["address", outside(p.url)], p.page && ["page", p.page], ["in", p.datasets.join(", ")]])),
      step("It says", quote(p.text)),
      step("Needs of its readers", list(p.needs, (n) => [badge(n.intent), ` ${n.need}`])),
      step("Queries written from it", list(p.queries, (q) => [badge(q.intent), " ", link(q)])),
      step("Where it is a positive", list(p.positive_of, (r) => [`${r.dataset}: `, link(r)])),
      step("Where it is a negative", list(p.negative_of, (r) => [`${r.dataset}, cosine ${cosine(r.score)}: `, link(r)]))),
  ];
}
