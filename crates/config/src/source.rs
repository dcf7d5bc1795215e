//! The text of a configuration, and the places of values in it.
//!
//! A place is a byte range. Variables of the environment have places too, past the end of the text,
//! so that values from the text and from variables are read, checked and reported in the same way.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::{fmt, io};

use avocet_io::file::read_regular;
use serde::{Deserialize, Serialize};
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer};

use super::error::SettingError;
use super::known;
use super::setting::SettingFault;
use super::spec::Spec;

/// The prefix of each variable that overrides a key.
const PREFIX: &str = "AVOCET_";

/// All errors of a configuration, in the order of the file; never empty.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigErrors(Vec<ConfigError>);

/// An error with its location.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ConfigError {
    /// `FILE:LINE:COLUMN`, the name of a variable, or `FILE` alone.
    pub location: String,
    /// The problem at the location.
    pub message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.location, self.message)
    }
}

impl ConfigErrors {
    /// Returns each error.
    pub fn all(&self) -> &[ConfigError] {
        &self.0
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, error) in self.0.iter().enumerate() {
            if position > 0 {
                f.write_str("\n")?;
            }
            error.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

/// Maximum number of octets of a configuration file.
pub const MAX_CONFIG_FILE: u64 = 1 << 30;

/// Returns the octets of the configuration file at `path`. A running server reads the file again
/// when it changes, so a pipe, which might never get a writer, must not block it.
///
/// # Errors
/// The file cannot be read, is not a regular file, or is larger than 1 GiB.
pub(super) fn read_octets(path: &Path) -> io::Result<Vec<u8>> {
    read_regular(path, MAX_CONFIG_FILE)
}

/// Returns the text of the file at `path`.
///
/// # Errors
/// The file cannot be read, or is not UTF-8.
pub(super) fn read_file(path: &Path) -> Result<String, ConfigErrors> {
    let one =
        |location: String, message: String| ConfigErrors(vec![ConfigError { location, message }]);
    let octets = read_octets(path)
        .map_err(|error| one(path.display().to_string(), format!("cannot be read: {error}")))?;
    String::from_utf8(octets).map_err(|error| {
        let (sound, rest) = error.as_bytes().split_at(error.utf8_error().valid_up_to());
        let sound = String::from_utf8_lossy(sound);
        let octet = rest.first().copied().unwrap_or_default();
        let mut position = LineColumn::START;
        position.move_to(&sound, sound.len());
        one(
            position.in_file(path),
            format!("is not UTF-8: octet 0x{octet:02x}; save the file as UTF-8"),
        )
    })
}

/// A position in a text, which only moves forward: a text with many faults is read once.
struct LineColumn {
    octets: usize,
    line: usize,
    column: usize,
}

impl LineColumn {
    const START: Self = Self { octets: 0, line: 1, column: 1 };

    /// Moves to an octet of the text, or to its end.
    fn move_to(&mut self, text: &str, octets: usize) {
        for char in text.get(self.octets..octets).unwrap_or_default().chars() {
            (self.line, self.column) = match char {
                '\n' => (self.line + 1, 1),
                _ => (self.line, self.column + 1),
            };
        }
        self.octets = octets.max(self.octets);
    }

    /// Returns the position as `FILE:LINE:COLUMN`.
    fn in_file(&self, file: &Path) -> String {
        format!("{}:{}:{}", file.display(), self.line, self.column)
    }
}

/// The contents of a configuration.
pub(super) struct Parsed {
    /// The keys that are present.
    pub(super) spec: Spec,
    /// The faults of unknown keys and of tables of the wrong type.
    pub(super) faults: Vec<SettingFault>,
    /// Whether the file sets no key. Variables may still set keys.
    pub(super) is_bare: bool,
}

/// The text of a configuration with the variables that override it.
pub(super) struct ConfigSource<'a> {
    file: Option<&'a Path>,
    text: &'a str,
    /// The variables of Avocet: the name, section, key and value of each.
    variables: Vec<Variable<'a>>,
}

struct Variable<'a> {
    name: &'a str,
    section: String,
    key: String,
    value: &'a str,
}

impl<'a> ConfigSource<'a> {
    /// Returns a source with the text of `file`, and with the variables of `environment` that name
    /// a section and a key.
    ///
    /// A variable such as `AVOCET_X_Y`, without two underscores, is not one of Avocet unless it is
    /// the name of a key. Container platforms set such variables for their services.
    pub(super) fn new(
        file: Option<&'a Path>,
        text: &'a str,
        environment: &'a BTreeMap<String, String>,
    ) -> Self {
        let kebab = |text: &str| text.to_ascii_lowercase().replace('_', "-");
        let variables = environment
            .iter()
            .filter_map(|(name, value)| {
                let (section, key) =
                    name.strip_prefix(PREFIX)?.split_once("__").unwrap_or_default();
                Some(Variable { name, section: kebab(section), key: kebab(key), value })
            })
            .collect();
        Self { file, text, variables }
    }

