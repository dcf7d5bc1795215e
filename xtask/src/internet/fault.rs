//! Faults of signed zones. Each fault is one edit of the records.

use super::content::REPLAYED;
use super::zone::{Fault, Zone};

/// A record of a signed zone. `dnssec-signzone -O full` writes one record per line.
#[derive(Clone)]
struct Record {
    owner: String,
    ttl: String,
    kind: String,
    data: Vec<String>,
}

impl Record {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace().map(str::to_owned);
        let owner = words.next().filter(|owner| !owner.starts_with(';'))?;
        let (ttl, _class, kind) = (words.next()?, words.next()?, words.next()?);
        Some(Self { owner, ttl, kind, data: words.collect() })
    }

    fn line(&self) -> String {
        format!("{} {} IN {} {}\n", self.owner, self.ttl, self.kind, self.data.join(" "))
    }

    /// Returns whether this record is the signature over an RRset of the given type.
    fn covers(&self, kind: &str) -> bool {
        self.kind == "RRSIG" && self.data.first().is_some_and(|covered| covered == kind)
    }

    fn is_denial(&self) -> bool {
        matches!(self.kind.as_str(), "NSEC" | "NSEC3")
    }

    fn covers_denial(&self) -> bool {
        self.covers("NSEC") || self.covers("NSEC3")
    }
}

/// Indexes of the RRSIG and DNSKEY fields that faults change.
const RRSIG_ALGORITHM: usize = 1;
const RRSIG_LABELS: usize = 2;
const RRSIG_SIGNER: usize = 7;
const DNSKEY_ALGORITHM: usize = 2;
/// The number of an unassigned algorithm.
const UNASSIGNED: &str = "200";

/// Returns the text of the zone with its fault.
pub(super) fn apply(zone: &Zone, signed: &str) -> String {
    let mut records: Vec<_> = signed.lines().filter_map(Record::parse).collect();
    match zone.family.fault {
        Fault::None | Fault::Expired | Fault::NotYetValid => {}
        Fault::NoSignatures => records.retain(|record| record.kind != "RRSIG"),
        Fault::NoAddressSignatures => records.retain(|record| !record.covers("A")),
        Fault::NoKeySignatures => records.retain(|record| !record.covers("DNSKEY")),
        Fault::NoDenial => records.retain(|record| !record.is_denial() && !record.covers_denial()),
        Fault::NoDenialSignatures => records.retain(|record| !record.covers_denial()),
        Fault::DenialGap => remove_every_second_denial(&mut records),
        Fault::OneAlgorithmSigns => {
            records.retain(|record| {
                record.covers("DNSKEY")
                    || record.kind != "RRSIG"
                    || record.data[RRSIG_ALGORITHM] == "13"
            });
        }
        Fault::ReplayedWildcard => replay(zone, &mut records),
        Fault::ForgedAddresses => edit(&mut records, "A", forge),
        Fault::MoreLabels => edit_signatures(&mut records, |data| shift_labels(data, 1)),
        Fault::FewerLabels => edit_signatures(&mut records, |data| shift_labels(data, -1)),
        Fault::WrongSigner => {
            let parent = zone.name.split_once('.').map_or(".", |(_, parent)| parent).to_owned();
            edit_signatures(&mut records, |data| data[RRSIG_SIGNER].clone_from(&parent));
        }
        Fault::UnknownAlgorithm => {
            edit(&mut records, "DNSKEY", |data| data[DNSKEY_ALGORITHM] = UNASSIGNED.to_owned());
            edit(&mut records, "RRSIG", |data| data[RRSIG_ALGORITHM] = UNASSIGNED.to_owned());
        }
    }
    records.iter().map(Record::line).collect()
}

/// Changes the data of all records of a type.
fn edit(records: &mut [Record], kind: &str, change: impl Fn(&mut [String])) {
    records
        .iter_mut()
        .filter(|record| record.kind == kind)
        .for_each(|record| change(&mut record.data));
}

