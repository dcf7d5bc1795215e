//! The records that designate this server's encrypted listeners: SVCB records of
//! `_dns.resolver.arpa` (RFC 9462) and of `_dns.NAME` for each name of a certificate (RFC 9461).
//!
//! The records are made once for each configuration, not for each query. A client gets the records
//! of the `[[listener]]` or `[server]` that it queries. Other listeners may have other access lists
//! and rules, and a designation must not let clients evade these.
//!
//! A client that knows only the address of a resolver accepts a designation in two cases. Either
//! the certificate has that address (RFC 9462 §4.2), or the address is private and the encrypted
//! listener has the same address (§4.3). Listeners that require certificates of clients are not
//! announced: most clients have none. `_dns.resolver.arpa` has only records that some client can
//! accept. A client that queries `_dns.NAME` knows the name, which the certificate proves.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use avocet_config::client_certificate::Presence;
use avocet_config::{Config, OpenAddress, Protocol, ServerConfig};
use avocet_wire::special_purpose::Scope;
use avocet_wire::{NameBuf, Rtype};

use super::asked::Entrance;

/// `_dns.resolver.arpa`, which clients query for encrypted resolvers.
pub(super) const DISCOVERY: &[u8] = b"\x04_dns\x08resolver\x04arpa\x00";
/// The first label of the announced names.
const DNS_LABEL: &[u8] = b"_dns";
/// TTL in seconds: clients notice a change of the listeners within five minutes.
pub(super) const TTL_SECS: u32 = 300;
/// Maximum number of certificate names for which one listener has records.
const MAX_NAMES: usize = 256;
/// Maximum number of addresses of a target in each family, so that an answer fits into 1,232
/// octets.
const MAX_ADDRESSES: usize = 4;
/// The paths of DNS over HTTPS as a URI template (RFC 9461 §5).
const DOH_PATH: &str = "/dns-query{?dns}";
/// SvcParamKeys (RFC 9460 §14.3.2, RFC 9461 §5).
const ALPN: u16 = 1;
const PORT: u16 = 3;
const IPV4_HINT: u16 = 4;
const IPV6_HINT: u16 = 6;
const DOH_PATH_KEY: u16 = 7;

/// A certificate that clients of the encrypted listeners see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownCertificate {
    /// The names for which the certificate is shown, in lower case.
    pub names: Vec<String>,
    /// The addresses of the server for which the certificate is valid.
    pub addresses: Vec<IpAddr>,
}

/// The records of one announced name, for each entrance (listening address) of the server.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Announcement(Vec<Option<Arc<Designation>>>);

/// The records of one announced name for clients of one listener.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Designation {
    /// Data of the SVCB records.
    pub(super) records: Vec<Box<[u8]>>,
    /// The target, in wire form and lower case.
    pub(super) target: Box<[u8]>,
    /// Data of the target's A and AAAA records.
    pub(super) addresses: [TargetAddresses; 2],
}

/// The addresses of a target in one family.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TargetAddresses {
    /// A or AAAA.
    pub(super) rtype: Rtype,
    /// Data of the records.
    pub(super) records: Vec<Box<[u8]>>,
}

impl Announcement {
    /// Returns the records for clients that query this listening address.
    pub(super) fn at(&self, Entrance(place): Entrance) -> Option<&Designation> {
        self.0.get(usize::from(place))?.as_deref()
    }
}

/// Returns the announcement of each name that has one.
pub(super) fn announcements(
    config: &Config,
    certificates: &[ShownCertificate],
) -> BTreeMap<Box<[u8]>, Arc<Announcement>> {
    let open = config.server.open_addresses();
    if !config.server.announce || certificates.is_empty() {
        return BTreeMap::new();
    }
    let listeners: BTreeSet<_> = open.iter().map(|one| one.listener.as_deref()).collect();
    let mut all: BTreeMap<Box<[u8]>, ByListener> = BTreeMap::new();
    for name in listeners {
        let listener = Listener::of(config, &open, name);
        for (owner, designation) in listener.designations(config, certificates) {
            all.entry(owner).or_default().insert(name, designation.into());
        }
    }
    let by_entrance = |of: ByListener<'_>| {
        let at = |one: &OpenAddress| of.get(&one.listener.as_deref()).cloned();
        Arc::new(Announcement(open.iter().map(at).collect()))
    };
    all.into_iter().map(|(owner, of)| (owner, by_entrance(of))).collect()
}

