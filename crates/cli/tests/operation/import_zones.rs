//! `avocet import` of BIND and PowerDNS: the imported configuration passes `avocet check`, and a
//! server with it gives the answers of the original server, which runs next to it with the same
//! files. Skipped for each program that is missing.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::peers::{Peer, SECRET};
use crate::server::{Server, Site, free_address, is_here};
use crate::upstream::Upstream;

const CORP: &str = "$TTL 300
@ SOA ns1 hostmaster 2024010101 2h 30m 4w 300
@ NS ns1
@ MX 10 mail
ns1 A 192.0.2.1
mail A 192.0.2.2
mail AAAA 2001:db8::2
www CNAME mail
out CNAME www.closed.example.
text TXT \"one\" \"two; three\"
*.wild A 192.0.2.3
a.deep.wild.below A 192.0.2.4
_sip._tcp SRV 1 2 5060 mail
";
const CLOSED: &str =
    "$TTL 60\n@ SOA ns.corp.example. h 1 2h 30m 4w 60\n@ NS ns1.corp.example.\nwww A 192.0.2.66\n";
const REVERSE: &str = "$TTL 60\n@ SOA ns1.corp.example. h.corp.example. 1 2h 30m 4w 60\n\
                       @ NS ns1.corp.example.\n1 PTR ns1.corp.example.\n";
const INSIDE: &str =
    "$TTL 60\n@ SOA ns1 h 5 2h 30m 4w 60\n@ NS ns1\nns1 A 10.0.0.1\nwww A 10.0.0.2\n";
const OUTSIDE: &str =
    "$TTL 60\n@ SOA ns1 h 6 2h 30m 4w 60\n@ NS ns1\nns1 A 192.0.2.1\nwww A 192.0.2.7\n";

/// A client that may ask for everything, and one that may not.
const OFFICE: &str = "127.0.0.9";
const STRANGER: &str = "127.0.0.7";

/// The settings of BIND that let it run here.
const RUN: &str = "pid-file none; session-keyfile none; lock-file none; dnssec-validation no; \
                   listen-on-v6 { none; }; notify no; directory \"DIR\"; \
                   listen-on port PORT { 127.0.0.1; };";

/// The original server and this one with the imported configuration.
struct Both {
    site: Site,
    peer: Peer,
    _server: Server,
}

/// The files of the original server, whose configuration is the first one.
struct Original<'o> {
    origin: &'o str,
    program: &'o str,
    arguments: &'o [&'o str],
    files: &'o [(&'o str, &'o str)],
    /// Makes other files in the directory.
    prepare: fn(&Path),
}

impl Both {
    /// Imports a configuration, checks it, and starts both servers; `None` if the program of the
    /// other one is missing. `DIR` is the directory of the files, `PORT` the port of the server,
    /// `UPSTREAM` that of another one.
    fn start(original: &Original<'_>, upstream: &Upstream) -> Option<Self> {
        let (site, peer_site, at) = (Site::new(), Site::new(), free_address());
        let directory = peer_site.directory.clone();
        let filled = |text: &str, port: u16| {
            text.replace("DIR", &directory.display().to_string())
                .replace("PORT", &port.to_string())
                .replace("UPSTREAM", &upstream.addr.port().to_string())
        };
        let (config, others) = original.files.split_first().unwrap();
        for (name, text) in others {
            fs::write(directory.join(name), filled(text, at.port())).unwrap();
        }
        (original.prepare)(&directory);
        let path = directory.join(config.0);
        fs::write(&path, filled(config.1, site.dns.port())).unwrap();
        import(original.origin, &path, &site);
        let checked = site.avocet(&["check"]);
        let text = || fs::read_to_string(site.file()).unwrap();
        let said = String::from_utf8_lossy(&checked.stderr).into_owned();
        assert!(checked.status.success(), "{said}\n{}", text());
        let mut serve = site.serve();
        serve
            .env("AVOCET_DATA__DIRECTORY", site.data())
            .env("AVOCET_SERVER__HTTP", site.http.to_string());
        let server = Server::start(serve);
        let program = (original.program, original.arguments);
        let peer = Peer::run(peer_site, program, &filled(config.1, at.port()), at)?;
        Some(Self { site, peer, _server: server })
    }

