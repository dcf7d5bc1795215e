//! The inputs of a worker at its start.

use avocet_config::Protocol;
use avocet_dnstap::TapSender;
use avocet_io::tcp::TcpListener;
use avocet_io::udp::UdpListener;
use avocet_nameserver::traces::TraceSender;
use avocet_querylog::Producer;

/// The sockets on which a worker receives queries.
#[derive(Default)]
pub struct Listeners {
    /// The socket of each address without encryption.
    pub datagrams: Vec<UdpListener>,
    /// The socket of each address that uses TCP.
    pub streams: Vec<TcpListener>,
    /// The socket of each address with QUIC.
    pub quic: Vec<UdpListener>,
}

impl Listeners {
    /// Returns the UDP sockets of a protocol.
    pub fn datagrams_of(&mut self, protocol: Protocol) -> &mut Vec<UdpListener> {
        if protocol.uses_quic() { &mut self.quic } else { &mut self.datagrams }
    }
}

/// Returns the worker that resolves a question with this hash.
pub fn owner_of(hash: u64, workers: usize) -> usize {
    // The highest bits are those of the question alone.
    ((hash >> 48) % workers as u64) as usize
}

/// The worker's ends of its rings.
pub struct WorkerRings {
    /// The producer of the query log.
    pub(crate) log: Producer,
    /// The sender of dnstap.
    pub(crate) tap: TapSender,
    /// The sender of exported traces.
    pub(crate) trace: TraceSender,
}

/// The arguments of a new worker.
pub(crate) struct Setup {
    /// The number of the worker.
    pub(crate) index: u16,
    /// Number of slots of the pool for each upstream.
    pub(crate) pool_size: u32,
    /// Maximum number of UDP sockets for upstreams that the worker may open.
    pub(crate) upstream_sockets: usize,
    /// Maximum number of client connections for which there are descriptors.
    pub(crate) most_streams: usize,
    /// Seed of the random numbers of the worker, from the system's source.
    pub(crate) seed: [u8; 32],
    /// Seed of the random numbers of QUIC, from the system's source.
    pub(crate) quic_seed: [u8; 32],
}
