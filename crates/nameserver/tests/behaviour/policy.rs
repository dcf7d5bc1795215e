//! Lists, rules and clients on the query path: the answer for each client and name, from datagram
//! to reply.

use crate::asked;

use std::net::SocketAddr;
use std::path::PathBuf;

use avocet_nameserver::InProcess;
use avocet_testkit::mmdb::Database;
use avocet_wire::Rtype;

use asked::{Over, ask_over, wire};

/// 2026-11-21, a Saturday, 12:00 in UTC.
const NOON: u64 = 1_795_262_400;

const CONFIGURATION: &str = r#"
[resolver]
mode = "forward"

[[forward]]
zone = "."
upstreams = ["192.0.2.1"]

[[forward]]
zone = "corp.example"
upstreams = ["192.0.2.1"]

[policy]
block-answer = "zero"
block-ttl-secs = 30
block-private = true
private-exceptions = ["home.example"]

[[list]]
name = "ads"
file = "ADS"

[[list]]
name = "adult"
file = "ADULT"

[[group]]
name = "default"
lists = ["ads"]

[[group]]
name = "kids"
clients = ["tablet", "10.0.9.0/24"]

[[group]]
name = "free"
clients = ["10.0.5.5"]
lists = []

[[client]]
name = "tablet"
ids = ["10.0.0.20"]

[[rule]]
name = "bedtime"
when = 'client.group("kids") && now.between("21:00", "07:00") && qname.under("video.example")'
action = "block"
answer = "nxdomain"

[[rule]]
name = "work"
when = 'qname == "allowed.ads.example"'
action = "allow"

[[rule]]
name = "printer"
when = 'qname == "printer.example"'
action = "redirect"
to = ["10.1.1.1", "fd00::1"]

[[rule]]
name = "search"
when = 'client.group("kids")'
action = "safe-search"

[[rule]]
name = "short"
when = 'qname.under("short.example")'
action = "ttl"
max-secs = 10

[[rule]]
name = "slow"
when = 'qname.under("slow.example")'
action = "rate-limit"
rps = 1
burst = 2

[[rule]]
name = "gone"
when = 'qname.under("gone.example")'
action = "drop"

[[rule]]
name = "net"
when = 'answer.ip.in("198.51.100.0/24")'
action = "block"
answer = "refused"

[[record]]
name = "own.ads.example"
type = "A"
values = ["10.2.2.2"]
"#;

struct Server {
    inner: InProcess,
    directory: PathBuf,
}