    /// Checks that both servers give a client the same answer, and that the answer contains `part`.
    #[track_caller]
    fn same(&self, client: &str, words: &[&str], part: &str) {
        let (own, other) =
            (ask(self.site.dns, client, words), ask(self.peer.addr(), client, words));
        assert_eq!(own, other, "{words:?} of {client}:\n{}", self.peer.log());
        assert!(own.contains(part), "{words:?} of {client}: {own}");
    }
}

/// Imports a configuration and returns the notes. Secrets are neither in the output nor readable by
/// others.
#[track_caller]
fn import(origin: &str, path: &Path, site: &Site) -> String {
    let mut import = Command::new(env!("CARGO_BIN_EXE_avocet"));
    import.args(["import", origin]).arg(path).arg("--output").arg(site.file());
    let output = import.output().unwrap();
    let notes = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{notes}");
    let written = fs::read_to_string(site.file()).unwrap();
    assert!(!notes.contains(SECRET) && !written.contains(SECRET), "{notes}\n{written}");
    for file in files(&site.directory, ".secret") {
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", file.display());
    }
    notes
}

fn files(directory: &Path, ending: &str) -> Vec<PathBuf> {
    let all = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    all.filter(|path| path.to_string_lossy().ends_with(ending)).collect()
}

/// Returns the RCODE, the flag AA, and the sorted records of an answer.
fn ask(server: SocketAddr, client: &str, words: &[&str]) -> String {
    let (at, port) = (format!("@{}", server.ip()), server.port().to_string());
    let fixed =
        ["-b", client, "-p", &port, "+retry=1", "+time=20", "+noall", "+comments", "+answer"];
    let output = Command::new("dig").arg(at).args(fixed).args(words).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let status = text.split("status: ").nth(1).and_then(|rest| rest.split(',').next());
    let flags = text.split(";; flags:").nth(1).and_then(|rest| rest.split(';').next());
    let is_authoritative = flags.is_some_and(|flags| flags.split(' ').any(|flag| flag == "aa"));
    let mut records: Vec<&str> =
        text.lines().filter(|line| !line.is_empty() && !line.starts_with(';')).collect();
    records.sort_unstable();
    // BIND and PowerDNS use blanks in different ways.
    let records: Vec<String> = records
        .iter()
        .map(|record| record.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    let authority = if is_authoritative { "aa" } else { "" };
    format!("{} {authority}\n{}", status.unwrap_or("no answer"), records.join("\n"))
}

/// Checks names of the zone `corp.example` as the client may see them.
#[track_caller]
fn same_in_corp(both: &Both, client: &str) {
    for (words, part) in [
        (&["mail.corp.example"][..], "192.0.2.2"),
        (&["mail.corp.example", "AAAA"], "2001:db8::2"),
        (&["www.corp.example"], "CNAME mail"),
        (&["text.corp.example", "TXT"], "two; three"),
        (&["x.wild.corp.example"], "192.0.2.3"),
        (&["deep.wild.below.corp.example"], "NOERROR aa\n"),
        (&["none.corp.example"], "NXDOMAIN aa"),
        (&["corp.example", "MX"], "10 mail"),
        (&["corp.example", "SOA"], "2024010101"),
        (&["_sip._tcp.corp.example", "SRV"], "5060"),
    ] {
        both.same(client, words, part);
    }
}

#[test]
fn answers_are_those_of_bind() {
    let config = format!(
        "acl office {{ !127.0.0.7; 127.0.0.0/8; }};\n\
         key transfer {{ algorithm hmac-sha256; secret \"{SECRET}\"; }};\ncontrols {{ }};\n\
         options {{ {RUN} allow-recursion {{ office; }}; allow-query-cache {{ office; }};\n\
         allow-transfer {{ none; }}; }};\ninclude \"DIR/zones\";\n"
    );
    let zones = "zone \"corp.example\" {\n\
        type primary; file \"corp\"; allow-transfer { key transfer; }; };\n\
        zone \"closed.example\" { type primary; file \"closed\"; allow-query { 127.0.0.9; }; };\n\
        zone \"0/25.2.0.192.in-addr.arpa\" { type master; file \"reverse\"; };\n\
        zone \"fwd.example\" {\n\
        type forward; forward only; forwarders { 127.0.0.1 port UPSTREAM; }; };\n";
    let original = Original {
        origin: "bind",
        program: "named",
        arguments: &["-g", "-n", "1", "-c"],
        files: &[
            ("named.conf", &config),
            ("zones", zones),
            ("corp", CORP),
            ("closed", CLOSED),
            ("reverse", REVERSE),
        ],
        prepare: |_| {},
    };
    let upstream = Upstream::start();
    let Some(both) = is_here("dig").then(|| Both::start(&original, &upstream)).flatten() else {
        return;
    };
    both.peer.wait_for("mail.corp.example");
    same_in_corp(&both, OFFICE);
    same_in_corp(&both, STRANGER);
    both.same(OFFICE, &["www.closed.example"], "192.0.2.66");
    both.same(STRANGER, &["www.closed.example"], "REFUSED");
    both.same(OFFICE, &["1.0/25.2.0.192.in-addr.arpa", "PTR"], "ns1.corp.example.");
    both.same(STRANGER, &["www.other.example"], "REFUSED");
    both.same(STRANGER, &["www.fwd.example"], "REFUSED");
    let forwarded = ask(both.site.dns, OFFICE, &["www.fwd.example"]);
    assert!(forwarded.starts_with("NOERROR"), "{forwarded}");
    let key = format!("hmac-sha256:transfer:{SECRET}");
    both.same(OFFICE, &["corp.example", "AXFR", "-y", &key], "a.deep.wild.below.corp.example.");
    let unsigned = ask(both.site.dns, OFFICE, &["corp.example", "AXFR"]);
    assert!(!unsigned.contains("mail.corp.example"), "{unsigned}");
}

#[test]
fn a_server_without_recursion_answers_for_its_own_zones_only_as_bind() {
    let config = format!(
        "controls {{ }};\noptions {{ {RUN} recursion no; }};\n\
         zone \"corp.example\" {{ type primary; file \"corp\"; }};\n"
    );
    let original = Original {
        origin: "bind",
        program: "named",
        arguments: &["-g", "-n", "1", "-c"],
        files: &[("named.conf", &config), ("corp", CORP)],
        prepare: |_| {},
    };
    let upstream = Upstream::start();
    let Some(both) = is_here("dig").then(|| Both::start(&original, &upstream)).flatten() else {
        return;
    };
    both.peer.wait_for("mail.corp.example");
    for client in [OFFICE, STRANGER] {
        same_in_corp(&both, client);
        for words in [&["www.other.example"][..], &["www.other.example", "+norec"], &[".", "NS"]] {
            both.same(client, words, "REFUSED");
        }
        both.same(client, &["mail.corp.example", "+norec"], "192.0.2.2");
    }
}

#[test]
fn clients_see_the_zones_of_their_view_as_with_bind() {
    let config = format!(
        "acl office {{ 127.0.0.9; }};\ncontrols {{ }};\noptions {{ {RUN} }};\n\
         view inside {{ match-clients {{ office; }}; recursion yes; allow-recursion {{ any; }};\n\
         zone \"split.example\" {{ type primary; file \"inside\"; }};\n\
         zone \"corp.example\" {{ type primary; file \"corp\"; }};\n\
         zone \"closed.example\" {{ type primary; file \"closed\"; }}; }};\n\
         view outside {{ match-clients {{ any; }}; recursion no;\n\
         zone \"split.example\" {{ type primary; file \"outside\"; }};\n\
         zone \"corp.example\" {{ in-view inside; }}; }};\n"
    );
    let original = Original {
        origin: "bind",
        program: "named",
        arguments: &["-g", "-n", "1", "-c"],
        files: &[
            ("named.conf", &config),
            ("inside", INSIDE),
            ("outside", OUTSIDE),
            ("corp", CORP),
            ("closed", CLOSED),
        ],
        prepare: |_| {},
    };
    let upstream = Upstream::start();
    let Some(both) = is_here("dig").then(|| Both::start(&original, &upstream)).flatten() else {
        return;
    };
    both.peer.wait_for("mail.corp.example");
    both.same(OFFICE, &["www.split.example"], "10.0.0.2");
    both.same(STRANGER, &["www.split.example"], "192.0.2.7");
    both.same(OFFICE, &["split.example", "SOA"], " 5 ");
    both.same(OFFICE, &["www.closed.example"], "192.0.2.66");
    both.same(STRANGER, &["www.closed.example"], "REFUSED");
    both.same(STRANGER, &["www.other.example"], "REFUSED");
    same_in_corp(&both, OFFICE);
    same_in_corp(&both, STRANGER);
}

/// Runs a server of PowerDNS with the configuration whose path is the last argument.
const RECURSOR: [&str; 2] = [
    "-c",
    "cd $(dirname $0) && cp conf recursor.conf && exec pdns_recursor --config-dir=. --daemon=no",
];
const AUTHORITATIVE: [&str; 2] = [
    "-c",
    "cd $(dirname $0) && cp conf pdns.conf && exec pdns_server --config-dir=. --daemon=no \
     --guardian=no",
];
/// The tables of the backend, as its package has them.
const SCHEMA: &str = "/usr/share/pdns-backend-sqlite3/schema/schema.sqlite3.sql";

fn is_powerdns_here(program: &str) -> bool {
    is_here("dig") && Path::new("/usr/sbin").join(program).exists()
}

#[test]
fn answers_are_those_of_the_recursor() {
    let config = "local-address=127.0.0.1\nlocal-port=PORT\nallow-from=127.0.0.0/8,!127.0.0.7\n\
        auth-zones=corp.example=DIR/corp\nforward-zones-recurse=fwd.example=127.0.0.1:UPSTREAM\n\
        dnssec=off\nsocket-dir=DIR\nwrite-pid=no\nthreads=1\n";
    let corp = format!("$ORIGIN corp.example.\n{CORP}");
    let original = Original {
        origin: "powerdns",
        program: "sh",
        arguments: &RECURSOR,
        files: &[("recursor.conf", config), ("corp", &corp)],
        prepare: |_| {},
    };
    let upstream = Upstream::start();
    let is_here = is_powerdns_here("pdns_recursor");
    let Some(both) = is_here.then(|| Both::start(&original, &upstream)).flatten() else { return };
    both.peer.wait_for("mail.corp.example");
    for name in ["mail.corp.example", "x.wild.corp.example", "none.corp.example"] {
        // The Recursor sets AA in other cases, and counts TTLs down.
        let plain = |server| ask(server, OFFICE, &[name]).replacen(" aa\n", " \n", 1);
        let plain = |server| {
            let words: Vec<String> = plain(server).split(' ').map(str::to_owned).collect();
            words.into_iter().filter(|word| word.parse::<u32>().is_err()).collect::<Vec<_>>()
        };
        assert_eq!(plain(both.site.dns), plain(both.peer.addr()), "{name}");
    }
    let forwarded = ask(both.site.dns, OFFICE, &["www.fwd.example"]);
    assert!(forwarded.starts_with("NOERROR"), "{forwarded}");
    assert!(upstream.asked().iter().any(|asked| asked.starts_with("www.fwd.example")));
    // The Recursor does not answer such a client at all.
    let refused = ask(both.site.dns, STRANGER, &["mail.corp.example"]);
    assert!(refused.starts_with("REFUSED"), "{refused}");
}

#[test]
fn answers_are_those_of_a_database_of_powerdns() {
    let config = "local-address=127.0.0.1\nlocal-port=PORT\nlaunch=gsqlite3,bind\n\
        gsqlite3-database=DIR/db\nbind-config=DIR/named.conf\nsocket-dir=DIR\n\
        allow-axfr-ips=127.0.0.9\nzone-cache-refresh-interval=0\n";
    let named = "options { directory \"DIR\"; };\n\
                 zone \"split.example\" { type native; file \"outside\"; };\n";
    let outside = format!("$ORIGIN split.example.\n{OUTSIDE}");
    let original = Original {
        origin: "powerdns",
        program: "sh",
        arguments: &AUTHORITATIVE,
        files: &[("pdns.conf", config), ("named.conf", named), ("outside", &outside)],
        prepare: fill,
    };
    let upstream = Upstream::start();
    let is_here = is_powerdns_here("pdns_server") && Path::new(SCHEMA).exists();
    let is_here = is_here && Path::new("/usr/bin/sqlite3").exists();
    let Some(both) = is_here.then(|| Both::start(&original, &upstream)).flatten() else { return };
    both.peer.wait_for("mail.corp.example");
    for client in [OFFICE, STRANGER] {
        same_in_corp(&both, client);
        both.same(client, &["www.split.example"], "192.0.2.7");
        both.same(client, &["www.other.example"], "REFUSED");
    }
    both.same(OFFICE, &["corp.example", "AXFR"], "a.deep.wild.below.corp.example.");
}

/// Makes a database with the zone `corp.example`.
fn fill(directory: &Path) {
    let mut sql = fs::read_to_string(SCHEMA).unwrap();
    sql.push_str("INSERT INTO domains (id, name, type) VALUES (1, 'corp.example', 'NATIVE');\n");
    for (name, rtype, content, prio) in [
        ("", "SOA", "ns1.corp.example hostmaster.corp.example 2024010101 7200 1800 2419200 300", 0),
        ("", "NS", "ns1.corp.example", 0),
        ("", "MX", "mail.corp.example", 10),
        ("ns1.", "A", "192.0.2.1", 0),
        ("mail.", "A", "192.0.2.2", 0),
        ("mail.", "AAAA", "2001:db8::2", 0),
        ("www.", "CNAME", "mail.corp.example", 0),
        ("text.", "TXT", "\"one\" \"two; three\"", 0),
        ("*.wild.", "A", "192.0.2.3", 0),
        ("a.deep.wild.below.", "A", "192.0.2.4", 0),
        ("deep.wild.below.", "", "", 0),
        ("wild.below.", "", "", 0),
        ("below.", "", "", 0),
        ("_sip._tcp.", "SRV", "2 5060 mail.corp.example", 1),
    ] {
        let (rtype, content) = match rtype {
            "" => ("NULL".to_owned(), "NULL".to_owned()),
            rtype => (format!("'{rtype}'"), format!("'{content}'")),
        };
        sql.push_str(&format!(
            "INSERT INTO records (domain_id, name, type, content, ttl, prio, disabled, auth) VALUES \
             (1, '{name}corp.example', {rtype}, {content}, 300, {prio}, 0, 1);\n"
        ));
    }
    let script = directory.join("sql");
    fs::write(&script, sql).unwrap();
    let mut command = Command::new("sqlite3");
    command.arg(directory.join("db")).stdin(fs::File::open(script).unwrap());
    assert!(command.status().unwrap().success());
}

#[test]
fn the_files_that_debian_installs_are_imported() {
    for (origin, path) in [
        ("bind", "/etc/bind/named.conf"),
        ("powerdns", "/etc/powerdns/recursor.conf"),
        ("powerdns", "/etc/powerdns/pdns.conf"),
    ] {
        if !Path::new(path).exists() {
            continue;
        }
        let site = Site::new();
        import(origin, Path::new(path), &site);
        site.avocet_text(&["check"]);
    }
}

#[test]
fn a_zone_file_that_cannot_be_read_is_reported_with_its_line() {
    let site = Site::new();
    let source = site.directory.join("named.conf");
    let directory = site.directory.display();
    fs::write(
        site.directory.join("bad"),
        "$TTL 60\n@ SOA ns h 1 1 1 1 1\n@ NS ns\nns A 192.0.2.500\n",
    )
    .unwrap();
    let text = format!(
        "options {{ directory \"{directory}\"; }};\n\
         zone \"bad.example\" {{ type primary; file \"bad\"; }};\n\n\
         zone \"gone.example\" {{ type primary; file \"gone\"; }};\n"
    );
    fs::write(&source, text).unwrap();
    let notes = import("bind", &source, &site);
    let bad = format!("named.conf:2: zone bad.example is not served: {directory}/bad:4");
    assert!(notes.contains(&bad), "{notes}");
    assert!(notes.contains("named.conf:4: zone gone.example is not served"), "{notes}");
}
