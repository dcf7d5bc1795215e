//! The JSON schema of the configuration file, for editors and for the names of the keys.

use super::spec::Spec;

/// Returns the schema (JSON Schema 2020-12), with every key, its default and its description; it
/// contains no references.
pub fn json_schema() -> serde_json::Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12()
        .with(|settings| settings.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<Spec>().to_value()
}

#[cfg(test)]
mod tests {
    /// The command that rewrites the checked-in copy, which the web interface uses:
    /// `AVOCET_UPDATE=yes cargo test -p avocet-config`.
    #[test]
    fn the_checked_in_schema_is_the_generated_one() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/schema.json");
        let text = format!("{}\n", serde_json::to_string_pretty(&super::json_schema()).unwrap());
        if std::env::var_os("AVOCET_UPDATE").is_some() {
            std::fs::write(path, &text).unwrap();
        }
        let stored = std::fs::read_to_string(path).unwrap_or_default();
        assert!(stored == text, "schema.json is not up to date: run with AVOCET_UPDATE=yes");
    }
}
