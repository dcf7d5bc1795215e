//! RRsets that own their data, for tests, and views of them.

use avocet_dnssec::{Context, Policy, Rrset, Sha1Signatures};
use avocet_wire::{Class, Rtype, rdata, text};

/// The wall clock of the tests.
pub(crate) const NOW: u32 = 1_800_000_000;

pub(crate) fn context() -> Context {
    Context { now_secs: NOW, policy: Policy::default() }
}

pub(crate) fn context_with_sha1(now_secs: u32) -> Context {
    Context { now_secs, policy: Policy { sha1_signatures: Sha1Signatures::Verified } }
}

/// Returns an absolute name in wire form.
pub(crate) fn wire(name: &str) -> Vec<u8> {
    let mut out = [0; 255];
    let len = text::name_to_wire(name.as_bytes(), Some(&[0]), &mut out).unwrap();
    out[..len].to_vec()
}

pub(crate) fn rtype(mnemonic: &str) -> Rtype {
    Rtype(rdata::from_mnemonic(mnemonic).unwrap())
}

pub(crate) fn data(mnemonic: &str, text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    rdata::parse(rtype(mnemonic).0, text, &[0], &mut out)
        .unwrap_or_else(|error| panic!("{text}: {error}"));
    out
}

/// An RRset with its signatures.
#[derive(Clone, Debug)]
pub(crate) struct Set {
    pub(crate) owner: Vec<u8>,
    pub(crate) rtype: Rtype,
    pub(crate) ttl_secs: u32,
    pub(crate) records: Vec<Vec<u8>>,
    pub(crate) signatures: Vec<Vec<u8>>,
}

impl Set {
    pub(crate) fn of(owner: &str, mnemonic: &str, records: &[&str]) -> Self {
        let records = records.iter().map(|text| data(mnemonic, text)).collect();
        Self {
            owner: wire(owner),
            rtype: rtype(mnemonic),
            ttl_secs: 3600,
            records,
            signatures: Vec::new(),
        }
    }

    pub(crate) fn with<R>(&self, read: impl FnOnce(&Rrset<'_>) -> R) -> R {
        with_all(std::slice::from_ref(self), |rrsets| read(&rrsets[0]))
    }
}

/// Calls `read` with the views of many RRsets.
pub(crate) fn with_all<R>(sets: &[Set], read: impl FnOnce(&[Rrset<'_>]) -> R) -> R {
    let parts: Vec<_> =
        sets.iter().map(|set| (slices(&set.records), slices(&set.signatures))).collect();
    let rrsets: Vec<Rrset<'_>> = sets
        .iter()
        .zip(&parts)
        .map(|(set, (records, signatures))| Rrset {
            owner: &set.owner,
            rtype: set.rtype,
            class: Class::IN,
            ttl_secs: set.ttl_secs,
            records,
            signatures,
        })
        .collect();
    read(&rrsets)
}

fn slices(octets: &[Vec<u8>]) -> Vec<&[u8]> {
    octets.iter().map(Vec::as_slice).collect()
}
