//! Names for which dnsmasq sets records of some types only.
//!
//! dnsmasq forwards queries for all other types of such a name. In Avocet a local record covers the
//! whole name, so other types have no data. If a name has no local address, such as a public domain
//! with `txt-record`, its records become a list that answers only these types.

use crate::draft::{Draft, ListKind, Trust};
use crate::name;

/// Maximum number of names that are shown in a note.
const MAX_SHOWN: usize = 5;
/// Maximum number of octets of a string of a TXT record.
const MAX_STRING: usize = 255;

/// Creates the list for these names, and adds a note about names that the list cannot cover.
pub(crate) fn settle(draft: &mut Draft) {
    let is_local = |owner: &str| draft.local_zones.keys().any(|zone| name::is_under(owner, zone));
    let is_of_network =
        |owner: &str| owner.starts_with(['_', '*']) || owner.ends_with(".arpa") || is_local(owner);
    let owners = draft
        .records
        .owners()
        .into_iter()
        .filter(|owner| owner.contains('.') && !is_of_network(owner));
    let owners: Vec<String> = owners.map(str::to_owned).collect();
    let (mut lines, mut halves, mut whole) = (Vec::new(), Vec::new(), Vec::new());
    for owner in owners {
        let types = draft.records.types_of(&owner);
        let has = |rtype: &str| types.contains(&rtype);
        match (has("A"), has("AAAA")) {
            _ if has("CNAME") => {}
            (true, true) => {}
            // With `address`, dnsmasq does not forward the other address type either.
            (true, false) | (false, true) if !draft.records.is_mapped_back(&owner) => {}
            (false, false) => match draft.records.lines(&owner, line) {
                Some(answers) => lines.extend(answers),
                None => whole.push(owner),
            },
            _ => halves.push(owner),
        }
    }
    note(draft, &halves, "the other address family");
    note(draft, &whole, "addresses");
    if !lines.is_empty() {
        let origin = "names with only some types answered locally";
        let list = draft.own_list("types", "adblock", ListKind::Block, &lines, origin);
        debug_assert!(draft.lists.last().is_some_and(|list| list.trust == Trust::Answers));
        draft.for_everybody.push(list);
    }
}

fn note(draft: &mut Draft, owners: &[String], missing: &str) {
    if owners.is_empty() {
        return;
    }
    let shown = owners.iter().take(MAX_SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = if owners.len() > MAX_SHOWN {
        format!(" and {} more", owners.len() - MAX_SHOWN)
    } else {
        String::new()
    };
    let reason = format!("a name with records has no data for other types, so none for {missing}");
    draft.note(format!("{shown}{more}"), reason);
}

/// Returns the list line that answers with one record, or `None` if it cannot be expressed.
fn line(owner: &str, rtype: &str, data: &str) -> Option<String> {
    let data = match rtype {
        "TXT" => one_string(data)?,
        _ => data,
    };
    // A dollar sign begins the modifiers, and backslashes are unescaped twice.
    if data.contains(['$', '\\']) {
        return None;
    }
    let data = data.replace(',', "\\,");
    Some(format!("|{owner}^$dnstype={rtype},dnsrewrite=NOERROR;{rtype};{data}"))
}

/// Returns the text of a TXT record with one string.
fn one_string(data: &str) -> Option<&str> {
    let text = data.strip_prefix('"')?.strip_suffix('"')?;
    (!text.contains('"') && text.len() <= MAX_STRING).then_some(text)
}
