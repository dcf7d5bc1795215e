//! A zone of a simulated internet: its records, its key, and what it says of a name (RFC 1034 §4.3.2, RFC 4035 §3.1).

use std::collections::BTreeMap;

use avocet_wire::{Rtype, canonical, name};

use super::sign::Key;

/// A name in folded wire form.
pub(super) type Wire = Vec<u8>;

/// Records of one owner and type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Set {
    pub(super) owner: Wire,
    pub(super) rtype: Rtype,
    pub(super) ttl_secs: u32,
    pub(super) data: Vec<Vec<u8>>,
}

/// See the module.
pub(super) struct Zone {
    pub(super) apex: Wire,
    /// None: it is not signed.
    pub(super) key: Option<Key>,
    /// Does a chain of trust lead to it?
    pub(super) is_secure: bool,
    /// The zone above, but for the root.
    pub(super) parent: Option<usize>,
    /// Its servers, by number.
    pub(super) servers: Vec<usize>,
    sets: Vec<Set>,
}

/// What a zone says.
#[derive(Debug)]
pub(super) enum Said<'z> {
    /// Records, and of a wildcard the name whose absence allows it.
    Records(Vec<&'z Set>, Option<Wire>),
    /// An alias at the name, likewise.
    Cname(&'z Set, Option<Wire>),
    Dname(&'z Set),
    /// The name is there, or a wildcard of this owner stands for it.
    Nodata(Option<Wire>),
    /// The name is not there; its closest encloser is.
    Nxdomain(Wire),
    /// Others serve it, from this cut on.
    Delegated(&'z Set),
}

impl Zone {
    pub(super) fn new(apex: Wire, key: Option<Key>, parent: Option<usize>) -> Self {
        Self { apex, key, is_secure: false, parent, servers: Vec::new(), sets: Vec::new() }
    }

    /// Adds a record to the set of its owner and type.
    pub(super) fn add(&mut self, owner: &[u8], rtype: Rtype, ttl_secs: u32, data: Vec<u8>) {
        let known = self.sets.iter_mut().find(|set| set.owner == owner && set.rtype == rtype);
        match known {
            Some(set) if set.data.contains(&data) => {}
            Some(set) => set.data.push(data),
            None => self.sets.push(Set { owner: owner.to_vec(), rtype, ttl_secs, data: vec![data] }),
        }
    }

    pub(super) fn get(&self, owner: &[u8], rtype: Rtype) -> Option<&Set> {
        self.sets.iter().find(|set| set.owner == owner && set.rtype == rtype)
    }

    /// Owners that the zone is authoritative for or delegates, in canonical order, with their types.
    pub(super) fn owners(&self) -> Vec<(Wire, Vec<Rtype>)> {
        let mut owners: BTreeMap<Wire, Vec<Rtype>> = BTreeMap::new();
        for set in self.sets.iter().filter(|set| self.cut_above(&set.owner).is_none_or(|cut| cut.owner == set.owner)) {
            owners.entry(set.owner.clone()).or_default().push(set.rtype);
        }
        let mut owners: Vec<_> = owners.into_iter().collect();
        owners.sort_by(|(a, _), (b, _)| canonical::compare_names(a, b));
        owners
    }

    /// The topmost delegation at or above a name.
    pub(super) fn cut_above(&self, owner: &[u8]) -> Option<&Set> {
        let above: Vec<&[u8]> = name::ancestors(owner).take_while(|above| above.len() > self.apex.len()).collect();
        above.iter().rev().find_map(|above| self.get(above, Rtype::NS))
    }

    /// Is there data at the name or below?
    fn exists(&self, owner: &[u8]) -> bool {
        self.sets.iter().any(|set| name::is_under(&set.owner, owner))
    }

    pub(super) fn say(&self, qname: &[u8], qtype: Rtype) -> Said<'_> {
        if let Some(cut) = self.cut_above(qname)
            && !(cut.owner == qname && qtype == Rtype::DS)
        {
            return Said::Delegated(cut);
        }
        let above = name::ancestors(qname).skip(1).take_while(|above| above.len() >= self.apex.len());
        if let Some(dname) = above.filter_map(|above| self.get(above, Rtype::DNAME)).last() {
            return Said::Dname(dname);
        }
        if self.exists(qname) {
            return self.say_at(qname, qtype, None);
        }
        let encloser = name::ancestors(qname).find(|above| self.exists(above)).unwrap_or(&self.apex).to_vec();
        let wildcard = [b"\x01*", &encloser[..]].concat();
        if !self.exists(&wildcard) {
            return Said::Nxdomain(encloser);
        }
        self.say_at(&wildcard, qtype, Some(next_closer(qname, &encloser)))
    }

    fn say_at(&self, owner: &[u8], qtype: Rtype, expanded_by: Option<Wire>) -> Said<'_> {
        if let Some(alias) = self.get(owner, Rtype::CNAME).filter(|_| qtype != Rtype::CNAME) {
            return Said::Cname(alias, expanded_by);
        }
        match self.get(owner, qtype) {
            Some(set) => Said::Records(vec![set], expanded_by),
            None => Said::Nodata(expanded_by.map(|_| owner.to_vec())),
        }
    }
}

/// The ancestor of a name that is one label below its closest encloser (RFC 5155 §1.3).
pub(super) fn next_closer(qname: &[u8], encloser: &[u8]) -> Wire {
    let below = name::ancestors(qname).take_while(|above| above.len() > encloser.len());
    below.last().unwrap_or(qname).to_vec()
}
