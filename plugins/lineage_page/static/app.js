// The lineage page's views.

import { get } from "./api.js";
import { compareView } from "./compare.js";
import { outside } from "./dom.js";
import { graphView } from "./graph.js";
import { route } from "./router.js";
import { sqlView } from "./sql.js";
import { followTheme } from "./theme.js";
import { traceView } from "./trace.js";

const me = get("me").catch(() => ({ name: "", may_sql: false, ask_url: "" }));

followTheme();
route({ graph: graphView, trace: traceView, compare: compareView, sql: sqlView }, me);
const { name, ask_url } = await me;
document.getElementById("who").textContent = name;
if (ask_url) document.querySelector("nav .quiet").before(outside(ask_url, "Ask"));
