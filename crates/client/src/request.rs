//! A request: the arguments of the command line, and the query that they describe.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use std::time::Duration;

use avocet_config::name::{reverse_name, typed_name};
use avocet_config::upstream::interface_index;
use avocet_policy::rule::WrittenAddress;
use avocet_session::http::HttpMethod;
use avocet_wire::builder::{Full, OptFields};
use avocet_wire::edns::EdnsOption;
use avocet_wire::header::{CD, RD};
use avocet_wire::{Builder, Class, DNS_PORT, Rcode, Rtype, rdata};
use ipnet::IpNet;

use crate::over_tls::{HttpsRequest, TlsForm, TlsRequest};
use crate::{ClientError, over_tls};

/// The port of DNS over TLS (RFC 7858 §3.1).
const TLS_PORT: u16 = 853;
/// The port of DNS over QUIC (RFC 9250 §4.1.1).
const QUIC_PORT: u16 = 853;
/// The port of HTTPS.
const HTTPS_PORT: u16 = 443;
/// The path of DNS over HTTPS if the argument for the server has no path.
const HTTPS_PATH: &str = "/dns-query";
/// Queries over TLS are padded to a multiple of this number of octets (RFC 8467 §4.1).
const PADDED: usize = 128;
/// The default UDP size in OPT, which avoids fragmentation.
const BUFFER_SIZE: u16 = 1232;
/// Maximum number of octets of a query: one question and an OPT with its options.
pub const QUERY_ROOM: usize = 512;

/// The output format.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum OutputForm {
    /// All sections, like dig.
    Text,
    /// Only the data of the answer.
    Short,
    /// One JSON object.
    Json,
}

/// A question to one server, with its options.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The server, if the arguments name one.
    pub server: Option<SocketAddr>,
    /// The settings for TLS to the server; `None` without TLS.
    pub tls: Option<TlsRequest>,
    /// The name in wire format, as written.
    pub name: Box<[u8]>,
    /// The QTYPE of the query.
    pub rtype: Rtype,
    /// The QCLASS of the query.
    pub class: Class,
    /// Whether to start with TCP.
    pub tcp: bool,
    /// Whether to show a truncated reply instead of retrying over TCP.
    pub ignore_truncation: bool,
    /// The flag RD.
    pub recurse: bool,
    /// The flag CD.
    pub checking_disabled: bool,
    /// The settings of the OPT record; without them, the query has no OPT record.
    pub edns: Option<EdnsRequest>,
    /// The time to wait for a reply to one query.
    pub timeout: Duration,
    /// The maximum number of times that a UDP query is sent.
    pub tries: u32,
    /// The output format.
    pub form: OutputForm,
    /// Whether the running server resolves the question, so that its trace can be shown.
    pub trace: bool,
}

/// The settings of the OPT record.
#[derive(Debug, Clone, PartialEq)]
pub struct EdnsRequest {
    /// The largest datagram that the client accepts, in octets.
    pub buffer_size: u16,
    /// The flag DO.
    pub dnssec: bool,
    /// Whether to send a cookie (RFC 7873).
    pub cookie: bool,
    /// Whether to request the identity of the server (RFC 5001).
    pub nsid: bool,
    /// Whether to request the version of the zone (RFC 9660).
    pub zone_version: bool,
    /// The network in the client subnet option (RFC 7871).
    pub subnet: Option<IpNet>,
}

/// A DNS cookie (RFC 7873).
#[derive(Debug, Clone)]
pub struct Cookie {
    /// The client cookie, which is random.
    pub client: [u8; 8],
    /// The server cookie; empty before the first reply of the server.
    pub server: Vec<u8>,
}

