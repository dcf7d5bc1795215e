//! The certificates of a server, and the choice of the certificate that a client sees.

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use rustls::crypto::aws_lc_rs::Ticketer;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{
    ClientHello, NoServerSessionStorage, ProducesTickets, ResolvesServerCert,
    ServerSessionMemoryCache, WebPkiClientVerifier,
};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{Error, RootCertStore, ServerConfig};
use thiserror::Error as ThisError;

use crate::early::MAX_EARLY;
use crate::tls::provider;
use crate::validity::Validity;

/// The protocols of DNS over HTTPS in ALPN (RFC 9113, RFC 9112), the preferred one first.
pub const ALPN_DOH: [&[u8]; 2] = [ALPN_H2, b"http/1.1"];
/// The protocol of HTTP/2 in ALPN (RFC 9113). For DNS over HTTPS, the client offers only this one.
pub const ALPN_H2: &[u8] = b"h2";
/// The protocol of DNS over TLS in ALPN (RFC 7858, RFC 7301).
pub const ALPN_DOT: &[u8] = b"dot";
/// The protocol of HTTP/3 in ALPN (RFC 9114).
pub const ALPN_H3: &[u8] = b"h3";
/// The protocol of DNS over QUIC in ALPN (RFC 9250).
pub const ALPN_DOQ: &[u8] = b"doq";

/// The reason why a certificate cannot be used.
#[derive(Debug, ThisError)]
pub enum CertificateError {
    /// The file of the certificate contains no certificate.
    #[error("no certificate in PEM form: {0}")]
    Chain(pem::Error),
    /// The file of the key contains no key.
    #[error("no private key in PEM form: {0}")]
    Key(pem::Error),
    /// The certificate is invalid, or the key belongs to another certificate.
    #[error("{}", reason(.0))]
    Unusable(Error),
}

impl CertificateError {
    /// Reports whether the file with the key is at fault.
    pub fn is_of_key(&self) -> bool {
        matches!(self, Self::Key(_))
    }
}

fn reason(error: &Error) -> String {
    match error {
        Error::InconsistentKeys(_) => "the private key is that of another certificate".to_owned(),
        error => error.to_string(),
    }
}

/// A certificate with its key, and the names for which it is shown.
#[derive(Clone, Debug)]
pub struct Certificate {
    key: Arc<CertifiedKey>,
    names: Vec<String>,
    validity: Option<Validity>,
}

impl Certificate {
    /// Reads a certificate, followed by the certificates of its issuers, and its key. Both texts
    /// are in PEM form. Clients see the certificate for `names`; if there are none, for the names
    /// in the certificate.
    ///
    /// # Errors
    /// One of the texts is not in PEM form, or the key belongs to another certificate.
    pub fn read(chain: &[u8], key: &[u8], names: &[String]) -> Result<Self, CertificateError> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(chain)
            .collect::<Result<_, _>>()
            .map_err(CertificateError::Chain)?;
        if chain.is_empty() {
            return Err(CertificateError::Chain(pem::Error::NoItemsFound));
        }
        let key = PrivateKeyDer::from_pem_slice(key).map_err(CertificateError::Key)?;
        let (own, validity) = (own_names(&chain[0]), Validity::of(&chain[0]));
        let key = CertifiedKey::from_der(chain, key, &provider());
        let key = Arc::new(key.map_err(CertificateError::Unusable)?);
        let names = if names.is_empty() { own } else { names.to_vec() };
        let names = names.iter().map(|name| name.to_ascii_lowercase()).collect();
        Ok(Self { key, names, validity })
    }

    /// Returns the certificate in the form in which a client presents it.
    pub(crate) fn for_servers(&self) -> Arc<SingleCertAndKey> {
        Arc::new(SingleCertAndKey::from(self.key.clone()))
    }

    /// Returns the server's own certificate in DER, without the certificates of its issuers.
    pub fn first(&self) -> Option<&[u8]> {
        self.key.cert.first().map(|one| &one[..])
    }

    /// Returns the names for which clients see the certificate, in lower case.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns whether the certificate is valid for an address. Clients that know no name of the
    /// server can then verify it.
    pub fn is_valid_for(&self, address: IpAddr) -> bool {
        let own = self.key.cert.first().map(webpki::EndEntityCert::try_from);
        let name = ServerName::from(address);
        matches!(own, Some(Ok(own)) if own.verify_is_valid_for_subject_name(&name).is_ok())
    }

    /// Returns the period of validity; `None` if the certificate does not state it in the form of
    /// RFC 5280.
    pub fn validity(&self) -> Option<Validity> {
        self.validity
    }
}

