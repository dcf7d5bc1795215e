//! The offers in the SVCB records of a resolver, in the order of its preference (RFC 9460, RFC
//! 9461).

use std::net::IpAddr;

use avocet_config::UpstreamTransport;
use avocet_config::upstream::{HTTPS_PORT, QUIC_PORT, TLS_PORT, path_of_template};
use avocet_wire::NameBuf;
use avocet_wire::rdata::ServiceBinding;

/// `_dns.resolver.arpa`, which designates servers.
pub(super) const DISCOVERY: &[u8] = b"\x04_dns\x08resolver\x04arpa\x00";
/// The domain of the names for discovery, which is no valid target (RFC 9462 §4).
const RESOLVER_ARPA: &[u8] = b"\x08resolver\x04arpa\x00";
/// Maximum number of records that are read.
const MAX_RECORDS: usize = 16;
/// Maximum number of addresses in the hints of a record that are read.
const MAX_HINTS: usize = 4;
/// The protocols in the order of this server's preference, for records with several protocols.
const PROTOCOLS: [(&[u8], UpstreamTransport); 4] = [
    (b"dot", UpstreamTransport::Tls),
    (b"doq", UpstreamTransport::Quic),
    (b"h2", UpstreamTransport::Https),
    (b"h3", UpstreamTransport::H3),
];

/// A server with a protocol that this server speaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) target: NameBuf,
    pub(super) transport: UpstreamTransport,
    pub(super) port: u16,
    /// The path of HTTPS; empty without HTTPS.
    pub(super) path: Box<str>,
    /// The addresses of the target that the record contains.
    pub(super) hints: Vec<IpAddr>,
}

/// The content of a set of SVCB records.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Offers {
    /// The offers are at another name.
    Alias(Box<NameBuf>),
    /// The offers, with the preferred one first.
    Services(Vec<Offer>),
}

/// Reads the data of the records of a name. Records that cannot be used are left out.
pub(super) fn read(owner: &NameBuf, records: &[Vec<u8>]) -> Offers {
    let records = records.iter().take(MAX_RECORDS);
    let mut services: Vec<_> = records.filter_map(|data| ServiceBinding::read(data).ok()).collect();
    // An alias excludes other records (RFC 9460 §2.4.1). Without a target, there is no service.
    if let Some(alias) = services.iter().find(|service| service.priority == 0) {
        let is_name = alias.target.wire().len() > 1;
        return if is_name { Offers::Alias(alias.target.into()) } else { Offers::Services(vec![]) };
    }
    services.sort_by_key(|service| service.priority);
    let understood = services.iter().filter(|service| service.is_understood());
    Offers::Services(understood.flat_map(|service| of_service(owner, service)).collect())
}

fn of_service(owner: &NameBuf, service: &ServiceBinding<'_>) -> Vec<Offer> {
    let is_owner = service.target.wire().len() <= 1;
    let target = if is_owner { owner } else { &service.target };
    if avocet_wire::name::is_under(target.wire(), RESOLVER_ARPA) {
        return Vec::new();
    }
    let offer = |(id, transport): (&[u8], UpstreamTransport)| {
        service.alpn().find(|one| *one == id)?;
        let (port, path) = match transport {
            UpstreamTransport::Https | UpstreamTransport::H3 => {
                (HTTPS_PORT, path_of_template(service.doh_path()?)?)
            }
            UpstreamTransport::Quic => (QUIC_PORT, ""),
            UpstreamTransport::Tls | UpstreamTransport::Udp | UpstreamTransport::Tcp => {
                (TLS_PORT, "")
            }
        };
        let port = service.port().unwrap_or(port);
        let hints = service.hints().take(MAX_HINTS).collect();
        let target = *target;
        (port != 0).then(|| Offer { target, transport, port, path: path.into(), hints })
    };
    PROTOCOLS.into_iter().filter_map(offer).collect()
}

#[cfg(test)]
mod tests {
    use avocet_wire::rdata::parse;

    use super::*;

    fn owner() -> NameBuf {
        NameBuf::from_wire(DISCOVERY).unwrap()
    }

    fn data(text: &str) -> Vec<u8> {
        let mut out = Vec::new();
        parse(64, text, &[0], &mut out).unwrap_or_else(|error| panic!("{text}: {error}"));
        out
    }

    /// Checks the offers of records as "TRANSPORT PORT PATH TARGET".
    #[track_caller]
    fn check(records: &[&str], expected: &[&str]) {
        let records: Vec<_> = records.iter().map(|text| data(text)).collect();
        let Offers::Services(offers) = read(&owner(), &records) else {
            panic!("{records:?} is an alias")
        };
        let shown = |one: &Offer| {
            format!("{} {}{} {}", one.transport.scheme(), one.port, one.path, one.target)
        };
        assert_eq!(offers.iter().map(shown).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn records_are_sorted_by_priority_and_their_protocols_by_preference() {
        check(
            &[
                "2 b.example. alpn=h3,h2 dohpath=/q{?dns}",
                "1 a.example. alpn=doq,dot port=8853",
                "3 c.example. alpn=http/1.1,dot",
            ],
            &[
                "tls 8853 a.example.",
                "quic 8853 a.example.",
                "https 443/q b.example.",
                "h3 443/q b.example.",
                "tls 853 c.example.",
            ],
        );
    }

    #[test]
    fn records_that_cannot_be_used_are_left_out() {
        for record in [
            "1 a.example. alpn=h2",
            "1 a.example. alpn=h2 dohpath=/q{?dns,x}",
            "1 a.example. alpn=h2 dohpath=/q?x={?dns}",
            "1 a.example. alpn=http/1.1",
            "1 a.example. port=853",
            "1 a.example. alpn=dot port=0",
            "1 a.example. mandatory=key999 alpn=dot key999=x",
            "1 . alpn=dot",
            "1 resolver.arpa. alpn=dot",
            "1 _dns.Resolver.ARPA. alpn=dot",
            "0 .",
        ] {
            check(&[record], &[]);
        }
        let mut records = vec!["2 b.example. alpn=dot"; 100];
        records.push("1 a.example. alpn=dot");
        check(&records, &["tls 853 b.example."; MAX_RECORDS]);
    }

    #[test]
    fn an_alias_excludes_services() {
        let records = [data("1 a.example. alpn=dot"), data("0 _dns.b.example.")];
        let Offers::Alias(name) = read(&owner(), &records) else { panic!("no alias") };
        assert_eq!(name.to_string(), "_dns.b.example.");
        // After an alias, the owner may be the target.
        let Offers::Services(offers) = read(&name, &[data("1 . alpn=dot")]) else { panic!() };
        assert_eq!(offers[0].target, *name);
    }

    #[test]
    fn octets_that_are_no_records_are_no_offers() {
        let whole = data("1 a.example. alpn=dot,h2 port=853 ipv4hint=192.0.2.1 dohpath=/q{?dns}");
        let records: Vec<_> = (0..whole.len()).map(|len| whole[..len].to_vec()).collect();
        for record in records {
            let _ = read(&owner(), &[record, vec![0xff; 3]]);
        }
        let hints = ["192.0.2.1"; 200].join(",");
        let many = data(&format!("1 a.example. alpn=dot ipv4hint={hints}"));
        let Offers::Services(offers) = read(&owner(), &[many]) else { panic!() };
        assert_eq!(offers[0].hints.len(), MAX_HINTS);
    }
}
