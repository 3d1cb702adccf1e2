// One passage that was found: where it stands, what it was used for, and how somebody judges it.

import { post } from "./api.js";
import { h, outside } from "./dom.js";
import { badge, facts, table, to } from "./parts.js";

const GRADES = [[2, "Answers"], [1, "Helps"], [0, "Neither"]];
const AROUND = 200, SHORT = 520, DECIMALS = { cosine: 3, RRF: 4 };
const row = (shown, hit) => shown.passages[hit.passage_id];

export function hitCard(hit, column, shown) {
  const passage = row(shown, hit);
  const quote = h("blockquote", { class: "passage" });
  const whole = h("button", { class: "link", onclick: () => fill(false) }, "Whole passage");
  const fill = (cut) => {
    quote.replaceChildren(...marked(passage.text, hit.quote, cut && passage.text.length > SHORT));
    whole.hidden = !cut || passage.text.length <= SHORT;
  };
  fill(true);
  return h("li", { class: "hit" },
    h("div", { class: "hit-head" },
      h("span", { class: "rank", "aria-label": `Rank ${hit.rank}` }, hit.rank),
      h("div", { class: "source" }, h("h3", {}, source(passage)), h("span", { class: "quiet" }, pages(passage))),
      h("span", { class: "score", title: column.unit }, hit.score.toFixed(DECIMALS[column.unit] ?? 2))),
    quote, whole,
    h("div", { class: "badges" }, badges(hit, column, shown)),
    h("div", { class: "actions" },
      shown.saves && judge(hit, quote, shown),
      h("a", { href: to("trace", hit.passage_id) }, "Lineage")),
    why(hit, passage, shown.note));
}

/** The document's name, which leads to the page in the PDF where that has an address of the web. */
const source = (passage) =>
  outside(/^https?:/i.test(passage.url ?? "") ? `${passage.url}#page=${passage.page ?? 1}` : "", passage.title || passage.url || "without title");

const pages = ({ page, last_page }) =>
  !page ? "page unknown" : last_page && last_page !== page ? `pages ${page}–${last_page}` : `page ${page}`;

/** The passage as text nodes, the nearest sentence marked; of a long one only what is around that. */
function marked(text, sentence, cut) {
  const at = Math.max(0, text.indexOf(sentence)), end = at + (text.includes(sentence) ? sentence.length : 0);
  const before = text.slice(0, at), after = text.slice(end);
  const from = cut && at > AROUND ? before.indexOf(" ", at - AROUND) + 1 : 0;
  const until = cut && after.length > AROUND ? after.lastIndexOf(" ", AROUND) : after.length;
  return [from > 0 ? "… " : "", before.slice(from), h("mark", {}, text.slice(at, end)), after.slice(0, until), until < after.length ? " …" : ""]
    .map((piece) => (typeof piece === "string" ? piece.replace(/\n{2,}/g, "\n") : piece));
}

function badges(hit, column, shown) {
  const { uses, split } = row(shown, hit);
  const others = Object.entries(shown.ranks).filter(([name]) => name !== column.system);
  const used = (name, words, kind) => uses[name].n > 0 && badge(`${words} ${uses[name].n} in ${uses[name].of.join(", ")}`, kind);
  return [
    others.map(([name, ranks]) => ranks.has(hit.passage_id)
      ? badge(`also rank ${ranks.get(hit.passage_id)} for ${name}`) : badge(`not found by ${name}`, "only")),
    split !== "train" && badge(`held out: ${split}`),
    hit.seen.includes("source") && badge("trained on queries about it", "good"),
    hit.seen.includes("positive") && badge("trained on it as positive", "good"),
    hit.seen.includes("negative") && badge("trained on it as negative", "bad"),
    !hit.seen.includes("positive") && used("positive", "positive of", "good"),
    !hit.seen.includes("negative") && used("negative", "negative of", ""),
  ].flat().filter(Boolean);
}

function judge(hit, quote, shown) {
  const buttons = GRADES.map(([grade, word]) => h("button", { onclick: () => save(grade) }, word));
  const refresh = () => {
    const judged = shown.judged[hit.passage_id];
    buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(judged?.grade === GRADES[i][0])));
  };
  const save = async (grade) => {
    const evidence = selectedIn(quote) || shown.judged[hit.passage_id]?.evidence || hit.quote;
    try {
      const kept = await post("judgements", { question: shown.question, intent: shown.intent, passage_id: hit.passage_id, grade, evidence });
      shown.judged[hit.passage_id] = kept.judgement;
      shown.say(`Saved to ${kept.saved_to}: “${kept.judgement.evidence}”${kept.caution && `; ${kept.caution}`}`, "done");
      shown.again.forEach((again) => again());
    } catch (error) {
      shown.say(error.message, "failed");
    }
  };
  shown.again.push(refresh);
  refresh();
  const title = "The marked sentence is kept as evidence, or the words of the passage that you select";
  return h("div", { class: "group grades", role: "group", "aria-label": `Judge passage ${hit.passage_id}`, title }, buttons);
}

function selectedIn(element) {
  const selection = getSelection();
  const inside = selection.rangeCount > 0 && element.contains(selection.getRangeAt(0).commonAncestorContainer);
  return inside ? selection.toString().replaceAll("…", "").trim() : "";
}

function why(hit, passage, note) {
  const { uses } = passage;
  const query = (text, use) => h("a", { href: to("trace", use.query_id) }, text);
  const cosine = (score) => (score ?? null) === null ? "–" : score.toFixed(3);
  const list = (name, title, ...more) => uses[name].n > 0 && [h("h4", {}, more_of(title, uses[name])),
    table([["query", "query", query, "wide"], ...more], uses[name].rows, title)];
  const votes = uses.agreed.rows.map((use) => [h("h4", {}, "Labelled positive of ", query(use.query, use)),
    table([["model", "reference model"], ["rank", "rank", (n) => n ?? "not ranked", "number"], ["score", "cosine", cosine, "number"]], use.votes ?? [], "Votes")]);
  const unused = !note && Object.values(uses).every((use) => !use.n) && h("p", { class: "quiet" }, "No query was written from it, and no build holds it.");
  return h("details", {}, h("summary", {}, "Why it is here"),
    facts([["nearest sentence", hit.quote], ["address", outside(passage.url)], ["document", h("span", { class: "mono" }, passage.doc_id)],
      ["passage", h("a", { href: to("trace", hit.passage_id), class: "mono" }, hit.passage_id)], ["split", passage.split]]),
    votes, list("written", "Queries written from it", ["intent", "intent"], ["split", "split"]),
    list("positive", "Training rows with it as positive", ["dataset", "build"]),
    list("negative", "Training rows with it as negative", ["dataset", "build"], ["score", "cosine", cosine, "number"]), unused,
    note && h("p", { class: "quiet" }, "What was made of it is not known."));
}

const more_of = (title, use) => (use.n > use.rows.length ? `${title}: the first ${use.rows.length} of ${use.n}` : title);
