"use strict";
const node = (name, text, ...children) => {
  const made = document.createElement(name);
  if (text) made.textContent = text;
  made.append(...children);
  return made;
};

const resolve = (document, schema) => {
  const path = schema && schema.$ref;
  if (!path) return schema || {};
  return path.slice(2).split("/").reduce((at, part) => (at || {})[part], document) || {};
};

const typeOf = (schema) => {
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.type === "array") return `array of ${typeOf(schema.items || {})}`;
  return [].concat(schema.type || "any").join(" or ");
};

const fieldsOf = (document, schema) => {
  const whole = resolve(document, schema);
  const required = whole.required || [];
  const rows = Object.entries(whole.properties || {}).map(([name, field]) => node("tr", "",
    node("td", "", node("code", name)),
    node("td", typeOf(field)),
    node("td", required.includes(name) ? "required" : ""),
    node("td", field.description || resolve(document, field).description || "")));
  return rows.length ? node("table", "", ...rows) : node("p", typeOf(schema || {}));
};

const operation = (document, path, method, one) => {
  const body = one.requestBody && one.requestBody.content["application/json"].schema;
  const parameters = (one.parameters || []).map((each) => node("tr", "",
    node("td", "", node("code", each.name)),
    node("td", `${each.in}, ${typeOf(each.schema)}`),
    node("td", each.required ? "required" : ""),
    node("td", each.description || "")));
  const content = Object.values(one.responses["200"].content)[0];
  const scopes = [...new Set(one.security.flatMap((way) => Object.values(way).flat()))];
  const details = node("details", "",
    node("summary", "", node("code", `${method.toUpperCase()} ${path}`), ` ${one.summary}`),
    node("p", scopes.length ? `Scope: ${scopes.join(", ")}` : ""));
  if (parameters.length) details.append(node("h3", "Parameters"), node("table", "", ...parameters));
  if (body) details.append(node("h3", "Body"), fieldsOf(document, body));
  details.append(node("h3", "Reply"), fieldsOf(document, content.schema));
  return details;
};

const main = async () => {
  const document_ = await (await fetch("/api/v1/openapi.json")).json();
  document.getElementById("about").textContent = document_.info.description;
  const routes = document.getElementById("routes");
  for (const [path, methods] of Object.entries(document_.paths)) {
    for (const [method, one] of Object.entries(methods)) {
      routes.append(operation(document_, path, method, one));
    }
  }
};
main();
