//! `provider` of `[[zone]]`: zones whose records come from a URL, or from a file that is not a
//! master file.

use std::mem;
use std::ops::Range;
use std::path::PathBuf;

use super::check::Check;
use super::name::{Name, shown};
pub use super::provider_kind::ProviderKind;
use super::setting::{FromText, Setting, Text};
use super::zone_spec::ZoneSpec;
use super::zone_url::{ZoneUrl, zone_url};

/// The default of the TTL of records without one.
pub(super) const TTL_SECS: u32 = 300;

/// The way in which the records of a zone come from its file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProvidedZone {
    /// The format; never [`ProviderKind::File`].
    pub kind: ProviderKind,
    /// A master file with further records.
    pub head: Option<PathBuf>,
    /// The TTL of records that have no TTL in the source.
    pub ttl_secs: u32,
    /// The domain of the hosts, in lower-case wire form, if the zone has reverse names.
    pub domain: Option<Name>,
    /// The source of the text, with [`ProviderKind::Http`].
    pub source: Option<ZoneUrl>,
}

/// Takes the settings of a provider out of a table and validates them.
pub(super) fn provided(
    header: &Range<usize>,
    spec: &mut ZoneSpec,
    check: &mut Check,
) -> Option<ProvidedZone> {
    let at = spec.provider.span();
    let spans = [spec.head_file.span(), spec.ttl_secs.span(), spec.domain.span()];
    let kind = check.take(mem::take(&mut spec.provider));
    let kind = kind.map_or(ProviderKind::File, |Text(kind)| kind);
    let head = check.optional_path(mem::take(&mut spec.head_file));
    let ttl_secs = check.take(mem::take(&mut spec.ttl_secs)).map_or(TTL_SECS, |secs| secs.0);
    let domain = domain_of(mem::take(&mut spec.domain), check);
    let source = zone_url(header, spec, kind, check);
    if kind == ProviderKind::File {
        for at in spans.into_iter().flatten() {
            check
                .fault(at, "a zone from a master file has no such setting: it is for a `provider`");
        }
        return None;
    }
    let others = [
        (spec.primaries.span(), "a zone from a provider is not transferred from other servers"),
        (spec.allow_update.span(), "a zone from a provider is changed at its source"),
    ];
    for (at, reason) in others {
        if let Some(at) = at {
            check.fault(at, reason);
        }
    }
    let is_reverse = spec.name.valid().is_some_and(|Text(name)| is_reverse(name));
    let takes_domain = is_reverse && !kind.has_rrsets();
    match (&domain, at) {
        (None, Some(at)) if takes_domain => {
            check.fault(at, "`domain` is missing: the reverse names need the domain of the hosts");
        }
        (Some(domain), _) if !takes_domain => {
            let at = spans[2].clone().unwrap_or_default();
            let domain = shown(domain);
            check.fault(at, format!("only the hosts of a reverse zone are in a domain ({domain})"));
        }
        _ => {}
    }
    Some(ProvidedZone { kind, head, ttl_secs, domain, source })
}

/// Reads a domain; `None` for "".
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
