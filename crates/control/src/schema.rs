//! The JSON schema of the interface, for authors of clients.

use std::collections::BTreeMap;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;

use crate::call::{Call, Visitor, visit};
use crate::line::ErrorLine;
use crate::part::NoPart;

/// The schemas of all requests and replies (JSON Schema 2020-12).
#[derive(Serialize)]
pub struct InterfaceSchema {
    /// The schemas of requests and replies, by command.
    commands: BTreeMap<String, CallSchema>,
    /// The line that replaces a reply if a request failed.
    error: Schema,
}

/// The schemas of one request.
#[derive(Serialize)]
struct CallSchema {
    /// The fields in addition to `command`.
    request: Schema,
    /// Each line before the last, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<Schema>,
    /// The last line, which also has `done`.
    reply: Schema,
}

impl InterfaceSchema {
    /// Returns the schemas of all requests.
    pub fn of_all() -> Self {
        let mut commands = Commands(BTreeMap::new());
        visit(&mut commands);
        Self { commands: commands.0, error: schema::<ErrorLine>() }
    }
}

/// The schemas of one request, as references into a generator.
#[derive(Debug)]
pub struct CommandSchemas {
    /// The command, as the control socket names it.
    pub command: String,
    /// The fields.
    pub request: Schema,
    /// Each part, if there are any.
    pub part: Option<Schema>,
    /// The end of the reply.
    pub reply: Schema,
}

/// Returns the schemas of all requests, with their definitions in `generator`.
pub fn all_in(generator: &mut SchemaGenerator) -> Vec<CommandSchemas> {
    let mut references = References { generator, found: Vec::new() };
    visit(&mut references);
    references.found
}

struct References<'g> {
    generator: &'g mut SchemaGenerator,
    found: Vec<CommandSchemas>,
}

impl Visitor for References<'_> {
    fn call<C: Call>(&mut self, command: &str) {
        let has_parts = C::Part::schema_name() != NoPart::schema_name();
        self.found.push(CommandSchemas {
            command: command.to_owned(),
            request: self.generator.subschema_for::<C>(),
            part: has_parts.then(|| self.generator.subschema_for::<C::Part>()),
            reply: self.generator.subschema_for::<C::Reply>(),
        });
    }
}

struct Commands(BTreeMap<String, CallSchema>);

impl Visitor for Commands {
    fn call<C: Call>(&mut self, command: &str) {
        let has_parts = C::Part::schema_name() != NoPart::schema_name();
        let schemas = CallSchema {
            request: schema::<C>(),
            part: has_parts.then(schema::<C::Part>),
            reply: schema::<C::Reply>(),
        };
        self.0.insert(command.to_owned(), schemas);
    }
}

fn schema<T: JsonSchema>() -> Schema {
    SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_request_and_a_reply() {
        let schema = serde_json::to_value(InterfaceSchema::of_all()).unwrap();
        let commands = schema["commands"].as_object().unwrap();
        assert_eq!(commands.len(), 67);
        for (command, schemas) in commands {
            assert_eq!(schemas["request"]["type"], "object", "{command}");
            assert_eq!(schemas["reply"]["type"], "object", "{command}");
        }
        let with_parts: Vec<&String> = commands
            .iter()
            .filter(|(_, schemas)| schemas.get("part").is_some())
            .map(|(command, _)| command)
            .collect();
        let expected = [
            "backup",
            "dump",
            "lists-refresh",
            "log-count",
            "log-prune",
            "log-search",
            "log-tail",
            "policy-dry-run",
            "trace",
            "why",
            "zone-export",
        ];
        assert_eq!(with_parts, expected);
        let verdict = &schema["commands"]["why"]["part"]["$defs"]["PolicyVerdict"];
        assert!(verdict.to_string().contains("\"forwarded\""), "{verdict}");
    }

    #[test]
    fn the_manual_lists_every_command_and_every_code() {
        let page = include_str!("../../../docs/manual/control.md");
        let schema = serde_json::to_value(InterfaceSchema::of_all()).unwrap();
        let codes = schema["error"]["$defs"]["ErrorCode"]["oneOf"].as_array().unwrap();
        // A client that has disconnected gets no error, so the page need not have that code.
        let codes = codes
            .iter()
            .map(|code| code["const"].as_str().unwrap())
            .filter(|code| *code != "disconnected");
        let commands = schema["commands"].as_object().unwrap();
        for word in codes.chain(commands.keys().map(String::as_str)) {
            assert!(page.contains(&format!("`{word}`")), "{word}");
        }
    }
}
