//! Edits of the configuration file by programs. An edit keeps the comments, the order and the form
//! of all other lines.
//!
//! A key is named in one of three ways:
//!
//! ```text
//! policy.block-ttl-secs     a key of a table
//! rule[bedtime].enabled     a key of one of several tables, by its name
//! list[ads]                 one of several tables as a whole; its value is an inline table
//! ```
//! The name of a table is its `name` or `zone`; that of a `[[record]]` is followed by its type, as
//! in `record[nas.lan A]`, and that of a `[[zone]]` with a view by a slash and the first item of
//! the view, as in `zone[corp.example/office]`. A new table gets its name, type and view from the
//! key.

mod client_names;

use toml_edit::{ArrayOfTables, DocumentMut, Item, Table, TableLike, Value, table};

/// A mark that some editors write before the text.
const BYTE_ORDER_MARK: &str = "\u{feff}";
/// The tables whose names are domain names, which compare without case and final dot.
pub(super) const DOMAINS: [&str; 6] = ["forward", "key", "pool", "record", "stub", "zone"];

/// A change of one key.
#[derive(Debug, Clone, Copy)]
pub struct KeyEdit<'e> {
    /// The key.
    pub key: &'e str,
    /// The new value as TOML; `None` removes the key or table.
    pub value: Option<&'e str>,
}

/// The reason why a text cannot be edited.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum EditError {
    /// The text is not TOML.
    #[error("the file is not TOML: {0}")]
    NotToml(String),
    /// The text is not a key.
    #[error("`{0}` is not a key: write TABLE.KEY, TABLE[NAME].KEY or TABLE[NAME]")]
    NotAKey(String),
    /// The value is not TOML.
    #[error(
        "`{value}` is not a value of TOML, such as 60, true, \"text\" or [\"a\", \"b\"]: {reason}"
    )]
    NotAValue {
        /// The value.
        value: String,
        /// The reason.
        reason: String,
    },
    /// The value of a whole table is not an inline table.
    #[error("the value of `{0}` must be an inline table, such as {{ name = \"ads\" }}")]
    NotATable(String),
    /// The key or table to change does not exist.
    #[error("`{0}` is not in the file")]
    Missing(String),
    /// The tables are in an array of inline tables, which is not edited.
    #[error(
        "`{0}` is an array of inline tables, which only an edit by hand can change: write its \
             entries as [[{0}]]"
    )]
    InlineTables(String),
    /// Several entries have the name, so that the edit might change the wrong one.
    #[error("several entries are {table}[{name}]: edit the configuration file")]
    Ambiguous {
        /// The name of the array of tables.
        table: String,
        /// The name of the entries.
        name: String,
    },
    /// A variable of the environment overrides the key, so that an edit has no effect.
    #[error(
        "`{key}` has no effect, because the server has the environment variable {variable}: change \
         or remove the variable"
    )]
    Overridden {
        /// The key.
        key: String,
        /// The variable.
        variable: String,
    },
    /// A group or a rule names a client that the edits rename or remove.
    #[error(
        "{by} names the client `{client}`: change it first, or with the same request; without the \
             client, the name would be that of any host"
    )]
    ClientInUse {
        /// The client.
        client: String,
        /// The group or the rule that names the client.
        by: String,
    },
}

