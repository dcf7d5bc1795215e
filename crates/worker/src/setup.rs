//! The inputs with which a worker starts.

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
    /// Returns the UDP sockets that serve this protocol.
    pub fn datagrams_of(&mut self, protocol: Protocol) -> &mut Vec<UdpListener> {
        if protocol.uses_quic() { &mut self.quic } else { &mut self.datagrams }
    }
}

/// Returns the worker that resolves a question with this hash.
pub fn owner_of(hash: u64, workers: usize) -> usize {
    // The highest bits of the hash depend on the question alone.
    ((hash >> 48) % workers as u64) as usize
}

/// The worker's ends of its ring buffers for the query log, dnstap and traces.
pub struct WorkerRings {
    /// The producer of entries for the query log.
    pub(crate) log: Producer,
    /// The sender of replies for dnstap.
    pub(crate) tap: TapSender,
    /// The sender of traces for export.
    pub(crate) trace: TraceSender,
}

/// The arguments of a new worker.
pub(crate) struct Setup {
    /// The index of the worker.
    pub(crate) index: u16,
    /// Number of slots of the pool for each upstream.
    pub(crate) pool_size: u32,
    /// Maximum number of UDP sockets for upstreams that the worker may open.
    pub(crate) upstream_sockets: usize,
    /// Maximum number of client connections that the limit on file descriptors permits.
    pub(crate) most_streams: usize,
    /// Seed of the worker's random numbers, from the random source of the system.
    pub(crate) seed: [u8; 32],
    /// Seed of the random numbers of QUIC, from the random source of the system.
    pub(crate) quic_seed: [u8; 32],
}
