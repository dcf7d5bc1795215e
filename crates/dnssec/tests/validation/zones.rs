//! Zones with generated NSEC and NSEC3 chains, and what is true about their names.

use std::collections::{BTreeMap, BTreeSet};

use avocet_dnssec::DelegationKind;
use avocet_wire::{Rtype, canonical, name, rdata};
use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use data_encoding::BASE32_DNSSEC;

use crate::random::Random;
use crate::sets::{Set, rtype, wire};

/// A zone: its names and their types.
pub(crate) struct Zone {
    pub(crate) apex: Vec<u8>,
    names: BTreeMap<Vec<u8>, BTreeSet<u16>>,
}

/// The hash parameters of a zone.
#[derive(Clone, Copy)]
pub(crate) struct Hashing {
    pub(crate) iterations: u16,
    pub(crate) salt: &'static str,
    pub(crate) opts_out: bool,
}

/// What is true about a name and a type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Truth {
    /// The name has the type or a CNAME.
    Exists,
    Nodata,
    Nxdomain,
    /// A wildcard directly below this name has the type or a CNAME.
    Expanded(Vec<u8>),
    /// The name is below a delegation or a DNAME, or it is a delegation and the type is not DS. The
    /// zone cannot deny such names.
    Elsewhere,
}

impl Zone {
    /// Parses lines of a name and its types. The first line is the apex.
    pub(crate) fn of(lines: &[&str]) -> Self {
        let mut names = BTreeMap::new();
        for line in lines {
            let mut words = line.split_whitespace();
            let owner = wire(words.next().unwrap());
            names.insert(owner, words.map(|word| rtype(word).0).collect());
        }
        Self { apex: wire(lines[0].split_whitespace().next().unwrap()), names }
    }

    fn has(&self, owner: &[u8], rtype: Rtype) -> bool {
        self.names.get(owner).is_some_and(|types| types.contains(&rtype.0))
    }

    fn is_cut(&self, owner: &[u8]) -> bool {
        owner != self.apex && self.has(owner, Rtype::NS)
    }

    /// Reports whether there are records at or below the name.
    fn exists(&self, owner: &[u8]) -> bool {
        self.signed_names().any(|other| name::is_under(other, owner))
    }

    /// Returns the names that are not below a delegation.
    fn signed_names(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.names.keys().filter(|owner| !self.is_hidden(owner))
    }

    /// Reports whether the name is below a delegation or a DNAME.
    fn is_hidden(&self, owner: &[u8]) -> bool {
        name::ancestors(owner)
            .skip(1)
            .any(|above| self.is_cut(above) || self.has(above, Rtype::DNAME))
    }

    pub(crate) fn truth(&self, qname: &[u8], qtype: Rtype) -> Truth {
        if self.is_hidden(qname) || (self.is_cut(qname) && qtype != Rtype::DS) {
            return Truth::Elsewhere;
        }
        // The DS of the apex belongs to the parent.
        if qname == self.apex && qtype == Rtype::DS && self.apex != [0] {
            return Truth::Elsewhere;
        }
        if self.exists(qname) {
            return if self.has(qname, qtype) || self.has(qname, Rtype::CNAME) {
                Truth::Exists
            } else {
                Truth::Nodata
            };
        }
        let encloser = name::ancestors(qname).find(|above| self.exists(above)).unwrap();
        let wildcard = [b"\x01*", encloser].concat();
        match self.exists(&wildcard) {
            false => Truth::Nxdomain,
            true if self.has(&wildcard, qtype) || self.has(&wildcard, Rtype::CNAME) => {
                Truth::Expanded(encloser.to_vec())
            }
            true => Truth::Nodata,
        }
    }

    /// Returns the status of a name below the apex that has no DS records. Returns `None` if it has
    /// DS records, or if the zone has no authority over it.
    pub(crate) fn delegation(&self, child: &[u8]) -> Option<DelegationKind> {
        if self.is_hidden(child) || self.has(child, Rtype::DS) {
            return None;
        }
        Some(if self.is_cut(child) { DelegationKind::Unsigned } else { DelegationKind::NoCut })
    }

    fn type_words(&self, owner: &[u8]) -> String {
        let words = |types: &BTreeSet<u16>| {
            types.iter().map(|t| format!(" {}", Rtype(*t))).collect::<String>()
        };
        self.names.get(owner).map(words).unwrap_or_default()
    }

