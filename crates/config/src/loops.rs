//! Loops of local aliases, which no client can follow: CNAME records that lead back to themselves,
//! and DNAME records with a target below their own name.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use avocet_wire::{Rtype, name};

use super::RecordConfig;
use super::check::Check;
use super::name::{Name, shown};

/// The first label of a wildcard, in wire format (RFC 4592 §2.1.1).
const WILDCARD: &[u8] = b"\x01*";

/// The RRsets by owner and type.
pub(super) type Sets = BTreeMap<(Name, Rtype), RecordConfig>;

/// Reports a doubt for each loop. `places` are the locations of the owners.
pub(super) fn check(sets: &Sets, places: &HashMap<Name, Range<usize>>, check: &mut Check) {
    let cycles = cycles(sets);
    for ((owner, rtype), set) in sets {
        let Some(target) = set.rdata.first() else { continue };
        let fault = match *rtype {
            Rtype::CNAME => cycles.get(owner).map(|cycle| {
                let names: Vec<_> =
                    cycle.iter().chain(&cycle[..1]).map(|name| shown(name)).collect();
                format!("these CNAME records form a loop: {}", names.join(" -> "))
            }),
            Rtype::DNAME if name::is_under(&target.to_ascii_lowercase(), owner) => Some(format!(
                "the target of the DNAME of {} is below that name, so that it leads into itself",
                shown(owner)
            )),
            _ => None,
        };
        if let (Some(fault), Some(place)) = (fault, places.get(owner)) {
            check.doubt(place.clone(), fault);
        }
    }
}

/// Returns the loops of CNAME records. Each loop begins with the first of its owners in the order
/// of names, which is also its key. Follows each record once, so that the work is linear in the
/// number of records.
fn cycles(sets: &Sets) -> BTreeMap<&Name, Vec<&Name>> {
    let (mut cycles, mut followed) = (BTreeMap::new(), HashSet::new());
    for (start, _) in sets.keys().filter(|(_, rtype)| *rtype == Rtype::CNAME) {
        let (mut path, mut places) = (Vec::new(), HashMap::new());
        let mut at = Some(start);
        while let Some(owner) = at.filter(|owner| !followed.contains(owner)) {
            if let Some(place) = places.insert(owner, path.len()) {
                let mut cycle = path[place..].to_vec();
                let first = (0..cycle.len()).min_by_key(|at| cycle[*at]);
                cycle.rotate_left(first.unwrap_or(0));
                cycles.insert(cycle[0], cycle);
                break;
            }
            path.push(owner);
            at = next_of(sets, owner);
        }
        followed.extend(path);
    }
    cycles
}

/// Returns the owner of the CNAME to which the CNAME of an owner leads.
fn next_of<'s>(sets: &'s Sets, owner: &Name) -> Option<&'s Name> {
    let set = sets.get(&(owner.clone(), Rtype::CNAME))?;
    owner_of_alias(sets, &set.rdata.first()?.to_ascii_lowercase())
}

/// Returns the owner of the CNAME that answers for a name: the name itself, or a wildcard.
fn owner_of_alias<'s>(sets: &'s Sets, name: &[u8]) -> Option<&'s Name> {
    if exists(sets, name) {
        return of_cname(sets, name);
    }
    let mut above = name::parent(name);
    while let Some(encloser) = above {
        let wildcard = [WILDCARD, encloser].concat();
        if exists(sets, &wildcard) || exists(sets, encloser) {
            return of_cname(sets, &wildcard);
        }
        above = name::parent(encloser);
    }
    None
}

fn of_cname<'s>(sets: &'s Sets, name: &[u8]) -> Option<&'s Name> {
    sets.get_key_value(&(name.into(), Rtype::CNAME)).map(|((owner, _), _)| owner)
}

/// Returns whether a name has records.
fn exists(sets: &Sets, name: &[u8]) -> bool {
    let from = (Name::from(name), Rtype(0));
    sets.range(from..).next().is_some_and(|((owner, _), _)| **owner == *name)
}
