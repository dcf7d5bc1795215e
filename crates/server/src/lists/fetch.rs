//! Fetches a list, or the records of a zone, over HTTP or HTTPS, with limits on size, time and
//! redirects.
//!
//! This server resolves the names itself, independent of the system's resolver. Redirects to
//! private addresses are refused: the operator of a list must not make this host query its
//! neighbours. A connection that closes early is detected, except with HTTP/1.0 without
//! `Content-Length`. Other modules check and store the text.

use std::fmt;
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use avocet_wire::special_purpose::Scope;
use rustls::pki_types::CertificateDer;
use ureq::Agent;
use ureq::config::{Config, ConfigBuilder};
use ureq::http::header::{
    CONTENT_LENGTH, ETAG, HeaderName, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED,
};
use ureq::http::{HeaderMap, StatusCode, Uri};
use ureq::tls::{Certificate, ClientCert, RootCerts, TlsConfig, TlsProvider};
use ureq::typestate::AgentScope;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};

use super::copies::Head;
use crate::error::LookupError;
use avocet_worker::upstream_tls::UrlTls;

/// Maximum number of octets of a list, decompressed.
pub(crate) const MAX_LIST_BYTES: u64 = 256 << 20;
/// Maximum number of redirects that are followed.
const MAX_REDIRECTS: u32 = 5;
/// Maximum number of addresses of a server that are tried.
const MAX_ADDRESSES: usize = 8;
/// Maximum number of octets of a validator that is sent back.
const MAX_VALIDATOR: usize = 1024;
/// Number of octets per read.
const CHUNK: usize = 64 << 10;

/// Limits of one fetch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// The time limit from the address query to the last octet.
    pub(crate) time: Duration,
    /// The time limit for a connection to one address.
    pub(crate) connect: Duration,
    /// Maximum number of octets of the text.
    pub(crate) octets: u64,
}

/// The limits in force.
pub(crate) const BOUNDS: Bounds = Bounds {
    time: Duration::from_secs(300),
    connect: Duration::from_secs(15),
    octets: MAX_LIST_BYTES,
};

/// The result of a fetch.
#[derive(Debug, PartialEq)]
pub(crate) enum Fetched {
    /// The source has no newer text than the copy.
    Unchanged,
    /// A text, with the validators for the next fetch.
    Text {
        /// The complete text.
        text: Vec<u8>,
        /// The validator `ETag`.
        etag: Option<String>,
        /// The validator `Last-Modified`.
        last_modified: Option<String>,
    },
}

/// The reason why a fetch failed.
#[derive(Debug, PartialEq)]
pub(crate) enum FetchError {
    /// The name of the server has no usable address. Holds the reason.
    Unresolved(LookupError),
    /// A status other than success.
    Status(u16),
    /// Too many redirects, or one without a valid target.
    Redirects,
    /// A redirect from https to http.
    Downgrade,
    /// The port of an HTTPS source does not speak TLS.
    NoTls,
    /// A redirect to an address of a private network.
    Private,
    /// The connection ended before the text was complete.
    Truncated,
    /// The text exceeds the limit. Holds the limit in octets.
    TooLarge(u64),
    /// The time limit was reached.
    TimedOut,
    /// Any other fault of the source or the network.
    Source(String),
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unresolved(why) => write!(f, "cannot resolve the host of its URL: {why}"),
            Self::Status(status) => write!(f, "its server returned status {status}"),
            Self::Redirects => f.write_str("too many redirects"),
            Self::Downgrade => f.write_str("redirect from https to http"),
            Self::NoTls => f.write_str("no TLS on this port; is it http instead of https?"),
            Self::Private => f.write_str("redirect to a private address"),
            Self::Truncated => f.write_str("the connection closed before the end of the text"),
            Self::TooLarge(most) => write!(f, "larger than {most} octets"),
            Self::TimedOut => f.write_str("timeout"),
            Self::Source(why) => f.write_str(why),
        }
    }
}

