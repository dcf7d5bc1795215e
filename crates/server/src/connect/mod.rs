//! How a device is connected to this server: names, addresses and ports of the encrypted listeners,
//! in the forms that devices, apps and DHCP servers read.
//!
//! Everything is computed from the configuration and the names of its certificates, so that equal
//! configurations make equal texts. Names are host names and words are words by the time they are
//! in a [`DeviceConnection`]: letters, digits, `-`, `_` and dots.

pub mod dnr;
pub mod profile;
pub mod stamp;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use avocet_config::certificate::CertificateConfig;
use avocet_config::{Config, OpenAddress, Protocol};
use avocet_io::file::read_regular;
use avocet_nameserver::query::designation::{addresses_of, is_host};
use avocet_session::certificate::own_names;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use thiserror::Error;

use crate::certificates::MAX_PEM;

/// Octets of the longest word of a device, which is a label (RFC 1035 §2.3.4).
const MAX_WORD: usize = 63;

/// What a device is connected to.
#[derive(Debug, Clone, Default)]
pub struct Wish {
    /// A name of a certificate; the first one if absent.
    pub name: Option<String>,
    /// The word of the device, as in `ids = ["id:WORD"]`.
    pub word: Option<String>,
    /// The `[[listener]]`; `[server]` if absent.
    pub listener: Option<String>,
}

/// The encrypted listeners as one device uses them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceConnection {
    /// The name of the server.
    pub name: String,
    /// The word of the device.
    pub word: Option<String>,
    /// DoT, DoH and DoQ, in this order; DoT and DoQ only if the device can send its word.
    pub endpoints: Vec<Endpoint>,
    /// The addresses without encryption, for routers.
    pub plain: Vec<IpAddr>,
    /// What the server promises in stamps.
    pub promises: Promises,
}

/// One protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The protocol; HTTP/3 is a part of HTTPS.
    pub protocol: Protocol,
    /// Whether HTTP/3 is served, too.
    pub has_h3: bool,
    /// The name that the device connects to: with its word for DoT and DoQ.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The addresses, if they are known.
    pub addresses: Vec<IpAddr>,
}

/// What the server promises in stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Promises {
    /// It validates DNSSEC.
    pub validates: bool,
    /// It keeps no query log.
    pub keeps_no_log: bool,
    /// It filters nothing.
    pub filters_nothing: bool,
}

/// An error: the device cannot be connected.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ConnectError {
    /// No listener has this name.
    #[error("no [[listener]] has the name {0:?}")]
    Listener(String),
    /// There is nothing to connect to.
    #[error(
        "{0} has no address with tls://, https:// or quic:// in `listen` that clients without a \
         certificate may use"
    )]
    NoListener(String),
    /// No certificate has a host name.
    #[error("no certificate has a host name: set `names` in [[certificate]]")]
    NoName,
    /// No certificate has this name.
    #[error("no certificate has the name {0:?}")]
    Name(String),
    /// The word is none.
    #[error("{0:?} is not a word: letters, digits, - and _, at most {MAX_WORD}")]
    Word(String),
    /// The word can be sent over no protocol.
    #[error("the device cannot send its word: this takes an https:// address or the name *.{0}")]
    Unsendable(String),
    /// The form needs a protocol that is not served.
    #[error("{0}")]
    Form(&'static str),
}

impl DeviceConnection {
    /// Finds the listeners of a wish.
    ///
    /// # Errors
    /// There are none, or the wish is wrong.
    pub fn of(config: &Config, wish: &Wish) -> Result<Self, ConnectError> {
        let word = wish.word.as_deref().map(word).transpose()?;
        let listener = match &wish.listener {
            None => None,
            Some(name) => {
                let found = config.server.listeners.iter().find(|one| one.name == *name);
                Some(found.ok_or_else(|| ConnectError::Listener(name.clone()))?)
            }
        };
        let of_wish = |one: &OpenAddress| one.listener == wish.listener && one.closing.is_none();
        let open = config.server.open_addresses();
        let open: Vec<_> = open.into_iter().filter(of_wish).collect();
        let chosen = listener.and_then(|one| one.certificate.as_deref());
        let names = names(config, chosen);
        let name = match &wish.name {
            None => names.iter().find(|name| is_host(name)).cloned(),
            Some(wanted) => {
                let wanted = wanted.trim_end_matches('.').to_ascii_lowercase();
                let is_known = is_host(&wanted) && is_shown(&names, &wanted);
                Some(
                    is_known
                        .then_some(wanted)
                        .ok_or_else(|| ConnectError::Name(wish.name.clone().unwrap_or_default()))?,
                )
            }
        };
        let name = name.ok_or(ConnectError::NoName)?;
        let endpoints = endpoints(config, &open, &name);
        if endpoints.is_empty() {
            let listener = wish.listener.as_deref().unwrap_or("[server]");
            return Err(ConnectError::NoListener(listener.to_owned()));
        }
        let endpoints = match &word {
            None => endpoints,
            Some(word) => with_word(endpoints, word, &names),
        };
        if endpoints.is_empty() {
            return Err(ConnectError::Unsendable(name));
        }
        let plain = open.iter().filter(|one| one.protocol == Protocol::Plain);
        let plain = addresses_of(&name, config, plain.map(|one| one.address.ip()));
        let promises = Promises {
            validates: config.dnssec.validate,
            keeps_no_log: !config.query_log.enabled,
            filters_nothing: config.policy.is_empty(),
        };
        Ok(Self { name, word, endpoints, plain, promises })
    }

