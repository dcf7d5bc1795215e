//! Checks the configuration: takes values out of settings and collects faults.

use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use toml::Spanned;

use super::files::{FileContent, NamedFiles};
use super::setting::{List, Setting, SettingFault, Text, Value};

/// Maximum number of octets of a text for clients: one character-string (RFC 1035 §3.3).
const MAX_TEXT: usize = 255;

/// Collects faults while values are taken out of a [`Spec`](super::spec::Spec).
#[derive(Debug, Default)]
pub(super) struct Check {
    faults: Vec<SettingFault>,
    /// Valid settings that have no effect.
    doubts: Vec<SettingFault>,
    /// The other files that the configuration names.
    files: NamedFiles,
    /// The names of keys with faults, in lower case and wire form. Other settings may name them
    /// without a further fault.
    faulty_keys: Vec<Box<[u8]>>,
}

impl Check {
    /// Creates a check with the faults of parsing. `directory` is that of the configuration file.
    pub(super) fn new(faults: Vec<SettingFault>, directory: &Path) -> Self {
        let files = NamedFiles::new(directory);
        Self { faults, doubts: Vec::new(), files, faulty_keys: Vec::new() }
    }

    /// Returns the path of another file: a relative one is relative to the configuration file.
    pub(super) fn path(&mut self, written: impl AsRef<Path>) -> PathBuf {
        self.files.add(written.as_ref(), FileContent::Open)
    }

    /// Returns the path of another file that has a secret, or that belongs to one which has.
    pub(super) fn secret_path(&mut self, written: impl AsRef<Path>) -> PathBuf {
        self.files.add(written.as_ref(), FileContent::Secret)
    }

    /// Returns the path of another file, if it is set and not empty.
    pub(super) fn optional_path(&mut self, setting: Setting<String>) -> Option<PathBuf> {
        let written = self.take(setting).filter(|path| !path.is_empty())?;
        Some(self.path(written))
    }

    /// Returns the path of another file with a secret, if it is set and not empty.
    pub(super) fn optional_secret(&mut self, setting: Setting<String>) -> Option<PathBuf> {
        let written = self.take(setting).filter(|path| !path.is_empty())?;
        Some(self.secret_path(written))
    }

    /// Returns the files that the configuration names, and all doubts, or all faults if there are
    /// some.
    pub(super) fn finish(self) -> (NamedFiles, Result<Vec<SettingFault>, Vec<SettingFault>>) {
        let Self { faults, doubts, files, faulty_keys: _ } = self;
        (files, if faults.is_empty() { Ok(doubts) } else { Err(faults) })
    }

    /// Adds a fault.
    pub(super) fn fault(&mut self, span: Range<usize>, message: impl ToString) {
        self.faults.push(SettingFault { span, message: message.to_string() });
    }

    /// Records the name of a key with a fault.
    pub(super) fn add_faulty_key(&mut self, name: &[u8]) {
        self.faulty_keys.push(name.into());
    }

    /// Adds the fault that no key has a name, as it is written, if this is so.
    pub(super) fn unknown_key(&mut self, span: Range<usize>, name: &[u8], text: &str) {
        if !self.faulty_keys.iter().any(|key| **key == *name) {
            self.fault(span, format!("no [[key]] has the name \"{text}\""));
        }
    }

    /// Adds a doubt: a setting is valid, but has no effect or cannot work.
    pub(super) fn doubt(&mut self, span: Range<usize>, message: impl ToString) {
        self.doubts.push(SettingFault { span, message: message.to_string() });
    }

    /// Returns the value of a setting; `None` if it is not set or not valid. Adds the faults of the
    /// setting.
    pub(super) fn take<T>(&mut self, setting: Setting<T>) -> Option<T> {
        match setting.0?.value {
            Ok(value) => Some(value),
            Err(faults) => {
                self.faults.extend(faults);
                None
            }
        }
    }

    /// Returns the value of a key without a default, and its position. If it is missing, adds a
    /// fault at the table's header.
    pub(super) fn need<T: Value>(
        &mut self,
        key: &str,
        header: &Range<usize>,
        setting: Setting<T>,
    ) -> Option<(Range<usize>, T)> {
        let Some(span) = setting.span() else {
            self.fault(header.clone(), format!("`{key}` is missing: {}", T::expected()));
            return None;
        };
        self.take(setting).map(|value| (span, value))
    }

    /// Returns a text for clients; `None` if it is empty.
    pub(super) fn client_text(&mut self, setting: Setting<String>) -> Option<String> {
        let span = setting.span()?;
        let text = self.take(setting)?;
        if text.len() > MAX_TEXT {
            let message = format!("expected at most {MAX_TEXT} octets, found {}", text.len());
            self.fault(span, message);
        }
        Some(text).filter(|text| !text.is_empty())
    }

    /// Returns the addresses without duplicates; empty if the key is not set.
    pub(super) fn addresses(
        &mut self,
        setting: Setting<List<Text<SocketAddr>>>,
    ) -> Vec<SocketAddr> {
        let items = self.take(setting).map_or_else(Vec::new, |list| list.0);
        self.different(items)
    }

    pub(super) fn different(&mut self, items: Vec<Spanned<Text<SocketAddr>>>) -> Vec<SocketAddr> {
        let mut addresses = Vec::with_capacity(items.len());
        for item in items {
            let Text(address) = item.get_ref();
            if addresses.contains(address) {
                self.fault(item.span(), format!("duplicate address {address}"));
            } else {
                addresses.push(*address);
            }
        }
        addresses
    }

    /// Returns the networks; `None` if the key is not set.
    pub(super) fn networks(&mut self, setting: Setting<List<Text<IpNet>>>) -> Option<Vec<IpNet>> {
        let list = self.take(setting)?.0;
        Some(list.into_iter().map(|network| network.into_inner().0).collect())
    }
}
