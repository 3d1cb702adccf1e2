// The panel of one version: what it is, where it comes from, what it cost, what was refused, what its rows look like.

import { get } from "./api.js";
import { bytes, count, h, moment, plain, seconds } from "./dom.js";
import { badge, facts, rowsTable, section, table, to, versionLink } from "./parts.js";

export async function detailPanel(ref, close) {
  const v = await get("version", { ref }), m = v.manifest;
  const others = v.versions.filter((other) => other.ref !== v.ref);
  return [
    h("div", { class: "panel-head" },
      h("div", {}, h("h2", {}, m.dataset), h("span", { class: "mono quiet" }, m.id)),
      h("button", { class: "close", onclick: close, "aria-label": "Close" }, "✕")),
    h("div", { class: "badges" },
      v.room && h("span", { class: `room ${v.room}` }, v.room),
      v.versions.some((other) => other.ref === v.ref && other.is_latest) && badge("latest", "good"),
      v.licences.some((l) => l.non_commercial) && badge("non-commercial", "bad")),
    tiles(v),
    section("Made by", facts([
      ["step", h("span", {}, m.step, h("span", { class: "quiet" }, ` code version ${m.code_version}`))],
      ["made", moment(v.versions.find((o) => o.ref === v.ref)?.created_at)],
      ...Object.entries(m.inputs).map(([name, refs]) => [name, h("ul", { class: "refs" }, refs.map((r) => h("li", {}, versionLink(r))))]),
      v.made.length > 0 && ["used by", h("ul", { class: "refs" }, v.made.map((r) => h("li", {}, versionLink(r))))],
    ])),
    others.length > 0 && section("Other versions", h("ul", { class: "refs" }, others.slice(0, 12).map((other) =>
      h("li", {}, versionLink(other.ref), h("span", { class: "quiet" }, ` ${moment(other.created_at)} `),
        h("a", { href: to("compare", other.ref, v.ref) }, "compare"))))),
    Object.keys(m.params).length > 0 && section("Parameters",
      facts(Object.entries(m.params).map(([name, value]) => [name, h("span", { class: "mono" }, plain(value))]))),
    v.rejects.length > 0 && section(`Rejects (${count(m.rejects.reduce((n, part) => n + part.rows, 0))})`, v.rejects.map(rejects)),
    v.problem && section("First rows", h("p", { class: "warn" }, v.problem)),
    v.rows.length > 0 && section(`First rows of ${count(m.rows)}`, rowsTable(v.rows, "First rows")),
    m.rows_schema === "files" && section("Files", table([["name", "file"], ["size_bytes", "size", bytes, "number"],
      ["sha256", "sha256", (x) => x.slice(0, 16), "mono"]], m.parts, "Files")),
    v.columns.length > 0 && section("Columns", table([["name", "column", null, "mono"], ["type", "type", null, "mono"], ["doc", "what it is", null, "wide"]], v.columns, "Columns")),
    v.counters.length > 0 && section("Counters", table([["name", "counter", null, "mono"], ["value", "value", number, "number"]], v.counters, "Counters")),
    v.licences.length > 0 && section("Licences of the weights behind it", facts(v.licences.map((l) =>
      [l.model, [h("span", {}, l.licence), l.non_commercial && badge("non-commercial", "bad")].filter(Boolean)]))),
    v.runs.length > 0 && section("Runs", table([["started_at", "started", moment], ["status", "ended", (status, run) => (run.reused ? "found again" : status)],
      ["duration_s", "took", seconds, "number"]], v.runs, "Runs")),
    h("details", {}, h("summary", {}, "Manifest as JSON"), h("pre", { class: "code" }, JSON.stringify(m, null, 1))),
  ].filter(Boolean);
}

const number = (value) => (Number.isInteger(value) ? count(value) : value.toLocaleString("en", { maximumFractionDigits: 4 }));

function tiles(v) {
  const m = v.manifest, files = m.rows_schema === "files", { prompt_tokens, completion_tokens, cost_usd } = v.cost;
  const tile = (value, name, title) => h("div", { class: "tile", title }, h("strong", {}, value), h("span", {}, name));
  return h("div", { class: "tiles" },
    files ? tile(count(m.n_parts), "files") : tile(count(m.rows), "rows"),
    tile(bytes(m.size_bytes), `${count(m.n_parts)} part${m.n_parts === 1 ? "" : "s"}`),
    tile(seconds(v.totals.seconds), "to make", "Seconds of the run that built it and of the mapped runs before it"),
    tile(count(prompt_tokens + completion_tokens), "tokens behind it", "Of all paid answers behind this version and its inputs"),
    tile(`$${cost_usd.toFixed(cost_usd && cost_usd < 1 ? 4 : 2)}`, "paid behind it"));
}

const rejects = ({ reason, n, samples }) =>
  h("details", {}, h("summary", {}, h("span", { class: "mono" }, reason), badge(count(n))),
    table([["row_id", "row", null, "mono"], ["detail", "detail", null, "wide"]], samples, `Rejects: ${reason}`));
