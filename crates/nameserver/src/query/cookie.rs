//! Server cookies in the interoperable format (RFC 7873, RFC 9018).
//!
//! ```text
//!   client cookie (8) | version 1, reserved (4) | timestamp (4) | SipHash-2-4 (8)
//! ```
//!
//! The hash covers the other fields and the client's address, so that a cookie is useless at
//! another address. Servers that share a secret accept each other's cookies.

use std::net::IpAddr;

use siphasher::sip::SipHasher24;

/// Number of octets of a complete cookie: eight for the client cookie and sixteen for the server
/// cookie.
pub const COOKIE_LEN: usize = 24;
/// Seconds for which a cookie is accepted (RFC 9018 §4.3).
const MAX_AGE_SECS: i64 = 3600;
/// Seconds by which a cookie may be ahead of this server's clock (RFC 9018 §4.3).
const MAX_AHEAD_SECS: i64 = 300;
/// Seconds after which a client with a valid cookie gets a new one (RFC 9018 §4.3: half an hour).
const RENEWED_AFTER_SECS: i64 = 1800;
/// Version 1, and reserved octets of zero.
const VERSION: [u8; 4] = [1, 0, 0, 0];

/// A key of SipHash-2-4.
pub type Secret = [u8; 16];

/// The current secret, and the previous one, which is still accepted.
#[derive(Clone, PartialEq)]
pub struct CookieSecrets {
    /// The secret that makes and checks cookies.
    pub current: Secret,
    /// The previous secret, which only checks cookies. After a rotation, it is accepted for the
    /// lifetime of a cookie.
    pub previous: Option<Secret>,
}

impl std::fmt::Debug for CookieSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CookieSecrets(..)")
    }
}

impl CookieSecrets {
    /// Returns the cookie that a client gets at `wall_secs`.
    pub fn make(&self, client: &[u8; 8], ip: IpAddr, wall_secs: u64) -> [u8; COOKIE_LEN] {
        let mut head = [0; 16];
        head[..8].copy_from_slice(client);
        head[8..12].copy_from_slice(&VERSION);
        head[12..].copy_from_slice(&(wall_secs as u32).to_be_bytes());
        let mut cookie = [0; COOKIE_LEN];
        cookie[..16].copy_from_slice(&head);
        cookie[16..].copy_from_slice(&digest(&self.current, &head, ip));
        cookie
    }

    /// Returns whether the cookie is valid: this server made it for this client not long ago. Also
    /// returns the cookie to send now. A valid cookie is renewed after half its lifetime, and after
    /// a rotation of the secrets (RFC 9018 §4.3).
    pub fn check(
        &self,
        client: &[u8; 8],
        server: &[u8],
        ip: IpAddr,
        wall_secs: u64,
    ) -> (bool, [u8; COOKIE_LEN]) {
        let (is_valid, may_stay) = match self.standing(client, server, ip, wall_secs) {
            None => (false, false),
            Some(standing) => (true, standing.by_current && standing.age_secs < RENEWED_AFTER_SECS),
        };
        match server.first_chunk::<16>().filter(|_| may_stay) {
            Some(server) => {
                let mut cookie = [0; COOKIE_LEN];
                cookie[..8].copy_from_slice(client);
                cookie[8..].copy_from_slice(server);
                (is_valid, cookie)
            }
            None => (is_valid, self.make(client, ip, wall_secs)),
        }
    }

    /// Returns the properties of a server cookie; `None` if the cookie has expired, or was made
    /// with neither of the two secrets.
    fn standing(
        &self,
        client: &[u8; 8],
        server: &[u8],
        ip: IpAddr,
        wall_secs: u64,
    ) -> Option<Standing> {
        let server: &[u8; 16] = server.try_into().ok()?;
        let [version, _, _, _, t0, t1, t2, t3, hash @ ..] = *server;
        let age_secs =
            i64::from((wall_secs as u32).wrapping_sub(u32::from_be_bytes([t0, t1, t2, t3])) as i32);
        if version != 1 || !(-MAX_AHEAD_SECS..=MAX_AGE_SECS).contains(&age_secs) {
            return None;
        }
        let mut hashed = [0; 16];
        hashed[..8].copy_from_slice(client);
        hashed[8..].copy_from_slice(&server[..8]);
        let is_by = |secret| same(digest(secret, &hashed, ip), hash);
        let by_current = is_by(&self.current);
        (by_current || self.previous.as_ref().is_some_and(is_by))
            .then_some(Standing { by_current, age_secs })
    }
}

/// The properties of a valid server cookie.
struct Standing {
    /// Whether the cookie was made with the current secret.
    by_current: bool,
    age_secs: i64,
}

/// Returns the hash of the preceding part of a cookie and of the client's address. One call hashes
/// both, because a call for each part takes twice as long.
fn digest(secret: &Secret, head: &[u8; 16], ip: IpAddr) -> [u8; 8] {
    let hasher = SipHasher24::new_with_key(secret);
    let mut octets = [0; 32];
    octets[..16].copy_from_slice(head);
    let hash = match ip {
        IpAddr::V4(ip) => {
            octets[16..20].copy_from_slice(&ip.octets());
            hasher.hash(&octets[..20])
        }
        IpAddr::V6(ip) => {
            octets[16..].copy_from_slice(&ip.octets());
            hasher.hash(&octets)
        }
    };
    hash.to_le_bytes()
}

