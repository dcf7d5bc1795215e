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
    /// RRsets as in the API of PowerDNS, fetched over HTTP. The file is a copy of them.
    Http,
    /// Tables in the format of PowerDNS in a PostgreSQL database. The file is a copy of them.
    Postgres,
}

impl ProviderKind {
    const NAMES: [(Self, &'static str); 6] = [
        (Self::File, "file"),
        (Self::Csv, "csv"),
        (Self::Json, "json"),
        (Self::Leases, "leases"),
        (Self::Http, "http"),
        (Self::Postgres, "postgres"),
    ];

    /// Returns the name in the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES.into_iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }

    /// Returns whether the records come over a connection, so that the file is a copy of them.
    pub(super) const fn is_fetched(self) -> bool {
        matches!(self, Self::Http | Self::Postgres)
    }

    /// Returns whether the source has complete RRsets, including those of reverse names.
    pub(super) const fn has_rrsets(self) -> bool {
        matches!(self, Self::Json) || self.is_fetched()
    }
}

impl FromText for ProviderKind {
    const EXPECTED: &'static str =
        "\"file\", \"csv\", \"json\", \"leases\", \"http\" or \"postgres\"";

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        let found = Self::NAMES.into_iter().find(|(_, name)| *name == text);
        found.map(|(kind, _)| kind).ok_or(None)
    }
}
