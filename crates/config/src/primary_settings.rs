//! Reads and shows the keys of a `[[zone]]` about its primaries.

use std::ops::Range;

use toml::{Table, Value};

use super::check::Check;
use super::key::{KeyConfig, has_key};
use super::name::{shown as shown_name, typed_name};
use super::primary::{Primaries, Primary};
use super::setting::{List, Setting, Text};
use super::upstream_proof::{client_files, pins, shown_proof};
use super::upstream_tls::{Authentication, Pin, UpstreamTls};

/// Maximum number of primaries of a zone. Each primary that does not respond takes seconds of a
/// check.
const MAX_PRIMARIES: usize = 16;

/// The settings of a zone for its primaries, as written.
pub(super) struct PrimarySettings {
    pub(super) primaries: Setting<List<Text<Primary>>>,
    pub(super) key: Setting<String>,
    pub(super) ca: Setting<String>,
    pub(super) pins: Setting<List<Text<Pin>>>,
    pub(super) client_cert: Setting<String>,
    pub(super) client_key: Setting<String>,
}

/// Validates the settings. Each key that they name must be configured.
pub(super) fn primaries(
    settings: PrimarySettings,
    keys: &[KeyConfig],
    check: &mut Check,
) -> Primaries {
    let PrimarySettings { primaries, key, ca, pins: pinned, client_cert, client_key } = settings;
    let at = primaries.span();
    let items = check.take(primaries).map_or_else(Vec::new, |list| list.0);
    if let Some(at) = at.filter(|_| items.len() > MAX_PRIMARIES) {
        check.fault(at, format!("more than {MAX_PRIMARIES} primaries"));
    }
    let mut servers: Vec<Primary> = Vec::new();
    for item in items {
        let (at, Text(one)) = (item.span(), item.into_inner());
        if servers.iter().any(|other| other.server == one.server) {
            check.fault(at, format!("duplicate server {}", one.server));
        } else if has_key(&at, one.key.as_deref(), keys, check) {
            servers.push(one);
        }
    }
    let key = key_of(key, (keys, &servers), check);
    let set = [("ca", ca.span()), ("pins", pinned.span()), ("client-cert", client_cert.span())];
    let tls = UpstreamTls {
        authentication: Authentication::Strict,
        ca: check.optional_path(ca),
        pins: pins(pinned, check),
        client: client_files(client_cert, client_key, check),
    };
    let primaries = Primaries { servers, key, tls };
    let is_set = [
        primaries.tls.ca.is_some(),
        !primaries.tls.pins.is_empty(),
        primaries.tls.client.is_some(),
    ];
    for ((name, at), _) in set.into_iter().zip(is_set).filter(|(_, is_set)| *is_set) {
        if !primaries.have_tls() {
            let message = format!("`{name}` has no effect: no primary has tls://");
            check.doubt(at.unwrap_or_default(), message);
        }
    }
    primaries
}

/// Reads the name of the key for all primaries without their own key.
fn key_of(
    setting: Setting<String>,
    (keys, servers): (&[KeyConfig], &[Primary]),
    check: &mut Check,
) -> Option<Box<[u8]>> {
    let at: Range<usize> = setting.span()?;
    let text = check.take(setting).filter(|text| !text.is_empty())?;
    let name = typed_name(&text).map(|name| name.to_ascii_lowercase()).unwrap_or_default();
    let found = keys.iter().any(|key| key.key.name().wire() == name).then_some(&name);
    match found {
        None => check.unknown_key(at, &name, &text),
        Some(_) if servers.is_empty() => {
            check.doubt(at, "without `primaries`, the key has no use");
        }
        Some(_) if servers.iter().all(|one| one.key.is_some()) => {
            check.doubt(at, "`key` has no effect: each primary has a key of its own");
        }
        Some(_) => return Some(name.into()),
    }
    None
}

/// Adds the settings to the table of a zone, in the syntax of the configuration file.
pub(super) fn show(primaries: &Primaries, out: &mut Table) {
    let Primaries { servers, key, tls } = primaries;
    let texts = servers.iter().map(|one| Value::from(one.to_string()));
    let shown = [
        ("primaries", Value::Array(texts.collect())),
        ("key", key.as_deref().map_or_else(String::new, shown_name).into()),
    ];
    out.extend(shown.map(|(name, value)| (name.to_owned(), value)));
    out.extend(shown_proof(tls));
}
