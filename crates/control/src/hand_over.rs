//! The begin of a take-over on the control socket. It is no [`Request`](crate::Request): the server
//! answers it with its sockets, which only this socket can carry.

use serde::{Deserialize, Serialize};

/// The request of a process that wants to take over.
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
}

/// The reply of a server that hands nothing over.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Refusal {
    error: String,
}

/// Returns the line that asks for the sockets.
pub fn request() -> String {
    // The request has no content that could fail.
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
        // A number does not fail.
        let line = serde_json::to_string(self).unwrap_or_default();
        format!("{line}\n")
    }

    /// Reads the reply of the running server. The inner error is its reason to refuse.
    ///
    /// # Errors
    /// The line is neither an offer nor a refusal.
    pub fn read(line: &[u8]) -> serde_json::Result<Result<Self, String>> {
        if let Ok(Refusal { error }) = serde_json::from_slice(line) {
            return Ok(Err(error));
        }
        serde_json::from_slice(line).map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_take_over_begins_with_one_line_each_way() {
        assert_eq!(request(), "{\"command\":\"take-over\"}\n");
        assert!(is_request(request().as_bytes()) && !is_request(b"{\"command\":\"stats\"}\n"));
        let offer = Offer { sockets: 4 };
        assert_eq!(offer.line(), "{\"sockets\":4}\n");
        assert_eq!(Offer::read(offer.line().as_bytes()).unwrap(), Ok(offer));
        assert_eq!(Offer::read(b"{\"error\":\"no\"}\n").unwrap(), Err("no".to_owned()));
        assert!(Offer::read(b"{}\n").is_err());
    }
}