impl Request {
    /// Parses the arguments of the command line.
    ///
    /// # Errors
    ///
    /// The first invalid argument, with a suggestion.
    pub fn from_words(words: &[String]) -> Result<Self, ClientError> {
        let mut request = Self {
            server: None,
            tls: None,
            name: Box::default(),
            rtype: Rtype::A,
            class: Class::IN,
            tcp: false,
            ignore_truncation: false,
            recurse: true,
            checking_disabled: false,
            edns: Some(EdnsRequest {
                buffer_size: BUFFER_SIZE,
                dnssec: false,
                cookie: true,
                nsid: false,
                zone_version: false,
                subnet: None,
            }),
            timeout: Duration::from_secs(5),
            tries: 3,
            form: OutputForm::Text,
            trace: false,
        };
        let (mut tls, mut is_tls, mut tls_word) = (TlsRequest::default(), false, None);
        let (mut without_edns, mut is_get) = (false, false);
        // If one argument is an address, the query is a PTR query for the reverse name of the
        // address.
        let address = words.iter().find_map(|word| word.parse().ok());
        for word in words {
            if let Some(server) = word.strip_prefix('@') {
                request.server = Some(server_of(server, &mut tls, &mut is_tls)?);
            } else if word == "+https-get" {
                is_get = true;
            } else if tls_option(word, &mut tls)? {
                tls_word = Some(word);
            } else if word == "+noedns" {
                without_edns = true;
            } else if let Some(option) = word.strip_prefix('+') {
                request.set_option(option)?;
            } else {
                request.set_plain(word)?;
            }
        }
        if request.name.is_empty() {
            return Err(ClientError::NoName);
        }
        if let (Rtype::PTR, Some(address)) = (request.rtype, address) {
            request.name = reverse_name(address);
        }
        if without_edns {
            request.edns = None;
        }
        if let Some(word) = tls_word.filter(|_| !is_tls) {
            return Err(ClientError::OnlyOverTls(word.clone()));
        }
        if is_get {
            let (TlsForm::Https(https) | TlsForm::H3(https)) = &mut tls.form else {
                return Err(ClientError::OnlyOverHttps);
            };
            https.method = HttpMethod::Get;
        }
        request.tls = is_tls.then_some(tls);
        Ok(request)
    }

    /// Sets the name from the first argument that is not an option, and the type and class from the
    /// next ones in either order.
    fn set_plain(&mut self, word: &str) -> Result<(), ClientError> {
        if self.name.is_empty() {
            self.name = typed_name(word)?;
        } else if let Some(class) = class_from(word) {
            self.class = class;
        } else {
            let rtype = rdata::from_mnemonic(word)
                .map(Rtype)
                .ok_or_else(|| ClientError::NotATypeOrClass(word.to_owned()))?;
            if matches!(rtype, Rtype::AXFR | Rtype::IXFR) {
                return Err(ClientError::ZoneTransfer(rtype));
            }
            self.rtype = rtype;
        }
        Ok(())
    }

    /// Sets an option, given without its plus sign.
    fn set_option(&mut self, option: &str) -> Result<(), ClientError> {
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (option, None),
        };
        let Some(edns) = &mut self.edns else {
            return Ok(());
        };
        match (name, value) {
            ("tcp", None) => self.tcp = true,
            ("ignore", None) => self.ignore_truncation = true,
            ("norecurse", None) => self.recurse = false,
            ("cd", None) => self.checking_disabled = true,
            ("trace", None) => self.trace = true,
            ("short", None) => self.form = OutputForm::Short,
            ("json", None) => self.form = OutputForm::Json,
            ("dnssec", None) => edns.dnssec = true,
            ("nocookie", None) => edns.cookie = false,
            ("nsid", None) => edns.nsid = true,
            ("zoneversion", None) => edns.zone_version = true,
            ("bufsize", Some(size)) => edns.buffer_size = number(name, size, 512, u16::MAX)?,
            ("subnet", Some(network)) => edns.subnet = Some(subnet(network)?),
            ("time", Some(secs)) => {
                self.timeout = Duration::from_secs(number::<u32>(name, secs, 1, 60)?.into());
            }
            ("tries", Some(tries)) => self.tries = number(name, tries, 1, 10)?,
            _ => return Err(ClientError::UnknownOption(option.to_owned())),
        }
        Ok(())
    }

    /// Returns the message ID: `random`, or 0 in QUIC (RFC 9250 §4.2.1).
    pub(crate) fn message_id(&self, random: u16) -> u16 {
        let is_quic = self.tls.as_ref().is_some_and(|tls| tls.form == TlsForm::Quic);
        if is_quic { 0 } else { random }
    }

    /// Writes the query to `out` and returns its length.
    pub fn write(
        &self,
        id: u16,
        cookie: &Cookie,
        out: &mut [u8; QUERY_ROOM],
    ) -> Result<usize, Full> {
        let flags = if self.recurse { RD } else { 0 } | if self.checking_disabled { CD } else { 0 };
        let mut message = Builder::new(out, QUERY_ROOM, id, flags)?;
        message.question(&self.name, self.rtype, self.class)?;
        if let Some(edns) = &self.edns {
            edns.write(cookie, self.tls.as_ref().map(|_| PADDED), &mut message)?;
        }
        Ok(message.finish())
    }
}

