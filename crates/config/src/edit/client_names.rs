//! The clients that an edit renames or removes, and the groups and rules that name them. A group
//! treats a name that is no client as a host name. Without this check, the client would leave its
//! group silently.

use toml_edit::{Array, ArrayOfTables, DocumentMut, Item, Table, Value};

use super::EditError;

/// Returns the names of all clients.
pub(super) fn clients(document: &DocumentMut) -> Vec<String> {
    let names = tables(document, "client").filter_map(|table| text(table, "name"));
    names.map(str::to_owned).collect()
}

/// Gives a client its new name in all groups.
pub(super) fn rename(document: &mut DocumentMut, old: &str, new: &str) {
    let groups = document.get_mut("group").and_then(Item::as_array_of_tables_mut);
    for group in groups.into_iter().flat_map(ArrayOfTables::iter_mut) {
        let members = group.get_mut("clients").and_then(Item::as_array_mut);
        for member in members.into_iter().flat_map(Array::iter_mut) {
            if member.as_str().is_some_and(|name| name.eq_ignore_ascii_case(old)) {
                let decor = member.decor().clone();
                *member = Value::from(new);
                *member.decor_mut() = decor;
            }
        }
    }
}

/// Checks that no group or rule names a client that the edits removed. `before` are the names
/// before the edits.
///
/// # Errors
/// The first group or rule that names a removed client.
pub(super) fn check(document: &DocumentMut, before: &[String]) -> Result<(), EditError> {
    let after = clients(document);
    let gone = before.iter().filter(|name| !after.iter().any(|one| one.eq_ignore_ascii_case(name)));
    for name in gone {
        let groups = tables(document, "group").filter(|group| has_member(group, name));
        let rules = tables(document, "rule").filter(|rule| tests_name(rule, name));
        let by_group = groups.map(|table| ("group", table));
        let mut named_by = by_group.chain(rules.map(|table| ("rule", table)));
        if let Some((kind, table)) = named_by.next() {
            let by = format!("{kind} `{}`", text(table, "name").unwrap_or_default());
            return Err(EditError::ClientInUse { client: name.clone(), by });
        }
    }
    Ok(())
}

fn tables<'d>(document: &'d DocumentMut, table: &str) -> impl Iterator<Item = &'d Table> {
    let tables = document.get(table).and_then(Item::as_array_of_tables);
    tables.into_iter().flat_map(ArrayOfTables::iter)
}

fn text<'t>(table: &'t Table, key: &str) -> Option<&'t str> {
    table.get(key)?.as_str()
}

fn has_member(group: &Table, name: &str) -> bool {
    let members = group.get("clients").and_then(Item::as_array);
    let mut members = members.into_iter().flat_map(Array::iter).filter_map(Value::as_str);
    members.any(|member| member.eq_ignore_ascii_case(name))
}

/// Returns whether a condition about clients in a rule contains the name in quotes.
fn tests_name(rule: &Table, name: &str) -> bool {
    let quoted = [format!("\"{name}\""), format!("'{name}'")].map(|text| text.to_lowercase());
    let texts = rule.iter().filter(|(key, _)| *key != "name").filter_map(|(_, item)| item.as_str());
    let is_of_clients = |text: &&str| text.contains("client");
    texts
        .filter(is_of_clients)
        .map(str::to_lowercase)
        .any(|text| quoted.iter().any(|quoted| text.contains(quoted)))
}

#[cfg(test)]
mod tests {
    use super::super::{EditError, KeyEdit, edited};

    const TEXT: &str = "[[client]]\nname = \"tab\"\nids = [\"192.0.2.1\"]\n\n[[group]]\nname = \
                        \"kids\"\nclients = [\"192.0.2.9\", \"tab\"] # two\n";

    fn edit(text: &str, edits: &[(&str, Option<&str>)]) -> Result<String, EditError> {
        let edits: Vec<_> = edits.iter().map(|&(key, value)| KeyEdit { key, value }).collect();
        edited(text, &edits)
    }

    #[test]
    fn a_client_that_is_renamed_stays_in_its_groups() {
        let renamed = TEXT.replace("\"tab\"", "\"tablet\"");
        for (key, value) in [
            ("client[tab]", "{ name = \"tablet\", ids = [\"192.0.2.1\"] }"),
            ("client[tab].name", "\"tablet\""),
        ] {
            assert_eq!(edit(TEXT, &[(key, Some(value))]).as_ref(), Ok(&renamed), "{key}");
        }
    }

    #[test]
    fn a_client_that_a_group_or_rule_names_cannot_be_removed() {
        let error = edit(TEXT, &[("client[tab]", None)]).unwrap_err().to_string();
        assert!(error.starts_with("group `kids` names the client `tab`"), "{error}");
        let both = [("group[kids].clients", Some("[\"192.0.2.9\"]")), ("client[tab]", None)];
        assert!(edit(TEXT, &both).is_ok());
        let rule = "[[rule]]\nname = \"r\"\nif = 'client.name == \"Tab\"'\naction = \"block\"\n";
        let text = format!("{TEXT}\n{rule}");
        let renamed = edit(&text, &[("client[tab].name", Some("\"tablet\""))]).unwrap_err();
        let error = renamed.to_string();
        assert!(error.starts_with("rule `r` names the client `tab`"), "{error}");
    }
}
