//! Secrets of QUIC that all workers of a server share, and connection IDs that contain the index of
//! their worker.
//!
//! ```text
//! | random 6 | worker 2, masked | check 2 |
//! ```
//! The mask and the check are a keyed hash of the random octets. So only the server can read the
//! index of the worker, and two IDs of a connection look unrelated (RFC 9000 §5.1). After a client
//! has changed its address, its datagrams may arrive at another worker, which finds the worker of
//! the connection with [`QuicKeys::owner`].

use std::fmt;
use std::hash::Hasher;
use std::sync::Arc;

use aws_lc_rs::error::Unspecified;
use aws_lc_rs::{hkdf, hmac, rand};
use quinn_proto::crypto::{HandshakeTokenKey, HmacKey};
use quinn_proto::{ConnectionId, ConnectionIdGenerator, EndpointConfig, InvalidCid};
use siphasher::sip::SipHasher13;

/// Number of octets of a connection ID.
const ID_LEN: usize = 10;
/// Number of random octets in a connection ID.
const RANDOM_LEN: usize = 6;
/// The bit in the first octet that marks a long header (RFC 9000 §17.2).
const LONG_HEADER: u8 = 0x80;
/// The offset of the length of the connection ID in a long header.
const LONG_ID_LEN_AT: usize = 5;
/// The only version that is served (RFC 9000). Clients with other versions get a version
/// negotiation.
const VERSION_1: u32 = 1;

/// The secrets for stateless resets, tokens and connection IDs, which all workers share.
#[derive(Clone)]
pub struct QuicKeys {
    reset: Arc<dyn HmacKey>,
    token: Arc<dyn HandshakeTokenKey>,
    ids: [u8; 16],
}

impl fmt::Debug for QuicKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuicKeys").finish_non_exhaustive()
    }
}

impl QuicKeys {
    /// Draws the secrets.
    ///
    /// # Errors
    /// The system's random source fails.
    pub fn draw() -> Result<Self, Unspecified> {
        let (mut reset, mut token, mut ids) = ([0; 32], [0; 32], [0; 16]);
        rand::fill(&mut reset)?;
        rand::fill(&mut token)?;
        rand::fill(&mut ids)?;
        let token = hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(&token);
        let reset = hmac::Key::new(hmac::HMAC_SHA256, &reset);
        Ok(Self { reset: Arc::new(reset), token: Arc::new(token), ids })
    }

    pub(super) fn token(&self) -> Arc<dyn HandshakeTokenKey> {
        self.token.clone()
    }

    /// Returns the settings of the endpoint of a worker.
    pub(super) fn endpoint(&self, worker: u16) -> Arc<EndpointConfig> {
        let mut config = EndpointConfig::new(self.reset.clone());
        let ids = WorkerIds { key: self.ids, worker };
        config.cid_generator(move || Box::new(ids.clone()));
        config.supported_versions(vec![VERSION_1]);
        Arc::new(config)
    }

    /// Returns the index of the worker that has issued the connection ID of a datagram; `None` if
    /// no worker has, as with the first datagram of a client.
    pub fn owner(&self, datagram: &[u8]) -> Option<u16> {
        let id = match datagram.first()? & LONG_HEADER {
            0 => datagram.get(1..=ID_LEN)?,
            _ if usize::from(*datagram.get(LONG_ID_LEN_AT)?) != ID_LEN => return None,
            _ => datagram.get(LONG_ID_LEN_AT + 1..=LONG_ID_LEN_AT + ID_LEN)?,
        };
        owner_of(&self.ids, id)
    }
}

/// Returns the octets that mask the index of the worker, and those that check it.
fn seal(key: &[u8; 16], random: &[u8]) -> [u8; 4] {
    let mut hasher = SipHasher13::new_with_key(key);
    hasher.write(random);
    let hash = hasher.finish().to_be_bytes();
    [hash[0], hash[1], hash[2], hash[3]]
}

fn owner_of(key: &[u8; 16], id: &[u8]) -> Option<u16> {
    let (random, rest) = id.split_at_checked(RANDOM_LEN)?;
    let [high, low, check @ ..]: [u8; 4] = rest.try_into().ok()?;
    let sealed = seal(key, random);
    (check == sealed[2..]).then(|| u16::from_be_bytes([high ^ sealed[0], low ^ sealed[1]]))
}

/// Generates the connection IDs of a worker.
#[derive(Clone)]
struct WorkerIds {
    key: [u8; 16],
    worker: u16,
}

impl ConnectionIdGenerator for WorkerIds {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut id = [0; ID_LEN];
        // If the generator fails, QUIC finds that the ID is already in use and requests another
        // one. The generator of aws-lc-rs fails only if the system has no random source, and it had
        // one at the start.
        let _ = rand::fill(&mut id[..RANDOM_LEN]);
        let sealed = seal(&self.key, &id[..RANDOM_LEN]);
        let [high, low] = self.worker.to_be_bytes();
        id[RANDOM_LEN..].copy_from_slice(&[
            high ^ sealed[0],
            low ^ sealed[1],
            sealed[2],
            sealed[3],
        ]);
        ConnectionId::new(&id)
    }

    fn validate(&self, id: &ConnectionId) -> Result<(), InvalidCid> {
        owner_of(&self.key, id).map(|_| ()).ok_or(InvalidCid)
    }

    fn cid_len(&self) -> usize {
        ID_LEN
    }

    fn cid_lifetime(&self) -> Option<std::time::Duration> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_id_leads_to_its_worker_in_both_forms_of_headers() {
        let keys = QuicKeys::draw().unwrap();
        for worker in [0, 1, 255, 256, u16::MAX] {
            let mut ids = WorkerIds { key: keys.ids, worker };
            let id = ids.generate_cid();
            let short = [&[0x40][..], &id, &[7; 20]].concat();
            assert_eq!(keys.owner(&short), Some(worker));
            let long = [&[0xe0, 0, 0, 0, 1, 10][..], &id, &[0]].concat();
            assert_eq!(keys.owner(&long), Some(worker));
            assert!(ids.validate(&id).is_ok());
        }
    }

    #[test]
    fn octets_of_strangers_lead_nowhere() {
        let keys = QuicKeys::draw().unwrap();
        let other = QuicKeys::draw().unwrap();
        let id = WorkerIds { key: other.ids, worker: 3 }.generate_cid();
        let datagram = [&[0x40][..], &id].concat();
        // About one of 65,536 IDs of other servers passes the check by chance.
        let led = (0..64).filter(|_| {
            let id = WorkerIds { key: other.ids, worker: 3 }.generate_cid();
            keys.owner(&[&[0x40][..], &id].concat()).is_some()
        });
        assert!(led.count() < 4);
        for len in 0..datagram.len() {
            assert_eq!(keys.owner(&datagram[..len]), None);
        }
        for length in [0, 1, 9, 11, 20, 255] {
            assert_eq!(keys.owner(&[0xc0, 0, 0, 0, 1, length, 1, 2, 3]), None);
        }
    }
}