/// Changes the signatures over addresses.
fn edit_signatures(records: &mut [Record], change: impl Fn(&mut [String])) {
    records
        .iter_mut()
        .filter(|record| record.covers("A"))
        .for_each(|record| change(&mut record.data));
}

fn shift_labels(data: &mut [String], by: i8) {
    let labels: i8 = data[RRSIG_LABELS].parse().unwrap_or(0);
    data[RRSIG_LABELS] = (labels + by).to_string();
}

/// Changes an address. The addresses of the zone's own servers stay the same, because they must be
/// reachable.
fn forge(data: &mut [String]) {
    if data[0].starts_with("10.") {
        data[0] = "10.66.66.66".to_owned();
    }
}

fn remove_every_second_denial(records: &mut Vec<Record>) {
    let owners: Vec<_> = records
        .iter()
        .filter(|record| record.is_denial())
        .map(|record| record.owner.clone())
        .collect();
    let removed: Vec<_> = owners.into_iter().skip(1).step_by(2).collect();
    records.retain(|record| {
        !(record.is_denial() || record.covers_denial()) || !removed.contains(&record.owner)
    });
}

/// Copies the records of the wildcard to a name that is not in the NSEC chain.
fn replay(zone: &Zone, records: &mut Vec<Record>) {
    let (wildcard, owner) = (zone.below("*.wild"), zone.below(REPLAYED));
    let is_data = |record: &&Record| !record.is_denial() && !record.covers_denial();
    let of_wildcard = records.iter().filter(|record| record.owner == wildcard).filter(is_data);
    let replayed: Vec<_> =
        of_wildcard.map(|record| Record { owner: owner.clone(), ..record.clone() }).collect();
    records.extend(replayed);
}

#[cfg(test)]
mod tests {
    use super::super::families::unsigned;
    use super::super::zone::{Family, sample};
    use super::*;

    const SIGNED: &str = "; comment\na.com.\t300 IN A 10.0.0.1\na.com. 300 IN RRSIG A 13 2 300 9 8 7 a.com. c2ln\n\
        a.com. 300 IN NSEC *.wild.a.com. A RRSIG NSEC\na.com. 300 IN RRSIG NSEC 13 2 300 9 8 7 a.com. c2ln\n\
        *.wild.a.com. 300 IN TXT \"any\"\n*.wild.a.com. 300 IN NSEC a.com. TXT\n";

    fn check(fault: Fault, expected: &str, unexpected: &str) {
        let zone = sample("a.com.", Family { fault, ..unsigned("broken", 1) });
        let served = apply(&zone, SIGNED);
        assert!(served.contains(expected), "{served}");
        assert!(unexpected.is_empty() || !served.contains(unexpected), "{served}");
    }

    #[test]
    fn each_fault_changes_what_it_names() {
        check(Fault::None, "a.com. 300 IN A 10.0.0.1\n", "comment");
        check(Fault::NoSignatures, " NSEC ", "RRSIG A ");
        check(Fault::NoAddressSignatures, "RRSIG NSEC", "RRSIG A ");
        check(Fault::NoDenial, "RRSIG A ", "NSEC");
        check(Fault::NoDenialSignatures, "IN NSEC", "IN RRSIG NSEC");
        check(Fault::DenialGap, "a.com. 300 IN NSEC", "*.wild.a.com. 300 IN NSEC");
        check(Fault::ForgedAddresses, "A 10.66.66.66", "10.0.0.1");
        check(Fault::MoreLabels, "RRSIG A 13 3 ", "RRSIG A 13 2");
        check(Fault::FewerLabels, "RRSIG A 13 1 ", "RRSIG A 13 2");
        check(
            Fault::WrongSigner,
            "RRSIG A 13 2 300 9 8 7 com. ",
            "7 a.com. c2ln\na.com. 300 IN NSEC ",
        );
        check(
            Fault::ReplayedWildcard,
            "replayed.wild.a.com. 300 IN TXT \"any\"\n",
            "replayed.wild.a.com. 300 IN NSEC",
        );
        check(Fault::UnknownAlgorithm, "RRSIG A 200 ", "RRSIG A 13");
    }
}
