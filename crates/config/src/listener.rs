//! `[[listener]]`: addresses with a name, which conditions test as `client.listener`.

use std::net::SocketAddr;
use std::ops::Range;
use std::{fmt, mem};

use ipnet::IpNet;
use toml::Spanned;

use super::certificate::{self, CertificateConfig};
use super::check::Check;
use super::client_certificate::{self, ClientCertificates, ClientKeys};
use super::listen::{Listen, Protocol, TakenPorts};
use super::policy::{Named, TableHeader, all, name};
use super::setting::{List, Setting, Text};
use super::spec::ListenerSpec;
use super::validate::allow;
use super::{AllowConfig, ServerConfig};

/// Maximum number of listeners. Each may double the number of client profiles: the combinations of
/// client properties that the policy distinguishes.
const MAX_LISTENERS: usize = 64;

/// One `[[listener]]`.
#[derive(Debug, Clone, PartialEq)]
pub struct ListenerConfig {
    /// The name that conditions use.
    pub name: String,
    /// Addresses served over UDP and TCP.
    pub listen: Vec<SocketAddr>,
    /// Addresses served over TLS, HTTPS and QUIC.
    pub encrypted: Vec<Listen>,
    /// The name of the certificate that clients see at this listener; `None` to choose it by the
    /// name that the client requests.
    pub certificate: Option<String>,
    /// The client certificates that the listener requests; `None` for the setting of `[server]`.
    pub client_certificates: Option<ClientCertificates>,
    /// The clients that may send queries to the listener; `None` for those of `[server]`.
    pub allow: Option<AllowConfig>,
    /// The networks of proxies, which name their clients by the PROXY protocol.
    pub proxies: Vec<IpNet>,
}

impl Named for ListenerConfig {
    fn name(&self) -> &str {
        &self.name
    }
}

/// An address that is served.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenAddress {
    /// The address.
    pub address: SocketAddr,
    /// The protocol that is served there.
    pub protocol: Protocol,
    /// The listener of the address; `None` for `[server]`.
    pub listener: Option<String>,
    /// `None` while the configuration names the address. Otherwise, the access list from the last
    /// configuration that named it: its sockets stay open until a restart.
    pub closing: Option<AllowConfig>,
}

impl fmt::Display for OpenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.protocol.prefix(), self.address)
    }
}

/// The access list of an address.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum AddressAllow<'c> {
    /// The list of `[server]`.
    Common,
    /// The list of the listener.
    Own(&'c AllowConfig),
    /// Both lists, and a client must be in both: the configuration no longer names the address,
    /// which stays open until a restart.
    Both(&'c AllowConfig, &'c AllowConfig),
    /// No client: the listener of the address was removed, and the address stays open until a
    /// restart.
    Nobody,
}