/// A function that resolves the addresses of a host, or returns the reason why there are none.
pub(crate) type Lookup = Box<dyn Fn(&str) -> Result<Vec<IpAddr>, LookupError> + Send + Sync>;

/// A client that fetches texts, one after the other.
pub(crate) struct Fetcher {
    agent: Agent,
    bounds: Bounds,
    configured: Arc<Mutex<String>>,
    /// Header fields of each request.
    fields: HeaderMap,
}

/// The credentials and trust of a fetcher for one URL.
pub(crate) struct UrlTerms {
    /// Header fields of each request; they may be secret.
    pub(crate) fields: HeaderMap,
    /// The proofs that the server must provide, and the certificate that the client presents.
    pub(crate) tls: UrlTls,
}

impl Fetcher {
    /// Returns a fetcher that verifies certificates against the system's trust store.
    pub(crate) fn new(lookup: Lookup, bounds: Bounds) -> Self {
        let configured = Arc::new(Mutex::default());
        let permits = Permits::Internal(Arc::clone(&configured));
        Self {
            agent: agent(OwnResolver { lookup, permits }, bounds, MAX_REDIRECTS),
            bounds,
            configured,
            fields: HeaderMap::new(),
        }
    }

    /// Returns a fetcher for a URL of the configuration; its host may have a private address. The
    /// fetcher follows no redirect: another host must not get the header fields.
    pub(crate) fn on_terms(lookup: Lookup, bounds: Bounds, terms: UrlTerms) -> Self {
        let UrlTerms { fields, tls: UrlTls { authorities, shown } } = terms;
        let tls = match &authorities {
            Some(all) => tls_trusting(all, shown),
            None => tls_trusting(&rustls_native_certs::load_native_certs().certs, shown),
        };
        let config = config(bounds, 0).tls_config(tls).build();
        let resolver = OwnResolver { lookup, permits: Permits::All };
        let agent = Agent::with_parts(config, DefaultConnector::default(), resolver);
        Self { agent, bounds, configured: Arc::default(), fields }
    }

    /// Fetches a text; `known` describes the existing copy.
    ///
    /// # Errors
    ///
    /// The text is incomplete or too large, or there is none.
    pub(crate) fn fetch(&self, url: &str, known: Option<&Head>) -> Result<Fetched, FetchError> {
        *self.configured.lock().unwrap_or_else(PoisonError::into_inner) = host_of(url);
        let mut request =
            self.agent.get(url).config().https_only(url.starts_with("https://")).build();
        let known = known.filter(|head| head.source == url);
        let validators = known.map_or([(IF_NONE_MATCH, None), (IF_MODIFIED_SINCE, None)], |head| {
            [
                (IF_NONE_MATCH, head.etag.as_deref()),
                (IF_MODIFIED_SINCE, head.last_modified.as_deref()),
            ]
        });
        for (name, value) in &self.fields {
            request = request.header(name, value);
        }
        for (name, value) in validators {
            if let Some(value) = value {
                request = request.header(name, value);
            }
        }
        let response = request.call().map_err(fault)?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::NOT_MODIFIED if known.is_some() => return Ok(Fetched::Unchanged),
            other => return Err(FetchError::Status(other.as_u16())),
        }
        let (parts, body) = response.into_parts();
        let claimed = parts
            .headers
            .get(CONTENT_LENGTH)
            .and_then(|len| len.to_str().ok()?.parse::<u64>().ok());
        if claimed.is_some_and(|claimed| claimed > self.bounds.octets) {
            return Err(FetchError::TooLarge(self.bounds.octets));
        }
        // The limit on the received octets also ends a compressed text that yields none. It is
        // higher than the limit on the text, because compression can lengthen a text slightly.
        let most_received = self.bounds.octets + self.bounds.octets / 16 + CHUNK as u64;
        let text = self.read(body.into_with_config().limit(most_received).reader())?;
        let [etag, last_modified] =
            [ETAG, LAST_MODIFIED].map(|name| validator(&parts.headers, &name));
        Ok(Fetched::Text { text, etag, last_modified })
    }

    fn read(&self, mut body: impl Read) -> Result<Vec<u8>, FetchError> {
        let (mut text, mut chunk) = (Vec::new(), vec![0; CHUNK]);
        loop {
            let len = body.read(&mut chunk).map_err(|error| match error.into() {
                ureq::Error::BodyExceedsLimit(_) => FetchError::TooLarge(self.bounds.octets),
                error => fault(error),
            })?;
            if len == 0 {
                return Ok(text);
            }
            if (text.len() + len) as u64 > self.bounds.octets {
                return Err(FetchError::TooLarge(self.bounds.octets));
            }
            text.extend_from_slice(&chunk[..len]);
        }
    }
}

