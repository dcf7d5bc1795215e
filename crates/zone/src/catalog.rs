//! Catalog zones (RFC 9432): the zones that a zone lists, with their properties.
//!
//! ```text
//! version.CATALOG            TXT "2"
//! UNIQUE-ID.zones.CATALOG    PTR member.example.
//! group.UNIQUE-ID.zones...   TXT "group"
//! coo.UNIQUE-ID.zones...     PTR other-catalog.
//! ```
//! Other records are ignored. If a catalog has an error, it is refused, and its consumer keeps the
//! previous members.

use std::collections::{BTreeMap, BTreeSet};

use avocet_wire::{FoldedName, NameBuf, Rtype};

use crate::tree::{HostedSet, HostedZone, Node};

/// Maximum number of members of a catalog. Each member takes files, timers and transfers.
pub const MAX_CATALOG_MEMBERS: usize = 4_096;
/// Maximum number of groups of a member; further ones are ignored.
const MAX_MEMBER_GROUPS: usize = 8;

/// A zone that a catalog lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogMember {
    /// The name of the zone, in lower case and wire form.
    pub zone: Box<[u8]>,
    /// The unique label of the member, in lower case, as a name in wire form. If the label changes,
    /// the consumer discards its state of the zone (RFC 9432 §5.4).
    pub id: Box<[u8]>,
    /// The values of the member's property `group`, sorted (RFC 9432 §4.4.2).
    pub groups: Vec<String>,
    /// The catalog to which the member moves (the property `coo`, RFC 9432 §4.4.1); in lower case
    /// and wire form.
    pub owner: Option<Box<[u8]>>,
}

/// The reason why a catalog cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogFault {
    /// The catalog has no TXT record with a version, several of them, or a malformed one.
    #[error("it is no catalog zone: `version` has not one TXT record")]
    NoVersion,
    /// The catalog has a version of the format that is not supported.
    #[error("its version is not 2")]
    OtherVersion,
    /// A member has several PTR records. Contains the label of the member.
    #[error("the member {0} has several PTR records")]
    SeveralZones(String),
    /// A zone is listed twice. Contains its name.
    #[error("the zone {0} is listed twice")]
    Duplicate(String),
    /// The catalog has too many members.
    #[error("it has more than {MAX_CATALOG_MEMBERS} members")]
    TooMany,
}

/// Reads the members of a catalog, in the order of their unique labels.
///
/// # Errors
/// The zone has no version or an unsupported one, a member has several PTR records, a zone is
/// listed twice, or there are too many members (RFC 9432 §4.1).
pub fn catalog_members(zone: &HostedZone) -> Result<Vec<CatalogMember>, CatalogFault> {
    let apex = zone.apex().wire();
    check_version(zone, apex)?;
    let above = [b"\x05zones", apex].concat();
    let above = FoldedName::from_folded_unchecked(&above);
    let depth_of_zones = above.labels().count();
    let mut members: BTreeMap<Box<[u8]>, CatalogMember> = BTreeMap::new();
    let mut properties = Vec::new();
    for node in zone.iter().filter(|node| node.name().is_at_or_below(above)) {
        let labels: Vec<_> = node.name().labels().collect();
        match labels.len() - depth_of_zones {
            1 => {
                let Some(member) = member_at(node, labels[0])? else { continue };
                if members.len() >= MAX_CATALOG_MEMBERS {
                    return Err(CatalogFault::TooMany);
                }
                members.insert(member.id.clone(), member);
            }
            2 => properties.push((as_name(labels[1]), node)),
            _ => {}
        }
    }
    for (id, node) in properties {
        if let (Some(member), Some(label)) = (members.get_mut(&id), node.name().labels().next()) {
            add_property(member, label, node);
        }
    }
    let members: Vec<_> = members.into_values().collect();
    let mut zones = BTreeSet::new();
    match members.iter().find(|member| !zones.insert(&member.zone)) {
        Some(twice) => Err(CatalogFault::Duplicate(shown(&twice.zone))),
        None => Ok(members),
    }
}

fn check_version(zone: &HostedZone, apex: &[u8]) -> Result<(), CatalogFault> {
    let name = [b"\x07version", apex].concat();
    let node = zone.node(&name).and_then(|node| node.set(Rtype::TXT));
    let texts: Vec<_> = node.iter().flat_map(HostedSet::iter).map(|text| text.rdata).collect();
    match texts[..] {
        [b"\x012"] => Ok(()),
        [[len, text @ ..]] if usize::from(*len) == text.len() => Err(CatalogFault::OtherVersion),
        _ => Err(CatalogFault::NoVersion),
    }
}