/// The records of one name for each listener; the key `None` is `[server]`.
type ByListener<'c> = BTreeMap<Option<&'c str>, Arc<Designation>>;

/// The addresses of `[server]` or of a `[[listener]]`.
struct Listener<'c> {
    /// The configured name that chooses the certificate; `None` if any certificate may be shown.
    certificate: Option<&'c str>,
    /// The addresses without encryption.
    plain: Vec<IpAddr>,
    encrypted: Vec<&'c OpenAddress>,
}

impl<'c> Listener<'c> {
    fn of(server: &'c Config, open: &'c [OpenAddress], name: Option<&str>) -> Self {
        let config = server.server.listeners.iter().find(|one| Some(&*one.name) == name);
        let is_own = |one: &&OpenAddress| one.listener.as_deref() == name && one.closing.is_none();
        let (plain, mut encrypted): (Vec<_>, Vec<_>) =
            open.iter().filter(is_own).partition(|one| one.protocol == Protocol::Plain);
        encrypted.retain(|one| !requires_certificate(&server.server, one));
        Self {
            certificate: config.and_then(|one| one.certificate.as_deref()),
            plain: plain.into_iter().map(|one| one.address.ip()).collect(),
            encrypted,
        }
    }

    /// Returns the listener's records, each with its owner.
    fn designations(
        &self,
        config: &Config,
        certificates: &[ShownCertificate],
    ) -> Vec<(Box<[u8]>, Designation)> {
        if self.encrypted.is_empty() {
            return Vec::new();
        }
        let is_shown = |one: &&ShownCertificate| {
            self.certificate.is_none_or(|name| one.names.iter().any(|other| other == name))
        };
        let mut found = Vec::new();
        for certificate in certificates.iter().filter(is_shown) {
            let mut names = certificate.names.iter().filter_map(|name| host(name)).peekable();
            let is_first = found.iter().all(|(owner, _): &(Box<[u8]>, _)| **owner != *DISCOVERY);
            if let Some(name) = names.peek().filter(|_| is_first && self.is_accepted(certificate)) {
                found.push((DISCOVERY.into(), self.designation(name, config)));
            }
            for name in names.take(MAX_NAMES.saturating_sub(found.len())) {
                if let Ok(owner) = name.prefixed(DNS_LABEL) {
                    found.push((owner.wire().into(), self.designation(&name, config)));
                }
            }
        }
        found
    }

    /// Returns whether clients that know only an address of the listener can accept its designation
    /// with this certificate. An unspecified address matches every address.
    fn is_accepted(&self, certificate: &ShownCertificate) -> bool {
        let is_private = |ip: &IpAddr| ip.is_unspecified() || Scope::Local.contains(*ip);
        let is_same = |known: &IpAddr| {
            let is_that = |ip: IpAddr| ip == *known || ip.is_unspecified();
            let is_any = known.is_unspecified();
            self.encrypted.iter().any(|one| is_any || is_that(one.address.ip()))
        };
        let is_accepted = |known: &IpAddr| {
            certificate.addresses.contains(known) || (is_private(known) && is_same(known))
        };
        match self.plain.is_empty() {
            true => self.encrypted.iter().any(|one| is_accepted(&one.address.ip())),
            false => self.plain.iter().any(is_accepted),
        }
    }

    /// Returns the records that designate a target.
    fn designation(&self, target: &NameBuf, config: &Config) -> Designation {
        let local = local_addresses(target.wire(), config);
        // Protocols with the same addresses and port share a record. The records of DoT and DoQ
        // come first.
        let mut by_place: BTreeMap<(bool, u16), BTreeMap<Protocol, BTreeSet<IpAddr>>> =
            BTreeMap::new();
        for one in &self.encrypted {
            let place = (is_https(one.protocol), one.address.port());
            let protocols = by_place.entry(place).or_default();
            protocols.entry(one.protocol).or_default().insert(one.address.ip());
        }
        let mut records = Vec::new();
        for ((_, port), protocols) in by_place {
            let mut by_addresses: BTreeMap<BTreeSet<IpAddr>, Vec<Protocol>> = BTreeMap::new();
            for (protocol, addresses) in protocols {
                by_addresses.entry(addresses).or_default().push(protocol);
            }
            let mut groups: Vec<_> = by_addresses.into_iter().collect();
            groups.sort_by(|(_, one), (_, other)| one.cmp(other));
            for (addresses, protocols) in groups {
                let hints = local.clone().unwrap_or_else(|| known(addresses));
                let priority = records.len() as u16 + 1;
                let parameters = Parameters { protocols: &protocols, port, hints: &hints };
                let fields = [&priority.to_be_bytes(), target.wire(), &parameters.octets()];
                records.push(fields.concat().into());
            }
        }
        let own = || known(self.encrypted.iter().map(|one| one.address.ip()));
        let addresses = local.unwrap_or_else(own);
        Designation { records, target: target.wire().into(), addresses: rrsets(&addresses) }
    }
}