/// Checks that no variable of the environment overrides an edited key. `is_set` decides whether a
/// variable exists.
///
/// # Errors
/// A variable overrides a key, so that its edit has no effect.
pub fn check_effect(edits: &[KeyEdit<'_>], is_set: impl Fn(&str) -> bool) -> Result<(), EditError> {
    for edit in edits {
        let Some((table, key)) = edit.key.split_once('.').filter(|(table, _)| !table.contains('['))
        else {
            continue;
        };
        let variable = format!("AVOCET_{table}__{key}").to_ascii_uppercase().replace('-', "_");
        if is_set(&variable) {
            return Err(EditError::Overridden { key: edit.key.to_owned(), variable });
        }
    }
    Ok(())
}

/// Returns the text with all edits, in order.
///
/// # Errors
/// The text, a key or a value is malformed, a key to remove is missing, the tables are in an array
/// of inline tables, or a group or rule names a client that the edits rename or remove.
pub fn edited(text: &str, edits: &[KeyEdit<'_>]) -> Result<String, EditError> {
    let (mark, text) = match text.strip_prefix(BYTE_ORDER_MARK) {
        Some(rest) => (BYTE_ORDER_MARK, rest),
        None => ("", text),
    };
    let mut document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| {
        EditError::NotToml(error.message().replace('\n', ", "))
    })?;
    let clients = client_names::clients(&document);
    for edit in edits {
        if let Some((old, new)) = new_name_of_client(edit)? {
            client_names::rename(&mut document, old, &new);
        }
        apply(&mut document, edit)?;
    }
    client_names::check(&document, &clients)?;
    let edited = document.to_string();
    let edited = if has_crlf(text) { with_crlf(&edited) } else { edited };
    Ok(format!("{mark}{edited}"))
}

/// Returns whether each line ends in CRLF.
fn has_crlf(text: &str) -> bool {
    let all = text.matches('\n').count();
    all > 0 && all == text.matches("\r\n").count()
}

/// Returns a text with CRLF at the end of each line.
fn with_crlf(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\n', "\r\n")
}

/// A key, split into its parts.
enum KeyPath<'k> {
    InTable { table: &'k str, key: &'k str },
    InEntry { table: &'k str, name: &'k str, key: &'k str },
    Entry { table: &'k str, name: &'k str },
}

impl<'k> KeyPath<'k> {
    fn read(text: &'k str) -> Option<Self> {
        let is_word = |word: &str| {
            !word.is_empty()
                && word.bytes().all(|octet| octet.is_ascii_alphanumeric() || octet == b'-')
        };
        let Some((table, rest)) = text.split_once('[') else {
            let (table, key) = text.split_once('.')?;
            return (is_word(table) && is_word(key)).then_some(Self::InTable { table, key });
        };
        let (name, end) = rest.rsplit_once(']')?;
        if !is_word(table) {
            return None;
        }
        match end.strip_prefix('.') {
            Some(key) => is_word(key).then_some(Self::InEntry { table, name, key }),
            None => end.is_empty().then_some(Self::Entry { table, name }),
        }
    }
}

/// Returns the old and the new name of the client that an edit renames; `None` for other edits.
fn new_name_of_client<'e>(edit: &KeyEdit<'e>) -> Result<Option<(&'e str, String)>, EditError> {
    let new = match (KeyPath::read(edit.key), edit.value) {
        (Some(KeyPath::InEntry { table: "client", name, key: "name" }), Some(text)) => {
            value(text)?.as_str().map(|new| (name, new.to_owned()))
        }
        (Some(KeyPath::Entry { table: "client", name }), Some(text)) => {
            let value = value(text)?;
            let new = value.as_inline_table().and_then(|table| table.get("name")?.as_str());
            new.map(|new| (name, new.to_owned()))
        }
        _ => None,
    };
    Ok(new.filter(|(old, new)| old != new))
}

fn apply(document: &mut DocumentMut, edit: &KeyEdit<'_>) -> Result<(), EditError> {
    let missing = || EditError::Missing(edit.key.to_owned());
    let path = KeyPath::read(edit.key).ok_or_else(|| EditError::NotAKey(edit.key.to_owned()))?;
    let value = edit.value.map(value).transpose()?;
    if let KeyPath::InEntry { table, .. } | KeyPath::Entry { table, .. } = path
        && document.get(table).is_some_and(Item::is_array)
    {
        return Err(EditError::InlineTables(table.to_owned()));
    }
    match path {
        KeyPath::InTable { table: name, key } => {
            let item = document.entry(name).or_insert_with(table);
            let table = item.as_table_like_mut().ok_or_else(missing)?;
            set(table, key, value).ok_or_else(missing)
        }
        KeyPath::InEntry { table, name, key } => {
            let entries = entries(document, table).ok_or_else(missing)?;
            let place = place(entries, table, name)?.ok_or_else(missing)?;
            set(entries.get_mut(place).ok_or_else(missing)?, key, value).ok_or_else(missing)
        }
        KeyPath::Entry { table, name } => {
            let Some(value) = value else {
                let entries = entries(document, table).ok_or_else(missing)?;
                entries.remove(place(entries, table, name)?.ok_or_else(missing)?);
                return Ok(());
            };
            let Value::InlineTable(value) = value else {
                return Err(EditError::NotATable(edit.key.to_owned()));
            };
            let empty = || Item::ArrayOfTables(ArrayOfTables::new());
            let item = document.entry(table).or_insert_with(empty);
            let entries = item.as_array_of_tables_mut().ok_or_else(missing)?;
            let value = value.into_table();
            let view = first_of_view(&value).map(|view| format!("/{view}"));
            let own = view.and_then(|view| name.strip_suffix(&view)).unwrap_or(name);
            let place = place(entries, table, name)?;
            put(entries, place, identity(table, own), value);
            Ok(())
        }
    }
}

fn value(text: &str) -> Result<Value, EditError> {
    text.parse().map_err(|error: toml_edit::TomlError| EditError::NotAValue {
        value: text.to_owned(),
        reason: error.message().replace('\n', ", "),
    })
}

