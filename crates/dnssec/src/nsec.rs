//! NSEC records: what a single record states about a name (RFC 4034 §4, RFC 4035 §5.4, RFC 6840
//! §4).

use std::cmp::Ordering;

use avocet_wire::canonical::compare_names;
use avocet_wire::{Rtype, name, rdata};

use crate::label;
use crate::types::TypeMap;

/// An NSEC record of a zone.
#[derive(Clone, Copy, Debug)]
pub struct Nsec<'a> {
    /// The owner, a name that exists.
    pub owner: &'a [u8],
    /// The next name in the zone with records, or the apex.
    pub next: &'a [u8],
    pub(crate) types: TypeMap<'a>,
    is_last: bool,
}

impl<'a> Nsec<'a> {
    /// Parses the data. Returns `None` if it is malformed.
    ///
    /// Also returns `None` if the owner or the next name is outside the zone (CVE-2026-13321), or
    /// if the chain goes backwards to a name other than the apex.
    #[must_use]
    pub fn read(owner: &'a [u8], data: &'a [u8], zone: &[u8]) -> Option<Self> {
        rdata::check(Rtype::NSEC.0, data).ok()?;
        let (next, types) = data.split_at_checked(name::wire_len(data).ok()?)?;
        if !label::is_name(owner) || !name::is_under(owner, zone) || !name::is_under(next, zone) {
            return None;
        }
        let is_last = compare_names(owner, next).is_ge();
        (!is_last || label::equal(next, zone)).then_some(Self {
            owner,
            next,
            types: TypeMap(types),
            is_last,
        })
    }

    /// Reports whether the name is the owner.
    #[must_use]
    pub fn matches(&self, wire: &[u8]) -> bool {
        label::equal(self.owner, wire)
    }

    /// Reports whether the record proves that this name of its zone has no records. The name may
    /// still be an empty non-terminal.
    ///
    /// The record of a delegation or a DNAME proves nothing about names below its owner (RFC 6840
    /// §4.1).
    #[must_use]
    pub fn covers(&self, wire: &[u8]) -> bool {
        if label::is_below(wire, self.owner) && self.types.hides_what_is_below() {
            return false;
        }
        compare_names(self.owner, wire) == Ordering::Less
            && (self.is_last || compare_names(wire, self.next) == Ordering::Less)
    }

    /// Reports whether names exist below `wire`, which the record must cover.
    #[must_use]
    pub fn shows_below(&self, wire: &[u8]) -> bool {
        label::is_below(self.next, wire)
    }

    /// Returns the longest existing ancestor of `wire`, which the record must cover.
    #[must_use]
    pub fn closest_encloser<'b>(&self, wire: &'b [u8]) -> &'b [u8] {
        let (a, b) =
            (label::common_ancestor(wire, self.owner), label::common_ancestor(wire, self.next));
        if a.len() > b.len() { a } else { b }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZONE: &[u8] = b"\x01z\0";

    fn wire(text: &str) -> Vec<u8> {
        let mut out = [0; 255];
        let len = avocet_wire::text::name_to_wire(text.as_bytes(), None, &mut out).unwrap();
        out[..len].to_vec()
    }

    #[track_caller]
    fn check(owner: &str, data: &str, covered: &[&str], others: &[&str]) {
        let (owner, mut octets) = (wire(owner), Vec::new());
        rdata::parse(47, data, &[0], &mut octets).unwrap();
        let nsec = Nsec::read(&owner, &octets, ZONE).unwrap();
        covered.iter().for_each(|name| assert!(nsec.covers(&wire(name)), "{name}"));
        others.iter().for_each(|name| assert!(!nsec.covers(&wire(name)), "{name}"));
    }

    #[test]
    fn what_lies_between_is_covered() {
        check(
            "b.z.",
            "D.z. A",
            &["c.z.", "a.b.z.", "\\255.b.z."],
            &["b.z.", "d.z.", "a.d.z.", "a.z.", "z.", "e.z."],
        );
        check("x.z.", "z. A", &["y.z.", "a.x.z."], &["x.z.", "w.z.", "z."]);
        check("z.", "z. SOA NS", &["a.z.", "*.z."], &["z."]);
    }

    #[test]
    fn delegations_and_dnames_hide_what_is_below() {
        check("b.z.", "d.z. NS", &["c.z."], &["a.b.z."]);
        check("b.z.", "d.z. DNAME", &["c.z."], &["a.b.z."]);
        check("z.", "d.z. NS SOA", &["b.z."], &[]);
    }

    #[test]
    fn names_outside_of_the_zone_and_steps_back_are_refused() {
        for (owner, data) in [
            ("b.z.", "y. A"),
            ("b.z.", "zz. A"),
            ("b.z.", "a.zz. A"),
            ("b.z.", "a.z. A"),
            ("b.y.", "z. A"),
            ("b.z.", ". A"),
        ] {
            let (owner, mut octets) = (wire(owner), Vec::new());
            rdata::parse(47, data, &[0], &mut octets).unwrap();
            assert!(Nsec::read(&owner, &octets, ZONE).is_none(), "{data}");
        }
    }

    #[test]
    fn the_closest_encloser_is_the_longer_of_two() {
        let (owner, mut octets) = (wire("a.b.z."), Vec::new());
        rdata::parse(47, "e.d.c.z. A", &[0], &mut octets).unwrap();
        let nsec = Nsec::read(&owner, &octets, ZONE).unwrap();
        for (name, encloser) in
            [("c.z.", "c.z."), ("x.a.b.z.", "a.b.z."), ("c.d.c.z.", "d.c.z."), ("bb.z.", "z.")]
        {
            assert_eq!(nsec.closest_encloser(&wire(name)), wire(encloser), "{name}");
        }
        assert!(nsec.shows_below(&wire("c.z.")) && !nsec.shows_below(&wire("bb.z.")));
    }
}