impl ServerConfig {
    /// Returns all addresses that are served, each once. The index of an address in this list
    /// identifies it in the whole server.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.open_addresses().into_iter().map(|one| one.address).collect()
    }

    /// Returns the number of addresses that are served over UDP. They come first in
    /// [`Self::addresses`].
    pub fn datagram_addresses(&self) -> usize {
        let is_plain = |one: &OpenAddress| one.protocol == Protocol::Plain;
        self.open_addresses().iter().take_while(|one| is_plain(one)).count()
    }

    /// Returns the index of an open address of `[server]`; 0 if none is open.
    pub fn own_place(&self) -> usize {
        self.open.iter().position(|one| one.listener.is_none()).unwrap_or(0)
    }

    /// Returns the address at which this server queries itself.
    pub fn own_address(&self) -> SocketAddr {
        self.open.get(self.own_place()).map_or(self.listen[0], |one| one.address)
    }

    /// Returns the addresses that are served, each with its table.
    pub fn open_addresses(&self) -> Vec<OpenAddress> {
        if self.open.is_empty() { self.named_addresses() } else { self.open.clone() }
    }

    /// Returns the name of the listener of each address, in the order of [`Self::addresses`]. The
    /// name is empty for an address of `[server]` and for an address of a removed listener.
    pub fn entrances(&self) -> Vec<&str> {
        let name = |one: OpenAddress| self.listener(one.listener.as_deref()?);
        let named = self.open_addresses().into_iter().map(name);
        named.map(|one| one.map_or("", |listener| listener.name.as_str())).collect()
    }

    /// Returns the settings of client certificates at all addresses, each once.
    pub fn client_authorities(&self) -> Vec<&ClientCertificates> {
        let own = self.listeners.iter().filter_map(|one| one.client_certificates.as_ref());
        let mut all: Vec<_> = Vec::new();
        for one in self.client_certificates.iter().chain(own) {
            if !all.contains(&one) {
                all.push(one);
            }
        }
        all
    }

    /// Returns the settings of client certificates at an address; `None` if the address requests no
    /// certificate.
    pub fn client_certificates_at(&self, one: &OpenAddress) -> Option<&ClientCertificates> {
        let of_listener = one.listener.as_deref().and_then(|name| self.listener(name));
        let own = of_listener.and_then(|listener| listener.client_certificates.as_ref());
        own.or(self.client_certificates.as_ref())
    }

    /// Returns the access list of each address, in the order of [`Self::addresses`].
    pub fn allow_by_address(&self) -> Vec<AddressAllow<'_>> {
        if self.open.is_empty() {
            return self.named_addresses().iter().map(|one| self.allow_of(one)).collect();
        }
        self.open.iter().map(|one| self.closing_allow(one)).collect()
    }

    /// Returns the networks of proxies at each address, in the order of [`Self::addresses`].
    pub fn proxies_by_address(&self) -> Vec<&[IpNet]> {
        let listener = |one: OpenAddress| self.listener(one.listener.as_deref()?);
        let listeners = self.open_addresses().into_iter().map(listener);
        listeners.map(|one| one.map_or(&[][..], |listener| &listener.proxies)).collect()
    }

    fn closing_allow<'c>(&'c self, one: &'c OpenAddress) -> AddressAllow<'c> {
        match (&one.closing, self.allow_of(one)) {
            (None, now) => now,
            (Some(_), AddressAllow::Nobody) => AddressAllow::Nobody,
            (Some(before), AddressAllow::Own(now)) => AddressAllow::Both(before, now),
            (Some(before), _) => AddressAllow::Both(before, &self.allow),
        }
    }

    /// Returns the access list that the address has now, whether or not it is closing.
    fn allow_of(&self, one: &OpenAddress) -> AddressAllow<'_> {
        let Some(name) = &one.listener else { return AddressAllow::Common };
        let Some(listener) = self.listener(name) else { return AddressAllow::Nobody };
        listener.allow.as_ref().map_or(AddressAllow::Common, AddressAllow::Own)
    }

    fn listener(&self, name: &str) -> Option<&ListenerConfig> {
        self.listeners.iter().find(|listener| listener.name == name)
    }

    /// Returns the addresses in the configuration: first those of `[server]`, then those of each
    /// listener.
    fn named_addresses(&self) -> Vec<OpenAddress> {
        let mut all = Vec::new();
        let mut add = |Listen { protocol, address }, listener: Option<&ListenerConfig>| {
            let listener = listener.map(|listener| listener.name.clone());
            all.push(OpenAddress { address, protocol, listener, closing: None });
        };
        let plain = |address: &SocketAddr| Listen { protocol: Protocol::Plain, address: *address };
        self.listen.iter().for_each(|one| add(plain(one), None));
        for listener in &self.listeners {
            listener.listen.iter().for_each(|one| add(plain(one), Some(listener)));
        }
        self.encrypted.iter().for_each(|one| add(*one, None));
        for listener in &self.listeners {
            listener.encrypted.iter().for_each(|one| add(*one, Some(listener)));
        }
        // HTTP/3 comes last, so that the other addresses keep their indexes when it is turned on or
        // off.
        let h3 = |one: &Listen| Listen { protocol: Protocol::H3, ..*one };
        let is_https = |one: &&Listen| self.h3 && one.protocol == Protocol::Https;
        self.encrypted.iter().filter(is_https).for_each(|one| add(h3(one), None));
        // QUIC cannot carry the header of a proxy, so a listener with proxies has no HTTP/3.
        for listener in self.listeners.iter().filter(|listener| listener.proxies.is_empty()) {
            let https = listener.encrypted.iter().filter(is_https);
            https.for_each(|one| add(h3(one), Some(listener)));
        }
        all
    }

    /// Keeps the sockets of `old`, the configuration in force, in their order. The addresses that
    /// the new configuration names get its names and access lists. Returns the addresses that it
    /// names and that have no socket yet.
    ///
    /// An address that the new configuration does not name stays open for clients that two access
    /// lists admit: the last access list of the address, and the present access list of `[server]`
    /// or of the address's listener. If the listener is gone, no client is admitted, because the
    /// rules that tested the name of the listener are gone too.
    pub fn keep_open(&mut self, old: &Self) -> Vec<OpenAddress> {
        let mut named = self.named_addresses();
        let wanted = named.clone();
        let is_same = |one: &OpenAddress, new: &OpenAddress| {
            (one.address, one.protocol) == (new.address, new.protocol)
        };
        let keep = |one: OpenAddress| match named.iter().position(|new| is_same(&one, new)) {
            Some(place) => named.swap_remove(place),
            None => OpenAddress { closing: Some(old.last_allow(&one)), ..one },
        };
        let open: Vec<_> = old.open_addresses().into_iter().map(keep).collect();
        self.open = if open == wanted { Vec::new() } else { open };
        named.sort_by_key(|one| wanted.iter().position(|other| other == one));
        named
    }

    /// Returns the access list of an address from the last configuration that named it.
    fn last_allow(&self, one: &OpenAddress) -> AllowConfig {
        match (&one.closing, self.allow_of(one)) {
            (Some(before), _) => before.clone(),
            (None, AddressAllow::Own(own)) => own.clone(),
            (None, _) => self.allow.clone(),
        }
    }

    /// Returns whether an access list includes the networks of the host's interfaces.
    pub fn allows_local(&self) -> bool {
        let own = self.listeners.iter().filter_map(|listener| listener.allow.as_ref());
        let closing = self.open.iter().filter_map(|one| one.closing.as_ref());
        own.chain(closing).chain([&self.allow]).any(|allow| allow.local)
    }
}