/// Compares two hashes in constant time.
fn same(a: [u8; 8], b: [u8; 8]) -> bool {
    u64::from_ne_bytes(a) ^ u64::from_ne_bytes(b) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    impl CookieSecrets {
        fn is_valid(&self, client: &[u8; 8], server: &[u8], ip: IpAddr, wall_secs: u64) -> bool {
            self.check(client, server, ip, wall_secs).0
        }
    }

    #[test]
    fn a_good_cookie_stays_for_half_an_hour_unless_the_secret_has_changed() {
        let (ip, client) = ("192.0.2.1".parse().unwrap(), b"12345678");
        let before = secrets("e5e973e5a6b2a43f48e7dc849e37bfcf", None);
        let cookie = before.make(client, ip, 10_000);
        let given = |secrets: &CookieSecrets, secs| secrets.check(client, &cookie[8..], ip, secs);
        assert_eq!(given(&before, 11_799), (true, cookie));
        assert_eq!(given(&before, 11_800), (true, before.make(client, ip, 11_800)));
        assert_eq!(given(&before, 13_601), (false, before.make(client, ip, 13_601)));
        let after =
            secrets("445536bcd2513298075a5d379663c962", Some("e5e973e5a6b2a43f48e7dc849e37bfcf"));
        assert_eq!(given(&after, 10_001), (true, after.make(client, ip, 10_001)));
    }

    fn hex<const N: usize>(text: &str) -> [u8; N] {
        std::array::from_fn(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap())
    }

    fn secrets(current: &str, previous: Option<&str>) -> CookieSecrets {
        CookieSecrets { current: hex(current), previous: previous.map(hex) }
    }

    #[test]
    fn cookies_equal_the_vectors_of_rfc_9018() {
        let ours = secrets("e5e973e5a6b2a43f48e7dc849e37bfcf", None);
        for (client, ip, time, server) in [
            (
                "2464c4abcf10c957",
                "198.51.100.100",
                1_559_731_985,
                "010000005cf79f111f8130c3eee29480",
            ),
            (
                "2464c4abcf10c957",
                "198.51.100.100",
                1_559_734_385,
                "010000005cf7a871d4a564a1442aca77",
            ),
            (
                "fc93fc62807ddb86",
                "203.0.113.203",
                1_559_734_700,
                "010000005cf7a9acf73a7810aca2381e",
            ),
        ] {
            let (client, ip) = (hex(client), ip.parse().unwrap());
            let cookie = ours.make(&client, ip, time);
            assert_eq!(cookie[8..], hex::<16>(server));
            assert!(ours.is_valid(&client, &cookie[8..], ip, time + 10));
        }
    }

    #[test]
    fn a_cookie_with_other_reserved_octets_is_accepted() {
        let ours = secrets("e5e973e5a6b2a43f48e7dc849e37bfcf", None);
        let server: [u8; 16] = hex("01abcdef5cf78f71a314227b6679ebf5");
        assert!(ours.is_valid(
            &hex("fc93fc62807ddb86"),
            &server,
            "203.0.113.203".parse().unwrap(),
            1_559_728_000
        ));
    }

    #[test]
    fn after_a_rotation_the_old_secret_is_accepted_and_the_new_one_used() {
        let ip = "2001:db8:220:1:59de:d0f4:8769:82b8".parse().unwrap();
        let client = hex("22681ab97d52c298");
        let old: [u8; 16] = hex("010000005cf7c57926556bd0934c72f8");
        let rotated =
            secrets("445536bcd2513298075a5d379663c962", Some("dd3bdf9344b678b185a6f5cb60fca715"));
        assert!(rotated.is_valid(&client, &old, ip, 1_559_741_961));
        let fresh = rotated.make(&client, ip, 1_559_741_961);
        assert_eq!(fresh[8..], hex::<16>("010000005cf7c609a6bb79d16625507a"));
        let forgotten = secrets("445536bcd2513298075a5d379663c962", None);
        assert!(!forgotten.is_valid(&client, &old, ip, 1_559_741_961));
    }

    #[test]
    fn cookies_of_others_too_old_or_from_the_future_are_not_accepted() {
        let ours = secrets("e5e973e5a6b2a43f48e7dc849e37bfcf", None);
        let ip = "192.0.2.1".parse().unwrap();
        let cookie = ours.make(b"12345678", ip, 10_000);
        let server = &cookie[8..];
        assert!(ours.is_valid(b"12345678", server, ip, 13_600));
        assert!(!ours.is_valid(b"12345678", server, ip, 13_601));
        assert!(ours.is_valid(b"12345678", server, ip, 9_700));
        assert!(!ours.is_valid(b"12345678", server, ip, 9_699));
        assert!(!ours.is_valid(b"12345679", server, ip, 10_000));
        assert!(!ours.is_valid(b"12345678", server, "192.0.2.2".parse().unwrap(), 10_000));
        assert!(!ours.is_valid(b"12345678", &server[..8], ip, 10_000));
    }
}
