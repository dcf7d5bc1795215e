//! The clients that are known by an identity that their device sends or proves, at any address. A
//! profile combines the facts about the device with the facts about the address.
//!
//! A word that a device sends identifies the device only at addresses that no client or group has,
//! unless the configuration says otherwise. A device could otherwise evade the rules for its
//! address. An identity with a proof counts at all addresses. Rules that test a network or a MAC
//! address still test the address of the query.

use std::collections::HashMap;
use std::net::IpAddr;

use super::ListSet;
use super::address_map::AddressMap;
use super::device::{DeviceClaims, DeviceId};

/// Maximum number of combinations of devices and places in the network. Each combination takes two
/// octets.
pub(super) const MAX_COMBINATIONS: usize = 1 << 22;
/// The value for a combination of device and place in which the device has no effect.
const BY_ADDRESS: u16 = u16::MAX;

/// The properties that all addresses of one place in the network share.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct PlaceFacts {
    /// The results of the tests on the address, one bit each.
    pub(super) facts: Box<[u64]>,
    /// Whether a client, a group or a rule refers to the addresses of this place, so that words of
    /// devices have no effect there.
    pub(super) is_taken: bool,
}

/// The properties that devices of one kind share.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct DeviceFacts {
    /// The results of the tests on the client, one bit each.
    pub(super) facts: Box<[u64]>,
    pub(super) lists: ListSet,
    /// Whether the device takes precedence even at an address that belongs to another client.
    pub(super) is_first: bool,
}

/// The known devices, with the subject (the set of properties that the policy tests) of each device
/// at each place in the network.
#[derive(Clone, Debug)]
pub(super) struct Devices {
    places: AddressMap,
    place_count: usize,
    /// The kind of each device, and the index of its client in the directory.
    known: HashMap<DeviceId, KnownDevice>,
    /// The identifier of the subject for each kind of device at each place, ordered by kind, then
    /// place.
    subjects: Box<[u16]>,
}

/// A device that the configuration knows.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownDevice {
    pub(super) kind: u16,
    pub(super) client: usize,
}

impl Devices {
    /// Combines kinds of devices with places. `number` returns the identifier of the subject with
    /// these facts.
    ///
    /// # Errors
    /// `number` returned an error.
    pub(super) fn build<E>(
        (places, all_places): (AddressMap, &[PlaceFacts]),
        known: HashMap<DeviceId, KnownDevice>,
        kinds: &[DeviceFacts],
        mut number: impl FnMut(Box<[u64]>, &ListSet) -> Result<u16, E>,
    ) -> Result<Self, E> {
        let mut subjects = Vec::with_capacity(kinds.len() * all_places.len());
        for kind in kinds {
            for place in all_places {
                subjects.push(if place.is_taken && !kind.is_first {
                    BY_ADDRESS
                } else {
                    let both = kind.facts.iter().zip(&place.facts).map(|(one, other)| one | other);
                    number(both.collect(), &kind.lists)?
                });
            }
        }
        Ok(Self { places, place_count: all_places.len(), known, subjects: subjects.into() })
    }

    /// Returns the device of the first known identity in the claims, or the default if no identity
    /// is known.
    pub(super) fn find(&self, claims: &DeviceClaims<'_>) -> DeviceId {
        let mut all = claims.proven.iter().chain(&claims.words);
        all.find(|one| self.known.contains_key(one)).copied().unwrap_or_default()
    }

    /// Returns the subject of a device at an address; `None` if the device has no effect there.
    #[inline]
    pub(super) fn subject(&self, device: DeviceId, address: IpAddr) -> Option<u16> {
        let kind = self.known.get(&device)?.kind;
        let place = usize::from(self.places.find(address));
        let subject = *self.subjects.get(usize::from(kind) * self.place_count + place)?;
        (subject != BY_ADDRESS).then_some(subject)
    }

