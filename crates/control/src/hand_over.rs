//! The start of a take-over on the control socket. It is no [`Request`](crate::Request): the server
//! answers it with its sockets, which only a Unix socket can carry.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The request of a process that takes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case")]
enum Wish {
    TakeOver {},
}

/// The reply of the server that hands over. The sockets follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// The number of sockets of workers.
    pub sockets: usize,
    /// Whether the server releases the data directory before the new process reads it. Missing in
    /// offers of earlier versions.
    #[serde(default)]
    pub cedes: bool,
    /// Whether the server waits longer for a new process that sends signs of work. Missing in
    /// offers of earlier versions, which do not know these signs.
    #[serde(default)]
    pub waits: bool,
    /// The ID of the server's process. Missing in offers of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<u32>,
}

/// The reply of a server that refuses the take-over.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Refusal {
    error: String,
}

/// The reason why a reply is not an offer.
#[derive(Debug)]
pub enum OfferError {
    /// The server refuses. Holds its reason.
    Refused(String),
    /// The line is neither an offer nor a refusal.
    Malformed(serde_json::Error),
}

impl fmt::Display for OfferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(reason) => f.write_str(reason),
            Self::Malformed(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OfferError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Refused(_) => None,
            Self::Malformed(error) => error.source(),
        }
    }
}

/// Returns the line that asks for the sockets.
pub fn request() -> String {
    // The request is constant, so its conversion cannot fail.
    let line = serde_json::to_string(&Wish::TakeOver {}).unwrap_or_default();
    format!("{line}\n")
}

/// Returns whether a line asks for the sockets.
pub fn is_request(line: &[u8]) -> bool {
    serde_json::from_slice::<Wish>(line).is_ok()
}

impl Offer {
    /// Returns the line of the offer.
    pub fn line(&self) -> String {
        // The conversion of a number cannot fail.
        let line = serde_json::to_string(self).unwrap_or_default();
        format!("{line}\n")
    }

    /// Reads the reply of the running server to the request for its sockets.
    ///
    /// # Errors
    /// The server refuses, or the line is neither an offer nor a refusal.
    pub fn read(line: &[u8]) -> Result<Self, OfferError> {
        if let Ok(Refusal { error }) = serde_json::from_slice(line) {
            return Err(OfferError::Refused(error));
        }
        serde_json::from_slice(line).map_err(OfferError::Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_take_over_begins_with_one_line_each_way() {
        assert_eq!(request(), "{\"command\":\"take-over\"}\n");
        assert!(is_request(request().as_bytes()) && !is_request(b"{\"command\":\"stats\"}\n"));
        let offer = Offer { sockets: 4, cedes: true, waits: true, process: Some(7) };
        let line = "{\"sockets\":4,\"cedes\":true,\"waits\":true,\"process\":7}\n";
        assert_eq!(offer.line(), line);
        assert_eq!(Offer::read(offer.line().as_bytes()).unwrap(), offer);
        let earlier = Offer { sockets: 4, cedes: false, waits: false, process: None };
        assert_eq!(Offer::read(b"{\"sockets\":4}\n").unwrap(), earlier);
        let refused = Offer::read(b"{\"error\":\"no\"}\n");
        assert!(matches!(refused, Err(OfferError::Refused(reason)) if reason == "no"));
        assert!(matches!(Offer::read(b"{}\n"), Err(OfferError::Malformed(_))));
    }
}
