//! The formats that `provider` of `[[zone]]` names.

use super::error::SettingError;
use super::setting::FromText;

/// The format of the file of a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProviderKind {
    /// A master file.
    File,
    /// A table of functions, addresses and machines.
    Csv,
    /// RRsets as in the API of PowerDNS.
    Json,
    /// The leases of a DHCP server.
    Leases,
    /// RRsets as in the API of PowerDNS, fetched over HTTP; the file is the copy.
    Http,
}

impl ProviderKind {
    const NAMES: [(Self, &'static str); 5] = [
        (Self::File, "file"),
        (Self::Csv, "csv"),
        (Self::Json, "json"),
        (Self::Leases, "leases"),
        (Self::Http, "http"),
    ];

    /// Returns the name in the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES.into_iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }

    /// Returns whether the source has whole RRsets, also of reverse names.
    pub(super) const fn has_rrsets(self) -> bool {
        matches!(self, Self::Json | Self::Http)
    }
}

impl FromText for ProviderKind {
    const EXPECTED: &'static str = "\"file\", \"csv\", \"json\", \"leases\" or \"http\"";

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        let found = Self::NAMES.into_iter().find(|(_, name)| *name == text);
        found.map(|(kind, _)| kind).ok_or(None)
    }
}
