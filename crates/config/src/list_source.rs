//! The source of the text of a `[[list]]`: a URL, a file, or a zone of other servers.

use std::net::IpAddr;
use std::path::PathBuf;

use super::check::Check;
use super::policy::{ListConfig, ListSource, TableHeader};
use super::policy_spec::ListTable;
use super::primary::Primaries;
use super::setting::Text;

/// A response policy zone that is transferred from other servers.
#[derive(Debug, Clone, PartialEq)]
pub struct TransferredList {
    /// The name of the zone, in lower case and wire form.
    pub zone: Box<[u8]>,
    /// The servers that the zone is transferred from, at least one.
    pub primaries: Primaries,
}

/// A function that reads the primaries of a table.
pub(super) type ReadPrimaries<'r> = &'r dyn Fn(&mut ListTable, &mut Check) -> Primaries;

impl ListConfig {
    /// Returns whether a NOTIFY of a zone from this address, signed with this key, comes from a
    /// primary of this list.
    #[must_use]
    pub fn hears(&self, zone: &[u8], ip: IpAddr, key: Option<&[u8]>) -> bool {
        let transferred = self.source.zone().filter(|own| *own.zone == *zone);
        transferred.is_some_and(|own| own.primaries.hear(ip, key))
    }
}

/// Reads the source. If it is invalid, adds a fault.
pub(super) fn source(
    header: &TableHeader,
    spec: &mut ListTable,
    read: ReadPrimaries<'_>,
    check: &mut Check,
) -> ListSource {
    let (url, file) = (std::mem::take(&mut spec.url), std::mem::take(&mut spec.file));
    let (url_at, file_at, zone_at) = (url.span(), file.span(), spec.primaries.span());
    let none = || ListSource::File(PathBuf::new());
    if let Some(at) = zone_at {
        let zone = transferred(header, spec, read, check);
        if url_at.is_some() || file_at.is_some() {
            check.fault(at, "a list has a url, a file or primaries, not several of them");
        }
        return zone.map_or_else(none, |zone| ListSource::Zone(Box::new(zone)));
    }
    warn_without_primaries(spec, check);
    let (url, file) = (check.take(url), check.take(file));
    match (url, file, url_at, file_at) {
        (_, _, Some(_), Some(at)) => {
            check.fault(at, "a list has a url or a file, not both");
            none()
        }
        (_, _, None, None) => {
            let message = "`url`, `file` or `primaries` is missing: where the list comes from";
            check.fault(header.at.clone(), message);
            none()
        }
        (Some(url), ..) if is_fetched(&url) => ListSource::Url(url),
        (Some(url), _, Some(at), _) => {
            check.fault(
                at,
                format!("expected a url with http:// or https:// and a host, found {url:?}"),
            );
            none()
        }
        (_, Some(file), _, Some(at)) if file.is_empty() => {
            check.fault(at, "expected the path of a file, found \"\"");
            none()
        }
        (_, Some(file), ..) => ListSource::File(check.path(file)),
        // The value is not a source. The fault has been added already.
        _ => none(),
    }
}

/// Warns of the settings that have no effect because the table has no primaries.
fn warn_without_primaries(spec: &ListTable, check: &mut Check) {
    let set = [
        ("zone", spec.zone.span()),
        ("key", spec.key.span()),
        ("ca", spec.ca.span()),
        ("pins", spec.pins.span()),
        ("client-cert", spec.client_cert.span()),
        ("client-key", spec.client_key.span()),
    ];
    for (name, at) in set {
        if let Some(at) = at {
            check.doubt(at, format!("`{name}` has no effect without `primaries`"));
        }
    }
}

/// Returns whether the URL is one that the server can fetch.
pub(super) fn is_fetched(url: &str) -> bool {
    let has_host = |url: http::Uri| url.host().is_some_and(|host| !host.is_empty());
    (url.starts_with("https://") || url.starts_with("http://")) && url.parse().is_ok_and(has_host)
}

fn transferred(
    header: &TableHeader,
    spec: &mut ListTable,
    read: ReadPrimaries<'_>,
    check: &mut Check,
) -> Option<TransferredList> {
    let at = spec.primaries.span().unwrap_or_default();
    if let Some(at) = spec.refresh.span() {
        check.doubt(at, "`refresh` has no effect: the SOA record of the zone has the times");
    }
    let primaries = read(spec, check);
    let zone = check.need("zone", &header.at, std::mem::take(&mut spec.zone));
    if primaries.servers.is_empty() {
        check.fault(at, "expected at least one server");
        return None;
    }
    let (_, Text(zone)) = zone?;
    Some(TransferredList { zone: zone.to_ascii_lowercase().into(), primaries })
}
