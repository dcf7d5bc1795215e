//! The JSON schema of the file, for editors and for the names of the keys.

use super::spec::Spec;

/// The schema (JSON Schema 2020-12), with every key, its default and its description; it contains
/// no references.
pub fn json_schema() -> serde_json::Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12()
        .with(|settings| settings.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<Spec>().to_value()
}
