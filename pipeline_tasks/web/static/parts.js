// What several views are made of: states, tables, links between views.

import { h, plain } from "./dom.js";

const WAIT = "Reading the lineage …";

/** Shows that something is on its way, then what `load` resolves to, or what went wrong with a way to try again. */
export async function into(root, load, what = WAIT) {
  const turn = Symbol("turn");
  root.turn = turn;
  const wait = setTimeout(() => root.turn === turn && root.replaceChildren(loading(what)), 120);
  try {
    const content = await load();
    if (root.turn === turn) root.replaceChildren(...[content].flat());
  } catch (error) {
    if (root.turn === turn) root.replaceChildren(failure(error, () => into(root, load, what)));
  } finally {
    clearTimeout(wait);
  }
}

export const loading = (what = WAIT) =>
  h("div", { class: "state", role: "status" }, h("div", { class: "spinner" }), what);

export const failure = (error, again) =>
  h("div", { class: "state error", role: "alert" }, h("strong", {}, "That did not work"), h("pre", {}, error.message),
    again && h("button", { onclick: again }, "Try again"));

export const empty = (title, ...words) => h("div", { class: "state" }, h("strong", {}, title), h("span", {}, ...words));

/** A table of objects; `columns` are [key, title, format, class]. */
export function table(columns, rows, caption = "") {
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption || "table" },
    h("table", {},
      h("thead", {}, h("tr", {}, columns.map(([, title, , kind]) => h("th", { scope: "col", class: kind === "number" && kind }, title)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, columns.map(([key, , format, kind]) =>
        h("td", { class: kind }, cell(format ? format(row[key], row) : row[key]))))))));
}

function cell(value) {
  if (value instanceof Node || Array.isArray(value) && value[0] instanceof Node) return value;
  if (value === null || value === undefined) return h("span", { class: "null" }, "NULL");
  return plain(value);
}

/** Rows of any shape as a table; long values are cut by the style, and whole in the tooltip. */
export function rowsTable(rows, caption, names = [...new Set(rows.flatMap(Object.keys))]) {
  const value = (v) => (v === null || v === undefined ? v : h("div", { class: "clip", title: plain(v) }, plain(v)));
  return table(names.map((name) => [name, name, value, typeof rows[0]?.[name] === "number" ? "number" : ""]), rows, caption);
}

export const section = (title, ...content) => h("section", {}, h("h3", {}, title), ...content);

/** Names and values, side by side. */
export const facts = (pairs) =>
  h("dl", {}, pairs.filter(Boolean).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value instanceof Node || Array.isArray(value) ? value : plain(value))]));

export const to = (view, ...words) => `#/${view}/${words.map(encodeURIComponent).join("/")}`;

/** The one of `versions` that `ref` names; DATASET and DATASET@latest name the latest. */
export const versionOf = (versions, ref) =>
  versions.find((v) => v.ref === ref || v.is_latest && [v.dataset, `${v.dataset}@latest`].includes(ref));

export function versionLink(ref, view = "graph") {
  const [dataset, version = ""] = ref.split("@");
  return h("a", { href: to(view, ref), title: ref }, dataset, h("span", { class: "version" }, ` ${version.slice(0, 8)}`));
}

export const badge = (text, kind = "") => h("span", { class: `badge ${kind}` }, text);