/// Returns the host names in a certificate.
pub fn own_names(certificate: &CertificateDer<'_>) -> Vec<String> {
    let parsed = webpki::EndEntityCert::try_from(certificate);
    parsed.map_or_else(|_| Vec::new(), |one| one.valid_dns_names().map(str::to_owned).collect())
}

thread_local! {
    /// The first label of the server name that the client requested, if a wildcard matches the
    /// name: it identifies the device of the client. [`CertificateChoice`] sets the value while
    /// rustls processes the ClientHello, because rustls does not show the server name of an
    /// unbuffered connection.
    static WORD: Cell<Option<Box<[u8]>>> = const { Cell::new(None) };
}

/// Takes the first label of the server name that a client requested, if a wildcard matches the
/// name. Call it on the same thread, right after rustls has processed the ClientHello.
pub(crate) fn take_word() -> Option<Box<[u8]>> {
    WORD.take()
}

/// The certificates of a listener, from which it chooses one for each client.
pub struct CertificateChoice {
    /// The certificates in the order of the configuration.
    all: Vec<Arc<CertifiedKey>>,
    /// Indices into `all` by name. In `by_wildcard`, the names are without the label `*`.
    by_name: HashMap<String, Vec<usize>>,
    by_wildcard: HashMap<String, Vec<usize>>,
}

impl CertificateChoice {
    /// Creates the choice. A client that requests none of the names gets the first certificate.
    pub fn new(certificates: &[Certificate]) -> Self {
        let (mut by_name, mut by_wildcard) = (HashMap::new(), HashMap::new());
        for (place, certificate) in certificates.iter().enumerate() {
            for name in &certificate.names {
                let (map, name): (&mut HashMap<String, Vec<usize>>, _) =
                    match name.strip_prefix("*.") {
                        Some(parent) => (&mut by_wildcard, parent),
                        None => (&mut by_name, name.as_str()),
                    };
                map.entry(name.to_owned()).or_default().push(place);
            }
        }
        let all = certificates.iter().map(|certificate| certificate.key.clone()).collect();
        Self { all, by_name, by_wildcard }
    }

    /// Returns the indices of the certificates for a name. If only a wildcard matches the name, the
    /// first label of the name identifies the device of the client.
    fn places(&self, name: &str) -> &[usize] {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        if let Some(places) = self.by_name.get(&name) {
            return places;
        }
        let Some((label, parent)) = name.split_once('.') else { return &[] };
        let Some(places) = self.by_wildcard.get(parent) else { return &[] };
        WORD.set(Some(label.as_bytes().into()));
        places
    }
}

impl fmt::Debug for CertificateChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateChoice").field("certificates", &self.all.len()).finish()
    }
}

impl ResolvesServerCert for CertificateChoice {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        WORD.set(None);
        let named = hello.server_name().map_or(&[][..], |name| self.places(name));
        let suits =
            |one: &&Arc<CertifiedKey>| one.key.choose_scheme(hello.signature_schemes()).is_some();
        let mut of_name = named.iter().filter_map(|place| self.all.get(*place));
        of_name.find(suits).or_else(|| self.all.iter().find(suits)).cloned()
    }
}

/// Maximum number of sessions that a server remembers for early data. A connection of TLS 1.3 adds
/// two. Each has some hundred octets, and the certificate of the client, if there is one.
const MAX_SESSIONS: usize = 16 << 10;

