//! The keys that entries of a file have lost. Entries are the tables that may occur several times,
//! such as `[[zone]]`. A file that was cut at the end of a line is often valid, and its last entry
//! may then lack keys.

use std::collections::{BTreeMap, BTreeSet};

use toml::{Table, Value};

use super::edit::DOMAINS;

/// The entries of a file with one name. Most names have only one.
type Entries<'t> = BTreeMap<EntryName<'t>, Vec<&'t Table>>;

/// The name of an entry in its table.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct EntryName<'t> {
    table: &'t str,
    name: String,
}

impl<'t> EntryName<'t> {
    fn of(table: &'t str, entry: &Table) -> Self {
        let text = |key: &str| entry.get(key).and_then(Value::as_str);
        // A `[[certificate]]` has no name, so the path in `cert` identifies it.
        let own = ["name", "zone", "cert"].into_iter().find_map(text).unwrap_or_default();
        let short = own.strip_suffix('.').filter(|short| !short.is_empty()).unwrap_or(own);
        let folded = short.to_ascii_lowercase();
        let own = if DOMAINS.contains(&table) { &*folded } else { own };
        let view = entry.get("view").and_then(Value::as_array).and_then(|items| items.first());
        let name = match (text("type"), view.and_then(Value::as_str)) {
            (Some(rtype), _) => format!("{own} {}", rtype.to_ascii_uppercase()),
            (None, Some(view)) => format!("{own}/{view}"),
            (None, None) => own.to_owned(),
        };
        Self { table, name }
    }
}

/// Returns the keys that an entry has in the first text, and no longer in the second one, in the
/// form of [`edit`](super::edit). Values are not shown, because they may be secret. Omits entries
/// that are missing as a whole, and keys whose value is the same in both of the
/// [effective](super::Config::effective) configurations, because it is the default.
///
/// The texts are those of configurations.
pub fn lost_keys(texts: [&str; 2], effective: [&Table; 2]) -> Vec<String> {
    let written = texts.map(|text| text.parse::<Table>().unwrap_or_default());
    let [before, after] = written.each_ref().map(entries);
    let [old, new] = effective.map(entries);
    let mut lost = Vec::new();
    for (name, entries) in &before {
        let Some(others) = after.get(name).filter(|others| others.len() >= entries.len()) else {
            continue;
        };
        let keys: BTreeSet<&String> = entries.iter().flat_map(|entry| entry.keys()).collect();
        for key in keys {
            let count =
                |entries: &[&Table]| entries.iter().filter(|entry| entry.contains_key(key)).count();
            let values = (value(&old, name, key), value(&new, name, key));
            let is_same = values.0.is_some() && values.0 == values.1;
            if count(others) < count(entries) && !is_same {
                lost.push(format!("{}[{}].{key}", name.table, name.name));
            }
        }
    }
    lost
}

fn entries(file: &Table) -> Entries<'_> {
    let mut all = Entries::new();
    for (table, entries) in file {
        let entries = entries.as_array().into_iter().flatten().filter_map(Value::as_table);
        for entry in entries {
            all.entry(EntryName::of(table, entry)).or_default().push(entry);
        }
    }
    all
}

/// Returns the value of a key of the only entry with a name.
fn value<'t>(all: &Entries<'t>, name: &EntryName<'t>, key: &str) -> Option<&'t Value> {
    match all.get(name)?.as_slice() {
        [entry] => entry.get(key),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::Config;

    #[track_caller]
    fn check(before: &str, after: &str, expected: &[&str]) {
        let effective = [before, after]
            .map(|text| Config::from_text(None, text, &BTreeMap::new()).unwrap().effective());
        assert_eq!(lost_keys([before, after], effective.each_ref()), expected, "{after}");
    }

    #[test]
    fn keys_that_entries_lose_are_named() {
        let text = "[[zone]]\nname = \"Corp.example.\"\nfile = \"/z\"\nsign = true\n\
                    allow-transfer = [\"10.0.0.1\"]\n\
                    [[zone]]\nname = \"corp.example\"\nview = [\"10.0.0.0/8\"]\nfile = \"/v\"\n\
                    settle-secs = 7\n\
                    [[list]]\nname = \"ads\"\nfile = \"/a\"\ntags = [\"x\"]\n\
                    [[group]]\nname = \"kids\"\nprivacy = \"off\"\nlists = []\n\
                    [[client]]\nname = \"tablet\"\nids = [\"10.0.0.7\"]\ngroups = [\"kids\"]\n\
                    [[record]]\nname = \"nas.lan\"\ntype = \"a\"\nvalues = [\"10.0.0.2\"]\n\
                    ttl-secs = 9\n\
                    [[forward]]\nzone = \".\"\nupstreams = [\"192.0.2.1\"]\ntimeout-min-ms = 70\n\
                    [[rule]]\nname = \"bed\"\nwhen = 'true'\naction = \"block\"\nanswer = \"nodata\"\n\
                    log-only = false\n";
        check(text, text, &[]);
        let without = |line: &str| {
            assert!(text.contains(line), "{line}");
            text.replacen(line, "", 1)
        };
        for (line, key) in [
            ("sign = true\n", "zone[corp.example].sign"),
            ("allow-transfer = [\"10.0.0.1\"]\n", "zone[corp.example].allow-transfer"),
            ("settle-secs = 7\n", "zone[corp.example/10.0.0.0/8].settle-secs"),
            ("tags = [\"x\"]\n", "list[ads].tags"),
            ("privacy = \"off\"\n", "group[kids].privacy"),
            ("lists = []\n", "group[kids].lists"),
            ("groups = [\"kids\"]\n", "client[tablet].groups"),
            ("ttl-secs = 9\n", "record[nas.lan A].ttl-secs"),
            ("timeout-min-ms = 70\n", "forward[.].timeout-min-ms"),
            ("answer = \"nodata\"\n", "rule[bed].answer"),
        ] {
            check(text, &without(line), &[key]);
            check(&without(line), text, &[]);
        }
        // The values of these keys stay the same, or the entry is missing as a whole.
        check(text, &without("log-only = false\n"), &[]);
        check(text, &text.replace("\"Corp.example.\"", "\"corp.example\""), &[]);
        check(text, &text[..text.find("[[rule]]").unwrap()], &[]);
    }

    #[test]
    fn entries_with_one_name_lose_keys_together() {
        let entry = |rest: &str| format!("[[record]]\nname = \"a.lan\"\ntype = \"A\"\n{rest}");
        let (plain, with) = (entry(""), entry("ttl-secs = 5\n"));
        let lost = |before: &str, after: &str| lost_keys([before, after], [&Table::new(); 2]);
        let key = "record[a.lan A].ttl-secs";
        assert_eq!(lost(&[&*plain, &*with].concat(), &[&*plain, &*plain].concat()), [key]);
        assert_eq!(lost(&[&*with, &*plain].concat(), &[&*plain, &*with].concat()), [""; 0]);
        assert_eq!(lost(&[&*with, &*plain].concat(), &plain), [""; 0]);
    }
}