fn entries<'d>(document: &'d mut DocumentMut, table: &str) -> Option<&'d mut ArrayOfTables> {
    document.get_mut(table)?.as_array_of_tables_mut()
}

/// Returns the index of the table with a name; `None` if there is no such table. `kind` is the name
/// of the array.
///
/// # Errors
/// Several tables have the name.
fn place(entries: &ArrayOfTables, kind: &str, name: &str) -> Result<Option<usize>, EditError> {
    match *places(entries, kind, name) {
        [] => Ok(None),
        [place] => Ok(Some(place)),
        _ => Err(EditError::Ambiguous { table: kind.to_owned(), name: name.to_owned() }),
    }
}

/// Returns the indices of the tables with a name.
fn places(entries: &ArrayOfTables, kind: &str, name: &str) -> Vec<usize> {
    let text = |table: &Table, key: &str| table.get(key)?.as_str().map(str::to_owned);
    let is_same = |own: &str, name: &str| {
        let is_folded = DOMAINS.contains(&kind)
            && own.trim_end_matches('.').eq_ignore_ascii_case(name.trim_end_matches('.'));
        is_folded || own == name
    };
    let is_named = |table: &Table| {
        let own = text(table, "name").or_else(|| text(table, "zone"));
        let Some(own) = own else { return false };
        match (text(table, "type"), first_of_view(table)) {
            (Some(rtype), _) => name.rsplit_once(' ').is_some_and(|(name, written)| {
                is_same(&own, name) && rtype.eq_ignore_ascii_case(written)
            }),
            (None, Some(view)) => name
                .strip_suffix(view)
                .and_then(|name| name.strip_suffix('/'))
                .is_some_and(|name| is_same(&own, name)),
            (None, None) => is_same(&own, name),
        }
    };
    let all = entries.iter().enumerate().filter(|(_, table)| is_named(table));
    all.map(|(place, _)| place).collect()
}

/// Returns the first item of `view` of a zone.
fn first_of_view(table: &dyn TableLike) -> Option<&str> {
    table.get("view")?.as_array()?.get(0)?.as_str()
}

/// Sets a key, or removes it without a value. A new value gets the comments of the previous one.
/// Returns `None` if the key to remove is missing.
fn set(table: &mut dyn TableLike, key: &str, value: Option<Value>) -> Option<()> {
    let Some(mut value) = value else { return table.remove(key).map(drop) };
    match table.get_mut(key).and_then(Item::as_value_mut) {
        Some(old) => {
            *value.decor_mut() = old.decor().clone();
            *old = value;
        }
        None => drop(table.insert(key, Item::Value(value))),
    }
    Some(())
}

/// Returns the keys that make up the name of an entry, with their values.
fn identity<'n>(table: &str, name: &'n str) -> Vec<(&'static str, &'n str)> {
    match (table, name.rsplit_once(' ')) {
        ("record", Some((name, rtype))) => vec![("name", name), ("type", rtype)],
        ("forward" | "stub", _) => vec![("zone", name)],
        _ => vec![("name", name)],
    }
}

