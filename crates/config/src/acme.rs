//! `[acme]`: a certificate that the server obtains by itself (RFC 8555).

use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use avocet_zone::TsigKey;
use toml::{Table, Value};

pub use super::acme_spec::AcmeChallenge;
use super::acme_spec::AcmeSpec;
use super::check::Check;
use super::host_name::host_name;
use super::key::KeyConfig;
use super::name::{shown as shown_name, typed_name};
use super::setting::{FromText, List, Setting};
use super::upstream::ServerAddress;
use super::zone::ZoneConfig;

/// The directory of Let's Encrypt.
const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";
/// Maximum number of names in a certificate (the limit of Let's Encrypt).
const MAX_NAMES: usize = 100;
/// The port on which authorities look for proofs by HTTP (RFC 8555 §8.3).
const HTTP_PORT: u16 = 80;
/// `[acme]`, if it has names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcmeConfig {
    /// The host names, never empty; without duplicates.
    pub names: Vec<String>,
    /// The URL of the directory.
    pub directory: String,
    /// The address of the operator.
    pub email: Option<String>,
    /// How the control of the names is proven.
    pub challenge: AcmeChallenge,
    /// The addresses for proofs by HTTP.
    pub http_listen: Vec<SocketAddr>,
    /// The server with the zones of names that are in no hosted zone, for proofs by DNS.
    pub update: Option<UpdateServer>,
    /// The file with the authorities of the directory's own certificate.
    pub ca: Option<PathBuf>,
    /// The directory with the account, the certificate and its key.
    pub storage: PathBuf,
}

/// A server that changes records of its zones as updates demand (RFC 2136).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpdateServer {
    /// The address of the server.
    pub server: SocketAddr,
    /// The key that signs the messages of both sides.
    pub key: Arc<TsigKey>,
}

/// The parts of the configuration that the table refers to.
pub(super) struct AcmeContext<'c> {
    /// The hosted zones.
    pub(super) zones: &'c [ZoneConfig],
    /// The keys for updates.
    pub(super) keys: &'c [KeyConfig],
    /// The data directory.
    pub(super) data: &'c Path,
}

impl AcmeConfig {
    /// Returns the hosted zone that `_acme-challenge` below a name is in. The proof by DNS goes
    /// there, or else to the server of [`Self::update`]. A leading `*.` of the name is ignored (RFC
    /// 8555 §8.4).
    ///
    /// # Errors
    /// No hosted zone has the name, or the records of the zone are changed elsewhere.
    pub fn proof_zone<'z>(
        zones: &'z [ZoneConfig],
        name: &str,
    ) -> Result<&'z ZoneConfig, ProofZoneFault> {
        let owner = proof_owner(name);
        let missing = || ProofZoneFault::Missing(name.to_owned());
        let wire = typed_name(&owner).map_err(|_| missing())?.to_ascii_lowercase();
        // The authority sees only zones that all clients see, so a zone with a view cannot prove
        // control of a name.
        let common = zones.iter().filter(|zone| zone.is_common());
        let above = common.filter(|zone| is_below(&wire, &zone.name));
        let zone = above.max_by_key(|zone| zone.name.len()).ok_or_else(missing)?;
        if zone.is_own_file() {
            Ok(zone)
        } else {
            Err(ProofZoneFault::Elsewhere(shown_name(&zone.name)))
        }
    }
}

/// The reason why a name cannot be proven by DNS.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProofZoneFault {
    /// No hosted zone has the name.
    #[error(
        "no [[zone]] of this server has the name {0}: to prove its control, dns-01 needs \
         `update-server` and `update-key`"
    )]
    Missing(String),
    /// The records of the zone come from a primary or from a provider.
    #[error(
        "the zone {0} is changed elsewhere: to show a proof in it, dns-01 needs `update-server` \
         and `update-key`"
    )]
    Elsewhere(String),
}

