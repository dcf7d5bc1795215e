//! Local records in the order of the source.
//!
//! The order matters for reverse names: if an address has several names, the first one counts. The
//! configuration reader combines the tables of one RRset. If this would move a later name before an
//! earlier one, the value gets its own table.

use std::collections::{BTreeMap, HashMap};

use crate::draft::{Reverse, TTL_SECS};

/// Maximum number of values that [`Records::spread`] adds.
const MAX_SPREAD: usize = 100_000;

/// The name and the type of an RRset.
type Key = (String, String);

/// All records.
#[derive(Debug, Default)]
pub(crate) struct Records {
    tables: Vec<Table>,
    sets: BTreeMap<Key, Set>,
    /// Addresses in wire form that have a reverse name, with that name.
    mapped: HashMap<Vec<u8>, String>,
}

/// One `[[record]]`.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) origin: String,
    pub(crate) owner: String,
    pub(crate) rtype: String,
    pub(crate) reverse: Reverse,
    values: Vec<Option<String>>,
}

/// An RRset.
#[derive(Debug)]
struct Set {
    ttl_secs: u32,
    /// The position of each value, by its wire form: a table, and an index in that table.
    places: HashMap<Vec<u8>, (usize, usize)>,
    /// The last `[[record]]` table of the RRset with reverse names, then the last one without.
    last: [Option<usize>; 2],
}

/// A validated record.
pub(crate) struct Checked<'a> {
    pub(crate) owner: String,
    pub(crate) rtype: &'a str,
    /// The presentation form of the data.
    pub(crate) data: &'a str,
    pub(crate) wire: Vec<u8>,
    pub(crate) ttl_secs: Option<u32>,
    pub(crate) reverse: Reverse,
}

impl Records {
    /// Adds a record. A duplicate has a reverse name if either copy has one.
    pub(crate) fn add(&mut self, record: Checked<'_>, origin: &str) {
        let Checked { owner, rtype, data, wire, ttl_secs, reverse } = record;
        let set = self.sets.entry((owner.clone(), rtype.to_owned())).or_insert_with(|| Set {
            ttl_secs: TTL_SECS,
            places: HashMap::new(),
            last: [None; 2],
        });
        // All records of a set have the same TTL.
        set.ttl_secs = ttl_secs.unwrap_or(set.ttl_secs);
        if let Some(&(table, place)) = set.places.get(&wire) {
            if reverse == Reverse::Absent || self.tables[table].reverse == Reverse::Answered {
                return;
            }
            self.tables[table].values[place] = None;
        }
        let is_mapped = matches!(rtype, "A" | "AAAA")
            && reverse == Reverse::Answered
            && !owner.starts_with("*.");
        let is_of_other =
            is_mapped && *self.mapped.entry(wire.clone()).or_insert_with(|| owner.clone()) != owner;
        let last = &mut set.last[usize::from(reverse == Reverse::Absent)];
        let table = last.filter(|_| !is_of_other).unwrap_or_else(|| {
            let (owner, rtype, origin) = (owner, rtype.to_owned(), origin.to_owned());
            self.tables.push(Table { origin, owner, rtype, reverse, values: Vec::new() });
            self.tables.len() - 1
        });
        *last = Some(table);
        set.places.insert(wire, (table, self.tables[table].values.len()));
        self.tables[table].values.push(Some(data.to_owned()));
    }

    /// Reports whether the record would put a CNAME next to other data or another CNAME.
    pub(crate) fn stands_beside_alias(&self, owner: &str, rtype: &str, wire: &[u8]) -> bool {
        let mut sets = self.sets_of(owner);
        sets.any(|(other, set)| match (rtype, other) {
            ("CNAME", "CNAME") => !set.places.contains_key(wire),
            (one, other) => one == "CNAME" || other == "CNAME",
        })
    }

    /// Returns the distinct owners, sorted, including wildcards.
    pub(crate) fn owners(&self) -> Vec<&str> {
        let mut owners: Vec<&str> = self.sets.keys().map(|(owner, _)| owner.as_str()).collect();
        owners.dedup();
        owners
    }

    /// Returns the types of a name.
    pub(crate) fn types_of<'a>(&'a self, owner: &'a str) -> Vec<&'a str> {
        self.sets_of(owner).map(|(rtype, _)| rtype).collect()
    }

