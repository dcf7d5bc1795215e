//! Datagrams with a fault that a test has injected.

use avocet_io::Peer;
use avocet_io::udp::{Datagram, Panic, Service};
use avocet_nameserver::datagrams::Datagrams;

use super::fault::{IN_QUERY, planted};

/// The service of datagrams, which panics at the next datagram if a test has injected a fault.
pub(super) struct Faulty<'w>(pub(super) Datagrams<'w>);

impl Service for Faulty<'_> {
    fn look(&mut self, place: usize, bytes: &[u8], peer: &Peer) {
        self.0.look(place, bytes, peer);
    }

    fn answer(&mut self, place: usize, datagram: Datagram<'_>, out: &mut [u8]) -> Option<usize> {
        planted(&IN_QUERY);
        self.0.answer(place, datagram, out)
    }

    fn failed(&mut self, panic: Panic) {
        self.0.failed(panic);
    }
}
