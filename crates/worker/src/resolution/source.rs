//! The source port of a socket to a server (RFC 5452 §9.2).

use std::io;
use std::net::SocketAddr;

use avocet_config::ports::SourcePorts;
use avocet_io::upstream::UpstreamSocket;
use chacha20::rand_core::Rng;

/// Maximum number of ports that are tried for one socket. Each attempt takes about 5 us. If nine of
/// ten ports are in use, all attempts fail once in 850 times.
const PORT_DRAWS: usize = 64;

/// Opens a socket to `addr` from a random port.
///
/// # Errors
/// The kernel reports an error, or all ports that were tried are in use. The kernel is not asked to
/// choose a port, because it could choose one that must be avoided.
pub(super) fn open_socket(
    addr: SocketAddr,
    ports: &SourcePorts,
    rng: &mut impl Rng,
) -> io::Result<UpstreamSocket> {
    for _ in 0..PORT_DRAWS {
        match UpstreamSocket::connect(addr, ports.pick(rng.next_u32())) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            result => return result,
        }
    }
    Err(io::ErrorKind::QuotaExceeded.into())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::convert::Infallible;

    use avocet_config::ports::AvoidPorts;
    use avocet_io::process::is_shortage;
    use chacha20::ChaCha12Rng;
    use chacha20::rand_core::{SeedableRng, TryRng};

    use super::*;

    fn any_port() -> SourcePorts {
        SourcePorts::new(&AvoidPorts { registered: false, ranges: Vec::new() }, &[]).unwrap()
    }

    #[test]
    fn the_kernel_does_not_choose_a_port_where_none_is_free() {
        /// A generator that draws the same port each time.
        struct OnePort;
        impl TryRng for OnePort {
            type Error = Infallible;
            fn try_next_u32(&mut self) -> Result<u32, Infallible> {
                Ok(0)
            }
            fn try_next_u64(&mut self) -> Result<u64, Infallible> {
                Ok(0)
            }
            fn try_fill_bytes(&mut self, octets: &mut [u8]) -> Result<(), Infallible> {
                octets.fill(0);
                Ok(())
            }
        }
        let ports = any_port();
        // If binding fails, another program uses the port, which has the same effect.
        let _held = std::net::UdpSocket::bind(("0.0.0.0", ports.pick(0)));
        let error = open_socket("127.0.0.1:9".parse().unwrap(), &ports, &mut OnePort).unwrap_err();
        assert!(is_shortage(&error), "{error}");
    }

    /// 64,512 ports make 15.98 bits that cannot be predicted (RFC 5452 §9).
    #[test]
    fn ports_of_authority_sockets_are_drawn_from_the_whole_range() {
        const DRAWS: usize = 4_000;
        let server = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let addr = server.local_addr().unwrap();
        let mut rng = ChaCha12Rng::from_seed([3; 32]);
        let any_port = any_port();
        let mut ports = Vec::with_capacity(DRAWS);
        for _ in 0..DRAWS {
            let socket = open_socket(addr, &any_port, &mut rng).unwrap();
            socket.send(b"x").unwrap();
            ports.push(server.recv_from(&mut [0; 4]).unwrap().1.port());
        }
        let distinct: HashSet<u16> = ports.iter().copied().collect();
        assert!(distinct.len() > DRAWS * 9 / 10, "{} ports of {DRAWS} draws", distinct.len());
        let (low, high) = (ports.iter().min().unwrap(), ports.iter().max().unwrap());
        assert!(*low < 2_048 && *high > 64_000, "{low} to {high}");
        // Each sixteenth of the range must get its share: 250 ports, with a standard deviation of
        // 15.
        let mut shares = [0u32; 16];
        ports
            .iter()
            .for_each(|port| shares[usize::from(*port - 1_024) * 16 / (65_536 - 1_024)] += 1);
        assert!(shares.iter().all(|share| (150..350).contains(share)), "{shares:?}");
    }
}
