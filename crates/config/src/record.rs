//! `[[record]]`: local records, combined into RRsets, and the PTR records derived from them.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::ops::Range;

use avocet_wire::{Rtype, name, rdata};
use toml::Spanned;

use super::RecordConfig;
use super::check::Check;
use super::error::SettingError;
use super::loops::{self, Sets};
use super::name::{Name, ROOT, reverse_name, shown};
use super::setting::{List, Setting, Text, Written};
use super::spec::RecordSpec;
use super::zone::ZoneConfig;

const TTL_SECS: u32 = 300;
/// The first label of a wildcard, in wire format (RFC 4592 §2.1.1).
const WILDCARD: &[u8] = b"\x01*";

/// Returns the RRsets of all tables, ordered by name and type.
pub(super) fn rrsets(
    specs: Vec<Spanned<RecordSpec>>,
    zones: &[ZoneConfig],
    check: &mut Check,
) -> Vec<RecordConfig> {
    let mut sets = Sets::new();
    // Configured records take precedence over derived ones. If several names have the same address,
    // the first name counts.
    let mut derived = Sets::new();
    let mut places = HashMap::new();
    for spec in specs {
        let header = spec.span();
        if let Setting(Some(Written { value: Ok(Text(name)), .. })) = &spec.get_ref().name {
            places.insert(name.clone(), header.clone());
        }
        read(&header, spec.into_inner(), &mut sets, &mut derived, check);
    }
    loops::check(&sets, &places, check);
    for (key, record) in derived {
        sets.entry(key).or_insert(record);
    }
    doubt_unsigned(&sets, &places, zones, check);
    sets.into_values().collect()
}

/// Reports records that precede the records of a zone that this server signs, once for each zone.
/// `places` are the locations of the owners.
fn doubt_unsigned(
    sets: &Sets,
    places: &HashMap<Name, Range<usize>>,
    zones: &[ZoneConfig],
    check: &mut Check,
) {
    // Whether this server signs the zone for any of its clients.
    let mut is_signed: HashMap<&[u8], bool> = HashMap::new();
    for zone in zones {
        *is_signed.entry(&zone.name).or_default() |= zone.signing.is_some();
    }
    let mut by_zone: BTreeMap<&[u8], Vec<&RecordConfig>> = BTreeMap::new();
    for set in sets.values() {
        let apex = name::ancestors(&set.name).find(|above| is_signed.contains_key(above));
        let Some(apex) = apex.filter(|apex| is_signed[apex]) else { continue };
        let found = by_zone.entry(apex).or_default();
        if found.last().is_none_or(|last| last.name != set.name) {
            found.push(set);
        }
    }
    for (apex, found) in by_zone {
        let first = found[0];
        // A derived PTR record is reported at the place of the address record that it is derived
        // from.
        let place = places.get(&first.name).or_else(|| places.get(first.rdata.first()?));
        let Some(place) = place else { continue };
        let others = match found.len() - 1 {
            0 => String::new(),
            others => format!(" (and {others} more)"),
        };
        let (name, apex) = (shown(&first.name), shown(apex));
        let message = format!(
            "the local record {name}{others} is in the zone {apex}, which this server signs, but \
             has no signature, so that validating clients refuse it: write it into the zone"
        );
        check.doubt(place.clone(), message);
    }
}