/// Returns a client for hosts that the configuration names; they may have private addresses. The
/// client follows no redirect.
pub(crate) fn agent_for_configured(lookup: Lookup, bounds: Bounds) -> Agent {
    agent(OwnResolver { lookup, permits: Permits::All }, bounds, 0)
}

/// Returns a client like [`agent_for_configured`], for HTTPS only. The client trusts these
/// authorities, or those of the system if none are given.
pub(crate) fn agent_for_authority(
    lookup: Lookup,
    bounds: Bounds,
    authorities: Option<&[CertificateDer<'_>]>,
) -> Agent {
    let trusted = match authorities {
        Some(all) => tls_trusting(all, None),
        None => tls(),
    };
    let config = config(bounds, 0).tls_config(trusted).https_only(true).build();
    let resolver = OwnResolver { lookup, permits: Permits::All };
    Agent::with_parts(config, DefaultConnector::default(), resolver)
}

/// Returns a client like [`agent_for_configured`]. The client trusts these authorities, or those of
/// the system if none are given.
pub(crate) fn agent_for_collector(
    lookup: Lookup,
    bounds: Bounds,
    authorities: Option<&[CertificateDer<'_>]>,
) -> Agent {
    let trusted = authorities.map_or_else(tls, |all| tls_trusting(all, None));
    let config = config(bounds, 0).tls_config(trusted).build();
    let resolver = OwnResolver { lookup, permits: Permits::All };
    Agent::with_parts(config, DefaultConnector::default(), resolver)
}

/// Returns a client for servers that the clients of a proxy name, for HTTPS only. It follows no
/// redirect, and keeps connections. Only these hosts may have private addresses.
pub(crate) fn agent_for_targets(lookup: Lookup, bounds: Bounds, internal: Vec<String>) -> Agent {
    /// Maximum number of idle connections.
    const MAX_IDLE: usize = 4;
    let config = config(bounds, 0)
        .tls_config(tls())
        .https_only(true)
        .max_idle_connections(MAX_IDLE)
        .max_idle_connections_per_host(1)
        .build();
    let resolver = OwnResolver { lookup, permits: Permits::Hosts(internal) };
    Agent::with_parts(config, DefaultConnector::default(), resolver)
}

fn agent(resolver: OwnResolver, bounds: Bounds, redirects: u32) -> Agent {
    let config = config(bounds, redirects).tls_config(tls()).build();
    Agent::with_parts(config, DefaultConnector::default(), resolver)
}

fn config(bounds: Bounds, redirects: u32) -> ConfigBuilder<AgentScope> {
    Config::builder()
        .http_status_as_error(false)
        .max_redirects(redirects)
        .max_idle_connections(0)
        .proxy(None)
        .user_agent(concat!("avocet/", env!("CARGO_PKG_VERSION")))
        .timeout_global(Some(bounds.time))
        .timeout_connect(Some(bounds.connect))
}

fn validator(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let text = headers.get(name)?.to_str().ok()?;
    (text.len() <= MAX_VALIDATOR).then(|| text.to_owned())
}

fn fault(error: ureq::Error) -> FetchError {
    match error {
        ureq::Error::Timeout(_) => FetchError::TimedOut,
        ureq::Error::TooManyRedirects | ureq::Error::RedirectFailed => FetchError::Redirects,
        ureq::Error::RequireHttpsOnly(_) => FetchError::Downgrade,
        ureq::Error::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            FetchError::Truncated
        }
        ureq::Error::Io(error) if is_no_tls(&error) => FetchError::NoTls,
        ureq::Error::Other(error) => match error.downcast::<Unresolved>() {
            Ok(unresolved) => match *unresolved {
                Unresolved::Why(why) => FetchError::Unresolved(why),
                Unresolved::Private => FetchError::Private,
            },
            Err(error) => FetchError::Source(error.to_string()),
        },
        error => FetchError::Source(error.to_string()),
    }
}

/// Returns whether the error means that the peer does not speak TLS.
fn is_no_tls(error: &io::Error) -> bool {
    let tls = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
    matches!(tls, Some(rustls::Error::InvalidMessage(_)))
}

fn tls() -> TlsConfig {
    tls_trusting(&rustls_native_certs::load_native_certs().certs, None)
}

fn tls_trusting(authorities: &[CertificateDer<'_>], shown: Option<ClientCert>) -> TlsConfig {
    let roots = authorities.iter().map(|one| Certificate::from_der(one).to_owned());
    TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .root_certs(RootCerts::from(roots))
        .client_cert(shown)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .build()
}

/// A resolver of host names that queries this server.
struct OwnResolver {
    lookup: Lookup,
    permits: Permits,
}

/// The hosts that may have private addresses.
enum Permits {
    /// All addresses, because the URL is not from a redirect.
    All,
    /// The host that the configuration names for the list; any other host comes from a redirect.
    Internal(Arc<Mutex<String>>),
    /// Only these hosts.
    Hosts(Vec<String>),
}

impl Permits {
    fn permits(&self, host: &str) -> bool {
        match self {
            Self::All => true,
            Self::Hosts(hosts) => hosts.iter().any(|one| one.eq_ignore_ascii_case(host)),
            Self::Internal(configured) => {
                *configured.lock().unwrap_or_else(PoisonError::into_inner)
                    == host.to_ascii_lowercase()
            }
        }
    }
}

impl fmt::Debug for OwnResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnResolver(..)")
    }
}