impl Server {
    fn start(test: &str) -> Self {
        let directory =
            std::env::temp_dir().join(format!("avocet-policy-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let file = |name: &str, text: &str| {
            let path = directory.join(name);
            std::fs::write(&path, text).unwrap();
            path.to_string_lossy().into_owned()
        };
        let ads = file(
            "ads.txt",
            "||ads.example^\n@@||fine.ads.example^\n||tracker.example^$dnstype=AAAA\n\
             ||named.example^$client=Tablet\n||unnamed.example^$client=~tablet|~nobody\n||near.example^$client=10.0.0.0/24\n\
             ||tagged.example^$ctag=kids|user_child\n||untagged.example^$ctag=~kids\n\
             ||named-only.example^$dnstype=~CNAME\n||duckduckgo.com^\n",
        );
        let adult = file("adult.txt", "0.0.0.0 adult.example\n");
        let configuration = CONFIGURATION.replace("ADS", &ads).replace("ADULT", &adult);
        let mut inner =
            InProcess::new(&configuration, SocketAddr::from(([10, 0, 0, 1], 4000))).unwrap();
        inner.set_wall_clock(NOON);
        let a = Rtype::A.0;
        for (name, address) in [
            ("ok.example.", [192, 0, 2, 7]),
            ("fine.ads.example.", [192, 0, 2, 8]),
            ("allowed.ads.example.", [192, 0, 2, 9]),
            ("adult.example.", [192, 0, 2, 10]),
            ("a.video.example.", [192, 0, 2, 11]),
            ("x.short.example.", [192, 0, 2, 12]),
            ("x.slow.example.", [192, 0, 2, 13]),
            ("hosted.example.", [198, 51, 100, 3]),
            ("nas.home.example.", [192, 168, 1, 2]),
            ("x.corp.example.", [192, 168, 1, 2]),
            ("rebound.example.", [192, 168, 1, 1]),
            ("tracker.example.", [192, 0, 2, 14]),
            ("forcesafesearch.google.com.", [192, 0, 2, 15]),
            ("www.google.com.", [192, 0, 2, 16]),
            ("cdn.ads.example.", [192, 0, 2, 17]),
            ("named-only.example.", [192, 0, 2, 18]),
        ] {
            inner.learn(&wire(name), a, 300, &[&address]);
        }
        inner.learn(&wire("cloaked.example."), Rtype::CNAME.0, 300, &[&wire("cdn.ads.example.")]);
        inner.learn(&wire("alias.example."), Rtype::CNAME.0, 300, &[&wire("named-only.example.")]);
        Self { inner, directory }
    }

    fn learn(&self, name: &str, address: [u8; 4]) {
        self.inner.learn(&wire(name), Rtype::A.0, 300, &[&address]);
    }

    /// RCODE, answers and the extended error, in one line.
    fn ask(&mut self, client: [u8; 4], name: &str, rtype: Rtype) -> String {
        asked::ask(&mut self.inner, client, name, rtype)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

const ANYONE: [u8; 4] = [10, 0, 0, 1];
const TABLET: [u8; 4] = [10, 0, 0, 20];
const FREE: [u8; 4] = [10, 0, 5, 5];

/// Sends each query three times, over UDP and TCP in turn: each answer must be the same, whether
/// evaluated or cached.
#[track_caller]
fn check(server: &mut Server, rows: &[([u8; 4], &str, Rtype, &str)]) {
    for over in [Over::Udp, Over::Tcp, Over::Udp] {
        for (client, name, rtype, answer) in rows {
            let given = ask_over(over, &mut server.inner, (*client, name, *rtype));
            assert_eq!(given, *answer, "{client:?} {name} {rtype} {over:?}");
        }
    }
}

#[test]
fn lists_block_for_the_groups_that_have_them() {
    let mut server = Server::start("lists");
    let blocked = "NOERROR 30 0.0.0.0 [17 list ads]";
    check(
        &mut server,
        &[
            (ANYONE, "ok.example.", Rtype::A, "NOERROR 300 192.0.2.7"),
            (ANYONE, "x.ads.example.", Rtype::A, blocked),
            (TABLET, "x.ads.example.", Rtype::A, blocked),
            (ANYONE, "X.Ads.example.", Rtype::AAAA, "NOERROR 30 :: [17 list ads]"),
            (ANYONE, "x.ads.example.", Rtype::TXT, "NOERROR [17 list ads]"),
            (ANYONE, "fine.ads.example.", Rtype::A, "NOERROR 300 192.0.2.8"),
            (ANYONE, "allowed.ads.example.", Rtype::A, "NOERROR 300 192.0.2.9"),
            (ANYONE, "own.ads.example.", Rtype::A, "NOERROR 300 10.2.2.2"),
            (FREE, "cdn.ads.example.", Rtype::A, "NOERROR 300 192.0.2.17"),
            (ANYONE, "adult.example.", Rtype::A, "NOERROR 300 192.0.2.10"),
            (TABLET, "adult.example.", Rtype::A, "NOERROR 30 0.0.0.0 [17 list adult]"),
            ([10, 0, 9, 77], "adult.example.", Rtype::A, "NOERROR 30 0.0.0.0 [17 list adult]"),
            (ANYONE, "tracker.example.", Rtype::A, "NOERROR 300 192.0.2.14"),
            (ANYONE, "tracker.example.", Rtype::AAAA, "NOERROR 30 :: [17 list ads]"),
        ],
    );
}

#[test]
fn lists_ask_for_clients_by_name_address_and_tag() {
    let mut server = Server::start("clients-of-lists");
    let (open, closed) = ("NOERROR 300 192.0.2.20", "NOERROR 30 0.0.0.0 [17 list ads]");
    let of_group = [10, 0, 9, 77];
    for name in ["named", "unnamed", "near", "tagged", "untagged"] {
        server.learn(&format!("{name}.example."), [192, 0, 2, 20]);
    }
    check(
        &mut server,
        &[
            (ANYONE, "named.example.", Rtype::A, open),
            (TABLET, "named.example.", Rtype::A, closed),
            (ANYONE, "unnamed.example.", Rtype::A, closed),
            (TABLET, "unnamed.example.", Rtype::A, open),
            (ANYONE, "near.example.", Rtype::A, closed),
            (of_group, "near.example.", Rtype::A, open),
            (ANYONE, "tagged.example.", Rtype::A, open),
            (TABLET, "tagged.example.", Rtype::A, closed),
            (of_group, "tagged.example.", Rtype::A, closed),
            (ANYONE, "untagged.example.", Rtype::A, closed),
            (of_group, "untagged.example.", Rtype::A, open),
        ],
    );
}

/// A server with one list and additional tables.
fn with_list(test: &str, list: &str, tables: &str) -> Server {
    let directory =
        std::env::temp_dir().join(format!("avocet-policy-{test}-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join("list.txt");
    std::fs::write(&file, list).unwrap();
    let forward = "[[forward]]\nzone = \".\"\nupstreams = [\"192.0.2.1\"]\n";
    let configuration =
        format!("{forward}[[list]]\nname = \"own\"\nfile = {:?}\n{tables}", file.to_string_lossy());
    let mut inner =
        InProcess::new(&configuration, SocketAddr::from(([10, 0, 0, 1], 4000))).unwrap();
    inner.set_wall_clock(NOON);
    Server { inner, directory }
}

#[test]
fn names_of_clients_that_lists_cannot_tell_apart_are_all_meant() {
    let clients = "[[client]]\nname = \"Living Room\"\nids = [\"10.0.0.20\"]\n\
        [[client]]\nname = \"living room\"\nids = [\"10.0.5.5\"]\n";
    let mut server = with_list("same-names", "||named.example^$client='LIVING ROOM'\n", clients);
    server.learn("named.example.", [192, 0, 2, 20]);
    let (open, closed) = ("NOERROR 300 192.0.2.20", "NOERROR 60 0.0.0.0 [17 list own]");
    let rows = [(ANYONE, open), (TABLET, closed), (FREE, closed)];
    check(&mut server, &rows.map(|(client, answer)| (client, "named.example.", Rtype::A, answer)));
}

#[test]
fn a_rule_may_ask_for_a_list_of_names_to_allow() {
    let rule = "kind = \"allow\"\n[[rule]]\nname = \"others\"\nwhen = 'qname.under(\"example\") \
                && !list(\"own\")'\n\
        action = \"block\"\n[[rule]]\nname = \"behind\"\nwhen = 'list(\"own\") && \
        answer.ip.in(\"192.0.2.20\")'\n\
        action = \"block\"\n";
    let mut server = with_list("asked-allow", "||fine.example^\n||cdn.office^\n", rule);
    for (name, last) in [("www.fine.example.", 21), ("cdn.office.", 20), ("other.office.", 20)] {
        server.learn(name, [192, 0, 2, last]);
    }
    check(
        &mut server,
        &[
            (ANYONE, "www.fine.example.", Rtype::A, "NOERROR 300 192.0.2.21"),
            (ANYONE, "www.other.example.", Rtype::A, "NOERROR 60 0.0.0.0 [15 rule others]"),
            (ANYONE, "cdn.office.", Rtype::A, "NOERROR 60 0.0.0.0 [15 rule behind]"),
            (ANYONE, "other.office.", Rtype::A, "NOERROR 300 192.0.2.20"),
        ],
    );
}

#[test]
fn an_alias_does_not_hide_what_is_blocked() {
    let mut server = Server::start("aliases");
    check(
        &mut server,
        &[
            (ANYONE, "cloaked.example.", Rtype::A, "NOERROR 30 0.0.0.0 [17 list ads]"),
            (FREE, "cloaked.example.", Rtype::A, "NOERROR 300 cdn.ads.example. 300 192.0.2.17"),
            // The list blocks the name itself, but not the targets of aliases.
            (ANYONE, "named-only.example.", Rtype::A, "NOERROR 30 0.0.0.0 [17 list ads]"),
            (ANYONE, "alias.example.", Rtype::A, "NOERROR 300 named-only.example. 300 192.0.2.18"),
        ],
    );
}

#[test]
fn rules_rewrite_questions_and_read_answers() {
    let mut server = Server::start("rules");
    check(
        &mut server,
        &[
            (ANYONE, "printer.example.", Rtype::A, "NOERROR 30 10.1.1.1 [4 rule printer]"),
            (ANYONE, "printer.example.", Rtype::AAAA, "NOERROR 30 fd00::1 [4 rule printer]"),
            (ANYONE, "printer.example.", Rtype::MX, "NOERROR [4 rule printer]"),
            (ANYONE, "x.short.example.", Rtype::A, "NOERROR 10 192.0.2.12"),
            (ANYONE, "y.gone.example.", Rtype::A, "nothing"),
            (ANYONE, "hosted.example.", Rtype::A, "REFUSED [15 rule net]"),
            (ANYONE, "www.google.com.", Rtype::A, "NOERROR 300 192.0.2.16"),
            (
                TABLET,
                "www.google.com.",
                Rtype::A,
                "NOERROR 30 forcesafesearch.google.com. 300 192.0.2.15 [4 rule search]",
            ),
        ],
    );
}

#[test]
fn safe_search_takes_no_name_off_a_list() {
    let mut server = Server::start("safe-search");
    check(
        &mut server,
        &[
            (TABLET, "duckduckgo.com.", Rtype::A, "NOERROR 30 0.0.0.0 [17 list ads]"),
            (
                TABLET,
                "www.google.com.",
                Rtype::A,
                "NOERROR 30 forcesafesearch.google.com. 300 192.0.2.15 [4 rule search]",
            ),
            // Mail needs the own records of these names.
            (TABLET, "www.google.com.", Rtype::MX, "nothing"),
        ],
    );
}

#[test]
fn private_addresses_of_public_names_are_taken_out() {
    let mut server = Server::start("rebinding");
    check(
        &mut server,
        &[
            (
                ANYONE,
                "rebound.example.",
                Rtype::A,
                "NOERROR [15 private address for a public name]",
            ),
            (ANYONE, "nas.home.example.", Rtype::A, "NOERROR 300 192.168.1.2"),
            (ANYONE, "x.corp.example.", Rtype::A, "NOERROR 300 192.168.1.2"),
        ],
    );
}

#[test]
fn a_schedule_acts_on_cached_names_at_its_edge() {
    let mut server = Server::start("schedule");
    let name = "a.video.example.";
    let open = "NOERROR 300 192.0.2.11";
    check(&mut server, &[(TABLET, name, Rtype::A, open), (ANYONE, name, Rtype::A, open)]);
    // Clients to which the rule will apply discard the answer before then.
    let brief = "NOERROR 2 192.0.2.11";
    let closed = "NXDOMAIN [15 rule bedtime]";
    // The answer is cached a moment before the rule begins, with a TTL of five minutes.
    let until_edge = 9 * 3600 - 2;
    server.inner.pass(until_edge);
    server.learn(name, [192, 0, 2, 11]);
    check(&mut server, &[(TABLET, name, Rtype::A, brief), (ANYONE, name, Rtype::A, open)]);
    server.inner.pass(1);
    check(&mut server, &[(TABLET, name, Rtype::A, "NOERROR 1 192.0.2.11")]);
    server.inner.pass(1);
    let open = "NOERROR 298 192.0.2.11";
    check(&mut server, &[(TABLET, name, Rtype::A, closed), (ANYONE, name, Rtype::A, open)]);
    // In the morning, no answer of the night is cached.
    server.inner.pass(10 * 3600 - 1);
    check(&mut server, &[(TABLET, name, Rtype::A, closed)]);
    server.inner.pass(1);
    server.learn(name, [192, 0, 2, 11]);
    check(&mut server, &[(TABLET, name, Rtype::A, "NOERROR 300 192.0.2.11")]);
}

#[test]
fn a_rate_limit_counts_cached_answers_too() {
    let mut server = Server::start("limit");
    let mut ask = |client| server.ask(client, "x.slow.example.", Rtype::A);
    let answers: Vec<String> = (0..4).map(|_| ask(ANYONE)).collect();
    let (good, over) = ("NOERROR 300 192.0.2.13", "REFUSED [18 rule slow]");
    assert_eq!(answers, [good, good, over, over]);
    assert_eq!(ask(TABLET), good);
}

#[test]
fn an_error_in_a_policy_is_reported_with_its_position() {
    let wrong = |text: &str| match InProcess::new(text, SocketAddr::from((ANYONE, 1))) {
        Ok(_) => String::new(),
        Err(error) => error.to_string(),
    };
    let rule = "[[rule]]\nname = \"r\"\nwhen = 'qname.undr(\"x\")'\naction = \"block\"\n";
    let error = wrong(rule);
    assert!(
        error.contains("rule `r`: column 7") && error.contains("under") && error.contains('^'),
        "{error}"
    );
    let late =
        "[[rule]]\nname = \"late\"\nwhen = 'answer.ip.in(\"192.0.2.0/24\")'\naction = \"drop\"\n";
    let error = wrong(late);
    assert!(error.contains("rule `late`: the condition tests the answer"), "{error}");
    let error = wrong(
        "[[group]]\nname = \"g\"\nlists = [\"nope\"]\n[[list]]\nname = \"l\"\nfile = \"x\"\n",
    );
    assert!(error.contains("nope"), "{error}");
    let error = wrong("[[list]]\nname = \"l\"\n[[list]]\nname = \"l\"\nurl = \"ftp://x\"\n");
    assert!(
        error.contains("`url`, `file` or `primaries` is missing") && error.contains("http://"),
        "{error}"
    );
}

const BY_COUNTRY: &str = r#"
[resolver]
mode = "forward"

[[forward]]
zone = "."
upstreams = ["192.0.2.1"]

[dns64]
prefix = "2001:db8:64::/96"

[policy]
geo-database = "GEO"
block-ttl-secs = 30

[[rule]]
name = "fine"
when = 'qname.under("fine.example")'
action = "allow"

[[rule]]
name = "abroad"
when = 'geo.country == "NL"'
action = "block"

[[rule]]
name = "home only"
when = 'qname.under("only.example") && answer.ip.in("0.0.0.0/0", "::/0") && !(geo.country in ["SE", "NO"])'
action = "block"
answer = "nxdomain"
"#;

#[test]
fn rules_go_by_the_countries_of_all_addresses_in_an_answer() {
    let file = std::env::temp_dir().join(format!("avocet-policy-geo-{}.mmdb", std::process::id()));
    let networks = [
        ("192.0.2.0/24", "NL"),
        ("198.51.100.0/24", "SE"),
        ("2001:db8::/48", "NL"),
        ("2001:db8:1::/48", "SE"),
    ];
    std::fs::write(&file, Database::of_countries(&networks).octets()).unwrap();
    let configuration = BY_COUNTRY.replace("GEO", &file.display().to_string());
    let inner = InProcess::new(&configuration, SocketAddr::from((ANYONE, 4000)));
    std::fs::remove_file(&file).unwrap();
    let mut server = Server { inner: inner.unwrap(), directory: file };
    let v6 = |text: &str| text.parse::<std::net::Ipv6Addr>().unwrap().octets();
    let hints = [&b"\x00\x01\x00\x00\x04\x00\x08"[..], &[198, 51, 100, 1, 192, 0, 2, 1]].concat();
    let learn = |name: &str, rtype: Rtype, records: &[&[u8]]| {
        server.inner.learn(&wire(name), rtype.0, 300, records)
    };
    for name in ["nl.example.", "x.fine.example.", "nl.only.example."] {
        learn(name, Rtype::A, &[&[192, 0, 2, 1]]);
    }
    learn("se.example.", Rtype::A, &[&[198, 51, 100, 1]]);
    learn("se.only.example.", Rtype::A, &[&[198, 51, 100, 1]]);
    learn("unknown.only.example.", Rtype::A, &[&[203, 0, 113, 1]]);
    learn("txt.only.example.", Rtype::TXT, &[b"\x01x"]);
    learn("both.example.", Rtype::A, &[&[198, 51, 100, 1], &[192, 0, 2, 1]]);
    learn("alias.example.", Rtype::CNAME, &[&wire("nl.example.")]);
    learn("nl.example.", Rtype::AAAA, &[&v6("2001:db8::1")]);
    learn("se.example.", Rtype::AAAA, &[&v6("2001:db8:1::1")]);
    learn("made.example.", Rtype::AAAA, &[&v6("2001:db8:64::192.0.2.1")]);
    learn("known.example.", Rtype::AAAA, &[&v6("64:ff9b::192.0.2.1")]);
    learn("hints.example.", Rtype::HTTPS, &[&hints]);
    let (blocked, blocked_v6) =
        ("NOERROR 30 0.0.0.0 [15 rule abroad]", "NOERROR 30 :: [15 rule abroad]");
    check(
        &mut server,
        &[
            (ANYONE, "nl.example.", Rtype::A, blocked),
            (ANYONE, "se.example.", Rtype::A, "NOERROR 300 198.51.100.1"),
            (ANYONE, "both.example.", Rtype::A, blocked),
            (ANYONE, "alias.example.", Rtype::A, blocked),
            (ANYONE, "x.fine.example.", Rtype::A, "NOERROR 300 192.0.2.1"),
            (ANYONE, "nl.example.", Rtype::AAAA, blocked_v6),
            (ANYONE, "se.example.", Rtype::AAAA, "NOERROR 300 2001:db8:1::1"),
            (ANYONE, "made.example.", Rtype::AAAA, blocked_v6),
            (ANYONE, "known.example.", Rtype::AAAA, blocked_v6),
            (ANYONE, "hints.example.", Rtype::HTTPS, "NOERROR [15 rule abroad]"),
            (ANYONE, "se.only.example.", Rtype::A, "NOERROR 300 198.51.100.1"),
            (ANYONE, "nl.only.example.", Rtype::A, blocked),
            (ANYONE, "unknown.only.example.", Rtype::A, "NXDOMAIN [15 rule home only]"),
            (ANYONE, "txt.only.example.", Rtype::TXT, "NOERROR 300 \"x\""),
        ],
    );
}

const PLAIN: &str = r#"
[resolver]
mode = "forward"

[[forward]]
zone = "."
upstreams = ["192.0.2.1"]

[dns64]
prefix = "2001:db8:64::/96"

[cache]
packet-bytes = "1MiB"
rrset-bytes = "1MiB"
"#;

fn plain(policy: &str) -> InProcess {
    InProcess::new(&format!("{PLAIN}{policy}"), SocketAddr::from((ANYONE, 4000))).unwrap()
}

#[test]
fn addresses_of_one_family_leave_the_other_without_data() {
    let directory = std::env::temp_dir().join(format!("avocet-family-{}", std::process::id()));
    std::fs::write(&directory, "ads.example\n").unwrap();
    for (address, v4, v6) in [
        ("192.0.2.1", "NOERROR 60 192.0.2.1 [17 list l]", "NOERROR [17 list l]"),
        ("2001:db8::1", "NOERROR [17 list l]", "NOERROR 60 2001:db8::1 [17 list l]"),
    ] {
        let mut server = plain(&format!(
            "[policy]\nblock-answer = \"addresses\"\nblock-addresses = [\"{address}\"]\n\
             [[list]]\nname = \"l\"\nfile = {directory:?}\n"
        ));
        for (rtype, expected) in [(Rtype::A, v4), (Rtype::AAAA, v6)] {
            assert_eq!(asked::ask(&mut server, ANYONE, "ads.example.", rtype), expected);
        }
    }
    std::fs::remove_file(&directory).unwrap();
}

#[test]
fn a_rule_acts_regardless_of_the_number_of_other_matches() {
    let tags = |name: &str| -> String {
        let tag = |place| {
            format!(
                "[[rule]]\nname = \"{name}{place}\"\nwhen = 'true'\naction = \"tag\"\ntag = \"x\"\n"
            )
        };
        (0..20).map(tag).collect()
    };
    let (tags, more) = (tags("a"), tags("b"));
    let ttl = "[[rule]]\nname = \"ttl\"\nwhen = 'true'\naction = \"ttl\"\nmax-secs = 10\n";
    let of_answer = "[[rule]]\nname = \"seen\"\nwhen = 'answer.ip.in(\"192.0.2.0/24\")'\naction = \
                     \"ttl\"\nmax-secs = 10\n";
    let limit =
        "[[rule]]\nname = \"slow\"\nwhen = 'true'\naction = \"rate-limit\"\nrps = 1\nburst = 2\n";
    let open = "NOERROR 10 192.0.2.7";
    for (rules, answers) in [
        (format!("{tags}{ttl}"), [open; 3]),
        (format!("{tags}{of_answer}"), [open; 3]),
        (format!("{tags}{limit}{ttl}"), [open, open, "REFUSED [18 rule slow]"]),
        (format!("{tags}{ttl}{more}{limit}"), [open, open, "REFUSED [18 rule slow]"]),
    ] {
        let mut server = plain(&rules);
        server.learn(&wire("www.example."), Rtype::A.0, 300, &[&[192, 0, 2, 7]]);
        for (round, answer) in (1..).zip(answers) {
            assert_eq!(
                asked::ask(&mut server, ANYONE, "www.example.", Rtype::A),
                answer,
                "round {round} of {rules}"
            );
        }
    }
}

/// A rule on addresses, and the protection against rebinding; each blocks private addresses.
const AGAINST_PRIVATE: [(&str, &str); 2] = [
    ("[policy]\nblock-private = true\n", "[15 private address for a public name]"),
    (
        "[[rule]]\nname = \"r\"\nwhen = 'answer.ip.in(\"192.168.0.0/16\")'\naction = \
         \"block\"\nanswer = \"nodata\"\n",
        "[15 rule r]",
    ),
];

#[test]
fn names_that_the_servers_for_all_names_answer_by_an_exception_are_public() {
    let table = |zone: &str, more: &str| format!("[[forward]]\nzone = \"{zone}\"\n{more}");
    let servers = |host: u8| format!("upstreams = [\"192.0.2.{host}\"]\n");
    let tables = table("corp.site", &servers(54)) + &table("!lab.corp.site", "");
    let mut server = plain(&format!("{tables}[policy]\nblock-private = true\n"));
    let (home, own) = ("lab.corp.site.", "www.corp.site.");
    server.learn(&wire(home), Rtype::A.0, 300, &[&[10, 5, 5, 7]]);
    server.learn(&wire(own), Rtype::A.0, 300, &[&[10, 5, 5, 8]]);
    let target = |name: &str| [&b"\x00\x01"[..], &wire(name)].concat();
    server.learn(&wire("a.site."), Rtype::HTTPS.0, 300, &[&target(home)]);
    server.learn(&wire("b.site."), Rtype::HTTPS.0, 300, &[&target(own)]);
    let blocked = "NOERROR [15 private address for a public name]";
    let mut ask = |name: &str, rtype| asked::ask(&mut server, ANYONE, name, rtype);
    assert_eq!(ask(home, Rtype::A), blocked);
    assert_eq!(ask(own, Rtype::A), "NOERROR 300 10.5.5.8");
    assert!(!ask("a.site.", Rtype::HTTPS).contains("[15"));
    assert!(ask("b.site.", Rtype::HTTPS).contains("[15"));
}

#[test]
fn a_translated_address_is_judged_as_its_ipv4_address() {
    let v6 = |text: &str| text.parse::<std::net::Ipv6Addr>().unwrap().octets();
    for (policy, reason) in AGAINST_PRIVATE {
        let mut server = plain(policy);
        for (name, rtype, data) in [
            ("sent.example.", Rtype::AAAA, &v6("2001:db8:64::192.168.1.1")[..]),
            ("public.example.", Rtype::AAAA, &v6("2001:db8:64::192.0.2.7")),
            (
                "hint.example.",
                Rtype::HTTPS,
                &[&b"\x00\x01\x00\x00\x06\x00\x10"[..], &v6("2001:db8:64::192.168.1.1")].concat(),
            ),
        ] {
            server.learn(&wire(name), rtype.0, 300, &[data]);
        }
        let blocked = format!("NOERROR {reason}");
        for (name, rtype, answer) in [
            ("sent.example.", Rtype::AAAA, &blocked[..]),
            ("public.example.", Rtype::AAAA, "NOERROR 300 2001:db8:64::c000:207"),
            ("hint.example.", Rtype::HTTPS, &blocked),
        ] {
            assert_eq!(
                asked::ask(&mut server, ANYONE, name, rtype),
                answer,
                "{name} with {policy}"
            );
        }
    }
}

#[test]
fn an_answer_that_leads_to_more_than_is_looked_at_is_not_given() {
    let hints = |first: usize, count: usize| {
        let public = [192, 0, 2, 7].repeat(count);
        let length = ((first + count) * 4) as u16;
        [
            &b"\x00\x01\x00\x00\x04"[..],
            &length.to_be_bytes(),
            &[192, 168, 1, 1].repeat(first),
            &public,
        ]
        .concat()
    };
    let mut many = hints(0, 512);
    many.extend([192, 168, 1, 1]);
    let length = many.len();
    many[5..7].copy_from_slice(&((length - 7) as u16).to_be_bytes());
    for (policy, reason) in AGAINST_PRIVATE {
        let mut server = plain(policy);
        for (name, data) in [
            ("many.example.", &many),
            ("first.example.", &hints(1, 2)),
            ("most.example.", &hints(0, 512)),
        ] {
            server.learn(&wire(name), Rtype::HTTPS.0, 300, &[data]);
        }
        let mut answer = |name| ask_over(Over::Tcp, &mut server, (ANYONE, name, Rtype::HTTPS));
        let unread = "NOERROR [15 too many addresses or names in the answer]";
        assert_eq!(answer("many.example."), unread, "{policy}");
        assert_eq!(answer("first.example."), format!("NOERROR {reason}"), "{policy}");
        assert!(answer("most.example.").starts_with("NOERROR 300 1 . ipv4hint="), "{policy}");
    }
    let mut server =
        plain("[[rule]]\nname = \"r\"\nwhen = 'true'\naction = \"ttl\"\nmax-secs = 60\n");
    server.learn(&wire("many.example."), Rtype::HTTPS.0, 300, &[&many]);
    assert!(
        ask_over(Over::Tcp, &mut server, (ANYONE, "many.example.", Rtype::HTTPS))
            .starts_with("NOERROR 60 1")
    );
}
