//! The settings of QUIC connections at one listening address.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use quinn_proto::crypto::rustls::{NoInitialCipherSuite, QuicServerConfig};
use quinn_proto::{
    IdleTimeout, ServerConfig, TransportConfig, ValidationTokenConfig, VarIntBoundsExceeded,
};
use thiserror::Error;

use super::keys::QuicKeys;

/// Maximum number of concurrent queries of a connection, including those with responses that the
/// client has not acknowledged.
pub const MAX_QUERIES: u32 = 100;
/// Number of octets of a stream that a client may send before they are read. Nearly all queries
/// fit.
const STREAM_WINDOW: u32 = 8 << 10;
/// Number of octets of all streams that a client may send before they are read.
const CONNECTION_WINDOW: u32 = 128 << 10;
/// Maximum number of octets of responses that the client has not acknowledged.
const SEND_WINDOW: u64 = 256 << 10;
/// Maximum number of octets of handshake messages that arrive in the wrong order. A client without
/// certificate sends less than 4 KiB.
const CRYPTO_WINDOW: usize = 16 << 10;
/// Maximum number of connection attempts of a worker that were neither accepted nor refused yet.
const MAX_INCOMING: usize = 1 << 10;
/// Maximum number of octets of datagrams that are kept for one connection attempt until it is
/// accepted.
const INCOMING_OCTETS: u64 = 8 << 10;
/// Maximum number of octets of datagrams that are kept for all connection attempts until they are
/// accepted.
const ALL_INCOMING_OCTETS: u64 = 4 << 20;

/// The reason why the settings cannot be used.
#[derive(Debug, Error)]
pub enum ListenerError {
    /// The provider of cryptography has no cipher for the first packets.
    #[error("no cipher for the first packets of QUIC")]
    Cipher(#[from] NoInitialCipherSuite),
    /// The idle time has more milliseconds than QUIC can express.
    #[error("the idle time is too long")]
    Idle(#[from] VarIntBoundsExceeded),
}

/// The protocol of the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuicProtocol {
    /// DNS over QUIC (RFC 9250).
    Doq,
    /// HTTP/3 (RFC 9114) with DNS over HTTPS.
    H3,
}

impl QuicProtocol {
    /// Returns how many unidirectional streams the peer may open. HTTP/3 needs three, and clients
    /// also open streams of unknown kinds.
    pub(super) const fn uni_streams(self) -> u32 {
        match self {
            Self::Doq => 0,
            Self::H3 => 8,
        }
    }
}

/// The settings of QUIC connections at one listening address.
#[derive(Clone)]
pub struct QuicListener {
    config: Arc<ServerConfig>,
    protocol: QuicProtocol,
}

impl fmt::Debug for QuicListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuicListener").finish_non_exhaustive()
    }
}

impl QuicListener {
    /// Creates the settings. `tls` has the certificates of the server; `idle` is the time after
    /// which a silent connection ends.
    ///
    /// # Errors
    /// `tls` does not permit TLS 1.3, or `idle` is too long.
    pub fn new(
        tls: Arc<rustls::ServerConfig>,
        keys: &QuicKeys,
        (protocol, idle): (QuicProtocol, Duration),
    ) -> Result<Self, ListenerError> {
        let crypto = Arc::new(QuicServerConfig::try_from(tls)?);
        let mut transport = TransportConfig::default();
        transport
            .max_concurrent_bidi_streams(MAX_QUERIES.into())
            .max_concurrent_uni_streams(protocol.uni_streams().into())
            .stream_receive_window(STREAM_WINDOW.into())
            .receive_window(CONNECTION_WINDOW.into())
            .send_window(SEND_WINDOW)
            .crypto_buffer_size(CRYPTO_WINDOW)
            .datagram_receive_buffer_size(None)
            .enable_segmentation_offload(false)
            .mtu_discovery_config(None)
            .allow_spin(false)
            .max_idle_timeout(Some(IdleTimeout::try_from(idle)?));
        let mut config = ServerConfig::new(crypto, keys.token());
        let mut tokens = ValidationTokenConfig::default();
        // The server issues no tokens for later connections: only the token of a Retry proves an
        // address.
        tokens.sent(0);
        config
            .transport_config(Arc::new(transport))
            .validation_token_config(tokens)
            .max_incoming(MAX_INCOMING)
            .incoming_buffer_size(INCOMING_OCTETS)
            .incoming_buffer_size_total(ALL_INCOMING_OCTETS);
        Ok(Self { config: Arc::new(config), protocol })
    }

    pub(super) fn config(&self) -> Arc<ServerConfig> {
        self.config.clone()
    }

    pub(super) fn protocol(&self) -> QuicProtocol {
        self.protocol
    }
}
