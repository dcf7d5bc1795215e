//! Tests of the sockets and connections to servers.

use std::collections::HashSet;

use avocet_config::ports::AvoidPorts;
use avocet_resolver::Transport;
use chacha20::ChaCha12Rng;
use chacha20::rand_core::SeedableRng;

use super::super::connection::SILENT_MS;
use super::*;

fn ports(ranges: &str) -> Arc<SourcePorts> {
    let ranges = avocet_config::ports::reserved_ports(ranges);
    let avoid = AvoidPorts { registered: false, ranges };
    SourcePorts::new(&avoid, &[]).unwrap().into()
}

fn any_port() -> Arc<SourcePorts> {
    ports("")
}

fn single(number: u32) -> SocketId {
    SocketId { endpoint: EndpointId(0), slot: SocketSlot::Single(number) }
}

#[test]
fn a_pooled_socket_makes_room_for_a_single_one() {
    let (poller, mut rng) = (Poller::new().unwrap(), ChaCha12Rng::from_seed([3; 32]));
    let mut endpoints = Endpoints::new(16, 1, any_port(), Arc::default());
    let addr = "127.0.0.1:9".parse().unwrap();
    let pooled = SocketId { endpoint: EndpointId(0), slot: SocketSlot::Pooled(7) };
    endpoints.prepare(&poller, (pooled, addr), &mut rng).unwrap();
    endpoints.prepare(&poller, (single(0), addr), &mut rng).unwrap();
    let counts = endpoints.counts(|_| true);
    assert_eq!((counts.pooled, counts.fresh, counts.authorities), (0, 1, 0));
    endpoints.close(single(0));
    assert_eq!(endpoints.counts(|_| false).authorities, 0);
}

#[test]
fn too_many_open_sockets_are_no_fault_of_the_server() {
    let (poller, mut rng) = (Poller::new().unwrap(), ChaCha12Rng::from_seed([3; 32]));
    let mut endpoints = Endpoints::new(16, 1, any_port(), Arc::default());
    let addr = "127.0.0.1:9".parse().unwrap();
    endpoints.prepare(&poller, (single(0), addr), &mut rng).unwrap();
    let second = endpoints.prepare(&poller, (single(1), addr), &mut rng);
    let fault = |error: io::Error| fault_of(single(1), &error);
    assert_eq!(fault(second.unwrap_err()), SocketFault::Shortage);
    let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
    assert_eq!(fault(refused), SocketFault::Unreachable);
    let shortage = io::Error::from_raw_os_error(24);
    assert_eq!(fault(shortage), SocketFault::Shortage, "EMFILE");
}

#[test]
fn sockets_on_ports_that_are_avoided_from_now_on_are_closed() {
    let (poller, mut rng) = (Poller::new().unwrap(), ChaCha12Rng::from_seed([3; 32]));
    let mut endpoints = Endpoints::new(16, 64, any_port(), Arc::default());
    let addr = "127.0.0.1:9".parse().unwrap();
    let pooled = |slot| SocketId { endpoint: EndpointId(0), slot: SocketSlot::Pooled(slot) };
    for number in 0..16 {
        endpoints.prepare(&poller, (pooled(number), addr), &mut rng).unwrap();
        endpoints.prepare(&poller, (single(number.into()), addr), &mut rng).unwrap();
    }
    let all: Vec<SocketId> = (0..16).map(pooled).chain((0..16).map(single)).collect();
    let few = ports("20000-50000");
    let is_avoided = |endpoints: &Endpoints, id: SocketId| {
        let local = endpoints.get(id).map(|socket| socket.local_addr().unwrap());
        local.map(|local| !few.contains(local.port()))
    };
    let avoided: HashSet<SocketId> =
        all.iter().copied().filter(|id| is_avoided(&endpoints, *id) == Some(true)).collect();
    assert!((4..28).contains(&avoided.len()), "{}", avoided.len());
    let closed = endpoints.change_ports(few.clone());
    assert_eq!(closed.iter().copied().collect::<HashSet<_>>(), avoided);
    assert!(closed.iter().all(|id| endpoints.get(*id).is_none()));
    while endpoints.warm(&poller, &mut rng) {}
    assert_eq!(endpoints.counts(|_| true).pooled, 16, "opened again, on other ports");
    assert!(all.iter().all(|id| is_avoided(&endpoints, *id) != Some(true)));
}

#[test]
fn a_stream_on_which_nothing_is_answered_is_closed_and_needs_no_pool() {
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let to = Endpoint { addr: server.local_addr().unwrap(), transport: Transport::Tcp };
    let (poller, mut rng) = (Poller::new().unwrap(), ChaCha12Rng::from_seed([1; 32]));
    let mut endpoints = Endpoints::new(16, 64, any_port(), Arc::default());
    let id = SocketId { endpoint: EndpointId(0), slot: SocketSlot::Stream };
    for now_ms in [0, SILENT_MS / 2, SILENT_MS] {
        let query =
            StreamQuery { socket: id, to, header: (&[], HeaderPlace::InsideTls), octets: b"query" };
        endpoints.send_stream(&poller, query, now_ms, &mut rng).unwrap();
    }
    assert!(!endpoints.warm(&poller, &mut rng));
    let counts = endpoints.counts(|_| true);
    assert_eq!((counts.pooled, counts.streams), (0, 1));
    let mut closed = Vec::new();
    endpoints.expire(&poller, SILENT_MS, &mut closed);
    assert!(closed.is_empty());
    endpoints.expire(&poller, SILENT_MS + 1, &mut closed);
    assert_eq!((closed, endpoints.counts(|_| true).streams), (vec![(id, SocketFault::Closed)], 0));
}
