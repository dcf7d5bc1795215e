//! The OpenAPI 3.1 document, generated from the table of routes and the schemas of the requests of
//! the control socket. `openapi.json` of this crate is its checked-in copy.

use std::collections::{BTreeMap, HashMap};

use avocet_control::access::AccessScope;
use avocet_control::schema::{self, CommandSchemas};
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::conditional::MAX_KEY;
use crate::input::{FieldKind, QueryField};
use crate::own::{self, OwnSchemas};
use crate::problem::{PROBLEM_JSON, ProblemBody};
use crate::route::{Does, Needs, OwnCall, ROUTES, ReplyForm, Route, Verb};
use crate::tables::{self, Tables};
use crate::upload;

/// The path of the definitions in the document.
const DEFINITIONS: &str = "/components/schemas";

/// The interface as data: its document, and the types of the fields of each route.
pub(crate) struct Interface {
    /// The document.
    pub(crate) document: Value,
    /// The tables of the configuration.
    pub(crate) tables: Tables,
    fields: HashMap<(Verb, &'static str), BTreeMap<String, QueryField>>,
}

/// The schemas of the request and the reply of a route, with references into the definitions.
struct RouteSchemas {
    request: Value,
    reply: Value,
}

impl Interface {
    /// Generates the document.
    pub(crate) fn generate() -> Self {
        let settings = SchemaSettings::draft2020_12()
            .with(|settings| settings.definitions_path = DEFINITIONS.into());
        let mut generator = settings.into_generator();
        let commands = schema::all_in(&mut generator);
        let own: Vec<_> = ROUTES.iter().map(|route| own_schemas(route, &mut generator)).collect();
        let problem = generator.subschema_for::<ProblemBody>().to_value();
        let tables = Tables::generate();
        let mut definitions = generator.take_definitions(true);
        definitions.extend(tables.definitions());
        let (mut paths, mut all_fields) = (Map::new(), HashMap::new());
        for (route, own) in ROUTES.iter().zip(own) {
            let schemas = schemas_of(route, own, &commands, &definitions);
            let fields = fields(&schemas.request, &definitions);
            let path = paths.entry(route.full_path()).or_insert_with(|| json!({}));
            path[route.verb.method().as_str().to_ascii_lowercase()] =
                operation(route, &schemas, &fields);
            let of_query = fields.into_iter().map(|field| (field.name, field.place));
            all_fields.insert((route.verb, route.path), of_query.collect());
        }
        let mut document = document(paths, definitions, problem);
        bound(&mut document);
        Self { document, tables, fields: all_fields }
    }

    /// Returns the fields of a route in the form that a query has.
    pub(crate) fn query_fields(&self, route: &Route) -> &BTreeMap<String, QueryField> {
        static NONE: BTreeMap<String, QueryField> = BTreeMap::new();
        self.fields.get(&(route.verb, route.path)).unwrap_or(&NONE)
    }
}

fn own_schemas(route: &Route, generator: &mut SchemaGenerator) -> Option<OwnSchemas> {
    match route.does {
        Does::Own(call) => Some(own::schemas(call, generator)),
        Does::Call(..) | Does::Entries(_) | Does::Upload(_) => None,
    }
}

fn schemas_of(
    route: &Route,
    own: Option<OwnSchemas>,
    commands: &[CommandSchemas],
    definitions: &Map<String, Value>,
) -> RouteSchemas {
    if let Some(OwnSchemas { request, reply }) = own {
        return RouteSchemas { request: request.to_value(), reply: reply.to_value() };
    }
    let (command, form) = match route.does {
        Does::Call(command, form) => (command, form),
        Does::Upload(command) => (command, ReplyForm::End),
        Does::Entries(call) => {
            let (request, reply) = tables::schemas_of(call);
            return RouteSchemas { request, reply };
        }
        Does::Own(_) => return RouteSchemas { request: json!({}), reply: json!({}) },
    };
    // A test compares the commands of the table with those of the control socket.
    let Some(schemas) = commands.iter().find(|one| one.command == command) else {
        return RouteSchemas { request: json!({}), reply: json!({}) };
    };
    let (request, end) = (schemas.request.clone().to_value(), schemas.reply.clone().to_value());
    let part = schemas.part.clone().map(schemars::Schema::to_value).unwrap_or_default();
    let reply = match form {
        ReplyForm::End => end,
        ReplyForm::File(_) => json!({ "type": "string" }),
        ReplyForm::Fields(names) => only(resolve(&end, definitions), names),
        ReplyForm::WithParts(name) => json!({
            "type": "object",
            "properties": { name: { "type": "array", "items": part } },
            "required": [name],
        }),
        ReplyForm::Lines | ReplyForm::Events => part,
    };
    RouteSchemas { request, reply }
}

/// Returns an object schema with some of its properties.
fn only(schema: &Value, names: &[&str]) -> Value {
    let properties: Map<String, Value> =
        names.iter().map(|name| ((*name).to_owned(), schema["properties"][name].clone())).collect();
    json!({ "type": "object", "properties": properties, "required": names })
}

/// Follows a reference into the definitions.
fn resolve<'v>(schema: &'v Value, definitions: &'v Map<String, Value>) -> &'v Value {
    let name = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next());
    name.and_then(|name| definitions.get(name)).unwrap_or(schema)
}