    /// Returns the endpoint of a protocol.
    pub fn endpoint(&self, protocol: Protocol) -> Option<&Endpoint> {
        self.endpoints.iter().find(|one| one.protocol == protocol)
    }

    /// Returns the path of DNS over HTTPS.
    pub fn path(&self) -> String {
        match &self.word {
            None => "/dns-query".to_owned(),
            Some(word) => format!("/dns-query/{word}"),
        }
    }

    /// Returns the URL of DNS over HTTPS, if it is served.
    pub fn url(&self) -> Option<String> {
        let https = self.endpoint(Protocol::Https)?;
        Some(format!("https://{}{}", https.authority(443), self.path()))
    }
}

impl Endpoint {
    /// Returns the host with its port, if that is not the usual one.
    pub fn authority(&self, usual: u16) -> String {
        match self.port == usual {
            true => self.host.clone(),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

/// Reads a word, in lower case: letter case does not count.
fn word(text: &str) -> Result<String, ConnectError> {
    let is_octet = |octet: u8| octet.is_ascii_alphanumeric() || b"-_".contains(&octet);
    let is_word = (1..=MAX_WORD).contains(&text.len()) && text.bytes().all(is_octet);
    is_word.then(|| text.to_ascii_lowercase()).ok_or_else(|| ConnectError::Word(text.to_owned()))
}

/// Returns whether a certificate with these names is shown for a host.
fn is_shown(names: &[String], host: &str) -> bool {
    let parent = host.split_once('.').map(|(_, parent)| format!("*.{parent}"));
    names.iter().any(|name| *name == host || Some(name) == parent.as_ref())
}

/// Returns the names of the certificates, in their order. Names of files that cannot be read are
/// missing.
fn names(config: &Config, chosen: Option<&str>) -> Vec<String> {
    let is_chosen = |one: &&CertificateConfig| chosen.is_none_or(|name| one.has_name(name));
    let of_file = |one: &CertificateConfig| -> Vec<String> {
        let octets = read_regular(&one.files.chain, MAX_PEM).unwrap_or_default();
        CertificateDer::from_pem_slice(&octets).map_or_else(|_| Vec::new(), |one| own_names(&one))
    };
    let of_one = |one: &CertificateConfig| match one.names.is_empty() {
        true => of_file(one),
        false => one.names.clone(),
    };
    let all = config.certificates.iter().filter(is_chosen).flat_map(of_one);
    all.map(|name| name.to_ascii_lowercase()).collect()
}

/// Returns the protocols that are served, each at its first port.
fn endpoints(config: &Config, open: &[OpenAddress], name: &str) -> Vec<Endpoint> {
    let mut found: BTreeMap<Protocol, (u16, BTreeSet<IpAddr>)> = BTreeMap::new();
    let is_usable = |one: &&OpenAddress| {
        one.protocol != Protocol::Plain
            && !avocet_nameserver::query::designation::requires_certificate(&config.server, one)
    };
    for one in open.iter().filter(is_usable) {
        let (port, addresses) =
            found.entry(one.protocol).or_insert((one.address.port(), BTreeSet::new()));
        if *port == one.address.port() {
            addresses.insert(one.address.ip());
        }
    }
    let has_h3 = found.remove(&Protocol::H3).is_some();
    let endpoint = |(protocol, (port, addresses))| Endpoint {
        protocol,
        has_h3: has_h3 && protocol == Protocol::Https,
        host: name.to_owned(),
        port,
        addresses: addresses_of(name, config, addresses),
    };
    found.into_iter().map(endpoint).collect()
}

/// Returns the endpoints over which a device can send its word: HTTPS in the path, and the others
/// as the first label of the name, if a certificate is shown for it.
fn with_word(endpoints: Vec<Endpoint>, word: &str, names: &[String]) -> Vec<Endpoint> {
    let is_label = !word.contains('_') && !word.starts_with('-') && !word.ends_with('-');
    let named = |one: Endpoint| {
        if one.protocol == Protocol::Https {
            return Some(one);
        }
        let host = format!("{word}.{}", one.host);
        let can_be = is_label && is_host(&host) && is_shown(names, &host);
        can_be.then_some(Endpoint { host, ..one })
    };
    endpoints.into_iter().filter_map(named).collect()
}

#[cfg(test)]
mod tests;
