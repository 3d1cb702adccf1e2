// openapi.json, to be read.

import { h } from "./dom.js";
import { badge, into, table } from "./parts.js";
import { followTheme } from "./theme.js";

followTheme();
into(document.getElementById("view"), async () => {
  const spec = await (await fetch("openapi.json")).json();
  const calls = Object.entries(spec.paths).flatMap(([path, methods]) => Object.entries(methods).map(([method, call]) => endpoint(path, method, call, spec)));
  return h("div", { class: "page docs" }, h("h2", {}, spec.info.title), h("p", {}, spec.info.description), calls);
});

function endpoint(path, method, call, spec) {
  const schema = call.requestBody?.content["application/json"].schema, name = schema?.$ref?.split("/").at(-1);
  const fields = Object.entries(spec.components.schemas[name]?.properties ?? {}).map(([field, about]) => ({ name: field, schema: about, description: about.description, required: true }));
  const parameters = [...(call.parameters ?? []), ...fields].map((p) => ({ name: p.name, type: p.schema.type, required: p.required ? "yes" : `no (${JSON.stringify(p.schema.default)})`, description: p.schema.description ?? p.description ?? "" }));
  return h("section", {}, h("h3", {}, badge(method.toUpperCase(), "good"), h("span", { class: "mono" }, ` ${path}`)), h("p", {}, call.description),
    parameters.length > 0 && table([["name", "parameter", null, "mono"], ["type", "type"], ["required", "required"], ["description", "what it is", null, "wide"]], parameters, path));
}
