//! The identities of a client's device on a connection, as the [`DeviceId`]s that the policy uses.

use avocet_policy::client::{DeviceClaims, DeviceId};
use avocet_session::proof::{ClientProof, HandshakeFacts};

/// The identities that a device sent or proved in a handshake.
pub(super) struct ConnectionDevice {
    proven: Vec<DeviceId>,
    word: DeviceId,
}

impl ConnectionDevice {
    fn of(facts: &HandshakeFacts) -> Self {
        let of_proof = |ClientProof { pin, names }: &ClientProof| {
            let names = names.iter().map(|name| DeviceId::of_certificate_name(name));
            [DeviceId::of_pin(pin)].into_iter().chain(names).collect()
        };
        let word = facts.word.as_deref().map_or(DeviceId::NONE, DeviceId::of_word);
        Self { proven: facts.proof.as_ref().map_or_else(Vec::new, of_proof), word }
    }
}

/// Returns the identities that the client of a query claims, from the facts of the handshake and
/// from `word`, the device identifier in its request. `known` keeps the identities from the
/// handshake.
#[inline]
pub(super) fn claims<'c>(
    known: &'c mut Option<Box<ConnectionDevice>>,
    facts: Option<&HandshakeFacts>,
    word: Option<&[u8]>,
) -> DeviceClaims<'c> {
    if facts.is_none() && word.is_none() {
        return DeviceClaims::NONE;
    }
    let device =
        facts.map(|facts| &**known.get_or_insert_with(|| Box::new(ConnectionDevice::of(facts))));
    let of_path = word.map_or(DeviceId::NONE, DeviceId::of_word);
    DeviceClaims {
        proven: device.map_or(&[], |device| &device.proven),
        words: [of_path, device.map_or(DeviceId::NONE, |device| device.word)],
    }
}