/// Returns whether clients that have no certificate are refused at an address.
pub fn requires_certificate(server: &ServerConfig, one: &OpenAddress) -> bool {
    server.client_certificates_at(one).is_some_and(|asked| asked.presence == Presence::Required)
}

/// The service parameters of an SVCB record: the listeners at one port.
pub struct Parameters<'p> {
    /// The protocols.
    pub protocols: &'p [Protocol],
    /// The port.
    pub port: u16,
    /// Addresses to which clients may connect before they know the addresses of the target.
    pub hints: &'p [IpAddr],
}

impl Parameters<'_> {
    /// Returns the parameters in wire form, ordered by key (RFC 9460 §2.2).
    pub fn octets(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut param = |key: u16, value: &[u8]| {
            out.extend_from_slice(&key.to_be_bytes());
            out.extend_from_slice(&(value.len() as u16).to_be_bytes());
            out.extend_from_slice(value);
        };
        let mut alpn = Vec::new();
        for id in self.protocols.iter().filter_map(|protocol| alpn_id(*protocol)) {
            alpn.push(id.len() as u8);
            alpn.extend_from_slice(id.as_bytes());
        }
        param(ALPN, &alpn);
        param(PORT, &self.port.to_be_bytes());
        let [v4, v6] = rrsets(self.hints).map(|set| set.records.concat());
        if !v4.is_empty() {
            param(IPV4_HINT, &v4);
        }
        if !v6.is_empty() {
            param(IPV6_HINT, &v6);
        }
        if self.protocols.iter().any(|one| is_https(*one)) {
            param(DOH_PATH_KEY, DOH_PATH.as_bytes());
        }
        out
    }
}

const fn is_https(protocol: Protocol) -> bool {
    matches!(protocol, Protocol::Https | Protocol::H3)
}

/// Returns the ALPN identifier of the protocol (RFC 9461 §4.1); `None` if there is none.
const fn alpn_id(protocol: Protocol) -> Option<&'static str> {
    match protocol {
        Protocol::Plain => None,
        Protocol::Tls => Some("dot"),
        Protocol::Https => Some("h2"),
        Protocol::Quic => Some("doq"),
        Protocol::H3 => Some("h3"),
    }
}

/// Returns whether a name is a host name and not a wildcard.
pub fn is_host(name: &str) -> bool {
    host(name).is_some()
}

/// Returns the name of a host in wire form; `None` for a wildcard and for text that is no name.
pub fn host_wire(name: &str) -> Option<Box<[u8]>> {
    Some(host(name)?.wire().into())
}

/// Returns the addresses that clients use for a host name. They come from its local records, or
/// else they are the known listening addresses of the server.
pub fn addresses_of(
    name: &str,
    config: &Config,
    listening: impl IntoIterator<Item = IpAddr>,
) -> Vec<IpAddr> {
    let local = host(name).and_then(|name| local_addresses(name.wire(), config));
    local.unwrap_or_else(|| known(listening))
}

/// Returns the name of a host in wire form; `None` for a wildcard and for text that is no name.
fn host(name: &str) -> Option<NameBuf> {
    let mut wire = Vec::with_capacity(name.len() + 2);
    for label in name.trim_end_matches('.').split('.') {
        if label.is_empty() || label.len() > 63 || label.contains('*') {
            return None;
        }
        wire.push(label.len() as u8);
        wire.extend(label.bytes().map(|octet| octet.to_ascii_lowercase()));
    }
    wire.push(0);
    NameBuf::from_wire(&wire).ok()
}

