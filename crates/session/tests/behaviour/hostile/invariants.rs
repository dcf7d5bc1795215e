//! Properties of a connection with DNS over HTTPS that hold for arbitrary octets.

use std::ops::ControlFlow;

use avocet_session::http::{Http, Replies};

/// Maximum number of octets to send for each received octet, if no query is answered.
const MAX_PER_OCTET: usize = 2;
/// Number of octets of the settings, of errors and of the end of a connection.
const MAX_FIXED: usize = 16 << 10;

/// Checks that the requests do not depend on the pieces in which the octets arrive, and that the
/// received octets bound those to send.
pub(crate) fn connection(octets: &[u8]) {
    let (whole, sent) = served(octets, octets.len().max(1));
    assert!(sent <= MAX_FIXED + MAX_PER_OCTET * octets.len(), "{sent} for {}", octets.len());
    let (pieces, _) = served(octets, 7);
    // With small pieces, a request of HTTP/1.1 may exceed the limit on pieces; there are fewer
    // requests then.
    assert!(whole.starts_with(&pieces), "however they come");
}

/// Serves the octets in pieces of this length. Returns the queries, and the number of octets to
/// send.
fn served(octets: &[u8], piece: usize) -> (Vec<Vec<u8>>, usize) {
    let (mut http, mut queries) = (Http::new(), Vec::new());
    for piece in octets.chunks(piece) {
        let mut deliver = |message: &[u8], replies: &mut Replies<'_>| {
            queries.push(message.to_vec());
            replies.refuse();
            // Delivery stops after every second query.
            if queries.len() % 2 == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let _ = http.take(piece, &mut deliver);
        while http.is_stopped() {
            let _ = http.resume(&mut deliver);
        }
    }
    (queries, http.unsent())
}