/// A field of a request.
struct Field {
    name: String,
    place: QueryField,
    schema: Value,
    is_required: bool,
}

fn fields(request: &Value, definitions: &Map<String, Value>) -> Vec<Field> {
    let request = resolve(request, definitions);
    let required = request["required"].as_array();
    let is_required =
        |name: &str| required.is_some_and(|names| names.iter().any(|one| one == name));
    let Some(properties) = request["properties"].as_object() else { return Vec::new() };
    let mut found = Vec::new();
    for (name, schema) in properties {
        let inner = fields_within(name, schema, definitions);
        if !inner.is_empty() {
            let is_required = is_required(name);
            found.extend(inner.into_iter().map(|field| Field { is_required, ..field }));
            continue;
        }
        found.push(Field {
            name: name.clone(),
            place: QueryField { kind: field_kind(schema), within: None },
            schema: schema.clone(),
            is_required: is_required(name),
        });
    }
    found
}

/// Returns the fields of an object in a request. A query has these fields without the object.
fn fields_within(object: &str, schema: &Value, definitions: &Map<String, Value>) -> Vec<Field> {
    let properties = resolve(schema, definitions)["properties"].as_object();
    let field = |(name, schema): (&String, &Value)| Field {
        name: name.clone(),
        place: QueryField { kind: field_kind(schema), within: Some(object.to_owned()) },
        schema: schema.clone(),
        is_required: false,
    };
    properties.into_iter().flatten().map(field).collect()
}

fn field_kind(schema: &Value) -> FieldKind {
    let kinds = &schema["type"];
    let has = |kind: &str| {
        kinds == kind || kinds.as_array().is_some_and(|all| all.iter().any(|one| one == kind))
    };
    match (has("integer"), has("boolean")) {
        (true, _) => FieldKind::Number,
        (_, true) => FieldKind::Flag,
        _ => FieldKind::Text,
    }
}

fn operation(route: &Route, schemas: &RouteSchemas, fields: &[Field]) -> Value {
    let words = route.path.trim_matches('/').replace(['/', '.'], "-");
    let verb = route.verb.method().as_str().to_ascii_lowercase();
    let (status, description) = match route.does {
        Does::Own(OwnCall::ProviderBegin) => ("303", "The browser goes to the provider"),
        _ => ("200", "The request succeeded"),
    };
    let mut operation = json!({
        "operationId": format!("{verb}-{words}"),
        "summary": route.summary,
        "tags": [words.split('-').next().unwrap_or_default()],
        "responses": {
            status: {
                "description": description,
                "content": content(route, &schemas.reply),
            },
            "4XX": { "$ref": "#/components/responses/Problem" },
            "5XX": { "$ref": "#/components/responses/Problem" },
        },
        "security": security(route),
    });
    let mut parameters: Vec<Value> = Vec::new();
    if let Does::Upload(_) = route.does {
        let line = json!({ "type": "string", "description": "The content of the file, unchanged" });
        operation["requestBody"] =
            json!({ "required": true, "content": { upload::MEDIA: { "schema": line } } });
    } else if route.verb.has_body() {
        operation["requestBody"] = json!({
            "required": fields.iter().any(|field| field.is_required),
            "content": { "application/json": { "schema": schemas.request } },
        });
    } else {
        parameters.extend(fields.iter().map(query_parameter));
    }
    if route.guards.is_some() {
        let text = "The ETag of the resource: if the resource has changed, the request fails";
        parameters.push(header_parameter("If-Match", text, json!({ "type": "string" })));
    }
    if route.verb == Verb::Post && matches!(route.does, Does::Call(..) | Does::Entries(_)) {
        let text = "For ten minutes, a repeated request with this key gets the first reply";
        let key = json!({ "type": "string", "minLength": 1, "maxLength": MAX_KEY });
        parameters.push(header_parameter("Idempotency-Key", text, key));
    }
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    operation
}

/// Returns the media types of a reply, with its schema.
fn content(route: &Route, reply: &Value) -> Value {
    let media: &[&str] = match route.does {
        Does::Call(_, ReplyForm::Lines) => &["application/jsonl"],
        Does::Call(_, ReplyForm::Events) => &["text/event-stream"],
        Does::Call(_, ReplyForm::File(media)) => media,
        Does::Own(OwnCall::ProviderFinish) => &["text/html"],
        _ => &["application/json"],
    };
    media.iter().map(|one| ((*one).to_owned(), json!({ "schema": reply }))).collect()
}