fn member_at(node: Node<'_>, label: &[u8]) -> Result<Option<CatalogMember>, CatalogFault> {
    let Some(set) = node.set(Rtype::PTR) else { return Ok(None) };
    let id = as_name(label);
    let mut targets = set.iter();
    let target = targets.next().and_then(|record| folded(record.rdata));
    if targets.next().is_some() {
        return Err(CatalogFault::SeveralZones(shown(&id)));
    }
    Ok(target.map(|zone| CatalogMember { zone, id, groups: Vec::new(), owner: None }))
}

fn add_property(member: &mut CatalogMember, label: &[u8], node: Node<'_>) {
    match label {
        b"group" => {
            let texts = node.set(Rtype::TXT);
            let texts = texts.iter().flat_map(HostedSet::iter);
            // The property must have one string (RFC 9432 §4.3.2). Otherwise the property is
            // ignored, but the catalog stays valid.
            let text = texts.filter_map(|record| match record.rdata {
                [len, text @ ..] if usize::from(*len) == text.len() => Some(text),
                _ => None,
            });
            let text = text.map(|text| text.escape_ascii().to_string());
            member.groups.extend(text.take(MAX_MEMBER_GROUPS));
            member.groups.sort_unstable();
        }
        b"coo" => {
            let set = node.set(Rtype::PTR);
            let targets: Vec<_> = set.iter().flat_map(HostedSet::iter).collect();
            // A property with several targets is ignored, but the catalog stays valid.
            member.owner = match targets[..] {
                [one] => folded(one.rdata),
                _ => None,
            };
        }
        _ => {}
    }
}

/// Returns a label as a name in wire form.
fn as_name(label: &[u8]) -> Box<[u8]> {
    [&[label.len() as u8], label, &[0]].concat().into()
}

fn folded(name: &[u8]) -> Option<Box<[u8]>> {
    let name = NameBuf::from_wire(name).ok()?;
    Some(name.folded().view().wire().into())
}

fn shown(name: &[u8]) -> String {
    NameBuf::from_wire(name).map(|name| name.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn members(records: &str) -> Result<Vec<CatalogMember>, CatalogFault> {
        let text = format!("$TTL 0\n@ SOA invalid. invalid. 1 2 3 4 5\n@ NS invalid.\n{records}");
        let apex = FoldedName::new(b"\x03cat\0").unwrap();
        let mut open = |_: &Path, _: u64| Ok(text.as_bytes().to_vec());
        let (zone, faults) = crate::load(apex, Path::new("cat"), 0, &mut open);
        assert_eq!(faults.errors(), 0, "{:?}", faults.list());
        catalog_members(&zone.unwrap())
    }

    #[test]
    fn members_have_their_properties() {
        let text = "version TXT \"2\"\nB.zones PTR B.Example.\na.zones PTR a.example.\n\
                    group.a.zones TXT \"x y\"\ngroup.a.zones TXT \"w\"\ncoo.b.zones PTR Other.\n\
                    group.b.zones TXT \"several\" \"strings\"\n\
                    x.y.a.zones TXT \"-\"\nz.ext.zones PTR no.example.\ngroup.none.zones TXT \"-\"\n\
                    zones PTR apex.example.\nother PTR other.example.\nc.zones TXT \"no member\"\n";
        let found = members(text).unwrap();
        let zones: Vec<_> = found.iter().map(|member| shown(&member.zone)).collect();
        assert_eq!(zones, ["a.example.", "b.example."]);
        assert_eq!((&*found[0].id, &*found[1].id), (&b"\x01a\0"[..], &b"\x01b\0"[..]));
        assert_eq!(
            (&*found[0].groups, found[1].groups.len()),
            (&["w", "x y"].map(String::from)[..], 0)
        );
        assert_eq!(
            (&found[0].owner, found[1].owner.as_deref()),
            (&None, Some(&b"\x05other\0"[..]))
        );
        assert_eq!(members("version TXT \"2\"\n"), Ok(Vec::new()));
    }

    #[test]
    fn broken_catalogs_are_refused() {
        let check = |text: &str, expected: &str| {
            assert_eq!(members(text).unwrap_err().to_string(), expected, "{text}");
        };
        let none = "it is no catalog zone: `version` has not one TXT record";
        check("a.zones PTR a.example.\n", none);
        check("version TXT \"2\" \"2\"\n", none);
        check("version TXT \"2\"\nversion TXT \"1\"\n", none);
        check("version TXT \"1\"\n", "its version is not 2");
        check(
            "version TXT \"2\"\na.zones PTR a.example.\na.zones PTR b.example.\n",
            "the member a. has several PTR records",
        );
        check(
            "version TXT \"2\"\na.zones PTR a.example.\nb.zones PTR A.example.\n",
            "the zone a.example. is listed twice",
        );
        let many: String = (0..=MAX_CATALOG_MEMBERS)
            .map(|number| format!("m{number}.zones PTR z{number}.example.\n"))
            .collect();
        check(&format!("version TXT \"2\"\n{many}"), "it has more than 4096 members");
    }
}