    /// Returns the client of a device at an address; `None` if the device has no effect there.
    pub(super) fn client(&self, device: DeviceId, address: IpAddr) -> Option<usize> {
        self.subject(device, address)?;
        Some(self.known.get(&device)?.client)
    }
}

#[cfg(test)]
mod tests {
    use ipnet::IpNet;

    use super::super::{
        ClientSpec, ClientTest, Clients, Directory, GroupSpec, IdPrecedence, Mac, Neighbour, Origin,
    };
    use super::*;

    const PHONE: Mac = Mac([2, 0, 0, 0, 0, 9]);

    fn client(name: &str, ids: &[&str], groups: &[&str]) -> ClientSpec {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        ClientSpec { name: name.to_owned(), ids: owned(ids), groups: owned(groups) }
    }

    fn claims(word: &str) -> DeviceClaims<'static> {
        DeviceClaims { words: [DeviceId::NONE, DeviceId::of_word(word.as_bytes())], proven: &[] }
    }

    #[test]
    fn a_device_is_known_where_no_client_has_the_address_or_by_proof_everywhere() {
        let kids = GroupSpec { name: "kids".to_owned(), ..GroupSpec::default() };
        let specs = [
            client("phone", &["id:ana", "certificate:ana.home"], &["kids"]),
            client("tv", &["192.0.2.0/24"], &[]),
        ];
        let network: IpNet = "198.51.100.0/24".parse().unwrap();
        let tests = vec![ClientTest::Group("kids".to_owned()), ClientTest::Within(network)];
        let build = |precedence| {
            let directory = Directory::new(std::slice::from_ref(&kids), &specs, &[]).unwrap();
            Clients::build(directory.preferring(precedence), &[], tests.clone()).unwrap()
        };
        let proof = [DeviceId::of_certificate_name("Ana.Home")];
        let proven = DeviceClaims { proven: &proof, ..DeviceClaims::NONE };
        for (precedence, address, claims, expected) in [
            (IdPrecedence::Address, "203.0.113.1", claims("Ana"), [true, false]),
            (IdPrecedence::Address, "198.51.100.1", claims("ana"), [true, true]),
            (IdPrecedence::Address, "198.51.100.1", claims("bob"), [false, true]),
            (IdPrecedence::Address, "2001:db8::1", claims("ana"), [true, false]),
            (IdPrecedence::Address, "192.0.2.1", claims("ana"), [false, false]),
            (IdPrecedence::Device, "192.0.2.1", claims("ana"), [true, false]),
            (IdPrecedence::Address, "192.0.2.1", proven, [true, false]),
            (IdPrecedence::Address, "203.0.113.1", claims("ana.home"), [false, false]),
        ] {
            let clients = build(precedence);
            let (address, device) = (address.parse().unwrap(), clients.device(&claims));
            let profile = clients.profile_with(address, device, Origin::default());
            let holds = [0, 1].map(|test| clients.holds(profile, test));
            assert_eq!(holds, expected, "{precedence:?} {address} {claims:?}");
            let name = clients.identify_with(address, device).client;
            let by_address = clients.identify(address).client;
            let expected = if expected[0] { Some("phone".to_owned()) } else { by_address };
            assert_eq!(name, expected, "{precedence:?} {address} {claims:?}");
        }
    }

    #[test]
    fn a_mac_address_that_a_rule_tests_stays_a_fact_of_a_device_that_sends_a_word() {
        let specs = [client("phone", &["id:ana"], &[])];
        let directory = Directory::new(&[], &specs, &[]).unwrap().preferring(IdPrecedence::Device);
        let clients = Clients::build(directory, &[], vec![ClientTest::Mac(PHONE)]).unwrap();
        let address = "192.0.2.1".parse().unwrap();
        let neighbour = Neighbour { address, mac: Some(PHONE), name: None };
        let clients = clients.with_neighbours(&[neighbour]).unwrap();
        let device = clients.device(&claims("ana"));
        let profile = clients.profile_with(address, device, Origin::default());
        assert!(!device.is_none() && clients.holds(profile, 0));
    }
}