fn query_parameter(field: &Field) -> Value {
    let mut schema = field.schema.clone();
    let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
    json!({
        "name": field.name,
        "in": "query",
        "required": field.is_required,
        "description": description,
        "schema": schema,
    })
}

fn header_parameter(name: &str, description: &str, schema: Value) -> Value {
    json!({
        "name": name,
        "in": "header",
        "required": false,
        "description": description,
        "schema": schema,
    })
}

/// Adds the greatest value to the schemas of integers, which have only a format otherwise.
fn bound(value: &mut Value) {
    let most = match value["format"].as_str() {
        Some("uint8") => Some(u64::from(u8::MAX)),
        Some("uint16") => Some(u64::from(u16::MAX)),
        Some("uint32") => Some(u64::from(u32::MAX)),
        Some("uint64" | "uint") => Some(u64::MAX),
        _ => None,
    };
    match value {
        Value::Object(fields) => {
            if let Some(most) = most.filter(|_| fields.contains_key("type")) {
                fields.entry("maximum").or_insert(most.into());
            }
            fields.values_mut().for_each(bound);
        }
        Value::Array(items) => items.iter_mut().for_each(bound),
        _ => {}
    }
}

fn security(route: &Route) -> Value {
    match route.needs {
        Needs::Nothing => json!([]),
        Needs::Session => json!([{ "session": [] }]),
        Needs::Scope(_) => {
            let scopes: Vec<_> = route.scopes().map(AccessScope::text).collect();
            json!([{ "token": scopes }, { "session": scopes }])
        }
    }
}

fn document(paths: Map<String, Value>, definitions: Map<String, Value>, problem: Value) -> Value {
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Avocet",
            "version": "1",
            "description": "Requests to the running server. GET and DELETE take fields from the \
                            query, POST and PUT from a JSON body. Changes in a session need the \
                            header X-CSRF-Token.",
            "license": { "name": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "paths": paths,
        "components": {
            "schemas": definitions,
            "responses": {
                "Problem": {
                    "description": "Problem details (RFC 9457) with a next step",
                    "content": { PROBLEM_JSON: { "schema": problem } },
                },
            },
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer" },
                "session": { "type": "apiKey", "in": "cookie", "name": "avocet-session" },
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `AVOCET_UPDATE=yes cargo test -p avocet-web` rewrites the copy.
    #[test]
    fn the_checked_in_document_is_the_generated_one() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
        let document = Interface::generate().document;
        let text = format!("{}\n", serde_json::to_string_pretty(&document).unwrap());
        if std::env::var_os("AVOCET_UPDATE").is_some() {
            std::fs::write(path, &text).unwrap();
        }
        let stored = std::fs::read_to_string(path).unwrap_or_default();
        assert!(stored == text, "openapi.json is not up to date: run with AVOCET_UPDATE=yes");
    }

    #[test]
    fn every_reference_leads_to_a_definition() {
        let document = Interface::generate().document;
        fn visit(value: &Value, document: &Value) {
            match value {
                Value::Object(fields) => {
                    if let Some(path) = fields.get("$ref").and_then(Value::as_str) {
                        let pointer = path.strip_prefix('#').unwrap();
                        assert!(document.pointer(pointer).is_some(), "{path}");
                    }
                    fields.values().for_each(|value| visit(value, document));
                }
                Value::Array(items) => items.iter().for_each(|value| visit(value, document)),
                _ => {}
            }
        }
        visit(&document, &document);
        assert!(document["paths"]["/api/v1/status"]["get"].is_object());
        let at = &document["paths"]["/api/v1/explain"]["get"]["parameters"];
        let names: Vec<_> = at.as_array().unwrap().iter().map(|one| &one["name"]).collect();
        assert_eq!(names.len(), 8, "{names:?}");
    }

    #[test]
    fn values_that_the_schemas_permit_have_bounds() {
        let document = Interface::generate().document;
        let parameters = |path: &str, verb: &str| {
            document["paths"][format!("/api/v1{path}")][verb]["parameters"].clone()
        };
        let find = |parameters: Value, name: &str| {
            let all = parameters.as_array().unwrap().clone();
            all.into_iter().find(|one| one["name"] == name).unwrap()["schema"].clone()
        };
        let from = find(parameters("/config/revisions/difference", "get"), "from");
        assert_eq!(from["maximum"], u32::MAX);
        let key = find(parameters("/cache/flush", "post"), "Idempotency-Key");
        assert_eq!((&key["minLength"], &key["maxLength"]), (&json!(1), &json!(MAX_KEY)));
    }

    #[test]
    fn fields_of_queries_have_types() {
        let interface = Interface::generate();
        let route = ROUTES.iter().find(|route| route.path == "/explain").unwrap();
        let fields = interface.query_fields(route);
        assert_eq!(fields["at"].kind, FieldKind::Number);
        assert_eq!(fields["name"].kind, FieldKind::Text);
    }
}