/// The state with which clients resume their sessions. All connections of a server share one value.
///
/// A ticket is usually the whole state of its session, encrypted with secrets of the server. New
/// secrets are drawn every six hours, and each is accepted for twelve hours. Such a ticket can be
/// used more than once. With early data, a ticket is a reference to a session in memory, which the
/// first use removes.
#[derive(Clone, Debug)]
pub struct Tickets {
    secrets: Arc<dyn ProducesTickets>,
    sessions: Arc<OnceLock<Arc<ServerSessionMemoryCache>>>,
    /// Maximum number of octets of early data; 0 if the server accepts none.
    max_early: u32,
}

/// The transport of early data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlyTransport {
    /// A stream of TLS.
    Tls,
    /// QUIC, where the flow-control windows limit the octets (RFC 9001 §4.6.1).
    Quic,
}

impl Tickets {
    /// Draws the first secrets.
    ///
    /// # Errors
    /// The system's random source fails.
    pub fn draw() -> Result<Self, Error> {
        Ok(Self { secrets: Ticketer::new()?, sessions: Arc::default(), max_early: 0 })
    }

    /// Returns the same state for a listener that accepts early data.
    #[must_use]
    pub fn with_early_data(&self, transport: EarlyTransport) -> Self {
        let max_early = match transport {
            EarlyTransport::Tls => MAX_EARLY,
            EarlyTransport::Quic => u32::MAX,
        };
        Self { max_early, ..self.clone() }
    }

    fn apply(&self, config: &mut ServerConfig) {
        if self.max_early == 0 {
            config.ticketer = self.secrets.clone();
            config.session_storage = Arc::new(NoServerSessionStorage {});
            return;
        }
        let sessions = self.sessions.get_or_init(|| ServerSessionMemoryCache::new(MAX_SESSIONS));
        config.session_storage = sessions.clone();
        config.max_early_data_size = self.max_early;
        // The answers to early queries leave before the end of the handshake.
        config.send_half_rtt_data = true;
    }
}

/// The client certificates that a listener requests.
#[derive(Clone, Debug)]
pub struct ClientAuthority {
    /// The authorities that issue the client certificates.
    pub roots: Arc<RootCertStore>,
    /// Whether clients may connect without a certificate.
    pub absence: Absence,
}

/// Whether clients may connect without a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// Clients may connect without a certificate.
    Accepted,
    /// The handshake of a client without a certificate fails.
    Refused,
}

impl ClientAuthority {
    fn verifier(&self) -> Result<Arc<dyn ClientCertVerifier>, Error> {
        let roots = self.roots.clone();
        let builder = WebPkiClientVerifier::builder_with_provider(roots, provider());
        let builder = match self.absence {
            Absence::Accepted => builder.allow_unauthenticated(),
            Absence::Refused => builder,
        };
        builder.build().map_err(|error| Error::General(error.to_string()))
    }
}

/// Returns the configuration of a listener: TLS 1.3 and 1.2 (RFC 8446, RFC 5246), with early data
/// if `tickets` permit it. A session ticket also restores the verified client certificate, so
/// `tickets` must not be shared with a listener that trusts other authorities.
///
/// # Errors
/// The provider of cryptography does not suffice for these versions of TLS, or `clients` has no
/// authority.
pub fn listener(
    shown: Arc<CertificateChoice>,
    tickets: &Tickets,
    alpn: &[&[u8]],
    clients: Option<&ClientAuthority>,
) -> Result<Arc<ServerConfig>, Error> {
    let config =
        ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let config = match clients {
        None => config.with_no_client_auth(),
        Some(clients) => config.with_client_cert_verifier(clients.verifier()?),
    };
    let mut config = config.with_cert_resolver(shown);
    tickets.apply(&mut config);
    config.alpn_protocols = alpn.iter().map(|one| one.to_vec()).collect();
    Ok(Arc::new(config))
}