/// The reason why a name was not resolved.
#[derive(Debug)]
enum Unresolved {
    /// The reason.
    Why(LookupError),
    /// A redirect leads to a private network.
    Private,
}

impl fmt::Display for Unresolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Why(why) => why.fmt(f),
            Self::Private => f.write_str("a private address"),
        }
    }
}

impl std::error::Error for Unresolved {}

impl Resolver for OwnResolver {
    fn resolve(
        &self,
        uri: &Uri,
        _: &Config,
        _: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let port =
            uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
        let addresses = self.addresses(uri.host().unwrap_or_default());
        let mut resolved = self.empty();
        for address in addresses.map_err(|unresolved| ureq::Error::Other(Box::new(unresolved)))? {
            resolved.push(SocketAddr::new(address, port));
        }
        Ok(resolved)
    }
}

impl OwnResolver {
    fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, Unresolved> {
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let mut addresses = match bare.parse() {
            Ok(address) => vec![address],
            Err(_) => (self.lookup)(host).map_err(Unresolved::Why)?,
        };
        if !self.permits.permits(host) {
            addresses.retain(|address| !Scope::Internal.contains(*address));
            if addresses.is_empty() {
                return Err(Unresolved::Private);
            }
        }
        // An upstream that blocks names may answer with 0.0.0.0, which is not an address of the
        // host.
        addresses.retain(|address| !address.is_unspecified());
        addresses.truncate(MAX_ADDRESSES);
        if addresses.is_empty() {
            Err(Unresolved::Why(LookupError::Blocked(host.to_owned())))
        } else {
            Ok(addresses)
        }
    }
}

/// Returns the host that a URL names, in lower case.
fn host_of(url: &str) -> String {
    let uri = url.parse::<Uri>();
    uri.ok().and_then(|uri| Some(uri.host()?.to_ascii_lowercase())).unwrap_or_default()
}

#[cfg(test)]
mod tests;