/// Returns the owner of the record that proves the control of a name.
#[must_use]
pub fn proof_owner(name: &str) -> String {
    format!("_acme-challenge.{}", name.strip_prefix("*.").unwrap_or(name))
}

/// Returns whether a name in wire form is the zone or is below it.
fn is_below(name: &[u8], zone: &[u8]) -> bool {
    let mut rest = name;
    while rest.len() > zone.len() {
        let label = usize::from(rest[0]) + 1;
        rest = rest.get(label..).unwrap_or_default();
    }
    rest == zone
}

/// Returns the configuration of the table.
pub(super) fn acme(
    mut spec: AcmeSpec,
    context: &AcmeContext<'_>,
    check: &mut Check,
) -> Option<AcmeConfig> {
    let at = spec.names.span();
    let names = names(mem::take(&mut spec.names), check);
    let directory = directory(mem::take(&mut spec.directory), check);
    let email = email(mem::take(&mut spec.email), check);
    let challenge_at = spec.challenge.span();
    let challenge = check.take(spec.challenge).map_or(AcmeChallenge::Http01, |text| text.0);
    let agrees = check.take(spec.agree_to_terms).unwrap_or(false);
    let http_listen = match spec.http_listen {
        Setting(None) => default_http_listen(),
        written => check.addresses(written),
    };
    let update_at = spec.update_server.span();
    let update = update_server(spec.update_server, spec.update_key, context.keys, check);
    let ca = check.optional_path(spec.ca);
    let storage = check.optional_secret(spec.storage).unwrap_or_else(|| context.data.join("acme"));
    let at = at.filter(|_| !names.is_empty())?;
    if !agrees {
        let message = "the authority issues certificates only to those who agree to its terms: \
                       read them, and set `agree-to-terms = true`";
        check.fault(at.clone(), message);
    }
    let challenge_at = challenge_at.unwrap_or(at);
    let faults = || names.iter().filter_map(|one| AcmeConfig::proof_zone(context.zones, one).err());
    let is_by_dns = challenge == AcmeChallenge::Dns01;
    if update.is_some() && (!is_by_dns || faults().next().is_none()) {
        let message = "`update-server` has no effect: it is for `challenge = \"dns-01\"` with \
                       names in no hosted zone of this server";
        check.doubt(update_at.unwrap_or_default(), message);
    }
    if is_by_dns {
        let faults = faults().filter(|_| update.is_none());
        faults.for_each(|fault| check.fault(challenge_at.clone(), fault));
    } else if let Some(name) = names.iter().find(|name| name.starts_with("*.")) {
        let message = format!("{} cannot prove the control of {name}", challenge.text());
        check.fault(challenge_at, message);
    }
    Some(AcmeConfig { names, directory, email, challenge, http_listen, update, ca, storage })
}

fn names(setting: Setting<List<String>>, check: &mut Check) -> Vec<String> {
    let at = setting.span();
    let items = check.take(setting).map_or_else(Vec::new, |list| list.0);
    let mut names = Vec::with_capacity(items.len());
    for item in items {
        let (at, text) = (item.span(), item.into_inner());
        match host_name(&text).filter(|name| name.contains('.')) {
            Some(name) if names.contains(&name) => {
                check.fault(at, format!("duplicate name {name}"))
            }
            Some(name) => names.push(name),
            None => check.fault(at, "expected a host name such as \"dns.example\""),
        }
    }
    if let Some(at) = at.filter(|_| names.len() > MAX_NAMES) {
        check.fault(at, format!("more than {MAX_NAMES} names"));
    }
    names
}

fn directory(setting: Setting<String>, check: &mut Check) -> String {
    let at = setting.span().unwrap_or_default();
    let directory = check.take(setting).unwrap_or_else(|| LETS_ENCRYPT.to_owned());
    let host = directory.strip_prefix("https://").and_then(|rest| rest.split('/').next());
    let is_plain = directory.bytes().all(|octet| octet.is_ascii_graphic());
    if host.is_none_or(str::is_empty) || !is_plain {
        check.fault(at, "expected a URL that begins with https://");
    }
    directory
}

