//! `provider` of `[[zone]]`: zones whose records come from a file in another format than that of
//! master files.

use std::ops::Range;
use std::path::PathBuf;

use super::check::Check;
use super::error::SettingError;
use super::name::{Name, shown};
use super::setting::{FromText, Int, Setting, Text};

/// TTL of records without one.
pub(super) const TTL_SECS: u32 = 300;

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
}

impl ProviderKind {
    const NAMES: [(Self, &'static str); 4] =
        [(Self::File, "file"), (Self::Csv, "csv"), (Self::Json, "json"), (Self::Leases, "leases")];

    /// Returns the name in the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES.into_iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }
}

impl FromText for ProviderKind {
    const EXPECTED: &'static str = "\"file\", \"csv\", \"json\" or \"leases\"";

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        let found = Self::NAMES.into_iter().find(|(_, name)| *name == text);
        found.map(|(kind, _)| kind).ok_or(None)
    }
}

/// How the records of a zone come from its file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProvidedZone {
    /// The format; never [`ProviderKind::File`].
    pub kind: ProviderKind,
    /// A master file with further records.
    pub head: Option<PathBuf>,
    /// TTL of records without one.
    pub ttl_secs: u32,
    /// The domain of the hosts, in folded wire form, if the zone is one of reverse names.
    pub domain: Option<Name>,
}

/// The settings of a provider.
pub(super) struct ProvidedSettings {
    pub(super) provider: Setting<Text<ProviderKind>>,
    pub(super) head_file: Setting<String>,
    pub(super) ttl_secs: Setting<Int<0, 604_800>>,
    pub(super) domain: Setting<String>,
}

/// Validates the settings of a provider for a zone. `others` are settings that no zone with a
/// provider has, with the reason.
pub(super) fn provided(
    settings: ProvidedSettings,
    name: Option<&Name>,
    others: &[(Option<Range<usize>>, &str)],
    check: &mut Check,
) -> Option<ProvidedZone> {
    let at = settings.provider.span();
    let spans = [settings.head_file.span(), settings.ttl_secs.span(), settings.domain.span()];
    let kind = check.take(settings.provider).map_or(ProviderKind::File, |Text(kind)| kind);
    let head = check.optional_path(settings.head_file);
    let ttl_secs = check.take(settings.ttl_secs).map_or(TTL_SECS, |secs| secs.0);
    let domain = domain_of(settings.domain, check);
    if kind == ProviderKind::File {
        for at in spans.into_iter().flatten() {
            check
                .fault(at, "a zone from a master file has no such setting: it is for a `provider`");
        }
        return None;
    }
    for (at, reason) in others {
        if let Some(at) = at {
            check.fault(at.clone(), reason);
        }
    }
    let is_reverse = name.is_some_and(|name| is_reverse(name));
    match (&domain, at) {
        (None, Some(at)) if is_reverse && kind != ProviderKind::Json => {
            check.fault(at, "`domain` is missing: the reverse names need the domain of the hosts");
        }
        (Some(domain), _) if !is_reverse || kind == ProviderKind::Json => {
            let at = spans[2].clone().unwrap_or_default();
            let domain = shown(domain);
            check.fault(at, format!("only the hosts of a reverse zone are in a domain ({domain})"));
        }
        _ => {}
    }
    Some(ProvidedZone { kind, head, ttl_secs, domain })
}

/// Reads a domain; "" is none.
fn domain_of(setting: Setting<String>, check: &mut Check) -> Option<Name> {
    let at = setting.span()?;
    let text = check.take(setting).filter(|text| !text.is_empty())?;
    match Name::from_text(&text) {
        Ok(name) => return Some(name),
        Err(Some(error)) => check.fault(at, error),
        Err(None) => check.fault(at, format!("expected {}, found \"{text}\"", Name::EXPECTED)),
    }
    None
}

/// Returns whether a name is for reverse names.
fn is_reverse(name: &[u8]) -> bool {
    name.ends_with(b"\x07in-addr\x04arpa\x00") || name.ends_with(b"\x03ip6\x04arpa\x00")
}