/// Returns the addresses in the local records of a name; `None` if there are none.
fn local_addresses(name: &[u8], config: &Config) -> Option<Vec<IpAddr>> {
    let of_name = config.records.iter().filter(|record| *record.name == *name);
    let addresses = of_name.flat_map(|record| {
        let rtype = record.rtype;
        record.rdata.iter().filter_map(move |rdata| address(rtype, rdata))
    });
    let addresses: Vec<_> = addresses.collect();
    (!addresses.is_empty()).then_some(addresses)
}

fn address(rtype: Rtype, rdata: &[u8]) -> Option<IpAddr> {
    match rtype {
        Rtype::A => Some(IpAddr::from(<[u8; 4]>::try_from(rdata).ok()?)),
        Rtype::AAAA => Some(IpAddr::from(<[u8; 16]>::try_from(rdata).ok()?)),
        _ => None,
    }
}

/// Returns the addresses that clients can use, without duplicates. Leaves out unspecified
/// addresses, and link-local addresses, which are usable only with an interface.
fn known(addresses: impl IntoIterator<Item = IpAddr>) -> Vec<IpAddr> {
    let is_usable = |ip: &IpAddr| match ip {
        IpAddr::V4(ip) => !ip.is_unspecified(),
        IpAddr::V6(ip) => !ip.is_unspecified() && !ip.is_unicast_link_local(),
    };
    let usable: BTreeSet<_> = addresses.into_iter().filter(is_usable).collect();
    usable.into_iter().collect()
}

