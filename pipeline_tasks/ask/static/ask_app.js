// The ask page's views.

import { askView } from "./ask.js";
import { route } from "./router.js";
import { followTheme } from "./theme.js";
import { traceView } from "./trace.js";

followTheme();
route({ ask: askView, trace: traceView });
