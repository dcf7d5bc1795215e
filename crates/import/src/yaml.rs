//! A parser for the subset of YAML that configurations use. Its memory is bounded.
//!
//! The parser emits events, from which the tree is built here. Depth, size and the expansion of
//! aliases are thus counted before anything is stored. Tags are ignored; a key that is not a text
//! is kept as it is written.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Number, Value};

use crate::source::{self, Error, malformed};

/// Maximum nesting depth of a document.
const MAX_NESTING: usize = 64;
/// Maximum number of values of a document, including those repeated by aliases.
const MAX_VALUES: usize = 2_000_000;

/// Parses the first document of a text.
///
/// # Errors
/// The text is not YAML, or exceeds a limit.
pub(crate) fn parse(path: &str, octets: &[u8]) -> Result<Value, Error> {
    let text = source::text(path, octets)?;
    let mut tree = Tree::default();
    for event in Parser::new_from_str(&text) {
        let (event, span) = event.map_err(|error| malformed(path, error))?;
        if matches!(event, Event::DocumentEnd) {
            break;
        }
        tree.take(event)
            .map_err(|reason| malformed(path, format!("line {}: {reason}", span.start.line())))?;
    }
    Ok(tree.root)
}

/// The parsed part of the document.
#[derive(Default)]
struct Tree {
    root: Value,
    open: Vec<Open>,
    anchors: HashMap<usize, (Value, usize)>,
    values: usize,
}

/// A list or a table that has not ended.
struct Open {
    anchor: usize,
    /// The number of values before this list or table.
    before: usize,
    kind: Collection,
}

enum Collection {
    List(Vec<Value>),
    /// The table so far, and the key of the next value.
    Table(Map<String, Value>, Option<String>),
}

impl Tree {
    fn take(&mut self, event: Event<'_>) -> Result<(), &'static str> {
        match event {
            Event::SequenceStart(anchor, _) => self.open(anchor, Collection::List(Vec::new())),
            Event::MappingStart(anchor, _) => {
                self.open(anchor, Collection::Table(Map::new(), None))
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Scalar(text, style, anchor, _) => {
                let value = scalar(&text, style);
                self.keep(anchor, &value, 1);
                self.put(value, 1)
            }
            Event::Alias(anchor) => {
                let (value, size) =
                    self.anchors.get(&anchor).ok_or("an alias without its anchor")?;
                let size = *size;
                if self.values.saturating_add(size) > MAX_VALUES {
                    return Err("too many values");
                }
                let value = value.clone();
                self.put(value, size)
            }
            _ => Ok(()),
        }
    }

    fn open(&mut self, anchor: usize, kind: Collection) -> Result<(), &'static str> {
        if self.open.len() >= MAX_NESTING {
            return Err("too deeply nested");
        }
        self.open.push(Open { anchor, before: self.values, kind });
        Ok(())
    }

    fn close(&mut self) -> Result<(), &'static str> {
        let open = self.open.pop().ok_or("an end without a start")?;
        let value = match open.kind {
            Collection::List(items) => Value::Array(items),
            Collection::Table(keys, _) => Value::Object(keys),
        };
        let size = self.values - open.before + 1;
        self.keep(open.anchor, &value, size);
        self.put(value, 1)
    }

    /// Stores a value that has an anchor, so that aliases can refer to it. Anchor 0 means no
    /// anchor.
    fn keep(&mut self, anchor: usize, value: &Value, size: usize) {
        if anchor > 0 {
            // The copy counts towards the limit as well.
            self.values = self.values.saturating_add(size);
            self.anchors.insert(anchor, (value.clone(), size));
        }
    }

    fn put(&mut self, value: Value, size: usize) -> Result<(), &'static str> {
        self.values = self.values.saturating_add(size);
        if self.values > MAX_VALUES {
            return Err("too many values");
        }
        match self.open.last_mut().map(|open| &mut open.kind) {
            None => self.root = value,
            Some(Collection::List(items)) => items.push(value),
            Some(Collection::Table(keys, key)) => match key.take() {
                None => *key = Some(key_text(value)?),
                Some(key) => drop(keys.insert(key, value)),
            },
        }
        Ok(())
    }
}

fn key_text(value: Value) -> Result<String, &'static str> {
    match value {
        Value::String(text) => Ok(text),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(flag) => Ok(flag.to_string()),
        Value::Null => Ok(String::new()),
        _ => Err("a key that is not text"),
    }
}

/// Converts a plain scalar by the core schema (YAML 1.2 §10.3.2): whole numbers, booleans and null.
fn scalar(text: &str, style: ScalarStyle) -> Value {
    if style != ScalarStyle::Plain {
        return Value::String(text.to_owned());
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => match text.parse::<i64>() {
            // A leading plus or zero must be kept, because the value may be meant as a text.
            Ok(number) if number.to_string() == text => Value::Number(Number::from(number)),
            _ => Value::String(text.to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Value) {
        assert_eq!(parse("a.yaml", text.as_bytes()).unwrap(), expected);
    }

    #[test]
    fn documents_become_values() {
        check(
            "a: 1\nb: [x, 'true', true, ~, 012]\n",
            json!({"a": 1, "b": ["x", "true", true, null, "012"]}),
        );
        check("a: |\n  one\n  two\n53: {x: y}\n", json!({"a": "one\ntwo\n", "53": {"x": "y"}}));
        check("a: &x [1]\nb: *x\n", json!({"a": [1], "b": [1]}));
        check("", Value::Null);
    }

    #[test]
    fn hostile_documents_are_errors() {
        let deep = "[".repeat(100_000);
        let deep_block: String =
            (0..2_000).map(|depth| format!("{}-\n", " ".repeat(depth))).collect();
        let mut laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..12 {
            let alias = format!("*a{}, ", level - 1);
            laughs +=
                &format!("a{level}: &a{level} [{}]\n", alias.repeat(10).trim_end_matches(", "));
        }
        for text in
            [deep.as_str(), &deep_block, &laughs, "a: *b", "a: [", "\0", "a: b: c", "? [x]\n: y"]
        {
            assert!(parse("a.yaml", text.as_bytes()).is_err(), "{}", &text[..text.len().min(40)]);
        }
    }
}
