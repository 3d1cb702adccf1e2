// Which view is shown: #/<view>/<argument>/… in the address, so that every state can be linked and gone back to.

import { get } from "./api.js";
import { compareView } from "./compare.js";
import { graphView } from "./graph.js";
import { sqlView } from "./sql.js";
import { followTheme } from "./theme.js";
import { traceView } from "./trace.js";

const VIEWS = { graph: graphView, trace: traceView, compare: compareView, sql: sqlView };
const root = document.getElementById("view");
const me = get("me").catch(() => ({ name: "", may_sql: false }));

function show() {
  const [, name, ...words] = location.hash.split("/");
  const view = VIEWS[name] ? name : "graph";
  for (const link of document.querySelectorAll("nav a[data-view]")) {
    if (link.dataset.view === view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  root.className = view;
  VIEWS[view](root, words.map(decoded), me);
}

function decoded(word) {
  try {
    return decodeURIComponent(word);
  } catch {
    return "";
  }
}

followTheme();
addEventListener("hashchange", show);
show();
document.getElementById("who").textContent = (await me).name;
