//! The text of a zone as a master file: the SOA record first, then all others in canonical order.

use std::fmt::Write;

use avocet_wire::{FoldedName, Rtype, rdata};

use crate::tree::{HostedRecord, HostedSet, HostedZone};

/// Appends a record as a line of a master file.
pub fn append_line(text: &mut String, owner: FoldedName<'_>, record: &HostedRecord<'_>) {
    let HostedRecord { rtype, ttl_secs, rdata } = *record;
    let owner = owner.to_buf();
    // Writing to a `String` does not fail.
    let _ = writeln!(text, "{owner} {ttl_secs} IN {rtype} {}", rdata::display(rtype.0, rdata));
}

impl HostedZone {
    /// Returns all records with their owners: the SOA record first, the others in canonical order.
    /// Signatures follow the records that they sign.
    pub fn in_order(&self) -> impl Iterator<Item = (FoldedName<'_>, HostedRecord<'_>)> {
        let is_soa = |set: &HostedSet<'_>| set.rtype == Rtype::SOA;
        let soa = self.sets_of(self.apex()).into_iter().flatten().filter(is_soa);
        let soa = soa.map(|set| (self.apex(), set));
        let all = self.iter().flat_map(|node| node.sets().map(move |set| (node.name(), set)));
        let sets = soa.chain(all.filter(move |(_, set)| !is_soa(set)));
        sets.flat_map(|(owner, set)| {
            set.iter().chain(set.signatures()).map(move |record| (owner, record))
        })
    }

    /// Returns the text of the zone as a master file.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (owner, record) in self.in_order() {
            append_line(&mut text, owner, &record);
        }
        text
    }
}
