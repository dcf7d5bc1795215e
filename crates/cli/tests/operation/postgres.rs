//! Hosted zones from a database of PowerDNS, on the running server with Debian's PostgreSQL.
//! Skipped where that is missing.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::past::wait_until;
use crate::peers::{accepts, start_until};
use crate::server::{Server, Site, free_address, is_here};
use crate::upstream::Upstream;

/// The directory in which Debian installs the programs of each version.
const PROGRAMS: &str = "/usr/lib/postgresql";
/// The tables, as the package of PowerDNS's backend has them.
const SCHEMA: &str = "/usr/share/pdns-backend-pgsql/schema/schema.pgsql.sql";
/// The account of `nobody` and `nogroup`: PostgreSQL refuses to run as root.
const NOBODY: u32 = 65_534;
/// The trigger of the manual.
const TRIGGER: &str = include_str!("postgres/trigger.sql");
const MANUAL: &str = include_str!("../../../../docs/manual/zones.md");
const CERTIFICATE: [&str; 2] =
    [include_str!("certificates/one.pem"), include_str!("certificates/one.key")];
const OTHER_AUTHORITY: &str = include_str!("certificates/clients-ca.pem");

/// A zone with records that cover the special cases of the columns.
const RECORDS: &str = "
INSERT INTO domains (id, name, type) VALUES (7, 'corp.example', 'NATIVE');
INSERT INTO records (domain_id, name, type, content, ttl, prio, disabled) VALUES
(7, 'corp.example', 'SOA', 'ns1.corp.example host.corp.example 5 7200 1800 604800 60', 300, 0, 'f'),
(7, 'corp.example', 'NS', 'ns1.corp.example', 300, NULL, 'f'),
(7, 'corp.example', 'MX', 'mail.corp.example', 300, 10, 'f'),
(7, 'ns1.corp.example', 'A', '192.0.2.1', 300, NULL, 'f'),
(7, 'mail.corp.example', 'A', '192.0.2.2', 300, NULL, 'f'),
(7, 'mail.corp.example', 'AAAA', '2001:db8::2', 300, NULL, 'f'),
(7, 'www.corp.example', 'CNAME', 'mail.corp.example', 60, NULL, 'f'),
(7, 'host.corp.example', 'A', '192.0.2.7', 60, NULL, 'f'),
(7, 'off.corp.example', 'A', '192.0.2.8', 60, NULL, 't'),
(7, 'text.corp.example', 'TXT', '\"one\" \"two; three\"', 300, NULL, 'f'),
(7, '*.wild.corp.example', 'A', '192.0.2.3', 300, NULL, 'f'),
(7, 'a.below.corp.example', 'A', '192.0.2.4', 300, NULL, 'f'),
(7, 'below.corp.example', NULL, NULL, NULL, NULL, 'f'),
(7, '_sip._tcp.corp.example', 'SRV', '2 5060 mail.corp.example', 300, 1, 'f'),
(7, 'geo.corp.example', 'LUA', 'A \"ifportup(443, {''192.0.2.5''})\"', 300, NULL, 'f');
";
/// The same zone as a master file.
const MASTER_FILE: &str = "$TTL 300
@ SOA ns1 host.corp.example. 5 7200 1800 604800 60
@ NS ns1
@ MX 10 mail
ns1 A 192.0.2.1
mail A 192.0.2.2
mail AAAA 2001:db8::2
www 60 CNAME mail
host 60 A 192.0.2.7
text TXT \"one\" \"two; three\"
*.wild A 192.0.2.3
a.below A 192.0.2.4
_sip._tcp SRV 1 2 5060 mail
";

/// A database server of its own, in a temporary directory.
struct Database {
    directory: PathBuf,
    port: u16,
    server: Option<Child>,
}

