//! A zone of a simulated internet: its records, its key, and its reply for a name (RFC 1034 §4.3.2,
//! RFC 4035 §3.1).

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use avocet_wire::{Rtype, canonical, name};

use super::denial::{Chain, Denies};
use super::sign::Key;

/// A name in lower-case wire form.
pub(super) type Wire = Vec<u8>;

/// The records of one owner and type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Set {
    pub(super) owner: Wire,
    pub(super) rtype: Rtype,
    pub(super) ttl_secs: u32,
    pub(super) data: Vec<Vec<u8>>,
}

/// A zone.
pub(super) struct Zone {
    pub(super) apex: Wire,
    /// The key; `None` for an unsigned zone.
    pub(super) key: Option<Rc<Key>>,
    /// The kind of denial if it is signed.
    pub(super) denies: Denies,
    /// Whether a chain of trust leads to the zone.
    pub(super) is_secure: bool,
    /// The zone above, `None` for the root.
    pub(super) parent: Option<usize>,
    /// The servers of the zone, by index.
    pub(super) servers: Vec<usize>,
    sets: Vec<Set>,
    chain: OnceCell<Chain>,
}

/// The part of a reply that a zone determines.
#[derive(Debug)]
pub(super) enum Said<'z> {
    /// Records and, for a wildcard, the name whose absence permits its use.
    Records(Vec<&'z Set>, Option<Wire>),
    /// An alias at the name and, for a wildcard, the name whose absence permits its use.
    Cname(&'z Set, Option<Wire>),
    Dname(&'z Set),
    /// The name or a wildcard of this owner exists without records of the type.
    Nodata(Option<Wire>),
    /// The name does not exist. Holds its closest encloser.
    Nxdomain(Wire),
    /// Other servers are authoritative for the name, from this cut on.
    Delegated(&'z Set),
}

impl Zone {
    pub(super) fn new(
        apex: Wire,
        signing: Option<(Rc<Key>, Denies)>,
        parent: Option<usize>,
    ) -> Self {
        let (key, denies) =
            signing.map_or((None, Denies::Plainly), |(key, denies)| (Some(key), denies));
        let is_secure = parent.is_none() && key.is_some();
        let (servers, sets, chain) = (Vec::new(), Vec::new(), OnceCell::new());
        Self { apex, key, denies, is_secure, parent, servers, sets, chain }
    }

    /// Adds a record to the set of its owner and type.
    ///
    /// # Panics
    /// The chain of the zone is in use and would be out of date.
    pub(super) fn add(&mut self, owner: &[u8], rtype: Rtype, ttl_secs: u32, data: Vec<u8>) {
        assert!(self.chain.get().is_none(), "all records are there before the first denial");
        let known = self.sets.iter_mut().find(|set| set.owner == owner && set.rtype == rtype);
        match known {
            Some(set) if set.data.contains(&data) => {}
            Some(set) => set.data.push(data),
            None => {
                self.sets.push(Set { owner: owner.to_vec(), rtype, ttl_secs, data: vec![data] })
            }
        }
    }

    /// Returns the denial chain of a signed zone.
    pub(super) fn chain(&self) -> Option<&Chain> {
        self.key.as_ref().map(|_| self.chain.get_or_init(|| Chain::of(self, &self.denies)))
    }

    pub(super) fn sets(&self) -> &[Set] {
        &self.sets
    }

    pub(super) fn get(&self, owner: &[u8], rtype: Rtype) -> Option<&Set> {
        self.sets.iter().find(|set| set.owner == owner && set.rtype == rtype)
    }

    /// Returns the owners that the zone is authoritative for or delegates, in canonical order, with
    /// their types.
    pub(super) fn owners(&self) -> Vec<(Wire, Vec<Rtype>)> {
        let mut owners: BTreeMap<Wire, Vec<Rtype>> = BTreeMap::new();
        for set in self
            .sets
            .iter()
            .filter(|set| self.cut_above(&set.owner).is_none_or(|cut| cut.owner == set.owner))
        {
            owners.entry(set.owner.clone()).or_default().push(set.rtype);
        }
        // A delegation may have glue, which is not authoritative, under its own name.
        let is_glue = |cut: bool, rtype: Rtype| cut && !matches!(rtype, Rtype::NS | Rtype::DS);
        let mut owners: Vec<_> = owners
            .into_iter()
            .map(|(owner, mut types)| {
                let is_cut = owner != self.apex && types.contains(&Rtype::NS);
                types.retain(|rtype| !is_glue(is_cut, *rtype));
                (owner, types)
            })
            .collect();
        owners.sort_by(|(a, _), (b, _)| canonical::compare_names(a, b));
        owners
    }

    /// Returns the topmost delegation at or above a name.
    pub(super) fn cut_above(&self, owner: &[u8]) -> Option<&Set> {
        let above: Vec<&[u8]> =
            name::ancestors(owner).take_while(|above| above.len() > self.apex.len()).collect();
        above.iter().rev().find_map(|above| self.get(above, Rtype::NS))
    }

    /// Reports whether the zone signs a set. It signs neither delegations nor data below them (RFC
    /// 4035 §2.2).
    pub(super) fn signs(&self, set: &Set) -> bool {
        self.cut_above(&set.owner)
            .is_none_or(|cut| cut.owner == set.owner && set.rtype == Rtype::DS)
    }

    /// Reports whether there is data at or below the name.
    fn exists(&self, owner: &[u8]) -> bool {
        self.sets.iter().any(|set| name::is_under(&set.owner, owner))
    }

    pub(super) fn say(&self, qname: &[u8], qtype: Rtype) -> Said<'_> {
        if let Some(cut) = self.cut_above(qname)
            && !(cut.owner == qname && qtype == Rtype::DS)
        {
            return Said::Delegated(cut);
        }
        let above =
            name::ancestors(qname).skip(1).take_while(|above| above.len() >= self.apex.len());
        if let Some(dname) = above.filter_map(|above| self.get(above, Rtype::DNAME)).last() {
            return Said::Dname(dname);
        }
        if self.exists(qname) {
            return self.say_at(qname, qtype, None);
        }
        let encloser =
            name::ancestors(qname).find(|above| self.exists(above)).unwrap_or(&self.apex).to_vec();
        let wildcard = below(b"*", &encloser);
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

    /// Returns the CNAME that a DNAME creates for a name, if it fits (RFC 6672 §2.2).
    pub(super) fn substitute(qname: &[u8], dname: &Set) -> Option<Set> {
        let kept = &qname[..qname.len() - dname.owner.len()];
        let target = [kept, &dname.data[0]].concat();
        let fits = target.len() <= name::MAX_NAME;
        let Set { ttl_secs, .. } = *dname;
        fits.then(|| Set {
            owner: qname.to_vec(),
            rtype: Rtype::CNAME,
            ttl_secs,
            data: vec![target],
        })
    }
}

/// Returns the name of a label below another name.
pub(super) fn below(label: &[u8], above: &[u8]) -> Wire {
    [&[label.len() as u8], label, above].concat()
}

/// Returns the next closer name: the ancestor one label below the closest encloser (RFC 5155 §1.3).
pub(super) fn next_closer(qname: &[u8], encloser: &[u8]) -> Wire {
    let below = name::ancestors(qname).take_while(|above| above.len() > encloser.len());
    below.last().unwrap_or(qname).to_vec()
}