/// Adds an entry to a table, or gives the entry with this name the keys of another. The keys that
/// make up the name come first.
fn put(
    entries: &mut ArrayOfTables,
    place: Option<usize>,
    identity: Vec<(&'static str, &str)>,
    mut new: Table,
) {
    for (mut key, item) in new.iter_mut() {
        key.fmt();
        item.as_value_mut().into_iter().for_each(|value| value.decor_mut().clear());
    }
    let mut named = Table::new();
    for (key, value) in identity {
        let value = new.remove(key).unwrap_or_else(|| Item::Value(value.into()));
        named.insert(key, value);
    }
    named.extend(new.iter().map(|(key, item)| (key.to_owned(), item.clone())));
    let new = named;
    let Some(old) = place.and_then(|place| entries.get_mut(place)) else {
        entries.push(new);
        return;
    };
    old.retain(|key, _| new.contains_key(key));
    for (key, item) in new.iter() {
        if let Some(value) = item.as_value() {
            set(old, key, Some(value.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_of_a_key_that_a_variable_overrides_is_refused() {
        let check = |key| {
            let edits = [KeyEdit { key, value: Some("30") }];
            check_effect(&edits, |name| name == "AVOCET_POLICY__BLOCK_TTL_SECS")
        };
        let variable = "AVOCET_POLICY__BLOCK_TTL_SECS".to_owned();
        let key = "policy.block-ttl-secs".to_owned();
        assert_eq!(check(&key), Err(EditError::Overridden { key: key.clone(), variable }));
        for key in ["policy.block-private", "list[policy.block-ttl-secs]", "policy"] {
            assert_eq!(check(key), Ok(()), "{key}");
        }
    }

    const TEXT: &str = "# top\n[policy] # of all\nblock-ttl-secs = 60 # short\n\n# lists\n\
                        [[list]]\nname = \"ads\"   # the first\nfile = \"/a\"\n\n\
                        # names\n[[record]]\nname = \"nas.lan\"\ntype = \"A\"\nvalues = [\"10.0.0.1\"]\n";

    #[track_caller]
    fn check(key: &str, value: Option<&str>, changes: &[(&str, &str)]) {
        let expected = changes.iter().fold(TEXT.to_owned(), |text, (a, b)| {
            assert!(text.contains(a), "{a}");
            text.replacen(a, b, 1)
        });
        assert_eq!(edited(TEXT, &[KeyEdit { key, value }]).as_ref(), Ok(&expected), "{key}");
    }

    #[test]
    fn an_edit_changes_one_value_and_keeps_all_else() {
        check("policy.block-ttl-secs", Some("30"), &[("= 60 #", "= 30 #")]);
        check("list[ads].file", Some("\"/b\""), &[("\"/a\"", "\"/b\"")]);
        check("list[ads].tags", Some("[\"x\"]"), &[("\"/a\"\n", "\"/a\"\ntags = [\"x\"]\n")]);
        check("record[nas.lan A].ttl-secs", Some("5"), &[("1\"]\n", "1\"]\nttl-secs = 5\n")]);
        check(
            "cache.prefetch",
            Some("false"),
            &[("1\"]\n", "1\"]\n\n[cache]\nprefetch = false\n")],
        );
        check("policy.block-ttl-secs", None, &[("block-ttl-secs = 60 # short\n", "")]);
    }

    #[test]
    fn whole_tables_are_added_changed_and_removed() {
        check(
            "list[more]",
            Some("{ file = \"/m\", tags = [] }"),
            &[("\"/a\"\n", "\"/a\"\n\n[[list]]\nname = \"more\"\nfile = \"/m\"\ntags = []\n")],
        );
        check("list[ads]", Some("{ file = \"/b\" }"), &[("\"/a\"", "\"/b\"")]);
        check(
            "record[nas.lan A]",
            None,
            &[(
                "\n# names\n[[record]]\nname = \"nas.lan\"\ntype = \"A\"\nvalues = [\"10.0.0.1\"]\n",
                "",
            )],
        );
    }

    #[test]
    fn the_key_names_an_entry_that_is_added_or_replaced() {
        let added = |key: &str, value: &str, lines: &str| {
            check(key, Some(value), &[("10.0.0.1\"]\n", &format!("10.0.0.1\"]\n\n{lines}"))]);
        };
        added(
            "record[r1.lan A]",
            "{ values = [\"10.0.0.2\"] }",
            "[[record]]\nname = \"r1.lan\"\ntype = \"A\"\nvalues = [\"10.0.0.2\"]\n",
        );
        added(
            "record[r1.lan A]",
            "{ type = \"A\", values = [] }",
            "[[record]]\nname = \"r1.lan\"\ntype = \"A\"\nvalues = []\n",
        );
        for table in ["forward", "stub"] {
            added(
                &format!("{table}[x.org]"),
                "{ upstreams = [\"192.0.2.1\"] }",
                &format!("[[{table}]]\nzone = \"x.org\"\nupstreams = [\"192.0.2.1\"]\n"),
            );
        }
        check("record[nas.lan A]", Some("{ values = [] }"), &[("[\"10.0.0.1\"]", "[]")]);
    }

    #[test]
    fn names_of_domains_have_no_case() {
        let text = "[[zone]]\nname = \"Z.tst.\"\nfile = \"a\"\n\n[[record]]\nname = \"Nas.lan\"\n\
                    type = \"a\"\nvalues = [\"10.0.0.1\"]\n\n[[zone]]\nname = \"V.tst\"\n\
                    view = [\"Office\"]\nfile = \"b\"\n\n[[client]]\nname = \"Tab\"\n";
        let edit = |key: &str| edited(text, &[KeyEdit { key, value: Some("\"c\"") }]);
        let keys = ["zone[z.tst].file", "record[nas.LAN A].values", "zone[v.tst/Office].file"];
        for key in keys {
            assert!(edit(key).is_ok_and(|changed| changed.contains("= \"c\"")), "{key}");
        }
        for key in ["zone[v.tst/office].file", "client[tab].name", "zone[z.ts].file"] {
            assert_eq!(edit(key), Err(EditError::Missing(key.to_owned())), "{key}");
        }
    }

    #[test]
    fn the_ends_of_lines_and_the_mark_at_the_start_stay() {
        let edits = [
            KeyEdit { key: "cache.prefetch", value: Some("false") },
            KeyEdit { key: "policy.block-ttl-secs", value: Some("7") },
        ];
        let text = "\u{feff}# top\r\n[policy] # of all\r\nblock-ttl-secs = 60 # short\r\n";
        let changed = edited(text, &edits).unwrap();
        assert_eq!(
            changed,
            format!("{}\r\n[cache]\r\nprefetch = false\r\n", text.replace("60", "7"))
        );
        // In a file with both line ends, the other lines stay as they are.
        let mixed = edited("a = 1\r\nb = 2\n[policy]\n", &edits).unwrap();
        assert!(mixed.contains("b = 2\n[policy]\nblock-ttl-secs = 7\n"), "{mixed:?}");
    }

    #[test]
    fn what_cannot_be_edited_is_refused() {
        let error = |key, value| edited(TEXT, &[KeyEdit { key, value }]).unwrap_err().to_string();
        for key in ["policy", "a.b.c", "[x]", "list[ads].", "list[ads]x", ""] {
            assert!(error(key, Some("1")).contains("is not a key"), "{key}");
        }
        assert!(error("policy.x", Some("1 2")).contains("is not a value"));
        assert!(error("list[none].file", Some("1")).contains("is not in the file"));
        assert!(error("policy.x", None).contains("is not in the file"));
        assert!(error("list[ads]", Some("1")).contains("inline table"));
        assert!(edited("[", &[]).is_err());
    }

    #[test]
    fn an_entry_that_shares_its_name_is_not_edited() {
        let record = "[[record]]\nname = \"nas.lan\"\ntype = \"A\"\nvalues = [\"192.0.2.1\"]\n";
        let text = [record, record].concat();
        let key = "record[NAS.lan. a]";
        for (key, value) in [
            (key.to_owned(), None),
            (key.to_owned(), Some("{ values = [\"192.0.2.9\"] }")),
            (format!("{key}.values"), Some("[\"192.0.2.9\"]")),
            (format!("{key}.values"), None),
        ] {
            let edit = KeyEdit { key: &key, value };
            let error = edited(&text, &[edit]).unwrap_err().to_string();
            let expected = "several entries are record[NAS.lan. a]: edit the configuration file";
            assert_eq!(error, expected);
        }
    }

    #[test]
    fn an_array_of_inline_tables_is_named_as_the_reason() {
        let text = "list = [{ name = \"a\", file = \"/a\" }]\n";
        for (key, value) in [
            ("list[a].file", Some("\"/b\"")),
            ("list[c]", Some("{ file = \"/c\" }")),
            ("list[a]", None),
        ] {
            let error = edited(text, &[KeyEdit { key, value }]).unwrap_err();
            assert_eq!(error, EditError::InlineTables("list".to_owned()), "{key}");
            assert!(error.to_string().contains("write its entries as [[list]]"), "{error}");
        }
    }

    #[test]
    fn zones_of_one_name_are_named_with_their_views() {
        let zone = |rest: &str| format!("[[zone]]\nname = \"a.example\"\n{rest}");
        let text = [
            zone("file = \"all\"\n"),
            zone("view = [\"office\"]\nfile = \"in\"\n"),
            zone("view = [\"10.0.0.0/8\"]\nfile = \"net\"\n"),
        ]
        .concat();
        let check = |key: &str, value: Option<&str>, expected: &str| {
            assert_eq!(edited(&text, &[KeyEdit { key, value }]).unwrap(), expected, "{key}");
        };
        let with = |from: &str| text.replace(from, "\"other\"");
        check("zone[a.example].file", Some("\"other\""), &with("\"all\""));
        check("zone[a.example/office].file", Some("\"other\""), &with("\"in\""));
        check("zone[a.example/10.0.0.0/8].file", Some("\"other\""), &with("\"net\""));
        check(
            "zone[a.example/office]",
            None,
            &text.replace(&zone("view = [\"office\"]\nfile = \"in\"\n"), ""),
        );
        let added = "{ view = [\"vpn\"], file = \"vpn\" }";
        let of_vpn = zone("view = [\"vpn\"]\nfile = \"vpn\"\n");
        check("zone[a.example/vpn]", Some(added), &format!("{text}\n{of_vpn}"));
        let unknown = KeyEdit { key: "zone[a.example/lab].file", value: Some("\"x\"") };
        assert!(matches!(edited(&text, &[unknown]), Err(EditError::Missing(_))));
    }
}
