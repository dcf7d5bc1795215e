//! JSON output of the benches.

use std::fmt;

/// A value as JSON text.
pub(super) struct Json(String);

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns a string, escaped.
pub(super) fn string(text: &str) -> Json {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    Json(quoted + "\"")
}

/// Returns a parsed value. The members of an object keep the order of their keys.
pub(super) fn value(value: &serde_json::Value) -> Json {
    Json(value.to_string())
}

/// Returns a number with three decimal places, or `null` if the number is not finite.
pub(super) fn number(value: f64) -> Json {
    if !value.is_finite() {
        return Json("null".to_owned());
    }
    let rounded = (value * 1000.0).round() / 1000.0;
    Json(rounded.to_string())
}

/// Returns an object with its members in the given order.
pub(super) fn object<'a>(members: impl IntoIterator<Item = (&'a str, Json)>) -> Json {
    let members: Vec<_> =
        members.into_iter().map(|(key, value)| format!("{}: {value}", string(key))).collect();
    Json(format!("{{{}}}", members.join(", ")))
}

/// Returns an array with one value per line.
pub(super) fn array(values: impl IntoIterator<Item = Json>) -> Json {
    let values: Vec<_> = values.into_iter().map(|value| value.0).collect();
    Json(format!("[\n{}\n]", values.join(",\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_json() {
        let value = object([
            ("a\"", string("x\\y\n\u{1}")),
            ("b", number(1.0 / 3.0)),
            ("c", number(f64::NAN)),
        ]);
        assert_eq!(value.to_string(), r#"{"a\"": "x\\y\n\u0001", "b": 0.333, "c": null}"#);
        assert_eq!(array([number(1.0), number(2.0)]).to_string(), "[\n1,\n2\n]");
    }
}