    /// Reports whether any address of the name has a reverse name.
    pub(crate) fn is_mapped_back(&self, owner: &str) -> bool {
        self.sets_of(owner)
            .any(|(rtype, set)| matches!(rtype, "A" | "AAAA") && set.last[0].is_some())
    }

    /// Removes the records of a name and returns them as lines, if `line` can express each record.
    pub(crate) fn lines(
        &mut self,
        owner: &str,
        line: impl Fn(&str, &str, &str) -> Option<String>,
    ) -> Option<Vec<String>> {
        let types: Vec<String> = self.types_of(owner).into_iter().map(str::to_owned).collect();
        let mut lines = Vec::new();
        for rtype in &types {
            for (_, data) in self.values(owner, rtype) {
                lines.push(line(owner, rtype, &data)?);
            }
        }
        for rtype in types {
            self.sets.remove(&(owner.to_owned(), rtype));
        }
        Some(lines)
    }

    /// Returns the tables to write, each with its values and its TTL in seconds.
    pub(crate) fn tables(&self) -> impl Iterator<Item = (&Table, Vec<&str>, u32)> {
        self.tables.iter().filter_map(|table| {
            let values: Vec<&str> = table.values.iter().flatten().map(String::as_str).collect();
            let set = self.sets.get(&(table.owner.clone(), table.rtype.clone()))?;
            (!values.is_empty()).then_some((table, values, set.ttl_secs))
        })
    }

    /// Copies the records of each wildcard to the owners below the wildcard. In the sources a
    /// wildcard covers all names below it, but in Avocet it does not cover existing names (RFC 4592
    /// §3.3.1). Returns whether all records were copied.
    pub(crate) fn spread(&mut self) -> bool {
        let mut room = MAX_SPREAD;
        for (owner, wildcard) in self.below_wildcards() {
            let origin = format!("{wildcard}, which also covers these names");
            for (rtype, ttl_secs) in self.types(&wildcard) {
                let values = self.values(&wildcard, &rtype);
                let Some(left) = room.checked_sub(values.len()) else {
                    return false;
                };
                room = left;
                for (wire, data) in values {
                    let (owner, reverse) = (format!("*.{owner}"), Reverse::Absent);
                    let ttl_secs = Some(ttl_secs);
                    self.add(
                        Checked { owner, rtype: &rtype, data: &data, wire, ttl_secs, reverse },
                        &origin,
                    );
                }
            }
        }
        true
    }

    /// Returns the owners that have no wildcard of their own, each with the nearest wildcard above
    /// it.
    fn below_wildcards(&self) -> Vec<(String, String)> {
        let has = |owner: &str| self.sets_of(owner).next().is_some();
        let nearest = |owner: &str| {
            let above = std::iter::successors(owner.split_once('.'), |(_, up)| up.split_once('.'));
            let mut above = above.map(|(_, up)| format!("*.{up}"));
            above.find(|wildcard| has(wildcard))
        };
        let plain = self
            .owners()
            .into_iter()
            .filter(|owner| !owner.starts_with("*.") && !has(&format!("*.{owner}")));
        plain.filter_map(|owner| Some((owner.to_owned(), nearest(owner)?))).collect()
    }

    fn sets_of<'a>(&'a self, owner: &'a str) -> impl Iterator<Item = (&'a str, &'a Set)> {
        let from = (owner.to_owned(), String::new());
        let sets = self.sets.range(from..).take_while(move |((other, _), _)| other == owner);
        sets.map(|((_, rtype), set)| (rtype.as_str(), set))
    }

    /// Returns the types of a name with their TTLs in seconds.
    fn types(&self, owner: &str) -> Vec<(String, u32)> {
        self.sets_of(owner).map(|(rtype, set)| (rtype.to_owned(), set.ttl_secs)).collect()
    }

    /// Returns the values of a set in wire form and presentation form, in order.
    fn values(&self, owner: &str, rtype: &str) -> Vec<(Vec<u8>, String)> {
        let set = self.sets.get(&(owner.to_owned(), rtype.to_owned()));
        let places = set.into_iter().flat_map(|set| &set.places);
        let mut places: Vec<(&(usize, usize), &Vec<u8>)> =
            places.map(|(wire, at)| (at, wire)).collect();
        places.sort_unstable();
        let value =
            |(table, place): (usize, usize)| self.tables.get(table)?.values.get(place)?.clone();
        places.into_iter().filter_map(|(at, wire)| Some((wire.clone(), value(*at)?))).collect()
    }
}