impl Database {
    /// Starts a server with the zone; `None` where Debian's package is missing.
    fn start() -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        if programs().is_none()
            || !is_here("psql")
            || !is_here("dig")
            || !Path::new(SCHEMA).exists()
        {
            eprintln!("left out: postgresql or pdns-backend-pgsql is missing");
            return None;
        }
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("avocet-postgres-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir_all(&directory).unwrap();
        if is_root() {
            chown(&directory, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let mut database = Self { directory, port: free_address().port(), server: None };
        let data = database.data();
        let arguments = ["--no-sync", "--auth=trust", "--username=admin", "--encoding=UTF8", "-D"];
        let made = database.program("initdb").args(arguments).arg(&data).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        database.write_as_owner("server.pem", CERTIFICATE[0]);
        database.write_as_owner("server.key", CERTIFICATE[1]);
        let clients = "local all all trust\nhostssl tls all 127.0.0.1/32 scram-sha-256\n\
                       hostnossl pdns all 127.0.0.1/32 scram-sha-256\n";
        database.write_as_owner("pg_hba.conf", clients);
        database.run();
        database.sql("postgres", "CREATE DATABASE pdns; CREATE ROLE avocet LOGIN PASSWORD 'hush'");
        database.sql("pdns", &fs::read_to_string(SCHEMA).unwrap());
        database.sql("pdns", RECORDS);
        database.sql("pdns", TRIGGER);
        database.sql("pdns", "GRANT SELECT ON domains, records TO avocet");
        Some(database)
    }

    fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    /// A command of PostgreSQL under an account that is not that of root.
    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(programs().unwrap().join(name));
        if is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command.current_dir(&self.directory).env("LC_ALL", "C");
        command
    }

    fn write_as_owner(&self, name: &str, text: &str) {
        let path = self.data().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        if is_root() {
            chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
    }

    /// Runs the server, and waits until it accepts connections.
    fn run(&mut self) {
        let mut command = self.program("postgres");
        let directory = self.directory.display();
        for setting in [
            "listen_addresses=127.0.0.1",
            "fsync=off",
            "ssl=on",
            "ssl_cert_file=server.pem",
            "ssl_key_file=server.key",
            &format!("port={}", self.port),
            &format!("unix_socket_directories={directory}"),
        ] {
            command.args(["-c", setting]);
        }
        command.arg("-D").arg(self.data()).stdout(Stdio::null()).stderr(Stdio::null());
        self.server = Some(command.spawn().unwrap());
        wait_until("the database accepts connections", || {
            self.try_sql("postgres", "SELECT 1").is_ok()
        });
    }

    /// Ends the server with its connections.
    fn stop(&mut self) {
        let Some(mut server) = self.server.take() else { return };
        let id = server.id().to_string();
        Command::new("kill").args(["-INT", &id]).status().unwrap();
        server.wait().unwrap();
    }

    fn sql(&self, database: &str, text: &str) {
        self.try_sql(database, text).unwrap();
    }

    fn try_sql(&self, database: &str, text: &str) -> Result<(), String> {
        let file = self.directory.join("statements.sql");
        fs::write(&file, text).unwrap();
        let output = Command::new("psql")
            .args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-U", "admin", "-d", database, "-h"])
            .arg(&self.directory)
            .args(["-p", &self.port.to_string(), "-f"])
            .arg(&file)
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        output.status.success().then_some(()).ok_or(error)
    }

    /// The URL of its Unix socket.
    fn url(&self) -> String {
        let (directory, port) = (self.directory.display(), self.port);
        format!("postgresql://avocet@/pdns?host={directory}&port={port}")
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.stop();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// The directory of the programs of the latest version.
fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir(PROGRAMS).ok()?.flatten().map(|entry| entry.path().join("bin"));
    versions.filter(|directory| directory.join("initdb").exists()).max()
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").unwrap().uid() == 0
}

fn zone(url: &str, rest: &str) -> String {
    format!(
        "[[zone]]\nname = \"corp.example\"\nprovider = \"postgres\"\nurl = \"{url}\"\n\
         refresh-secs = 86400\n{rest}\n"
    )
}

fn start(database: &Database) -> (Site, Server, Upstream) {
    let (upstream, site) = (Upstream::start(), Site::new());
    site.configure(upstream.addr, "", &zone(&database.url(), ""));
    let server = site.start();
    (site, server, upstream)
}

fn address(site: &Site) -> String {
    let text =
        site.avocet_text(&["query", &format!("@{}", site.dns), "host.corp.example", "+short"]);
    text.trim().to_owned()
}

fn has(site: &Site, text: &str) -> bool {
    site.avocet_text(&["zone", "list"]).contains(text)
}

fn set_address(address: &str) -> String {
    format!("UPDATE records SET content = '{address}' WHERE name = 'host.corp.example'")
}

/// The records of the zone, sorted, without the serial.
fn records(site: &Site) -> Vec<String> {
    let text = site.avocet_text(&["zone", "export", "corp.example"]);
    sorted(text.lines().map(str::to_owned))
}

/// Returns records in order, each once, without the serial.
fn sorted(records: impl Iterator<Item = String>) -> Vec<String> {
    let without_serial = records.map(|line| match line.split_once(" SOA ") {
        Some((owner, data)) => {
            let fields: Vec<_> = data.split(' ').collect();
            format!("{owner} SOA {} {} {}", fields[0], fields[1], fields[3..].join(" "))
        }
        None => line,
    });
    without_serial.collect::<BTreeSet<_>>().into_iter().collect()
}

#[test]
fn a_zone_of_a_database_is_that_of_a_file_and_changes_by_notify() {
    let Some(database) = Database::start() else { return };
    let (site, mut server, upstream) = start(&database);
    wait_until("the zone is read", || address(&site) == "192.0.2.7");
    let line = server.wait_for_line("left out");
    assert!(line.contains("(geo.corp.example LUA)"), "{line}");
    let beside = Site::new();
    let file = beside.directory.join("zone");
    fs::write(&file, MASTER_FILE).unwrap();
    let own = format!("[[zone]]\nname = \"corp.example\"\nfile = \"{}\"\n", file.display());
    beside.configure(upstream.addr, "", &own);
    let _beside = beside.start();
    assert_eq!(records(&site), records(&beside));

    // A change is served at once, and has a higher serial.
    database.sql("pdns", &set_address("192.0.2.9"));
    wait_until("the change is served", || address(&site) == "192.0.2.9");
    assert!(has(&site, "from postgresql://avocet@/pdns"));
    let new = site.metric("avocet_zone_fetches_total{result=\"new\"}");
    assert_eq!(new, 2.0);

    // Rows that are no records change nothing. The reason is shown everywhere. PowerDNS's own
    // columns have bounds; those of others may have none.
    let unbounded = "ALTER TABLE records ALTER name TYPE text, ALTER content TYPE text";
    database.sql("pdns", unbounded);
    let bad = |row: &str, expected: &str| {
        let insert = "INSERT INTO records (domain_id, name, type, content, ttl, prio) VALUES ";
        database.sql("pdns", &format!("{insert} (7, {row})"));
        wait_until(expected, || has(&site, expected));
        assert_eq!(address(&site), "192.0.2.9");
        let delete = "DELETE FROM records WHERE id = (SELECT max(id) FROM records)";
        database.sql("pdns", delete);
        wait_until("the zone is good again", || !has(&site, expected));
    };
    bad(
        "'x.corp.example', 'A', '192.0.2', 60, 0",
        "(x.corp.example A): its content: field 1 (IPv4 address)",
    );
    bad("'x.corp.example', 'A', E'192.0.2.5\\ny A 192.0.2.6', 60, 0", "follows the last field");
    bad("'x.corp.example', 'AXFR', '', 60, 0", "there is no such type of record");
    bad("'x.corp.example', 'TXT', repeat('x', 65536), 60, 0", "more than 65535 octets");
    bad("'x.corp.example', 'TXT', repeat('x', 9000000), 60, 0", "more than 65535 octets");
    bad("repeat('x', 64) || '.corp.example', 'A', '192.0.2.5', 60, 0", "label longer than 63");
    bad("repeat('x.', 121) || 'corp.example', 'A', '192.0.2.5', 60, 0", "longer than 255 octets");
    bad(
        "E'x\\u001b[31m\\n.corp.example', 'A', '192.0.2', 60, 0",
        "(x\\u{1b}[31m\\n.corp.example A)",
    );
    bad("'x.corp.example', 'A', '192.0.2.5', -1, 0", "its ttl is not a number");
    bad("'x.corp.example', 'MX', 'mail.corp.example', 60, 70000", "its prio is not a number");
    bad("'www.corp.example', 'A', '192.0.2.5', 60, 0", "the zone has errors: ");
    let failed = site.metric("avocet_zone_fetches_total{result=\"failed\"}");
    assert!(failed >= 11.0, "{failed}");

    // Texts with any octets are data and nothing else.
    let text = "INSERT INTO records (domain_id, name, type, content, ttl) VALUES \
                (7, 'odd.corp.example', 'TXT', E'\"a\\u0001\\n$INCLUDE \\\\\\\\\" \"b\"', 60)";
    database.sql("pdns", text);
    let odd = |line: &String| line == r#"odd.corp.example. 60 IN TXT "a\001\010$INCLUDE \\" "b""#;
    wait_until("the text is served", || records(&site).iter().any(odd));
    let refused = site.avocet(&["zone", "set", "corp.example", "www", "A", "192.0.2.9"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("comes from a provider"));
    assert!(site.avocet_text(&["check"]).contains("no errors"));
}

/// Rows that PowerDNS reads in a way of its own.
const PECULIAR: &str = "INSERT INTO records (domain_id, name, type, content, ttl, prio) VALUES
(7, 'plain.corp.example', 'TXT', 'v=spf1 a -all', 60, 0),
(7, 'long.corp.example', 'TXT', '\"' || repeat('x', 300) || '\"', 60, 0),
(7, 'umlaut.corp.example', 'TXT', '\"ä\\195\"', 60, 0),
(7, 'n.corp.example', 'NAPTR', '100 50 \"s\" \"z\" \"\" _z._tcp.corp.example', 60, 0),
(7, 'c.corp.example', 'CAA', '0 issue \"ca.example\"', 60, 0),
(7, 'h.corp.example', 'HTTPS', '1 web.corp.example alpn=h2', 60, 0),
(7, 'sub.corp.example', 'NS', 'ns.sub.corp.example', 60, 0),
(7, 'ns.sub.corp.example', 'A', '192.0.2.53', 60, 0),
(7, 'd.corp.example', 'DNAME', 'corp.example', 60, 0),
(7, 'u.corp.example', 'URI', '10 1 \"https://a.example/\"', 60, 0),
(7, 's.corp.example', 'SSHFP', '1 1 dd465c09cfa51fb45020cc83316fff21b9ec74ac', 60, 0),
(7, 'alias.corp.example', 'ALIAS', 'web.corp.example', 60, 0),
(7, 'x.corp.example', 'TYPE65280', '\\# 2 0a0b', 60, 0)";

/// Returns the records that PowerDNS transfers from the database, as [`records`] does.
fn records_of_powerdns(database: &Database) -> Vec<String> {
    let addr = free_address();
    let directory = database.directory.display();
    let config = format!(
        "launch=gpgsql\ngpgsql-host={directory}\ngpgsql-port={}\ngpgsql-dbname=pdns\n\
         gpgsql-user=admin\nlocal-address=127.0.0.1\nlocal-port={}\nsocket-dir={directory}\n\
         allow-axfr-ips=127.0.0.0/8\nzone-cache-refresh-interval=0\n",
        database.port,
        addr.port()
    );
    fs::write(database.directory.join("pdns.conf"), config).unwrap();
    let mut server = Command::new("/usr/sbin/pdns_server");
    server
        .arg(format!("--config-dir={directory}"))
        .args(["--daemon=no", "--guardian=no"])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut server = start_until(&mut server, "pdns_server", || accepts(addr)).unwrap();
    let transfer = || {
        let port = addr.port().to_string();
        let arguments = ["@127.0.0.1", "-p", &port, "corp.example", "AXFR", "+noall", "+answer"];
        let output = Command::new("dig").args(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    wait_until("PowerDNS answers", || transfer().contains("SOA"));
    let alias = r"TYPE65401 \# 18 0377656204636F7270076578616D706C6500";
    let text = transfer().replace(alias, "ALIAS web.corp.example.");
    server.kill().unwrap();
    server.wait().unwrap();
    let line = |line: &str| {
        let (mut head, mut data) = (Vec::new(), line);
        for _ in ["owner", "TTL", "class", "type"] {
            let (word, rest) = data.split_once(char::is_whitespace).unwrap();
            head.push(word);
            data = rest.trim_start();
        }
        format!("{} {data}", head.join(" "))
    };
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with(';'));
    sorted(lines.map(line).filter(|line| !line.contains(" LUA ") && !line.contains(" TYPE65402 ")))
}

#[test]
fn a_zone_of_a_database_is_that_of_powerdns() {
    let Some(database) = Database::start() else { return };
    database.sql("pdns", PECULIAR);
    let (site, _server, _upstream) = start(&database);
    wait_until("the zone is read", || address(&site) == "192.0.2.7");
    assert_eq!(records(&site), records_of_powerdns(&database));
}

#[test]
fn the_zone_stays_while_its_database_is_away() {
    let Some(mut database) = Database::start() else { return };
    let (site, server, _upstream) = start(&database);
    wait_until("the zone is read", || address(&site) == "192.0.2.7");
    let sample = format!("avocet_zone_database_listening{{database=\"{}\"}}", database.url());
    let listening = || site.metric(&sample) == 1.0;
    wait_until("notifications arrive", listening);
    assert!(has(&site, "notifications of the database arrive"));
    database.stop();
    site.avocet(&["zone", "reload", "corp.example"]);
    wait_until("the error is shown", || has(&site, "cannot connect: "));
    let status = site.avocet(&["status"]);
    let status = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(status.contains("its url is not usable"), "{status}");
    assert_eq!(address(&site), "192.0.2.7");
    wait_until("the lost connection is shown", || {
        has(&site, "no notifications of the database: cannot connect: ")
    });
    assert!(!listening());
    assert_eq!(site.metric("avocet_condition{condition=\"databases\"}"), 1.0);
    assert!(site.avocet_text(&["status"]).contains("its zones are read at their intervals"));

    // Also over a restart of the server.
    server.stop();
    let _server = site.start();
    assert_eq!(address(&site), "192.0.2.7");
    database.run();
    database.sql("pdns", &set_address("192.0.2.10"));
    wait_until("the database is read again", || address(&site) == "192.0.2.10");
    wait_until("notifications arrive", || {
        listening() && site.metric("avocet_condition{condition=\"databases\"}") == 0.0
    });
    database.sql("pdns", "DELETE FROM records; DELETE FROM domains");
    site.avocet(&["zone", "reload", "corp.example"]);
    wait_until("the error is shown", || has(&site, "domains has no zone corp.example"));
    assert_eq!(address(&site), "192.0.2.10");
}

#[test]
fn a_password_and_tls_are_those_of_the_configuration() {
    let Some(database) = Database::start() else { return };
    database.sql("postgres", "CREATE DATABASE tls TEMPLATE pdns");
    let (upstream, site) = (Upstream::start(), Site::new());
    let write = |name: &str, text: &str, mode: u32| {
        let path = site.directory.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    };
    write("password", "wrong-hush\n", 0o600);
    write("ca.pem", CERTIFICATE[0], 0o644);
    write("other.pem", OTHER_AUTHORITY, 0o644);
    let url = |database_name: &str| {
        format!("postgresql://avocet@127.0.0.1:{}/{database_name}", database.port)
    };
    let with = |database_name: &str, rest: &str| {
        let all = format!("password-file = \"password\"\n{rest}");
        site.configure(upstream.addr, "", &zone(&url(database_name), &all));
    };
    with("pdns", "");
    let mut server = site.start();
    wait_until("the password is refused", || has(&site, "(28P01)"));
    let fails = |expected: &str| {
        site.avocet(&["zone", "reload", "corp.example"]);
        wait_until(expected, || has(&site, expected));
    };
    write("password", "hush\n", 0o644);
    fails("others may read");
    write("password", "hush\n", 0o640);
    site.avocet(&["zone", "reload", "corp.example"]);
    wait_until("the zone is read", || address(&site) == "192.0.2.7");

    // The database takes no connection without TLS, and this server no other certificate.
    with("tls", "");
    site.avocet_text(&["reload"]);
    wait_until("a connection without TLS is refused", || has(&site, "(28000)"));
    with("tls", "ca = \"other.pem\"\n");
    site.avocet_text(&["reload"]);
    wait_until("the certificate is refused", || has(&site, "invalid peer certificate"));
    database.sql("tls", &set_address("192.0.2.11"));
    with("tls", "ca = \"ca.pem\"\n");
    site.avocet_text(&["reload"]);
    wait_until("the zone is read over TLS", || address(&site) == "192.0.2.11");
    database.sql("tls", &set_address("192.0.2.12"));
    wait_until("a notification comes over TLS", || address(&site) == "192.0.2.12");
    with("tls", "ca = \"missing.pem\"\n");
    let refused = site.avocet(&["check"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("missing.pem"));
    assert!(!has(&site, "hush"));
    server.read_lines();
    let shows_secret = server.seen().iter().any(|line| line.contains("hush"));
    assert!(!shows_secret);
}

#[test]
fn a_table_that_is_too_large_takes_bounded_memory() {
    let Some(database) = Database::start() else { return };
    let (site, server, _upstream) = start(&database);
    wait_until("the zone is read", || address(&site) == "192.0.2.7");
    let before = server.most_memory();
    let rows = "ALTER TABLE records DISABLE TRIGGER USER; \
                INSERT INTO records (domain_id, name, type, content, ttl) \
                SELECT 7, 'h' || n || '.corp.example', 'TXT', repeat('x', 250), 60 \
                FROM generate_series(1, 300000) n";
    database.sql("pdns", rows);
    site.avocet(&["zone", "reload", "corp.example"]);
    wait_until("the zone is too large", || has(&site, "the zone has more than 67108864 octets"));
    assert_eq!(address(&site), "192.0.2.7");
    let more = server.most_memory() - before;
    assert!(more < 256 << 20, "{more} octets");
}

#[test]
fn the_manual_has_the_trigger_of_this_test() {
    assert!(MANUAL.contains(TRIGGER.trim()));
}
