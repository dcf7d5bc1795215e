//! The settings that connect a device to this server: names, addresses and ports of the encrypted
//! listeners, in the formats of devices, apps and DHCP servers.
//!
//! Everything is computed from the configuration and the names of its certificates, so that equal
//! configurations make equal texts. A [`DeviceConnection`] contains only valid host names, and the
//! identifier that the device sends with its queries (its word): letters, digits, `-`, `_` and
//! dots.

pub mod dnr;
pub mod document;
pub mod profile;
pub mod stamp;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use avocet_config::certificate::CertificateConfig;
use avocet_config::{Config, ListenerConfig, OpenAddress, Protocol};
use avocet_control::connect::{Connect, ConnectFault, MAX_DEVICE_WORD};
use avocet_io::file::read_regular;
use avocet_nameserver::query::designation::{addresses_of, is_host, requires_certificate};
use avocet_session::certificate::own_names;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use avocet_worker::certificates::MAX_PEM;
use avocet_worker::home_ca::authority_of;

/// The encrypted listeners, in the form that one device uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceConnection {
    /// The name of the server.
    pub name: String,
    /// The word of the device: the identifier that the device sends with its queries.
    pub word: Option<String>,
    /// DoT, DoH and DoQ, in this order; DoT and DoQ only if the device can send its word.
    pub endpoints: Vec<Endpoint>,
    /// DNS without encryption, for routers; `None` if it is not served.
    pub plain: Option<PlainService>,
    /// The properties that the server claims in stamps.
    pub promises: Promises,
    /// The authority of this server in DER, if the device must install it.
    pub authority: Option<Vec<u8>>,
}

/// DNS without encryption.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlainService {
    /// The port: 53 if DNS is served there.
    pub port: u16,
    /// The addresses, if they are known.
    pub addresses: Vec<IpAddr>,
}

/// An endpoint of one protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The protocol; HTTP/3 is a part of HTTPS.
    pub protocol: Protocol,
    /// Whether HTTP/3 is served, too.
    pub has_h3: bool,
    /// The host name that the device connects to. For DoT and DoQ, its first label is the word, if
    /// the device has one.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The addresses, if they are known.
    pub addresses: Vec<IpAddr>,
}

/// The port of DNS without encryption.
const PORT: u16 = 53;

/// The properties that the server claims in stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Promises {
    /// The server validates DNSSEC.
    pub validates: bool,
    /// The server keeps no query log.
    pub keeps_no_log: bool,
    /// The server filters nothing.
    pub filters_nothing: bool,
}

impl DeviceConnection {
    /// Finds the listeners that match the requested settings.
    ///
    /// # Errors
    /// No listener matches, or a requested setting is invalid.
    pub fn of(config: &Config, wish: &Connect) -> Result<Self, ConnectFault> {
        let word = wish.id.as_deref().map(word).transpose()?;
        let listener = wish.listener.as_deref().map(|name| listener(config, name)).transpose()?;
        let open = open_addresses(config, wish.listener.as_deref());
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
                        .ok_or_else(|| ConnectFault::Name(wish.name.clone().unwrap_or_default()))?,
                )
            }
        };
        let name = name.ok_or(ConnectFault::NoName)?;
        let endpoints = endpoints(config, &open, &name);
        if endpoints.is_empty() {
            let listener = wish.listener.as_deref().unwrap_or("[server]");
            return Err(ConnectFault::NoListener(listener.to_owned()));
        }
        let endpoints = match &word {
            None => endpoints,
            Some(word) => with_word(endpoints, word, &names),
        };
        if endpoints.is_empty() {
            return Err(ConnectFault::Unsendable(name));
        }
        let plain = PlainService::among(&open, config, &name);
        let promises = Promises {
            validates: config.dnssec.validate,
            keeps_no_log: !config.query_log.enabled,
            filters_nothing: config.policy.filters_nothing(),
        };
        let authority = config.home_ca.as_ref().filter(|home_ca| is_shown(&home_ca.names, &name));
        let authority = authority.and_then(authority_of);
        Ok(Self { name, word, endpoints, plain, promises, authority })
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

