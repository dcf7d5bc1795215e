//! Complete sources: all converted settings, all companion files and all notes.

use super::*;

const GRAVITY: &str = include_str!("../../samples/gravity.sql");
const SETTINGS: &[u8] = include_bytes!("../../samples/pihole-six/pihole.toml");

/// Compares with a file of samples/expected, or writes it if `UPDATE_SAMPLES` is set.
#[track_caller]
fn check(name: &str, imported: &Imported) {
    let mut shown = imported.config.clone();
    for (file, text) in &imported.files {
        shown += &format!("\n#### {file}\n{text}");
    }
    for (file, _) in &imported.secrets {
        shown += &format!("\n#### {file}: a secret\n");
    }
    shown += &format!("\n#### notes\n{}\n", imported.notes.join("\n"));
    let path = format!("{}/samples/expected/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_SAMPLES").is_some() {
        std::fs::write(&path, &shown).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    for (number, (found, wanted)) in shown.lines().zip(expected.lines()).enumerate() {
        assert_eq!(found, wanted, "{path}:{}", number + 1);
    }
    assert_eq!(shown.lines().count(), expected.lines().count(), "{path}");
}

#[test]
fn adguard_home() {
    let text = include_str!("../../samples/AdGuardHome.yaml");
    check("adguard.txt", &run_text(Origin::Adguard, "AdGuardHome.yaml", text).unwrap());
}

#[test]
fn blocky() {
    let files = Memory::default()
        .with("config.yml", include_str!("../../samples/blocky.yml"))
        .with("/etc/blocky.hosts", "192.168.178.50 cam.lan cam\n");
    check("blocky.txt", &run(Origin::Blocky, "config.yml", &files).unwrap());
}

#[test]
fn blocky_in_a_directory_is_the_same() {
    let text = include_str!("../../samples/blocky.yml");
    let (first, second) = text.split_once("blocking:\n").unwrap();
    let files = Memory::default()
        .with("config/a.yml", first)
        .with("config/b.yaml", format!("blocking:\n{second}"))
        .with("config/README", "no: yaml: at all")
        .with("/etc/blocky.hosts", "192.168.178.50 cam.lan cam\n");
    let mut imported = run(Origin::Blocky, "config", &files).unwrap();
    imported.config = imported.config.replacen("blocky: config\n", "blocky: config.yml\n", 1);
    check("blocky.txt", &imported);
}

#[test]
fn dnsmasq() {
    let files = Memory::default()
        .with("/etc/dnsmasq.conf", include_str!("../../samples/dnsmasq/dnsmasq.conf"))
        .with("/etc/dnsmasq.d/more.conf", include_str!("../../samples/dnsmasq/more.conf"))
        .with("/etc/dnsmasq.d/more.conf.bak", "cname=wrong.lan,nas.lan\n")
        .with("/etc/hosts.lan", include_str!("../../samples/dnsmasq/hosts.lan"));
    check("dnsmasq.txt", &run(Origin::Dnsmasq, "/etc/dnsmasq.conf", &files).unwrap());
}

#[test]
fn pihole_six_from_its_archive_and_from_its_directory() {
    let gravity = database(GRAVITY);
    let archive = zip(&[
        ("etc/pihole/pihole.toml", SETTINGS),
        ("etc/pihole/gravity.db", &gravity),
        ("etc/pihole/dhcp.leases", b"1 aa:bb:cc:dd:ee:ff 192.168.2.77 x *\n"),
        ("etc/hosts", b"127.0.0.1 localhost\n"),
    ]);
    let mut whole =
        run(Origin::Pihole, "teleporter.zip", &Memory::default().with("teleporter.zip", archive))
            .unwrap();
    check("pihole-six.txt", &whole);
    let files = Memory::default()
        .with("/etc/pihole/pihole.toml", SETTINGS)
        .with("/etc/pihole/gravity.db", gravity)
        .with("/etc/pihole/setupVars.conf", "PIHOLE_DNS_1=192.0.2.1\n")
        .with("/etc/pihole/dhcp.leases", "");
    let mut directory = run(Origin::Pihole, "/etc/pihole", &files).unwrap();
    for imported in [&mut whole, &mut directory] {
        imported.config = imported.config.split_once('\n').unwrap().1.to_owned();
        imported.notes.sort();
    }
    // The order of tables in the file differs, and so does the order of rules and notes.
    let sorted = |text: &str| {
        let mut tables: Vec<String> =
            text.split("\n\n").map(|table| table.trim().to_owned()).collect();
        tables.sort();
        tables
    };
    assert_eq!(sorted(&whole.config), sorted(&directory.config));
    assert_eq!((whole.files, whole.notes), (directory.files, directory.notes));
}

#[test]
fn pihole_five_from_its_archive() {
    let file = |name: &str| {
        let path = format!("{}/samples/pihole-five/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read(path).unwrap()
    };
    let in_root = [
        "setupVars.conf",
        "pihole-FTL.conf",
        "custom.list",
        "adlist.json",
        "adlist_by_group.json",
        "group.json",
        "whitelist.exact.json",
        "blacklist.regex.json",
        "domainlist_by_group.json",
    ];
    let mut members: Vec<(String, Vec<u8>)> =
        in_root.iter().map(|name| ((*name).to_owned(), file(name))).collect();
    for name in ["04-pihole-static-dhcp.conf", "05-pihole-custom-cname.conf"] {
        members.push((format!("dnsmasq.d/{name}"), file(name)));
    }
    members.push(("dnsmasq.d/01-pihole.conf".to_owned(), b"server=192.0.2.99\n".to_vec()));
    members
        .push(("dnsmasq.d/99-own.conf".to_owned(), b"address=/own.example/192.168.3.8\n".to_vec()));
    let members: Vec<(&str, &[u8])> =
        members.iter().map(|(name, octets)| (name.as_str(), octets.as_slice())).collect();
    let files = Memory::default().with("pi-hole-teleporter.tar.gz", tar_gz(&members));
    check("pihole-five.txt", &run(Origin::Pihole, "pi-hole-teleporter.tar.gz", &files).unwrap());
}

#[test]
fn pihole_database_alone_is_lists_groups_and_clients() {
    let mut octets = database(GRAVITY);
    // The header that a server with a write-ahead log leaves.
    octets[18..20].fill(2);
    let imported =
        run(Origin::Pihole, "copy.db", &Memory::default().with("copy.db", octets)).unwrap();
    for table in ["[[list]]", "[[group]]", "[[client]]"] {
        assert!(imported.config.contains(table), "{table}");
    }
    assert!(!imported.config.contains("[[forward]]"));
}

/// Reads a sample of a directory.
fn sample(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/samples/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

#[test]
fn bind() {
    let files = Memory::default()
        .with("/etc/bind/named.conf", sample("bind/named.conf"))
        .with("/etc/bind/zones.conf", sample("bind/zones.conf"))
        .with("/var/cache/bind/Kexample.com.+013+12345.private", "Private-key-format: v1.3\n")
        .with("/var/cache/bind/intern.zone.jnl", "x");
    check("bind.txt", &run(Origin::Bind, "/etc/bind/named.conf", &files).unwrap());
}

#[test]
fn bind_with_views() {
    let files = Memory::default().with("named.conf", sample("bind/views.conf"));
    check("bind-views.txt", &run(Origin::Bind, "named.conf", &files).unwrap());
}

#[test]
fn powerdns_recursor_in_both_forms() {
    let files = Memory::default()
        .with("/etc/powerdns/recursor.conf", sample("powerdns/recursor.conf"))
        .with("/etc/powerdns/recursor.lua", sample("powerdns/recursor.lua"))
        .with("/etc/powerdns/recursor.d/more.conf", "forward-zones+=more.example=10.0.2.53\n")
        .with("/etc/powerdns/recursor.yml", sample("powerdns/recursor.yml"));
    let lines = run(Origin::Powerdns, "/etc/powerdns/recursor.conf", &files).unwrap();
    check("powerdns-recursor.txt", &lines);
    let yaml = run(Origin::Powerdns, "/etc/powerdns/recursor.yml", &files).unwrap();
    check("powerdns-recursor-yaml.txt", &yaml);
    for imported in [lines, yaml] {
        assert!(!format!("{imported:?}").contains("do-not-show-this"), "{imported:?}");
    }
}

#[test]
fn powerdns_with_a_database_and_with_files_of_bind() {
    let sql = String::from_utf8(sample("powerdns/pdns.sql")).unwrap();
    let files = Memory::default()
        .with("/etc/powerdns/pdns.conf", sample("powerdns/pdns.conf"))
        .with("/etc/powerdns/pdns.sqlite3", database(&sql))
        .with("/etc/powerdns/named.conf", sample("powerdns/named.conf"))
        .with("/etc/powerdns/pdns.d/own.conf", "version-string=anonymous\n");
    let imported = run(Origin::Powerdns, "/etc/powerdns/pdns.conf", &files).unwrap();
    check("powerdns.txt", &imported);
    assert!(!format!("{imported:?}").contains("c2VjcmV0"), "{imported:?}");
}
