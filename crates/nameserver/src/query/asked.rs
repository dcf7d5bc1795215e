//! The properties of a query, other than its question, that determine the form of the answer. A
//! query that waits for resolution keeps these properties.

use std::net::IpAddr;

use avocet_config::ServerConfig;
use avocet_wire::edns::{Edns, EdnsOption, option};
use avocet_wire::header::{AD, CD, RD};
use avocet_wire::{Header, QueryView};

use super::cookie::{COOKIE_LEN, CookieSecrets};

/// Smallest UDP message that every client accepts, in octets (RFC 1035 §4.2.1).
const MIN_UDP_SIZE: u16 = 512;

/// The transport of a query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// Datagrams.
    Udp = 0,
    /// TCP streams.
    Tcp = 1,
    /// TLS streams (RFC 7858).
    Tls = 2,
    /// HTTP over TLS streams (RFC 8484).
    Https = 3,
    /// QUIC streams (RFC 9250).
    Quic = 4,
    /// HTTP over TLS streams, through a proxy that cannot read the query (RFC 9230).
    Odoh = 5,
}

impl Transport {
    /// Number of transports.
    pub const COUNT: usize = 6;

    /// Returns the name used in metrics, in the query log and in rules.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Tls => "tls",
            Self::Https => "https",
            Self::Quic => "quic",
            Self::Odoh => "odoh",
        }
    }

    /// All transports, in the order of their indices.
    pub const ALL: [Self; Self::COUNT] =
        [Self::Udp, Self::Tcp, Self::Tls, Self::Https, Self::Quic, Self::Odoh];

    /// Returns the transport with this index; UDP for an unknown index.
    #[must_use]
    pub fn of_number(number: u8) -> Self {
        Self::ALL.get(usize::from(number)).copied().unwrap_or(Self::Udp)
    }

    /// Reports whether queries arrive on a connection, which proves the client's address.
    #[inline]
    #[must_use]
    pub const fn is_stream(self) -> bool {
        !matches!(self, Self::Udp)
    }

    /// Reports whether the transport encrypts the query.
    #[inline]
    #[must_use]
    pub const fn is_encrypted(self) -> bool {
        matches!(self, Self::Tls | Self::Https | Self::Quic | Self::Odoh)
    }
}

/// An entrance: the index of the address at which a query arrived, in the order of
/// [`ServerConfig::addresses`](avocet_config::ServerConfig::addresses).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Entrance(pub u16);

impl Entrance {
    /// Returns the entrance of an address of `[server]`, which is not an address of a
    /// `[[listener]]`.
    #[must_use]
    pub fn of_server(server: &ServerConfig) -> Self {
        Self(server.own_place() as u16)
    }
}

/// The header and EDNS data of a query.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Message ID.
    pub id: u16,
    /// RD and CD as sent, to be copied to the response.
    pub flags: u16,
    /// Whether the client understands AD: it set AD or DO in the query (RFC 6840 §5.7).
    pub wants_ad: bool,
    /// Maximum number of octets of the response.
    pub limit: u16,
    /// The transport.
    pub transport: Transport,
    /// The OPT record; `None` if there was none.
    pub edns: Option<AskedEdns>,
}

/// The contents of a query's OPT record.
#[derive(Clone, Copy, Debug)]
pub struct AskedEdns {
    /// The DO bit.
    pub dnssec_ok: bool,
    /// Whether the query has an NSID request.
    pub nsid: bool,
    /// Whether the query has an edns-tcp-keepalive option.
    pub keepalive: bool,
    /// Whether the query has a client subnet option.
    pub subnet: bool,
    /// Whether an encrypted query has a padding option: the response then gets padding (RFC 7830).
    pub padding: bool,
    /// Whether the client proved its address by a valid server cookie.
    pub cookie_valid: bool,
    /// The cookie to send back; `None` if the response gets no cookie.
    pub cookie: Option<[u8; COOKIE_LEN]>,
    /// Whether the client requests the version of the zone, and the version that it gets.
    pub zone_version: ZoneVersion,
}

/// The version of the zone of an answer (RFC 9660).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ZoneVersion {
    /// The query has no ZONEVERSION option.
    NotAsked,
    /// The query has a ZONEVERSION option, and the answering zone is not known yet.
    Asked,
    /// The answer is from a hosted zone.
    Known {
        /// Labels of the name of the zone, without the root.
        labels: u8,
        /// The serial of the zone's SOA record.
        serial: [u8; 4],
    },
}

