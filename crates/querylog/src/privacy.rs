//! The form in which the log shows addresses of clients.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use aws_lc_rs::cipher::{AES_128, EncryptingKey, UnboundCipherKey};

use crate::entry::Privacy;

/// Number of bits of an IPv4 or IPv6 address that [`Privacy::Truncated`] keeps. They identify a
/// network that belongs to at least one household.
const KEPT_V4: u32 = 24;
const KEPT_V6: u32 = 56;

/// The method that conceals addresses of clients.
pub struct Concealment {
    /// The cipher, or `None` if the library refuses the key. The library accepts every key of 16
    /// octets.
    cipher: Option<EncryptingKey>,
}

impl Concealment {
    /// Creates a concealment. `key` is the key of pseudonyms. While it stays the same, a client
    /// keeps its pseudonym.
    #[must_use]
    pub fn new(key: &[u8; 16]) -> Self {
        let cipher = UnboundCipherKey::new(&AES_128, key).and_then(EncryptingKey::ecb);
        Self { cipher: cipher.ok() }
    }

    /// Returns the address that the log shows for a client; `None` if it shows no address.
    #[must_use]
    pub fn shown(&self, client: IpAddr, privacy: Privacy) -> Option<IpAddr> {
        match privacy {
            Privacy::Full | Privacy::NoNames => Some(client),
            Privacy::Truncated => Some(truncated(client)),
            Privacy::Pseudonym => self.pseudonym(client),
        }
    }

    /// Encrypts an address with ipcrypt-deterministic: AES-128 encrypts the IPv6 form of the
    /// address as one block.
    fn pseudonym(&self, client: IpAddr) -> Option<IpAddr> {
        let mut block = match client {
            IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
            IpAddr::V6(address) => address.octets(),
        };
        self.cipher.as_ref()?.encrypt(&mut block).ok()?;
        Some(Ipv6Addr::from(block).to_canonical())
    }
}

fn truncated(client: IpAddr) -> IpAddr {
    match client {
        IpAddr::V4(address) => {
            IpAddr::V4(Ipv4Addr::from(u32::from(address) & u32::MAX << (32 - KEPT_V4)))
        }
        IpAddr::V6(address) => {
            IpAddr::V6(Ipv6Addr::from(u128::from(address) & u128::MAX << (128 - KEPT_V6)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with the test vectors of draft-denis-ipcrypt, appendix "Test Vectors".
    #[test]
    fn pseudonyms_are_those_of_the_draft() {
        let check = |key: u128, address: &str, expected: &str| {
            let concealment = Concealment::new(&key.to_be_bytes());
            let shown = concealment.shown(address.parse().unwrap(), Privacy::Pseudonym);
            assert_eq!(shown, Some(expected.parse().unwrap()));
        };
        let key = 0x0123_4567_89ab_cdef_fedc_ba98_7654_3210;
        check(key, "0.0.0.0", "bde9:6789:d353:824c:d7c6:f58a:6bd2:26eb");
        let key = 0x1032_5476_98ba_dcfe_efcd_ab89_6745_2301;
        check(key, "255.255.255.255", "aed2:92f6:ea23:58c3:48fd:8b8:74e8:45d8");
        let key = 0x2b7e_1516_28ae_d2a6_abf7_1588_09cf_4f3c;
        check(key, "192.0.2.1", "1dbd:c1b9:fff1:7586:7d0b:67b4:e76e:4777");
    }

    #[test]
    fn truncation_keeps_the_network() {
        let check = |address: &str, expected: &str| {
            let shown =
                Concealment::new(&[0; 16]).shown(address.parse().unwrap(), Privacy::Truncated);
            assert_eq!(shown, Some(expected.parse().unwrap()));
        };
        check("192.0.2.77", "192.0.2.0");
        check("2001:db8:1:2ff:3::4", "2001:db8:1:200::");
    }
}