    /// Returns the NSEC chain (RFC 4034 §4).
    pub(crate) fn nsecs(&self) -> Vec<Set> {
        let mut owners: Vec<_> = self.signed_names().cloned().collect();
        owners.sort_by(|a, b| canonical::compare_names(a, b));
        let nexts = owners.iter().cycle().skip(1);
        let set = |(owner, next): (&Vec<u8>, &Vec<u8>)| {
            let text = format!("{}{} RRSIG NSEC", display(next), self.type_words(owner));
            Set { owner: owner.clone(), ..Set::of(".", "NSEC", &[&text]) }
        };
        owners.iter().zip(nexts).map(set).collect()
    }

    /// Returns the NSEC3 chain (RFC 5155 §7.1).
    pub(crate) fn nsec3s(&self, hashing: Hashing) -> Vec<Set> {
        let mut hashed = BTreeMap::new();
        for owner in self.signed_names() {
            if hashing.opts_out && self.is_cut(owner) && !self.has(owner, Rtype::DS) {
                continue;
            }
            for above in
                name::ancestors(owner).take_while(|above| name::is_under(above, &self.apex))
            {
                hashed.insert(hash(above, hashing), above.to_vec());
            }
        }
        let nexts = hashed.keys().cycle().skip(1);
        let set = |((hash, owner), next): ((&String, &Vec<u8>), &String)| {
            let flags = u8::from(hashing.opts_out);
            let salt = if hashing.salt.is_empty() { "-" } else { hashing.salt };
            let head = format!("1 {flags} {} {salt} {next}", hashing.iterations);
            let text = format!("{head}{}", self.type_words(owner));
            Set::of(
                &format!("{hash}.{}", display(&self.apex).trim_start_matches('.')),
                "NSEC3",
                &[&text],
            )
        };
        hashed.iter().zip(nexts).map(set).collect()
    }

    /// Returns names of the zone, names between them and names below them: two levels of these
    /// labels, and a few names with a third level.
    pub(crate) fn questions(&self, labels: &[&str]) -> Vec<Vec<u8>> {
        let mut level = vec![self.apex.clone()];
        let mut all = level.clone();
        for labels in [labels, labels, &["*", "a", "x"]] {
            let below = |parent: &Vec<u8>| {
                let child =
                    |label: &&str| [&[label.len() as u8], label.as_bytes(), parent].concat();
                labels.iter().map(child).collect::<Vec<_>>()
            };
            level = level.iter().flat_map(below).collect();
            all.extend(level.iter().cloned());
        }
        all
    }
}

pub(crate) fn display(owner: &[u8]) -> String {
    rdata::display(Rtype::NS.0, owner).to_string()
}

/// Another implementation of the hash (RFC 5155 §5), independent of the code under test.
fn hash(owner: &[u8], hashing: Hashing) -> String {
    let salt = data_encoding::HEXLOWER.decode(hashing.salt.as_bytes()).unwrap();
    let mut octets = owner.to_ascii_lowercase();
    for _ in 0..=hashing.iterations {
        octets.extend(&salt);
        octets = digest(&SHA1_FOR_LEGACY_USE_ONLY, &octets).as_ref().to_vec();
    }
    BASE32_DNSSEC.encode(&octets)
}

/// Returns a zone of up to a dozen names of all kinds below `apex`.
pub(crate) fn random_zone(random: &mut Random, apex: &str) -> Zone {
    const KINDS: [&str; 8] = ["A", "A", "TXT", "A TXT", "CNAME", "NS", "NS DS", "DNAME A"];
    let mut lines = vec![format!("{apex} SOA NS DNSKEY")];
    for _ in 0..random.below(12) {
        let labels: Vec<&str> =
            (0..=random.below(3)).map(|_| ["*", "a", "b", "x"][random.below(4)]).collect();
        // Wildcards with NS or DNAME are undefined (RFC 4592 §4.2, RFC 6672 §3.3).
        let kinds = if labels[0] == "*" { &KINDS[..5] } else { &KINDS[..] };
        lines.push(format!(
            "{}.{} {}",
            labels.join("."),
            apex.trim_start_matches('.'),
            kinds[random.below(kinds.len())]
        ));
    }
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    Zone::of(&lines)
}

/// Returns a zone with a name of each kind: signed and unsigned delegations, empty non-terminals,
/// wildcards, CNAME, DNAME, and names that sort directly before and after `*`.
pub(crate) fn one_of_each() -> Zone {
    Zone::of(&[
        "z. SOA NS DNSKEY MX",
        "a.z. A",
        "!.a.z. A",
        "s.z. NS DS",
        "x.s.z. A",
        "u.z. NS",
        "a.u.z. A",
        "d.z. DNAME A",
        "c.z. CNAME",
        "x.e.z. TXT",
        "a.x.e.z. A",
        "*.w.z. A MX",
        "a.w.z. A",
        "x.b.w.z. A",
        "*.v.z. CNAME",
        "x.*.t.z. A",
        "a.t.z. A",
    ])
}