impl EdnsRequest {
    /// Writes the OPT record. If `block` is given, pads the message to a multiple of this length.
    fn write(
        &self,
        cookie: &Cookie,
        block: Option<usize>,
        message: &mut Builder<'_>,
    ) -> Result<(), Full> {
        let mut options = Vec::with_capacity(4);
        if self.cookie {
            options.push(EdnsOption::Cookie { client: &cookie.client, server: &cookie.server });
        }
        if self.nsid {
            options.push(EdnsOption::Nsid(&[]));
        }
        if self.zone_version {
            options.push(EdnsOption::ZoneVersion(None));
        }
        let subnet = self.subnet.map(|network| (network, address_octets(network)));
        if let Some((network, octets)) = &subnet {
            options.push(EdnsOption::Ecs {
                family: if network.addr().is_ipv4() { 1 } else { 2 },
                source_prefix: network.prefix_len(),
                scope_prefix: 0,
                address: octets,
            });
        }
        let fields =
            OptFields { udp_size: self.buffer_size, rcode: Rcode::NOERROR, dnssec_ok: self.dnssec };
        let Some(block) = block else { return message.opt(&fields, &options) };
        options.push(EdnsOption::Padding(0));
        let start = message.mark();
        message.opt(&fields, &options)?;
        let missing = message.len().next_multiple_of(block).min(QUERY_ROOM) - message.len();
        message.rewind(start);
        options.pop();
        options.push(EdnsOption::Padding(missing as u16));
        message.opt(&fields, &options)
    }
}