/// Reads `listen` of `[server]`: the addresses without TLS, at least one, and the addresses with
/// TLS, HTTPS or QUIC.
pub(super) fn listen_of_server(
    setting: Setting<List<Text<Listen>>>,
    mut taken: TakenPorts,
    check: &mut Check,
) -> (Vec<SocketAddr>, Vec<Listen>) {
    let Some(span) = setting.span() else {
        return (vec![SocketAddr::from(([127, 0, 0, 1], 5300))], Vec::new());
    };
    let Some(List(items)) = check.take(setting) else { return (Vec::new(), Vec::new()) };
    let (plain, tls) = different(items, &mut taken, check);
    if plain.is_empty() && tls.is_empty() {
        check.fault(span, "expected at least one address with port, such as \"127.0.0.1:53\"");
    } else if plain.is_empty() {
        let message = "expected at least one address without TLS too, such as \"127.0.0.1:5300\": \
                       the server queries itself there";
        check.fault(span, message);
    }
    (plain, tls)
}

/// Returns the position in the file of the first address that serves TLS, HTTPS or QUIC.
pub(super) fn first_tls(setting: &Setting<List<Text<Listen>>>) -> Option<Range<usize>> {
    let List(items) = setting.0.as_ref()?.value.as_ref().ok()?;
    let first = items.iter().find(|item| item.get_ref().0.protocol != Protocol::Plain)?;
    Some(first.span())
}

/// Returns the addresses without and with TLS. An address that is already in use is a fault.
fn different(
    items: Vec<Spanned<Text<Listen>>>,
    taken: &mut TakenPorts,
    check: &mut Check,
) -> (Vec<SocketAddr>, Vec<Listen>) {
    let (mut plain, mut tls) = (Vec::new(), Vec::new());
    for item in items {
        let (at, Text(one)) = (item.span(), item.into_inner());
        let Listen { protocol, address } = one;
        match protocol {
            _ if !taken.take(&one) => check.fault(at, format!("duplicate address {address}")),
            Protocol::Plain => plain.push(address),
            _ => tls.push(one),
        }
    }
    (plain, tls)
}

