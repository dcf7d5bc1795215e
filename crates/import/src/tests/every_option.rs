//! Tests that each documented option of BIND and PowerDNS either changes the result or is noted.

use super::*;

/// Imports a source with each option and without it. An option has one or several names.
#[track_caller]
fn check(options: &[(Vec<String>, String)], import: &dyn Fn(&str) -> Imported) {
    let Imported { config: without, notes: before, .. } = import("");
    let mut lost = Vec::new();
    for (names, text) in options {
        let Imported { config, notes, .. } = import(text);
        let added: Vec<&String> = notes.iter().filter(|note| !before.contains(note)).collect();
        let is_named = added.iter().any(|note| names.iter().any(|name| note.contains(name)));
        // Without the option, a note says what the source does by default.
        let is_default_gone = before.iter().any(|note| !notes.contains(note));
        if config == without && !is_named && !is_default_gone {
            lost.push(format!("{text}: {added:?}"));
        }
    }
    assert_eq!(lost, [""; 0], "neither carried over nor named");
}

/// Returns each line with its first word.
fn of_lines(text: &str, end: char) -> Vec<(Vec<String>, String)> {
    let option = |line: &str| Some((vec![line.split(end).next()?.to_owned()], line.to_owned()));
    text.lines().filter_map(option).collect()
}

#[test]
fn of_bind() {
    let import = |settings: &str, options: &str| {
        let text = format!(
            "key k {{ algorithm hmac-sha256; secret \"c2VjcmV0IHNlY3JldCBzZWNyZXQh\"; }};\n\
             options {{\n{settings}{options}\n}};\n\
             zone a.example {{ type primary; file \"a\"; }};\n\
             zone s.example {{ type secondary; primaries {{ 192.0.2.1; }}; }};\n"
        );
        run_text(Origin::Bind, "named.conf", &text)
            .unwrap_or_else(|error| panic!("{text}: {error}"))
    };
    let options = of_lines(include_str!("../../samples/options/bind.txt"), ' ');
    // These options have an effect only in combination with others.
    let (with_others, options): (Vec<_>, Vec<_>) = options.into_iter().partition(|(names, _)| {
        ["forward", "key-directory", "notify"].contains(&names[0].as_str())
    });
    check(&options, &|text| import("", text));
    let settings =
        "forwarders { 192.0.2.8; }; also-notify { 192.0.2.7; }; dnssec-policy default;\n";
    check(&with_others[..1], &|text| import(settings, text));
    let notes = import(settings, "key-directory \"/k\";").notes.join("\n");
    assert!(notes.contains("its keys were not found in /k:"), "{notes}");
    let notified = |text: &str| import(settings, text).config.contains("notify = [");
    assert!(notified("") && !notified("notify no;"));
}

#[test]
fn of_powerdns() {
    let options = |text: &str| {
        let mut options = of_lines(text, '=');
        for (names, _) in &mut options {
            // Several settings have a current name.
            let current = match names[0].as_str() {
                "master" => "primary",
                "slave" => "secondary",
                "superslave" => "autosecondary",
                "slave-cycle-interval" => "xfr-cycle-interval",
                "allow-unsigned-supermaster" => "allow-unsigned-autoprimary",
                _ => continue,
            };
            names.push(current.to_owned());
        }
        options
    };
    let stored = database(
        "CREATE TABLE domains (id INTEGER, name TEXT, master TEXT, type TEXT);
         INSERT INTO domains VALUES (1, 'a.example', NULL, 'MASTER');",
    );
    let import = |text: &str| {
        let settings = format!("launch=gsqlite3\ngsqlite3-database=/p.db\n{text}\n");
        let files = Memory::default().with("pdns.conf", settings).with("/p.db", stored.clone());
        run(Origin::Powerdns, "pdns.conf", &files).unwrap()
    };
    check(&options(include_str!("../../samples/options/pdns.txt")), &import);
    let import = |text: &str| {
        run_text(Origin::Powerdns, "recursor.conf", &format!("other=1\n{text}\n")).unwrap()
    };
    check(&options(include_str!("../../samples/options/recursor.txt")), &import);
}

#[test]
fn of_powerdns_recursor_in_yaml() {
    let options: Vec<(Vec<String>, String)> =
        include_str!("../../samples/options/recursor.yml.txt")
            .lines()
            .filter_map(|line| {
                let (name, value) = line.split_once(": ")?;
                let (section, key) = name.split_once('.')?;
                let names = match section {
                    // Some sections are named as a whole.
                    "carbon" | "ecs" | "logging" | "nod" | "snmp" | "webservice" => {
                        vec![section.to_owned()]
                    }
                    _ => vec![name.to_owned(), key.replace('_', "-")],
                };
                Some((names, format!("{section}:\n  {key}: {value}\n")))
            })
            .collect();
    check(&options, &|text| run_text(Origin::Powerdns, "recursor.yml", text).unwrap());
    // The last parts of these names are the same.
    let text = "packetcache: {max_entries: 7}\nrecordcache: {max_entries: 8}\n";
    let notes = run_text(Origin::Powerdns, "recursor.yml", text).unwrap().notes.join("\n");
    for name in ["packetcache.max_entries", "recordcache.max_entries"] {
        assert!(notes.contains(name), "{name}: {notes}");
    }
}