/// The client's address, and the settings for reading an OPT record.
#[derive(Clone, Copy)]
pub struct Reader<'a> {
    /// The client's address.
    pub ip: IpAddr,
    /// Maximum number of octets of a UDP response.
    pub max_udp_size: u16,
    /// The secrets; `None` if cookies are off.
    pub cookies: Option<&'a CookieSecrets>,
    /// Wall time in seconds.
    pub wall_secs: u64,
}

/// The error of a malformed EDNS option, which is answered with FORMERR.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadOption;

impl Asked {
    /// Returns the data of a query if only its header could be read.
    pub fn from_header(header: Header, transport: Transport) -> Self {
        let (flags, wants_ad) = (header.flags & (RD | CD), header.has(AD));
        Self { id: header.id, flags, wants_ad, limit: MIN_UDP_SIZE, transport, edns: None }
    }

    /// Reads the header and OPT of a query. Calls `reader` only if there is an OPT record.
    #[inline]
    pub fn read<'r>(
        query: &QueryView<'_>,
        transport: Transport,
        reader: impl FnOnce() -> Reader<'r>,
    ) -> Result<Self, BadOption> {
        Self::read_parts(query.header(), query.edns.as_ref(), transport, reader)
    }

    /// Reads the header and OPT of a message without a question.
    #[inline]
    pub fn read_parts<'r>(
        header: Header,
        edns: Option<&Edns<'_>>,
        transport: Transport,
        reader: impl FnOnce() -> Reader<'r>,
    ) -> Result<Self, BadOption> {
        let mut asked = Self::from_header(header, transport);
        if let Some(edns) = edns {
            let reader = reader();
            asked.wants_ad |= edns.dnssec_ok;
            asked.limit = edns.udp_size.max(MIN_UDP_SIZE).min(reader.max_udp_size);
            let mut facts = AskedEdns {
                dnssec_ok: edns.dnssec_ok,
                nsid: false,
                keepalive: false,
                subnet: false,
                padding: false,
                cookie_valid: false,
                cookie: None,
                zone_version: ZoneVersion::NotAsked,
            };
            if edns.has_options() {
                read_options(edns.options(), transport, &reader, &mut facts)?;
            }
            asked.edns = Some(facts);
        }
        if transport.is_stream() {
            asked.limit = u16::MAX;
        }
        Ok(asked)
    }

    /// Returns whether DO was set.
    #[inline]
    pub fn dnssec_ok(&self) -> bool {
        self.edns.is_some_and(|edns| edns.dnssec_ok)
    }

    /// Returns whether the client's address is verified: by a connection or by a valid cookie.
    pub fn is_verified(&self) -> bool {
        self.transport.is_stream() || self.edns.is_some_and(|edns| edns.cookie_valid)
    }
}

fn read_options<'q, E>(
    options: impl Iterator<Item = Result<EdnsOption<'q>, E>>,
    transport: Transport,
    reader: &Reader<'_>,
    facts: &mut AskedEdns,
) -> Result<(), BadOption> {
    for option in options {
        match option.map_err(|_| BadOption)? {
            EdnsOption::Nsid(_) => facts.nsid = true,
            EdnsOption::Padding(_) => facts.padding = transport.is_encrypted(),
            EdnsOption::Ecs { .. } => facts.subnet = true,
            EdnsOption::TcpKeepalive(None) => facts.keepalive = transport.is_stream(),
            // RFC 7828 §3.2.1: a timeout in a query is an error.
            EdnsOption::TcpKeepalive(Some(_)) => return Err(BadOption),
            // Data in a query is ignored (RFC 9660 §3.2).
            EdnsOption::ZoneVersion(_) | EdnsOption::Unknown(option::ZONEVERSION, _) => {
                facts.zone_version = ZoneVersion::Asked;
            }
            // Only the first cookie option is used (RFC 7873 §5.2).
            EdnsOption::Cookie { client, server } if facts.cookie.is_none() => {
                if let Some(secrets) = reader.cookies {
                    let (is_valid, cookie) =
                        secrets.check(client, server, reader.ip, reader.wall_secs);
                    (facts.cookie_valid, facts.cookie) = (is_valid, Some(cookie));
                }
            }
            _ => {}
        }
    }
    Ok(())
}
