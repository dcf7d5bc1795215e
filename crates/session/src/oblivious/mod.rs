//! The target of Oblivious DNS over HTTPS (ODoH, RFC 9230), without sockets and without storage of
//! keys.
//!
//! ```text
//! client -- sealed query --> proxy -- POST --> ObliviousTarget::open: query and ReplySeal
//!        <- sealed reply --        <----------- ReplySeal::seal: the DNS response, padded
//! ```
//! The proxy knows the client and not its query. The target knows the query, and as client only the
//! proxy. HPKE and the form of messages are from the crate `odoh-rs`. Without the build feature
//! `odoh`, there is no target.

#[cfg(not(feature = "odoh"))]
mod absent;
#[cfg(feature = "odoh")]
mod opening;
mod proxied;

#[cfg(not(feature = "odoh"))]
pub use absent::{ObliviousTarget, ReplySeal};
#[cfg(feature = "odoh")]
pub use opening::{ObliviousTarget, ReplySeal};
pub use proxied::{NamedTarget, ProxyFault, proxied_reply};

/// Whether this program has the build feature `odoh`.
pub const IS_BUILT: bool = cfg!(feature = "odoh");
/// Number of octets of the secret from which a key pair is derived.
pub const SEED_LEN: usize = 32;
/// Maximum number of octets of an encrypted query. Queries are short, and the target keeps their
/// padding until they are answered, because the keys of the response depend on it.
pub const MAX_SEALED: usize = 2 << 10;
/// Seconds for which a client may use the configurations without another request. The key of the
/// configurations is accepted for much longer.
pub const CONFIGS_SECS: u32 = 3_600;
/// The path of the configurations, which clients know by convention.
pub(crate) const CONFIGS_PATH: &[u8] = b"/.well-known/odohconfigs";
/// The media type of sealed queries and replies (RFC 9230 §10.1).
pub const MEDIA_TYPE_OBLIVIOUS: &str = "application/oblivious-dns-message";
pub(crate) const MEDIA_TYPE: &[u8] = MEDIA_TYPE_OBLIVIOUS.as_bytes();

/// A query that was sealed by its client.
#[derive(Debug)]
pub struct OpenedQuery {
    /// The DNS message.
    pub query: Vec<u8>,
    /// The keys that seal the reply.
    pub seal: ReplySeal,
}

/// The reason why the target does not answer a request. All but [`Self::NoTarget`] are faults of
/// the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObliviousFault {
    /// The request does not have the form of RFC 9230 §6.1.
    Malformed = 0,
    /// The target does not have the key any more, or it never had it.
    UnknownKey = 1,
    /// The query cannot be decrypted with the key.
    Undecipherable = 2,
    /// The decrypted message is not a DNS query.
    NotQuery = 3,
    /// The encrypted query is longer than [`MAX_SEALED`].
    Long = 4,
    /// This server is not a target.
    NoTarget = 5,
}

impl ObliviousFault {
    /// Returns the text that explains the fault to a person.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Malformed => "this is not an oblivious query",
            Self::UnknownKey => "the key is unknown: fetch the configuration again",
            Self::Undecipherable => "the query cannot be decrypted",
            Self::NotQuery => "the message is not a DNS query",
            Self::Long => "the encrypted query is too long",
            Self::NoTarget => "",
        }
    }
}
