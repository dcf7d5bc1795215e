//! Waits until the name servers of a zone have a record, because the authority may query any of
//! them.

use std::net::SocketAddr;
use std::time::Duration;

use avocet_acme::Stopped;
use avocet_client::stub::records_of;
use avocet_wire::{NameBuf, Rtype};

/// Maximum time for a record to reach a server.
const SPREAD_TIME: Duration = Duration::from_secs(60);
/// Time between two queries to a server.
const PAUSE: Duration = Duration::from_secs(2);
/// Maximum number of servers that are queried.
pub(super) const MAX_SERVERS: usize = 8;
/// Number of queries without an answer after which this host no longer waits for a server. The
/// authority may reach servers that this host cannot reach.
const MAX_SILENT: u32 = 2;

/// A function that waits for a time, or fails because the attempt must end.
pub(super) type ProofPause<'p> = dyn FnMut(Duration) -> Result<(), Stopped> + 'p;

/// Repeats a check until it is true, at most for [`SPREAD_TIME`] of pauses. Returns its last
/// result. If the attempt must end, returns true, because the next request to the authority fails.
///
/// # Errors
/// The check fails.
pub(super) fn wait_until<E>(
    pause: &mut ProofPause<'_>,
    mut is_done: impl FnMut() -> Result<bool, E>,
) -> Result<bool, E> {
    let mut waited = Duration::ZERO;
    while !is_done()? {
        if waited >= SPREAD_TIME {
            return Ok(false);
        }
        if pause(PAUSE).is_err() {
            break;
        }
        waited += PAUSE;
    }
    Ok(true)
}

/// Waits until all servers have a TXT record. Returns the first server that does not have it in
/// time; `None` if there is none.
pub(super) fn lagging(
    servers: &[SocketAddr],
    owner: &NameBuf,
    data: &[u8],
    pause: &mut ProofPause<'_>,
) -> Option<SocketAddr> {
    let mut left: Vec<_> = servers.iter().map(|server| (*server, 0)).collect();
    let is_left = |(server, silent): &mut (SocketAddr, u32)| {
        let answer = records_of((*server).into(), owner, Rtype::TXT);
        match answer {
            Ok((found, _)) => found.iter().all(|one| **one != *data),
            Err(error) => {
                tracing::debug!(%server, "no answer about the proof: {error}");
                *silent += 1;
                *silent < MAX_SILENT
            }
        }
    };
    let are_done = || {
        left.retain_mut(is_left);
        Ok::<_, std::convert::Infallible>(left.is_empty())
    };
    match wait_until(pause, are_done) {
        Ok(true) => None,
        _ => left.first().map(|(server, _)| *server),
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    const DATA: &[u8] = b"\x03abc";

    /// Starts a server whose answers contain the record from the answer with index `first` on.
    fn server(first: usize) -> (SocketAddr, Arc<AtomicUsize>) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (addr, asked) = (socket.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
        let count = asked.clone();
        thread::spawn(move || {
            let mut room = [0; 512];
            while let Ok((_, from)) = socket.recv_from(&mut room) {
                let number = count.fetch_add(1, Ordering::Relaxed) + 1;
                let end = 12 + room[12..].iter().position(|octet| *octet == 0).unwrap() + 5;
                let has_record = number >= first;
                let mut reply = room[..end].to_vec();
                let counts = [0, 1, 0, u8::from(has_record), 0, 0, 0, 0];
                reply[2..12].copy_from_slice(&[&[0x84, 0], &counts[..]].concat());
                if has_record {
                    reply.extend_from_slice(b"\xc0\x0c\0\x10\0\x01\0\0\0\x01\0\x04\x03abc");
                }
                socket.send_to(&reply, from).unwrap();
            }
        });
        (addr, asked)
    }

    #[test]
    fn servers_are_queried_until_each_has_the_record() {
        let owner = NameBuf::from_wire(b"\x0f_acme-challenge\x03dns\x07example\0").unwrap();
        let mut waited = Duration::ZERO;
        let mut pause = |time: Duration| {
            waited += time;
            Ok(())
        };
        // A port without a server does not count.
        let closed = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let ((early, early_asked), (late, late_asked)) = (server(1), server(3));
        assert_eq!(lagging(&[early, closed, late], &owner, DATA, &mut pause), None);
        let asked = [early_asked, late_asked].map(|one| one.load(Ordering::Relaxed));
        assert_eq!(asked, [1, 3]);
        let (never, _) = server(usize::MAX);
        assert_eq!(lagging(&[never], &owner, DATA, &mut pause), Some(never));
        assert_eq!(waited, Duration::from_secs(4 + 60));
        let mut stopped = |_: Duration| Err(Stopped);
        assert_eq!(lagging(&[never], &owner, DATA, &mut stopped), None);
    }
}
