//! What servers with TLS must prove before they get a query: `ca`, `pins`, `client-cert`,
//! `client-key` and `authentication` of a `[[forward]]` (RFC 7858, RFC 8310).

use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem;
use std::net::IpAddr;
use std::path::PathBuf;

use avocet_resolver::PeerId;
use data_encoding::BASE64;
use toml::{Table, Value};

use super::check::Check;
use super::error::SettingError;
use super::setting::{FromText, List, Setting, Text};
use super::spec::ForwardSpec;
use super::web::CertificateFiles;
use super::{ForwardConfig, Upstream, UpstreamTransport};

/// Octets of a pin: SHA-256 of a SubjectPublicKeyInfo.
const PIN_LEN: usize = 32;
/// Most pins of a rule.
const MAX_PINS: usize = 64;

/// What the servers with TLS of a rule must prove.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct UpstreamTls {
    /// Whether they must prove it.
    pub authentication: Authentication,
    /// The file with the only authorities that may vouch for them; `None` for those of the system.
    pub ca: Option<PathBuf>,
    /// The keys of which each server must have one.
    pub pins: Vec<Pin>,
    /// What this server shows them.
    pub client: Option<CertificateFiles>,
}

/// The usage profiles of RFC 8310 §5.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Authentication {
    /// A server without proof gets no query.
    #[default]
    Strict,
    /// Each certificate is accepted: queries are encrypted, but nobody knows for whom.
    Opportunistic,
}

/// The SHA-256 digest of a SubjectPublicKeyInfo (RFC 7858 §4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pin(pub [u8; PIN_LEN]);

/// A server with TLS, apart from its address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TlsPeer {
    /// The name in its certificate.
    pub name: PeerName,
    /// What it must prove.
    pub tls: UpstreamTls,
}

/// The name of a server with TLS.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PeerName {
    /// A host name.
    Host(Box<str>),
    /// Its address.
    Address(IpAddr),
}

impl FromText for Pin {
    const EXPECTED: &'static str =
        "the SHA-256 digest of a public key in base64, 44 characters long";

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        let octets = BASE64.decode(text.as_bytes()).map_err(|_| None)?;
        octets.try_into().map(Self).map_err(|_| None)
    }
}

impl FromText for Authentication {
    const EXPECTED: &'static str = "\"strict\" or \"opportunistic\"";
    const CHOICES: &'static [&'static str] = &["strict", "opportunistic"];

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        match text {
            "strict" => Ok(Self::Strict),
            "opportunistic" => Ok(Self::Opportunistic),
            _ => Err(None),
        }
    }
}

impl TlsPeer {
    /// Returns its number: equal peers have the same one in all configurations.
    pub fn id(&self) -> PeerId {
        // Without a key, so that a reload keeps connections. All input is the operator's.
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        PeerId(hasher.finish())
    }
}

impl ForwardConfig {
    /// Returns what a server of this rule must prove.
    pub fn peer(&self, upstream: &Upstream) -> TlsPeer {
        let name = match &upstream.name {
            Some(name) => PeerName::Host(name.clone()),
            None => PeerName::Address(upstream.addr.ip()),
        };
        TlsPeer { name, tls: self.tls.clone() }
    }

    /// Returns the servers with TLS of this rule.
    pub fn peers(&self) -> impl Iterator<Item = TlsPeer> + '_ {
        let upstreams = self.upstreams.iter();
        upstreams
            .filter(|one| one.transport == UpstreamTransport::Tls)
            .map(|one| self.peer(one))
    }
}

/// Reads the keys of a rule about TLS.
pub(super) fn read(
    spec: &mut ForwardSpec,
    upstreams: &[Upstream],
    check: &mut Check,
) -> UpstreamTls {
    let places = [
        ("ca", spec.ca.span()),
        ("pins", spec.pins.span()),
        ("client-cert", spec.client_cert.span()),
        ("client-key", spec.client_key.span()),
        ("authentication", spec.authentication.span()),
    ];
    let is_used = upstreams.iter().any(|one| one.transport == UpstreamTransport::Tls);
    for (key, span) in places.iter().filter(|_| !is_used) {
        if let Some(at) = span {
            check.doubt(at.clone(), format!("`{key}` has no effect: no server has tls://"));
        }
    }
    let authentication =
        check.take(mem::take(&mut spec.authentication)).map_or_else(Default::default, |one| one.0);
    let [ca_at, pins_at, ..] = places.map(|(_, span)| span);
    if let Some(at) = ca_at.or(pins_at).filter(|_| authentication == Authentication::Opportunistic)
    {
        let message = "authentication = \"opportunistic\" accepts each certificate; remove it, or \
                       `ca` and `pins`";
        check.fault(at, message);
    }
    UpstreamTls {
        authentication,
        ca: check.optional_path(mem::take(&mut spec.ca)),
        pins: pins(mem::take(&mut spec.pins), check),
        client: client(spec, check),
    }
}

fn pins(setting: Setting<List<Text<Pin>>>, check: &mut Check) -> Vec<Pin> {
    let span = setting.span();
    let items = check.take(setting).map_or_else(Vec::new, |list| list.0);
    if let Some(at) = span.filter(|_| items.len() > MAX_PINS) {
        check.fault(at, format!("more than {MAX_PINS} pins"));
    }
    items.into_iter().map(|item| item.into_inner().0).collect()
}

/// Reads the certificate that this server shows to others.
fn client(spec: &mut ForwardSpec, check: &mut Check) -> Option<CertificateFiles> {
    let (chain_at, key_at) = (spec.client_cert.span(), spec.client_key.span());
    let chain = check.optional_path(mem::take(&mut spec.client_cert));
    let key = check.optional_path(mem::take(&mut spec.client_key));
    match (chain, key) {
        (Some(chain), Some(key)) => Some(CertificateFiles { chain, key }),
        (None, None) => None,
        (Some(_), None) => {
            check.fault(chain_at.unwrap_or_default(), "`client-cert` needs `client-key`");
            None
        }
        (None, Some(_)) => {
            check.fault(key_at.unwrap_or_default(), "`client-key` needs `client-cert`");
            None
        }
    }
}

/// Adds the keys to the table of a rule, as the file would have them.
pub(super) fn show(tls: &UpstreamTls, out: &mut Table) {
    let path = |path: Option<&PathBuf>| {
        Value::from(path.map_or_else(String::new, |path| path.to_string_lossy().into_owned()))
    };
    let authentication = match tls.authentication {
        Authentication::Strict => "strict",
        Authentication::Opportunistic => "opportunistic",
    };
    let pins = tls.pins.iter().map(|pin| Value::from(BASE64.encode(&pin.0)));
    let client = tls.client.as_ref();
    let shown = [
        ("authentication", authentication.into()),
        ("ca", path(tls.ca.as_ref())),
        ("pins", Value::Array(pins.collect())),
        ("client-cert", path(client.map(|files| &files.chain))),
        ("client-key", path(client.map(|files| &files.key))),
    ];
    out.extend(shown.map(|(key, value)| (key.to_owned(), value)));
}
