//! Properties of any octets as a connection with DNS over HTTPS.

use std::ops::ControlFlow;

use avocet_session::http::{Http, Replies};

/// Most octets that wait after an input without answers: those of one response to each frame.
const MAX_PER_OCTET: usize = 2;
/// Octets of the settings, of an end and of errors.
const MAX_FIXED: usize = 16 << 10;

/// Checks that requests are the same however the octets come, and that the answers of the server
/// are bounded by what it has received.
pub(crate) fn connection(octets: &[u8]) {
    let (whole, sent) = served(octets, octets.len().max(1));
    assert!(sent <= MAX_FIXED + MAX_PER_OCTET * octets.len(), "{sent} for {}", octets.len());
    let (pieces, _) = served(octets, 7);
    // A request of HTTP/1.1 may come in too many pieces; then there are fewer.
    assert!(whole.starts_with(&pieces), "however they come");
}

/// Serves the octets in pieces of a length. Returns the queries, and how much would be sent.
fn served(octets: &[u8], piece: usize) -> (Vec<Vec<u8>>, usize) {
    let (mut http, mut queries) = (Http::new(), Vec::new());
    for piece in octets.chunks(piece) {
        let mut deliver = |message: &[u8], replies: &mut Replies<'_>| {
            queries.push(message.to_vec());
            replies.refuse();
            // Every second query has to wait for the next turn.
            if queries.len() % 2 == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let _ = http.take(piece, &mut deliver);
        while http.is_stopped() {
            let _ = http.resume(&mut deliver);
        }
    }
    (queries, http.unsent())
}
