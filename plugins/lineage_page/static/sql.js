// The SQL box: one SELECT over the lineage and the rows, limited by the server.

import { post } from "./api.js";
import { count, h, plain } from "./dom.js";
import { empty, failure, loading, table } from "./parts.js";

const EXAMPLES = [
  ["Why rows were refused", `SELECT r.step, r.reason, count(*) AS n, any_value(r.detail) AS example
FROM rejects r JOIN versions v USING (dataset, version)
WHERE v.is_latest
GROUP BY r.step, r.reason
ORDER BY n DESC`],
  ["Seconds and tokens by step", `SELECT s.step, count(*) AS runs, round(sum(s.duration_s), 1) AS seconds,
    sum(c.prompt_tokens)::BIGINT AS prompt_tokens
FROM steps s LEFT JOIN (
    SELECT run_id, sum(value) AS prompt_tokens FROM counters WHERE name = 'prompt_tokens' GROUP BY run_id
) c USING (run_id)
GROUP BY s.step ORDER BY seconds DESC`],
  ["How good each system is", `SELECT dataset, system, intent, round(score, 3) AS ndcg, n_queries
FROM evaluations JOIN versions USING (dataset, version)
WHERE is_latest AND metric = 'ndcg@10'
ORDER BY dataset, intent, score DESC`],
  ["How the latest models learned", `SELECT dataset, optimiser_step, round(epoch, 2) AS epoch, loss, learning_rate, dev_score
FROM training_curves JOIN versions USING (dataset, version)
WHERE is_latest
ORDER BY dataset, optimiser_step`],
  ["Tables and views", "SHOW TABLES"],
];
let last = EXAMPLES[0][1];

export async function sqlView(root, _words, me) {
  const page = h("div", { class: "page" });
  root.replaceChildren(page);
  if (!(await me).may_sql) {
    page.replaceChildren(empty("SQL is not open to you", "It is for those who may trigger DAG runs in Airflow."));
    return;
  }
  const box = h("textarea", { rows: 8, spellcheck: "false", "aria-label": "SQL", class: "mono" });
  const result = h("div", { class: "result", "aria-live": "polite" });
  const run = h("button", { class: "primary", title: "Ctrl+Enter" }, "Run"), cancel = h("button", { hidden: true }, "Cancel");
  const save = h("button", { disabled: true }, "Save as CSV");
  let answer = null;
  box.value = last;
  box.addEventListener("input", () => { last = box.value; });

  async function ask() {
    const abort = new AbortController();
    run.disabled = true;
    cancel.hidden = false;
    cancel.onclick = () => abort.abort();
    result.replaceChildren(loading());
    try {
      answer = await post("sql", { sql: box.value }, abort.signal);
      result.replaceChildren(...shown(answer));
    } catch (error) {
      answer = null;
      result.replaceChildren(error.name === "AbortError" ? empty("Cancelled") : failure(error));
    }
    save.disabled = !answer;
    run.disabled = false;
    cancel.hidden = true;
  }

  run.addEventListener("click", ask);
  save.addEventListener("click", () => download(answer));
  box.addEventListener("keydown", (event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && !run.disabled && ask());
  const example = h("select", { "aria-label": "Examples", onchange: () => { box.value = last = EXAMPLES[example.value]?.[1] ?? last; example.value = ""; } },
    h("option", { value: "" }, "Examples …"), EXAMPLES.map(([name], i) => h("option", { value: i }, name)));
  page.replaceChildren(box, h("div", { class: "toolbar" }, run, cancel, example, save,
    h("span", { class: "quiet" }, "Read-only: one SELECT, at most 15 s and 1,000 rows. Times are UTC.")), result);
  box.focus();
}

function shown({ columns, rows, is_cut, seconds }) {
  const note = `${is_cut ? "the first " : ""}${count(rows.length)} row${rows.length === 1 ? "" : "s"}${is_cut ? "; there are more" : ""}, ${seconds.toFixed(2)} s`;
  const numeric = (i) => rows.some((row) => typeof row[i] === "number");
  const value = (v) => (v === null ? v : h("div", { class: "clip", title: plain(v) }, plain(v)));
  return [h("p", { class: is_cut ? "warn" : "quiet" }, note),
    table(columns.map(({ name, type }, i) => [i, h("span", { title: type }, name), value, numeric(i) ? "number" : ""]), rows, "Answer")];
}

function download({ columns, rows }) {
  const computed = (v) => typeof v === "string" && /^[=+\-@\t\r]/.test(v) && !/^-\d+(\.\d+)?$/.test(v); // by a sheet
  const inert = (v) => (computed(v) ? `'${v}` : plain(v));
  const field = (v) => (v === null ? "" : `"${inert(v).replaceAll('"', '""')}"`);
  const lines = [columns.map((c) => field(c.name)), ...rows.map((row) => row.map(field))].map((line) => line.join(","));
  const url = URL.createObjectURL(new Blob([`${lines.join("\n")}\n`], { type: "text/csv" }));
  h("a", { href: url, download: "lineage.csv" }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
