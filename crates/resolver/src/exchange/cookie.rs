//! DNS cookies for one server (RFC 7873).

use std::hash::Hasher;
use std::net::SocketAddr;

use siphasher::sip::SipHasher24;

/// Number of octets of a client cookie.
const CLIENT_COOKIE_LEN: usize = 8;

/// The cookies for one upstream (RFC 7873).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cookie {
    octets: [u8; 40],
    len: usize,
}

impl Cookie {
    pub(crate) fn new(secret: &[u8; 16], addr: SocketAddr) -> Self {
        let mut hasher = SipHasher24::new_with_key(secret);
        match addr {
            SocketAddr::V4(addr) => hasher.write(&addr.ip().octets()),
            SocketAddr::V6(addr) => hasher.write(&addr.ip().octets()),
        }
        hasher.write_u16(addr.port());
        let mut octets = [0; 40];
        octets[..8].copy_from_slice(&hasher.finish().to_be_bytes());
        Self { octets, len: CLIENT_COOKIE_LEN }
    }

    /// Returns the data of the COOKIE option: our client cookie and, once it is known, the server
    /// cookie.
    pub(crate) fn octets(&self) -> &[u8] {
        &self.octets[..self.len]
    }

    /// Returns whether the server has sent its cookie.
    pub(crate) fn is_answered(&self) -> bool {
        self.len > CLIENT_COOKIE_LEN
    }

    /// Reads the cookies in a reply. Returns `false` if the client cookie is not ours, so that the
    /// reply is forged (RFC 7873 §5.3).
    pub(crate) fn learn(&mut self, received: &[u8]) -> bool {
        let ours = received.len() >= 8 && received[..8] == self.octets[..8];
        if ours && (16..=40).contains(&received.len()) {
            self.octets[8..received.len()].copy_from_slice(&received[8..]);
            self.len = received.len();
        }
        ours
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_are_learnt_only_with_our_own_in_front() {
        let addr: SocketAddr = "192.0.2.1:53".parse().unwrap();
        let mut cookie = Cookie::new(&[3; 16], addr);
        let ours = cookie.octets().to_vec();
        assert_eq!(ours.len(), 8);
        assert!(!cookie.learn(b"notours!serverck"));
        assert!(!cookie.learn(b"short"));
        let both = [&ours[..], b"serverck"].concat();
        assert!(!cookie.is_answered());
        assert!(cookie.learn(&both));
        assert!(cookie.is_answered());
        assert_eq!(cookie.octets(), both);
        let other = Cookie::new(&[3; 16], "192.0.2.2:53".parse().unwrap());
        assert_ne!(other.octets(), &ours[..], "each upstream sees another cookie");
    }
}
