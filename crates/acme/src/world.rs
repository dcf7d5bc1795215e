//! What the protocol needs from its caller: requests, waits, and the presentation of proofs.

use std::time::Duration;

use thiserror::Error;

use crate::proof::Proof;

/// A request to the authority.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorityRequest {
    /// The URL.
    pub url: String,
    /// The signed body (RFC 8555 §6.2), sent with POST as `application/jose+json`; `None` for GET.
    pub body: Option<Vec<u8>>,
}

/// A response of the authority, with the fields that the protocol uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthorityResponse {
    /// The HTTP status.
    pub status: u16,
    /// The header field `Replay-Nonce`.
    pub nonce: Option<String>,
    /// The header field `Location`.
    pub location: Option<String>,
    /// The header field `Retry-After`, in seconds.
    pub retry_after_secs: Option<u64>,
    /// The body; at most [`MAX_AUTHORITY_BODY`](crate::MAX_AUTHORITY_BODY) octets.
    pub body: Vec<u8>,
}

/// An error: there is no complete response.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{url}: {reason}")]
pub struct Silence {
    /// The URL of the request.
    pub url: String,
    /// The reason.
    pub reason: String,
}

/// An error: a proof cannot be presented to the authority.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct PresentFault(pub String);

/// An error: the server ends, or the configuration has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the attempt was stopped")]
pub struct Stopped;

/// The services of the caller.
pub trait World {
    /// Sends a request and waits for its response, within bounds on time and size.
    ///
    /// # Errors
    /// There is no complete response.
    fn exchange(&mut self, request: &AuthorityRequest) -> Result<AuthorityResponse, Silence>;

    /// Waits for a time.
    ///
    /// # Errors
    /// The attempt must end.
    fn wait(&mut self, time: Duration) -> Result<(), Stopped>;

    /// Presents a proof until [`withdraw`](Self::withdraw) is called.
    ///
    /// # Errors
    /// The proof cannot be presented, for example because the server may not listen at the port.
    fn present(&mut self, proof: &Proof) -> Result<(), PresentFault>;

    /// Ends the presentation of all proofs.
    fn withdraw(&mut self);
}
