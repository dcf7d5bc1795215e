//! `[acme]`: a certificate that the server obtains by itself (RFC 8555).

use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use toml::{Table, Value};

pub use super::acme_spec::AcmeChallenge;
use super::acme_spec::AcmeSpec;
use super::check::Check;
use super::host_name::host_name;
use super::name::{shown as shown_name, typed_name};
use super::setting::{List, Setting};
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
    /// The file with the authorities of the directory's own certificate.
    pub ca: Option<PathBuf>,
    /// The directory with the account, the certificate and its key.
    pub storage: PathBuf,
}

/// The parts of the configuration that the table refers to.
pub(super) struct AcmeContext<'c> {
    /// The hosted zones.
    pub(super) zones: &'c [ZoneConfig],
    /// The data directory.
    pub(super) data: &'c Path,
}

impl AcmeConfig {
    /// Returns the hosted zone that `_acme-challenge` below a name is in. The proof by DNS goes
    /// there. A leading `*.` of the name is ignored (RFC 8555 §8.4).
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
        // The authority sees no zone of a view.
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
    #[error("no [[zone]] of this server has the name {0}, so that dns-01 cannot prove its control")]
    Missing(String),
    /// The records of the zone come from a primary or from a provider.
    #[error("the zone {0} is changed elsewhere, so that dns-01 cannot show a proof in it")]
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
    let ca = check.optional_path(spec.ca);
    let storage = check.optional_path(spec.storage).unwrap_or_else(|| context.data.join("acme"));
    let at = at.filter(|_| !names.is_empty())?;
    if !agrees {
        let message = "the authority issues certificates only to those who agree to its terms: \
                       read them, and set `agree-to-terms = true`";
        check.fault(at.clone(), message);
    }
    let challenge_at = challenge_at.unwrap_or(at);
    if challenge == AcmeChallenge::Dns01 {
        for fault in names.iter().filter_map(|one| AcmeConfig::proof_zone(context.zones, one).err())
        {
            check.fault(challenge_at.clone(), fault);
        }
    } else if let Some(name) = names.iter().find(|name| name.starts_with("*.")) {
        let message = format!("{} cannot prove the control of {name}", challenge.text());
        check.fault(challenge_at, message);
    }
    Some(AcmeConfig { names, directory, email, challenge, http_listen, ca, storage })
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

/// Returns the table in the form of the file.
pub(super) fn shown(acme: Option<&AcmeConfig>) -> Table {
    let of = |part: fn(&AcmeConfig) -> Value, default: Value| acme.map_or(default, part);
    let path = |path: &Path| Value::from(path.to_string_lossy().into_owned());
    let empty = || Value::from("");
    let http_listen = acme.map_or_else(default_http_listen, |acme| acme.http_listen.clone());
    [
        ("names", acme.map_or_else(Vec::new, |acme| acme.names.clone()).into()),
        ("directory", of(|acme| acme.directory.as_str().into(), LETS_ENCRYPT.into())),
        ("email", of(|acme| acme.email.clone().unwrap_or_default().into(), empty())),
        ("agree-to-terms", acme.is_some().into()),
        ("challenge", acme.map(|acme| acme.challenge).unwrap_or_default().text().into()),
        ("http-listen", http_listen.iter().map(ToString::to_string).collect::<Vec<_>>().into()),
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