fn email(setting: Setting<String>, check: &mut Check) -> Option<String> {
    let at = setting.span()?;
    let email = check.take(setting).filter(|email| !email.is_empty())?;
    let is_plain = email.bytes().all(|octet| octet.is_ascii_graphic() && octet != b',');
    let parts = email.split_once('@');
    if !is_plain || parts.is_none_or(|(user, host)| user.is_empty() || host.is_empty()) {
        check.fault(at, "expected an address such as \"hostmaster@example.org\"");
    }
    Some(email)
}

/// Returns the server for updates; `None` if none is set.
fn update_server(
    server: Setting<String>,
    key: Setting<String>,
    keys: &[KeyConfig],
    check: &mut Check,
) -> Option<UpdateServer> {
    let [server_at, key_at] = [server.span(), key.span()].map(Option::unwrap_or_default);
    let server = check.take(server).filter(|text| !text.is_empty());
    let key = check.take(key).filter(|text| !text.is_empty());
    match (server, key) {
        (Some(server), Some(key)) => {
            let server = server_address(&server, server_at, check);
            let wire = typed_name(&key).map(|name| name.to_ascii_lowercase()).unwrap_or_default();
            let found = keys.iter().find(|one| one.key.name().wire() == wire);
            if found.is_none() {
                check.unknown_key(key_at, &wire, &key);
            }
            Some(UpdateServer { server: server?, key: found?.key.clone() })
        }
        (Some(_), None) => {
            let message = "`update-server` needs `update-key`: the name of a [[key]] that the \
                           server knows, too";
            check.fault(server_at, message);
            None
        }
        (None, Some(_)) => {
            check.fault(key_at, "`update-key` needs `update-server`");
            None
        }
        (None, None) => None,
    }
}

fn server_address(text: &str, at: Range<usize>, check: &mut Check) -> Option<SocketAddr> {
    let fault = match ServerAddress::from_text(text) {
        Ok(ServerAddress(server)) => return Some(server),
        Err(Some(fault)) => fault.to_string(),
        Err(None) => format!("expected {}; found {text:?}", ServerAddress::EXPECTED),
    };
    check.fault(at, fault);
    None
}

/// Returns the table in the syntax of the configuration file.
pub(super) fn shown(acme: Option<&AcmeConfig>) -> Table {
    let of = |part: fn(&AcmeConfig) -> Value, default: Value| acme.map_or(default, part);
    let path = |path: &Path| Value::from(path.to_string_lossy().into_owned());
    let empty = || Value::from("");
    let http_listen = acme.map_or_else(default_http_listen, |acme| acme.http_listen.clone());
    let update = acme.and_then(|acme| acme.update.as_ref());
    [
        ("names", acme.map_or_else(Vec::new, |acme| acme.names.clone()).into()),
        ("directory", of(|acme| acme.directory.as_str().into(), LETS_ENCRYPT.into())),
        ("email", of(|acme| acme.email.clone().unwrap_or_default().into(), empty())),
        ("agree-to-terms", acme.is_some().into()),
        ("challenge", acme.map(|acme| acme.challenge).unwrap_or_default().text().into()),
        ("http-listen", http_listen.iter().map(ToString::to_string).collect::<Vec<_>>().into()),
        ("update-server", update.map_or_else(empty, |one| one.server.to_string().into())),
        ("update-key", update.map_or_else(empty, |one| shown_name(one.key.name().wire()).into())),
        ("ca", acme.and_then(|acme| acme.ca.as_deref()).map_or_else(empty, path)),
        ("storage", acme.map_or_else(empty, |acme| path(&acme.storage))),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value))
    .collect()
}

fn default_http_listen() -> Vec<SocketAddr> {
    let all: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
    all.map(|address| SocketAddr::new(address, HTTP_PORT)).to_vec()
}
