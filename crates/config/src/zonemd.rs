//! `zonemd` and `zonemd-hash` of `[[zone]]`: the check of the digest that a zone has, and the
//! digest that the server adds (RFC 8976).

use avocet_dnssec::zonemd::DigestHash;

use super::error::SettingError;
use super::setting::FromText;

/// The zones that are refused because of their digest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ZonemdPolicy {
    /// No zone.
    #[default]
    Ignore,
    /// Zones with a digest that does not match their records.
    Verify,
    /// Zones with a digest that does not match, and zones without a digest.
    Require,
}

impl ZonemdPolicy {
    const NAMES: [(Self, &'static str); 3] =
        [(Self::Ignore, "ignore"), (Self::Verify, "verify"), (Self::Require, "require")];

    /// Returns the name in the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES.into_iter().find(|(policy, _)| *policy == self).map_or("", |(_, name)| name)
    }
}

impl FromText for ZonemdPolicy {
    const EXPECTED: &'static str = "\"ignore\", \"verify\" or \"require\"";
    const CHOICES: &'static [&'static str] = &["ignore", "verify", "require"];

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        let found = Self::NAMES.into_iter().find(|(_, name)| *name == text);
        found.map(|(policy, _)| policy).ok_or(None)
    }
}

/// The digest that the server adds to a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ZonemdHash(pub(super) Option<DigestHash>);

impl ZonemdHash {
    const NAMES: [(Option<DigestHash>, &'static str); 3] = [
        (Some(DigestHash::Sha384), "sha384"),
        (Some(DigestHash::Sha512), "sha512"),
        (None, "none"),
    ];

    /// Returns the name in the configuration.
    pub(super) fn name(self) -> &'static str {
        Self::NAMES.into_iter().find(|(hash, _)| *hash == self.0).map_or("", |(_, name)| name)
    }
}

impl FromText for ZonemdHash {
    const EXPECTED: &'static str = "\"sha384\", \"sha512\" or \"none\"";
    const CHOICES: &'static [&'static str] = &["sha384", "sha512", "none"];

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        let found = Self::NAMES.into_iter().find(|(_, name)| *name == text);
        found.map(|(hash, _)| Self(hash)).ok_or(None)
    }
}