/// Returns the octets of the address that its prefix needs (RFC 7871 §6).
fn address_octets(network: IpNet) -> Vec<u8> {
    let mut octets = match network.network() {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    octets.truncate(usize::from(network.prefix_len()).div_ceil(8));
    octets
}

fn number<T: FromStr + PartialOrd + Into<u32>>(
    option: &str,
    digits: &str,
    min: T,
    max: T,
) -> Result<T, ClientError> {
    match digits.parse::<T>() {
        Ok(value) if value >= min && value <= max => Ok(value),
        _ => Err(ClientError::OutOfBounds {
            option: option.to_owned(),
            found: digits.to_owned(),
            min: min.into(),
            max: max.into(),
        }),
    }
}

fn subnet(text: &str) -> Result<IpNet, ClientError> {
    let network: Result<IpNet, _> =
        text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
    network.map(|network| network.trunc()).map_err(|_| ClientError::NotANetwork(text.to_owned()))
}

fn class_from(word: &str) -> Option<Class> {
    let upper = word.to_ascii_uppercase();
    match upper.as_str() {
        "IN" => Some(Class::IN),
        "CH" => Some(Class::CH),
        "HS" => Some(Class::HS),
        _ => upper.strip_prefix("CLASS")?.parse().ok().map(Class),
    }
}

/// Reads a server, given without its at sign, and returns its address. Sets the transport in `tls`,
/// and sets `is_tls` if the transport uses TLS.
fn server_of(
    text: &str,
    tls: &mut TlsRequest,
    is_tls: &mut bool,
) -> Result<SocketAddr, ClientError> {
    let named = |server: &str, port: u16| -> Result<_, ClientError> {
        let (name, place) = server.rsplit_once('@').unwrap_or((host(server), server));
        Ok((name.to_owned(), server_address(place, port)?))
    };
    *is_tls = true;
    if let Some(server) = text.strip_prefix("tls://") {
        let (name, address) = named(server, TLS_PORT)?;
        (tls.name, tls.form) = (name, TlsForm::Frames);
        Ok(address)
    } else if let Some(server) = text.strip_prefix("quic://") {
        let (name, address) = named(server, QUIC_PORT)?;
        (tls.name, tls.form) = (name, TlsForm::Quic);
        Ok(address)
    } else if let Some(server) = text.strip_prefix("h3://") {
        let (address, https) = https_server(server, tls)?;
        tls.form = TlsForm::H3(https);
        Ok(address)
    } else if let Some(server) = text.strip_prefix("https://") {
        let (address, https) = https_server(server, tls)?;
        tls.form = TlsForm::Https(https);
        Ok(address)
    } else {
        *is_tls = false;
        server_address(text, DNS_PORT)
    }
}

/// Reads a server of DNS over HTTPS, with its path. Returns its address.
fn https_server(
    text: &str,
    tls: &mut TlsRequest,
) -> Result<(SocketAddr, HttpsRequest), ClientError> {
    let (server, path) = text.find('/').map_or((text, HTTPS_PATH), |at| text.split_at(at));
    let (name, place) = server.rsplit_once('@').unwrap_or((host(server), server));
    tls.name = name.to_owned();
    let authority = if name == host(place) { place } else { name };
    let (authority, path) = (authority.to_owned(), path.to_owned());
    let https = HttpsRequest { authority, path, method: HttpMethod::Post };
    Ok((server_address(place, HTTPS_PORT)?, https))
}

/// Reads an option that has an effect only over TLS. Returns false if the argument is another
/// option.
fn tls_option(word: &str, tls: &mut TlsRequest) -> Result<bool, ClientError> {
    match word.split_once('=') {
        None if word == "+insecure" => tls.is_insecure = true,
        Some(("+ca", file)) => tls.authorities = Some(file.into()),
        Some(("+cert", file)) => tls.certificate = Some(file.into()),
        Some(("+key", file)) => tls.key = Some(file.into()),
        Some(("+pin", text)) => tls.pins.push(over_tls::pin(text)?),
        _ => return Ok(false),
    }
    Ok(true)
}

/// Returns the host of a server, without its port.
fn host(text: &str) -> &str {
    if let Some(rest) = text.strip_prefix('[') {
        return rest.split_once(']').map_or(text, |(address, _)| address);
    }
    match text.split_once(':') {
        Some((host, port)) if !port.contains(':') => host,
        _ => text,
    }
}

/// Parses an address with or without port, or a host name, which the system resolves.
fn server_address(text: &str, port: u16) -> Result<SocketAddr, ClientError> {
    if let Some(WrittenAddress { mut addr, has_port }) = WrittenAddress::read(text, interface_index)
    {
        if !has_port {
            addr.set_port(port);
        }
        return Ok(addr);
    }
    let found = if text.contains(':') {
        text.to_socket_addrs().map(|mut all| all.next())
    } else {
        (text, port).to_socket_addrs().map(|mut all| all.next())
    };
    match found {
        Ok(Some(address)) => Ok(address),
        Ok(None) => Err(ClientError::NoAddress(text.to_owned())),
        Err(source) => Err(ClientError::UnresolvedHost { host: text.to_owned(), source }),
    }
}