    /// Returns the settings in the text, and the faults of its keys.
    ///
    /// # Errors
    /// The text is not TOML.
    pub(super) fn parse(&self) -> Result<Parsed, ConfigErrors> {
        let (mut document, errors) = DeTable::parse_recoverable(self.text);
        if !errors.is_empty() {
            return Err(self.errors(errors.iter().map(|error| self.syntax_fault(error)).collect()));
        }
        let is_bare = document.get_ref().values().all(|section| sets_nothing(section.get_ref()));
        let mut faults = Vec::new();
        let schema = super::json_schema();
        for (position, variable) in self.variables.iter().enumerate() {
            let at = self.text.len() + 1 + position;
            let place = at..at + 1;
            if variable.section.is_empty() {
                faults
                    .extend(variable.meant(&schema).map(|error| SettingFault::new(place, &error)));
                continue;
            }
            if let Err(error) = variable.lay_over(document.get_mut(), &schema, place.clone()) {
                faults.push(SettingFault::new(place, &error));
            }
        }
        known::remove_unknown(document.get_mut(), &schema, &mut faults);
        match Spec::deserialize(Deserializer::from(document)) {
            Ok(spec) => Ok(Parsed { spec, faults, is_bare }),
            Err(error) => {
                faults.push(self.syntax_fault(&error));
                Err(self.errors(faults))
            }
        }
    }

    /// Returns the errors of these faults, in the order of the text.
    pub(super) fn errors(&self, mut faults: Vec<SettingFault>) -> ConfigErrors {
        faults.sort_by_key(|fault| fault.span.start);
        let mut position = LineColumn::START;
        let shown = faults.into_iter().map(|fault| ConfigError {
            location: self.location(&fault.span, &mut position),
            message: fault.message,
        });
        ConfigErrors(shown.collect())
    }

    fn syntax_fault(&self, error: &toml::de::Error) -> SettingFault {
        let span = error.span().unwrap_or(self.text.len()..self.text.len());
        let message = error.message().replace('\n', ", ");
        // The message of the parser does not name a duplicate key, so the key is added from the
        // text.
        let message = match self
            .text
            .get(span.clone())
            .filter(|key| !key.is_empty() && message == "duplicate key")
        {
            Some(key) => format!("{message} `{key}`; the table already has it"),
            None => message,
        };
        SettingFault { span, message }
    }

    /// Returns the place of a span, which must not be before `position`.
    fn location(&self, span: &Range<usize>, position: &mut LineColumn) -> String {
        if let Some(past) = span.start.checked_sub(self.text.len() + 1) {
            return self.variables.get(past).map_or_else(String::new, |v| v.name.to_owned());
        }
        let Some(file) = self.file else {
            return "without a configuration file".to_owned();
        };
        position.move_to(self.text, span.start);
        position.in_file(file)
    }
}

impl<'a> Variable<'a> {
    /// Returns an error with the key that a variable without two underscores probably means; `None`
    /// if it is not a variable of Avocet.
    fn meant(&self, schema: &serde_json::Value) -> Option<SettingError> {
        let name = self.name.strip_prefix(PREFIX)?;
        name.match_indices('_').find_map(|(at, _)| {
            let (section, key) = (&name[..at], &name[at + 1..]);
            let kebab = |text: &str| text.to_ascii_lowercase().replace('_', "-");
            known::kind(schema, &kebab(section), &kebab(key)).ok()?;
            Some(SettingError::OneUnderscore(format!("{PREFIX}{section}__{key}")))
        })
    }

    /// Sets the key of a variable in `document`, with a value of the kind that `schema` has for the
    /// key.
    ///
    /// # Errors
    /// There is no such key, or the key is in a list of tables.
    fn lay_over(
        &self,
        document: &mut DeTable<'a>,
        schema: &serde_json::Value,
        place: Range<usize>,
    ) -> Result<(), SettingError> {
        let kind = known::kind(schema, &self.section, &self.key)?;
        let section = document
            .entry(Spanned::new(place.clone(), self.section.clone().into()))
            .or_insert_with(|| Spanned::new(place.clone(), DeValue::Table(DeTable::new())));
        let DeValue::Table(table) = section.get_mut() else {
            // The fault of the value in the file has been reported already.
            return Ok(());
        };
        table.insert(
            Spanned::new(place.clone(), self.key.clone().into()),
            Spanned::new(place.clone(), value_of(self.value, kind, &place)),
        );
        Ok(())
    }
}

/// Returns whether the section is a header without a key.
fn sets_nothing(section: &DeValue<'_>) -> bool {
    matches!(section, DeValue::Table(keys) if keys.is_empty())
}

/// Returns the text of a variable as a value of this kind. A text that has another form stays a
/// text, and a later check reports it.
fn value_of<'a>(text: &'a str, kind: known::ValueKind, place: &Range<usize>) -> DeValue<'a> {
    match kind {
        known::ValueKind::Text => DeValue::String(text.into()),
        known::ValueKind::Number | known::ValueKind::Boolean => match DeValue::parse(text) {
            Ok(value)
                if matches!(
                    value.get_ref(),
                    DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_)
                ) =>
            {
                value.into_inner()
            }
            _ => DeValue::String(text.into()),
        },
        known::ValueKind::List => DeValue::Array(
            text.split(',')
                .map(str::trim)
                .filter(|item| !item.is_empty())
                .map(|item| Spanned::new(place.clone(), DeValue::String(item.into())))
                .collect(),
        ),
    }
}