/// Reads all listeners. An address that `server` or another listener has already is a fault.
pub(super) fn listeners(
    specs: Vec<Spanned<ListenerSpec>>,
    server: &ServerConfig,
    certificates: &[CertificateConfig],
    check: &mut Check,
) -> Vec<ListenerConfig> {
    let mut taken = TakenPorts { h3: server.h3, ..TakenPorts::default() };
    server.listen.iter().for_each(|one| {
        taken.take(&Listen { protocol: Protocol::Plain, address: *one });
    });
    server.encrypted.iter().for_each(|one| {
        taken.take(one);
    });
    let read = |header: &TableHeader, mut spec: ListenerSpec, check: &mut Check| {
        let certificate = certificate_of(&mut spec, header, certificates, check);
        listener(header, spec, &mut taken, check).with_certificate(certificate)
    };
    all(specs, ("listeners", MAX_LISTENERS), check, read)
        .into_iter()
        .map(|(_, listener)| listener)
        .collect()
}

/// Reads `certificate` of a listener.
fn certificate_of(
    spec: &mut ListenerSpec,
    header: &TableHeader,
    certificates: &[CertificateConfig],
    check: &mut Check,
) -> Option<String> {
    let tls_at = first_tls(&spec.listen);
    if let Some(at) = &tls_at {
        certificate::need_one(certificates, at, check);
    }
    let at = spec.certificate.span().unwrap_or_else(|| header.at.clone());
    let name = check.take(mem::take(&mut spec.certificate))?;
    if tls_at.is_none() {
        check
            .doubt(at, "no address of this listener has TLS, so that no client sees a certificate");
    } else if !certificates.iter().any(|one| one.has_name(&name)) {
        check.fault(at, format!("no [[certificate]] has {name:?} among its `names`"));
    }
    Some(name)
}

fn listener(
    header: &TableHeader,
    mut spec: ListenerSpec,
    taken: &mut TakenPorts,
    check: &mut Check,
) -> ListenerConfig {
    let name = name(header, mem::take(&mut spec.name), check);
    let items = match check.need("listen", &header.at, mem::take(&mut spec.listen)) {
        Some((at, List(items))) if items.is_empty() => {
            check.fault(at, "expected at least one address with port, such as \"127.0.0.1:53\"");
            items
        }
        Some((_, List(items))) => items,
        None => Vec::new(),
    };
    let tls_at = items.iter().find(|item| item.get_ref().0.protocol != Protocol::Plain);
    let tls_at = tls_at.map(Spanned::span);
    let keys = ClientKeys { ca: &mut spec.client_ca, certificate: &mut spec.client_certificate };
    let client_certificates = client_certificate::read(keys, tls_at.as_ref(), check);
    let (listen, encrypted) = different(items, taken, check);
    let is_written = spec.allow.span().is_some();
    let allow = is_written.then(|| allow(spec.allow, check));
    let certificate = None;
    let proxies = proxies(spec.proxy_protocol_from, &encrypted, check);
    ListenerConfig { name, listen, encrypted, certificate, client_certificates, allow, proxies }
}

/// Reads `proxy-protocol-from` of a listener with these addresses.
fn proxies(
    setting: Setting<List<Text<IpNet>>>,
    encrypted: &[Listen],
    check: &mut Check,
) -> Vec<IpNet> {
    let at = setting.span().unwrap_or_default();
    let proxies = check.networks(setting).unwrap_or_default();
    let quic = encrypted.iter().find(|one| one.protocol == Protocol::Quic);
    if let Some(quic) = quic.filter(|_| !proxies.is_empty()) {
        let message = format!(
            "QUIC has no place for a header of the PROXY protocol: move quic://{} to another \
             [[listener]]",
            quic.address
        );
        check.fault(at.clone(), message);
    }
    if proxies.iter().any(|network| network.prefix_len() == 0) {
        check.doubt(at, "every host may name its clients here, and so pass for any other");
    }
    proxies
}

impl ListenerConfig {
    fn with_certificate(self, certificate: Option<String>) -> Self {
        Self { certificate, ..self }
    }
}