/// Adds the records of the table with its header at `header`.
fn read(
    header: &Range<usize>,
    spec: RecordSpec,
    sets: &mut Sets,
    derived: &mut Sets,
    check: &mut Check,
) {
    let name = check.need("name", header, spec.name);
    let rtype = check.need("type", header, spec.r#type);
    let values = check.need("values", header, spec.values);
    let ttl_secs = check.take(spec.ttl_secs).map_or(TTL_SECS, |secs| secs.0);
    let ptr = check.take(spec.ptr).unwrap_or(true);
    let (at, Text(name), Text(rtype), values_at, List(values)) = match (name, rtype, values) {
        (Some((at, name)), Some((_, rtype)), Some((values_at, values))) => {
            (at, name, rtype, values_at, values)
        }
        (_, Some((_, Text(rtype))), Some((_, List(values)))) => {
            // If the name is not valid, the values are still checked.
            let wrong =
                |value: Spanned<String>| Some((value.span(), parse(rtype, value.get_ref()).err()?));
            values.into_iter().filter_map(wrong).for_each(|(at, message)| check.fault(at, message));
            return;
        }
        _ => return,
    };
    if values.is_empty() {
        check.fault(values_at, "expected at least one value, found none");
        return;
    }
    refuse_beside_cname(&name, rtype, at.clone(), sets, check);
    let set = sets.entry((name.clone(), rtype)).or_insert_with(|| RecordConfig {
        name: name.clone(),
        rtype,
        rdata: Vec::new(),
        ttl_secs,
    });
    if set.ttl_secs != ttl_secs {
        let message = "all records of a name and type have the same TTL (RFC 2181 §5.2)";
        check.fault(at, format!("{message}; write {} as above", set.ttl_secs));
    }
    for value in values {
        add_value(set, value, check);
    }
    if ptr && !name.starts_with(WILDCARD) {
        derive_ptr(set, derived);
    }
}

/// Reports a CNAME that shares its name with other types (RFC 1034 §3.6.2).
fn refuse_beside_cname(
    name: &Name,
    rtype: Rtype,
    at: Range<usize>,
    sets: &Sets,
    check: &mut Check,
) {
    let other = sets
        .range((name.clone(), Rtype(0))..=(name.clone(), Rtype(u16::MAX)))
        .map(|((_, other), _)| *other)
        .find(|other| *other != rtype && (rtype == Rtype::CNAME || *other == Rtype::CNAME));
    if let Some(other) = other {
        let name = shown(name);
        let message =
            format!("\"{name}\" already has {other}; a name with a CNAME has no other records");
        check.fault(at, message);
    }
}

/// Adds one value to its RRset, or reports its fault.
fn add_value(set: &mut RecordConfig, value: Spanned<String>, check: &mut Check) {
    let at = value.span();
    match parse(set.rtype, value.get_ref()) {
        Err(message) => check.fault(at, message),
        Ok(_) if set.rtype == Rtype::CNAME && !set.rdata.is_empty() => {
            check.fault(at, "a name has only one CNAME; remove the others");
        }
        Ok(rdata) if set.rdata.contains(&rdata) => {
            check.fault(at, format!("duplicate value {}", value.get_ref()));
        }
        Ok(rdata) => set.rdata.push(rdata),
    }
}

/// Returns the wire format of one value.
fn parse(rtype: Rtype, value: &str) -> Result<Box<[u8]>, SettingError> {
    // The generic format of unknown types contains blanks (RFC 3597 §5).
    let is_generic = value.trim_start().starts_with("\\#");
    if rtype == Rtype::TXT
        && !is_generic
        && !value.contains('"')
        && value.trim().contains(char::is_whitespace)
    {
        // Without quotes, each word would be a separate string, which is certainly a mistake.
        return Err(SettingError::UnquotedText(value.to_owned()));
    }
    let mut wire = Vec::new();
    rdata::parse(rtype.0, value, ROOT, &mut wire).map_err(|source| SettingError::RecordData {
        value: value.to_owned(),
        rtype,
        source,
    })?;
    Ok(wire.into())
}

/// Adds the PTR record of each address of an A or AAAA set.
fn derive_ptr(set: &RecordConfig, derived: &mut Sets) {
    for rdata in &set.rdata {
        let address: Option<IpAddr> = match set.rtype {
            Rtype::A => <[u8; 4]>::try_from(&**rdata).ok().map(IpAddr::from),
            Rtype::AAAA => <[u8; 16]>::try_from(&**rdata).ok().map(IpAddr::from),
            _ => None,
        };
        let Some(address) = address else {
            continue;
        };
        let name = reverse_name(address);
        derived.entry((name.clone(), Rtype::PTR)).or_insert_with(|| RecordConfig {
            name,
            rtype: Rtype::PTR,
            rdata: vec![set.name.clone()],
            ttl_secs: set.ttl_secs,
        });
    }
}