impl PlainService {
    /// Returns the connection data of a listener, or of `[server]` without a name.
    ///
    /// # Errors
    /// No listener has the name.
    pub fn of(config: &Config, listener: Option<&str>) -> Result<Option<Self>, ConnectFault> {
        listener.map(|name| self::listener(config, name)).transpose()?;
        Ok(Self::among(&open_addresses(config, listener), config, ""))
    }

    fn among(open: &[OpenAddress], config: &Config, name: &str) -> Option<Self> {
        let plain = || open.iter().filter(|one| one.protocol == Protocol::Plain);
        let usual = plain().find(|one| one.address.port() == PORT).or_else(|| plain().next());
        let port = usual?.address.port();
        let addresses = plain().filter(|one| one.address.port() == port);
        let addresses = addresses_of(name, config, addresses.map(|one| one.address.ip()));
        Some(Self { port, addresses })
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

/// Returns the host names that a request may choose, in the order of the certificates.
pub fn host_names(config: &Config) -> Vec<String> {
    let mut names = names(config, None);
    names.retain(|name| is_host(name));
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    names
}

/// Returns the names of the `[[listener]]` tables with an encrypted address that a client without a
/// certificate can use.
pub fn encrypted_listeners(config: &Config) -> Vec<String> {
    let names = config.server.listeners.iter().map(|one| &one.name);
    let is_encrypted = |name: &&String| {
        open_addresses(config, Some(name)).iter().any(|one| is_usable(config, one))
    };
    names.filter(is_encrypted).cloned().collect()
}

/// Returns whether a client without a certificate can use an encrypted address.
fn is_usable(config: &Config, one: &OpenAddress) -> bool {
    one.protocol != Protocol::Plain && !requires_certificate(&config.server, one)
}

fn listener<'c>(config: &'c Config, name: &str) -> Result<&'c ListenerConfig, ConnectFault> {
    let found = config.server.listeners.iter().find(|one| one.name == name);
    found.ok_or_else(|| ConnectFault::Listener(name.to_owned()))
}

/// Returns the open addresses of a listener, or those of `[server]` if no listener is given.
fn open_addresses(config: &Config, listener: Option<&str>) -> Vec<OpenAddress> {
    let is_own = |one: &OpenAddress| one.listener.as_deref() == listener && one.closing.is_none();
    config.server.open_addresses().into_iter().filter(is_own).collect()
}

/// Parses a word and returns it in lower case: letter case is not significant.
fn word(text: &str) -> Result<String, ConnectFault> {
    let is_octet = |octet: u8| octet.is_ascii_alphanumeric() || b"-_".contains(&octet);
    let is_word = (1..=MAX_DEVICE_WORD).contains(&text.len()) && text.bytes().all(is_octet);
    is_word.then(|| text.to_ascii_lowercase()).ok_or_else(|| ConnectFault::Word(text.to_owned()))
}

/// Returns whether the server presents a certificate with these names for a host.
fn is_shown(names: &[String], host: &str) -> bool {
    let parent = host.split_once('.').map(|(_, parent)| format!("*.{parent}"));
    names.iter().any(|name| *name == host || Some(name) == parent.as_ref())
}

/// Returns the host names of the certificates, in lower case and in the order of the configuration.
/// With `chosen`, takes only the certificates that the configuration assigns to this name. If the
/// configuration gives a certificate no names, they are read from its file; an unreadable file has
/// none.
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
    for one in open.iter().filter(|one| is_usable(config, one)) {
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

/// Returns the endpoints over which a device can send its word. HTTPS carries the word in the path.
/// Other protocols carry it as the first label of the name, if a certificate is shown for that
/// name.
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