/// Returns the data of A and AAAA records with these addresses.
fn rrsets(addresses: &[IpAddr]) -> [TargetAddresses; 2] {
    let octets = |ip: &IpAddr| -> (Rtype, Box<[u8]>) {
        match ip {
            IpAddr::V4(ip) => (Rtype::A, ip.octets().into()),
            IpAddr::V6(ip) => (Rtype::AAAA, ip.octets().into()),
        }
    };
    [Rtype::A, Rtype::AAAA].map(|rtype| {
        let of_family = addresses.iter().map(octets).filter(|(other, _)| *other == rtype);
        let records = of_family.map(|(_, octets)| octets).take(MAX_ADDRESSES).collect();
        TargetAddresses { rtype, records }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the text of the records that a configuration announces at its first address.
    fn announced(text: &str, certificates: &[(&[&str], &[&str])]) -> String {
        let files = "[[certificate]]\nnames = [\"dns.example\"]\ncert = \"a\"\nkey = \"b\"\n";
        let config = Config::from_text(None, &format!("{text}\n{files}"), &BTreeMap::new());
        let config = config.unwrap_or_else(|faults| panic!("{text}: {faults}"));
        let certificates: Vec<_> = certificates
            .iter()
            .map(|(names, addresses)| ShownCertificate {
                names: names.iter().map(|name| (*name).to_owned()).collect(),
                addresses: addresses.iter().map(|ip| ip.parse().unwrap()).collect(),
            })
            .collect();
        let mut out = String::new();
        for (owner, announcement) in announcements(&config, &certificates) {
            let Some(designation) = announcement.at(Entrance(0)) else { continue };
            let owner = NameBuf::from_wire(&owner).unwrap();
            for record in &designation.records {
                let text = avocet_wire::rdata::display(Rtype::SVCB.0, record);
                out += &format!("{owner} {text}\n");
            }
            for TargetAddresses { rtype, records } in &designation.addresses {
                for record in records {
                    out += &format!("+ {}\n", avocet_wire::rdata::display(rtype.0, record));
                }
            }
        }
        out
    }

    /// Checks the announcement of `_dns.resolver.arpa` for a certificate with these addresses.
    #[track_caller]
    fn check_accepted(listen: &str, addresses: &[&str], expected: bool) {
        let text = format!("[server]\nlisten = [{listen}]\n");
        let found = announced(&text, &[(&["dns.example"], addresses)]);
        assert_eq!(found.contains("resolver.arpa"), expected, "{listen} {addresses:?}: {found}");
        assert!(found.contains("_dns.dns.example."), "{found}");
    }

    #[test]
    fn each_protocol_is_announced_with_its_port_and_addresses() {
        let text = "[server]\nlisten = [\"192.168.1.2:53\", \"[fd00::2]:53\", \
                    \"tls://192.168.1.2:853\", \"tls://[fd00::2]:853\", \"quic://192.168.1.2:853\", \
                    \"https://192.168.1.2:8443\"]\n";
        let dot = "1 dns.example. alpn=dot port=853 ipv4hint=192.168.1.2 ipv6hint=fd00::2";
        let doq = "2 dns.example. alpn=doq port=853 ipv4hint=192.168.1.2";
        let doh = "3 dns.example. alpn=h2,h3 port=8443 ipv4hint=192.168.1.2 \
                   dohpath=/dns-query{?dns}";
        let mut expected = String::new();
        for owner in ["_dns.dns.example.", "_dns.resolver.arpa."] {
            let records = [dot, doq, doh].map(|one| format!("{owner} {one}\n").replace('"', ""));
            expected += &records.concat();
            expected += "+ 192.168.1.2\n+ fd00::2\n";
        }
        let found = announced(text, &[(&["dns.example", "*.dns.example"], &[])]).replace('"', "");
        assert_eq!(sorted(&found), sorted(&expected));
    }

    fn sorted(text: &str) -> Vec<&str> {
        let mut lines: Vec<_> = text.lines().collect();
        lines.sort_unstable();
        lines
    }

    #[test]
    fn addresses_of_local_records_go_before_those_of_listeners() {
        let text = "[server]\nlisten = [\"0.0.0.0:53\", \"tls://0.0.0.0:853\"]\n[[record]]\n\
                    name = \"dns.example\"\ntype = \"A\"\nvalues = [\"192.168.7.1\"]\n";
        let found = announced(text, &[(&["dns.example"], &[])]);
        assert!(found.contains("ipv4hint=192.168.7.1") && found.contains("+ 192.168.7.1"));
        let found = announced(&text.replace("192.168.7.1", "192.168.7.2"), &[]);
        assert_eq!(found, "", "no certificate");
        let text = text.split("[[record]]").next().unwrap();
        let found = announced(text, &[(&["dns.example"], &[])]);
        assert!(found.contains("port=853") && !found.contains("hint"), "{found}");
    }

    #[test]
    fn designations_that_no_client_can_accept_are_left_out() {
        let (public, private) = ("\"192.0.2.1:53\"", "\"192.168.1.2:53\"");
        let tls = |address: &str, rest: &str| format!("{address}, \"tls://{rest}:853\"");
        check_accepted(&tls(private, "192.168.1.2"), &[], true);
        check_accepted(&tls(private, "192.168.1.3"), &[], false);
        check_accepted(&tls(private, "192.168.1.3"), &["192.168.1.2"], true);
        check_accepted(&tls(private, "0.0.0.0"), &[], true);
        check_accepted(&tls(public, "192.0.2.1"), &[], false);
        check_accepted(&tls(public, "192.0.2.1"), &["192.0.2.1"], true);
        check_accepted(&tls("\"0.0.0.0:53\"", "0.0.0.0"), &[], true);
    }

    #[test]
    fn only_listeners_that_clients_may_use_are_announced() {
        let certificates: &[(&[&str], &[&str])] = &[(&["dns.example"], &[])];
        let tls = "\"192.168.1.2:53\", \"tls://192.168.1.2:853\"";
        let server = |keys: &str| format!("[server]\nlisten = [{tls}]\n{keys}");
        assert_ne!(announced(&server(""), certificates), "");
        assert_eq!(announced(&server("announce = false"), certificates), "");
        assert_eq!(
            announced(
                &server("client-ca = \"c\"\nclient-certificate = \"required\""),
                certificates
            ),
            ""
        );
        let other = "[server]\nlisten = [\"192.168.1.2:53\"]\n[[listener]]\nname = \"other\"\n\
                     listen = [\"tls://192.168.1.2:853\"]\n";
        assert_eq!(announced(other, certificates), "", "of another listener");
    }

    #[test]
    fn names_that_are_no_hosts_are_not_announced() {
        let text = "[server]\nlisten = [\"192.168.1.2:53\", \"tls://192.168.1.2:853\"]\n";
        let long = format!("{}example", "a.".repeat(124));
        for name in ["*.dns.example", "", "a..example", &"a".repeat(64), &long] {
            assert!(!announced(text, &[(&[name], &[])]).contains("_dns._dns"));
            assert!(!announced(text, &[(&[name], &[])]).contains("_dns.a"), "{name}");
        }
        let many: Vec<_> = (0..999).map(|number| format!("n{number}.example")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        let found = announced(text, &[(&many, &[])]);
        assert!(found.lines().count() <= 2 * MAX_NAMES, "{}", found.lines().count());
    }
}
