// Two versions side by side: what was asked differently, and which rows came, went and changed.

import { get } from "./api.js";
import { count, h, plain } from "./dom.js";
import { empty, into, rowsTable, section, table, to, versionLink, versionOf } from "./parts.js";

let used = ""; // label of the control whose use rebuilt the view: the keyboard goes on there

export function compareView(root, [old = "", fresh = ""]) {
  const result = h("div", { class: "result" }), form = h("form", { class: "toolbar" });
  root.replaceChildren(h("div", { class: "page" }, form, result));
  into(form, async () => choices(await get("versions"), old, fresh)).then(() => {
    form.querySelector(`[aria-label="${used}"]`)?.focus();
    used = "";
  });
  if (old && fresh) into(result, async () => differences(await get("compare", { old, new: fresh })));
  else result.replaceChildren(empty("Choose two versions", "Two of one dataset, or of two datasets with the same kind of rows."));
}

function choices(versions, ...refs) {
  const [old, fresh] = refs.map((ref) => versionOf(versions, ref)?.ref);
  const option = (v, chosen) => h("option", { value: v.ref, selected: v.ref === chosen }, `${v.dataset} ${v.version.slice(0, 8)}${v.is_latest ? " (latest)" : ""}`);
  const sorted = versions.toSorted((a, b) => a.dataset.localeCompare(b.dataset));
  const kind = (ref) => versions.find((v) => v.ref === ref)?.rows_schema;
  const pick = (label, chosen, list) => h("select", { "aria-label": label }, h("option", { value: "" }, label), list.map((v) => option(v, chosen)));
  const left = pick("old version", old, sorted), right = pick("new version", fresh, sorted.filter((v) => !kind(old) || v.rows_schema === kind(old)));
  const go = ({ target }) => { used = target.getAttribute("aria-label"); location.hash = to("compare", left.value, right.value); };
  left.addEventListener("change", (event) => {
    if (!right.value) right.replaceChildren(...pick("new version", "", sorted.filter((v) => v.rows_schema === kind(left.value))).children);
    else go(event);
  });
  right.addEventListener("change", (event) => left.value && go(event));
  const swap = h("button", { type: "button", onclick: () => { location.hash = to("compare", fresh, old); }, disabled: !(old && fresh), title: "Swap" }, "⇄");
  return [left, swap, right];
}

function differences(d) {
  const tile = (n, name, kind) => h("div", { class: `tile ${kind}` }, h("strong", {}, count(n)), h("span", {}, name));
  const rows = (n) => (d.key === "name" ? `file${n === 1 ? "" : "s"}` : `row${n === 1 ? "" : "s"}`);
  const code = [["step", d.old.step, d.new.step], ["code version", d.old.code_version, d.new.code_version], ["rows", d.old.rows, d.new.rows], ["parts", d.old.parts, d.new.parts]]
    .filter(([, a, b]) => a !== b).map(([name, a, b]) => ({ name, old: a, new: b }));
  const settings = [...code, ...d.params, ...d.licences];
  const value = (v) => h("span", { class: "mono" }, v === null ? "–" : plain(v));
  const refs = (list) => (list ?? []).map((ref) => h("div", {}, versionLink(ref)));
  return [
    h("p", {}, versionLink(d.old.ref), " → ", versionLink(d.new.ref), h("span", { class: "quiet" }, `, rows by ${d.key}`)),
    h("div", { class: "tiles" }, tile(d.n_added, `${rows(d.n_added)} added`, "good"), tile(d.n_removed, `${rows(d.n_removed)} removed`, "bad"), tile(d.n_changed, `${rows(d.n_changed)} changed`, "warn")),
    d.columns_added?.length > 0 && h("p", {}, `New columns: ${d.columns_added.join(", ")}`),
    d.columns_removed?.length > 0 && h("p", {}, `Columns gone: ${d.columns_removed.join(", ")}`),
    settings.length > 0 && section("Made differently", table([["name", "what"], ["old", "old", value, "wide"], ["new", "new", value, "wide"]], settings, "Parameters")),
    d.inputs.length > 0 && section("Made from other versions", table([["name", "input"], ["old", "old", refs], ["new", "new", refs]], d.inputs, "Inputs")),
    !settings.length && !d.inputs.length && h("p", { class: "quiet" }, "Same step, parameters and inputs."),
    d.changed.length > 0 && section(some("Changed", d.changed, d.n_changed), d.changed.map(changed)),
    d.added.length > 0 && section(some("Added", d.added, d.n_added), rowsTable(d.added, "Rows added")),
    d.removed.length > 0 && section(some("Removed", d.removed, d.n_removed), rowsTable(d.removed, "Rows removed")),
  ].filter(Boolean);
}

const some = (name, rows, n) => (rows.length < n ? `${name}: ${count(rows.length)} of ${count(n)}` : `${name}: ${count(n)}`);

const lines = (value) => (Array.isArray(value) ? value.map(plain).join("\n") : plain(value));

const changed = ({ key, columns }, i) =>
  h("details", { open: i === 0 }, h("summary", {}, h("span", { class: "mono" }, plain(key)), h("span", { class: "quiet" }, ` ${columns.map((c) => c.column).join(", ")}`)),
    table([["column", "column", null, "mono"], ["old", "old", lines, "wide old"], ["new", "new", lines, "wide new"]], columns, `Row ${key}`));
