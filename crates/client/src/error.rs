//! Errors of the client: invalid arguments of a request, and failures of the exchange with a
//! server.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use avocet_wire::name::NameError;
use avocet_wire::{Rcode, Rtype, WireError};
use thiserror::Error;

use crate::exchange::Carrier;

/// An error of the client.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The request has no name.
    #[error("the name is missing")]
    NoName,
    /// An argument is not a name.
    #[error(transparent)]
    InvalidName(#[from] avocet_config::SettingError),
    /// An argument is neither a type nor a class.
    #[error("{0:?} is neither a type such as AAAA or TYPE65 nor a class such as CH")]
    NotATypeOrClass(String),
    /// The type is a type of zone transfer.
    #[error("{0} is a zone transfer, which avocet query does not support")]
    ZoneTransfer(Rtype),
    /// There is no such option.
    #[error("\"+{0}\" is not an option; see avocet query --help")]
    UnknownOption(String),
    /// The value of an option is not a number within its bounds.
    #[error("+{option}={found}: expected a number from {min} to {max}")]
    OutOfBounds {
        /// The option.
        option: String,
        /// The value.
        found: String,
        /// The least value.
        min: u32,
        /// The greatest value.
        max: u32,
    },
    /// The text is not a network.
    #[error("+subnet={0}: expected a network such as 192.0.2.0/24")]
    NotANetwork(String),
    /// The text is not a pin.
    #[error("+pin={0}: expected SHA-256 of a public key in base64, 44 characters")]
    NotAPin(String),
    /// An option has an effect only over TLS.
    #[error("{0} has a meaning only with @tls://SERVER")]
    OnlyOverTls(String),
    /// An option has an effect only over HTTPS.
    #[error("+https-get has a meaning only with @https://SERVER")]
    OnlyOverHttps,
    /// The host of the server has no address.
    #[error("@{0}: the host has no address")]
    NoAddress(String),
    /// The system does not resolve the host of the server.
    #[error("@{host} cannot be resolved: {source}")]
    UnresolvedHost {
        /// The host.
        host: String,
        /// The reason given by the system.
        source: io::Error,
    },
    /// The query exceeds [`QUERY_ROOM`](crate::request::QUERY_ROOM).
    #[error("the query is too long for a message")]
    QueryTooLong,
    /// The server does not answer.
    #[error("no answer from {server} over {}: {}", carrier.name(), reason(.source))]
    NoAnswer {
        /// The server.
        server: SocketAddr,
        /// The transport.
        carrier: Carrier,
        /// The reason given by the system.
        source: io::Error,
    },
    /// The reply is not a message.
    #[error(transparent)]
    Message(#[from] WireError),
    /// The reverse name of an address is malformed.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The server answers with an error.
    #[error("{0}")]
    Rcode(Rcode),
}

/// Returns the reason for the missing reply, and what the user can do.
fn reason(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::TimedOut | ErrorKind::WouldBlock => "timeout; see +time".to_owned(),
        ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        ErrorKind::UnexpectedEof => "the server closed the connection".to_owned(),
        ErrorKind::InvalidData if error.to_string().contains("certificate") => {
            format!("{error}; see +ca, +pin and +insecure")
        }
        _ => error.to_string(),
    }
}
