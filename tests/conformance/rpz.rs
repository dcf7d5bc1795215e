//! Response policy zones behave as in other servers: the same zones in Avocet, Unbound, Knot
//! Resolver and BIND, with the same authoritative server and the same queries.
//!
//! RCODE, TC, the records of the answer, and the absence of a reply must be equal, with these
//! exceptions:
//!
//! - Knot Resolver supports only triggers on the QNAME and no aliases. It also applies a wildcard
//!   to names below an existing name, and answers SERVFAIL where it should drop.
//! - Unbound tests the QNAME against all zones before it resolves, so that a later zone takes
//!   precedence over an address of an earlier one. It also tests the QNAME of a client that passes
//!   through.
//!
//! Each case lists the servers that are compared. Unbound sometimes returns the authoritative
//! answer where it should act on a cached alias or address; in these cases the test accepts that
//! answer.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::time::Duration;

use avocet_wire::Rcode;

use crate::harness::filters::Filter;
use crate::harness::peers::{Kind, Zone};
use crate::harness::{Ask, Record, Reply, Scripted, Setup, Tcp, Udp, until};

/// The zone of all names.
const APEX: &str = "filtered.example.";
/// Number of queried names; more if the environment says so.
const NAMES: usize = 1_000;
/// The variable that sets the number of names.
const NAMES_VARIABLE: &str = "AVOCET_RPZ_NAMES";
/// Questions in flight at once.
const WINDOW: usize = 100;
/// How long to wait for a reply, on each attempt.
const SILENCES: [Duration; 3] =
    [Duration::from_millis(30), Duration::from_millis(400), Duration::from_millis(400)];
/// Attempts until a difference counts.
const ATTEMPTS: usize = 3;

/// The treatment of a name. `{n}` is its label, `{a}` its address, `{r}` the reversed address,
/// `{h}` its third octet, and `{x}` its number.
struct Case {
    what: &'static str,
    /// Records of the authoritative zone, below its apex.
    records: &'static str,
    /// Records of the first policy zone and of the second.
    zones: [&'static str; 2],
    /// Servers with the same behaviour.
    with: &'static [Filter],
}

const ALL: &[Filter] = &[Filter::Unbound, Filter::Kresd, Filter::Named];
/// Servers that support all triggers.
const FULL: &[Filter] = &[Filter::Unbound, Filter::Named];
/// Servers that respect the order of the zones.
const STRICT: &[Filter] = &[Filter::Named];
/// The queried types.
const TYPES: [&str; 3] = ["A", "AAAA", "TXT"];

const fn case(
    what: &'static str,
    records: &'static str,
    zones: [&'static str; 2],
    with: &'static [Filter],
) -> Case {
    Case { what, records, zones, with }
}

const ADDRESS: &str = "{n} A {a}\n{n} TXT \"{n}\"\n";
const ALIAS: &str = "{n} CNAME to-{n}\nto-{n} A {a}\n";

const CASES: &[Case] = &[
    case("none", ADDRESS, ["", ""], ALL),
    case("nxdomain", ADDRESS, ["{n}.filtered.example CNAME .\n", ""], ALL),
    case("nodata", ADDRESS, ["{n}.filtered.example CNAME *.\n", ""], ALL),
    case("nodata of the second", ADDRESS, ["", "{n}.filtered.example CNAME *.\n"], ALL),
    case(
        "both zones",
        ADDRESS,
        ["{n}.filtered.example CNAME .\n", "{n}.filtered.example A 192.0.2.1\n"],
        ALL,
    ),
    case(
        "passthru before",
        ADDRESS,
        ["{n}.filtered.example CNAME rpz-passthru.\n", "{n}.filtered.example CNAME .\n"],
        ALL,
    ),
    case("drop", ADDRESS, ["{n}.filtered.example CNAME rpz-drop.\n", ""], FULL),
    case("tcp-only", ADDRESS, ["{n}.filtered.example CNAME rpz-tcp-only.\n", ""], ALL),
    case("wildcard", "a.{n} A {a}\nb.{n} A {a}\n", ["*.{n}.filtered.example CNAME .\n", ""], ALL),
    case(
        "wildcard with passthru",
        "a.{n} A {a}\nb.{n} A {a}\n",
        ["*.{n}.filtered.example CNAME .\na.{n}.filtered.example CNAME rpz-passthru.\n", ""],
        ALL,
    ),
    case(
        "below an existing name",
        "c.a.{n} A {a}\nb.{n} A {a}\n",
        ["*.{n}.filtered.example CNAME .\na.{n}.filtered.example CNAME rpz-passthru.\n", ""],
        FULL,
    ),
    case(
        "data",
        ADDRESS,
        ["{n}.filtered.example A 192.0.2.1\n{n}.filtered.example A 192.0.2.2\n", ""],
        ALL,
    ),
    case("data of one type", ADDRESS, ["{n}.filtered.example AAAA 2001:db8::1\n", ""], ALL),
    case(
        "data for wildcard",
        "a.{n} A {a}\n",
        ["*.{n}.filtered.example TXT \"x\"\n*.{n}.filtered.example A 192.0.2.9\n", ""],
        ALL,
    ),
    case("alias", ADDRESS, ["{n}.filtered.example CNAME walled.filtered.example.\n", ""], FULL),
    case(
        "alias to nowhere",
        ADDRESS,
        ["{n}.filtered.example CNAME nowhere.filtered.example.\n", ""],
        FULL,
    ),
    case(
        "garden",
        "a.{n} A {a}\n",
        ["*.{n}.filtered.example CNAME *.garden.filtered.example.\n", ""],
        FULL,
    ),
    case("absent, nxdomain", "", ["{n}.filtered.example CNAME .\n", ""], ALL),
    case("absent, data", "", ["{n}.filtered.example A 192.0.2.3\n", ""], ALL),
    case("absent", "", ["", ""], ALL),
    case("behind an alias, nxdomain", ALIAS, ["to-{n}.filtered.example CNAME .\n", ""], FULL),
    case("behind an alias, nodata", ALIAS, ["to-{n}.filtered.example CNAME *.\n", ""], FULL),
    case("behind an alias, data", ALIAS, ["to-{n}.filtered.example A 192.0.2.4\n", ""], FULL),
    case("behind an alias, drop", ALIAS, ["to-{n}.filtered.example CNAME rpz-drop.\n", ""], FULL),
    case(
        "behind an alias, alias",
        ALIAS,
        ["to-{n}.filtered.example CNAME walled.filtered.example.\n", ""],
        FULL,
    ),
    case("ip, nxdomain", ADDRESS, ["32.{r}.rpz-ip CNAME .\n", ""], FULL),
    case("ip, nodata", ADDRESS, ["32.{r}.rpz-ip CNAME *.\n", ""], FULL),
    case("ip, data", ADDRESS, ["32.{r}.rpz-ip A 192.0.2.5\n", ""], FULL),
    case(
        "ip, passthru before",
        ADDRESS,
        ["32.{r}.rpz-ip CNAME rpz-passthru.\n", "32.{r}.rpz-ip CNAME .\n"],
        FULL,
    ),
    case("ip, drop", ADDRESS, ["32.{r}.rpz-ip CNAME rpz-drop.\n", ""], FULL),
    case("ip, tcp-only", ADDRESS, ["32.{r}.rpz-ip CNAME rpz-tcp-only.\n", ""], FULL),
    case("ip, alias", ADDRESS, ["32.{r}.rpz-ip CNAME walled.filtered.example.\n", ""], FULL),
    case("ip behind an alias, nxdomain", ALIAS, ["32.{r}.rpz-ip CNAME .\n", ""], FULL),
    case("ip behind an alias, nodata", ALIAS, ["32.{r}.rpz-ip CNAME *.\n", ""], FULL),
    case(
        "ip of the second, qname of the first",
        ADDRESS,
        ["{n}.filtered.example CNAME *.\n", "32.{r}.rpz-ip CNAME .\n"],
        FULL,
    ),
    case(
        "ip of the first, qname of the second",
        ADDRESS,
        ["32.{r}.rpz-ip CNAME .\n", "{n}.filtered.example CNAME *.\n"],
        STRICT,
    ),
    case("ip of a network", "{n} A 10.8.{h}.9\n", ["24.0.{h}.8.10.rpz-ip CNAME *.\n", ""], FULL),
    case(
        "bits behind the prefix",
        "{n} A 10.8.{h}.9\n",
        ["24.9.{h}.8.10.rpz-ip CNAME *.\n", ""],
        STRICT,
    ),
    case(
        "a prefix with a zero before it",
        "{n} A 10.8.{h}.9\n",
        ["024.0.{h}.8.10.rpz-ip CNAME *.\n", ""],
        STRICT,
    ),
    case(
        "ip of IPv6, nxdomain",
        "{n} AAAA 2001:db8:7::{x}\n{n} A {a}\n",
        ["128.{x}.zz.7.db8.2001.rpz-ip CNAME .\n", ""],
        FULL,
    ),
    case(
        "ip of IPv6, data",
        "{n} AAAA 2001:db8:7::{x}\n",
        ["", "128.{x}.zz.7.db8.2001.rpz-ip AAAA 2001:db8::2\n"],
        FULL,
    ),
    case(
        "longer before shorter",
        "{n} AAAA 2001:db8:8:{x}::1\n",
        ["64.zz.{x}.8.db8.2001.rpz-ip CNAME .\n128.1.zz.{x}.8.db8.2001.rpz-ip CNAME *.\n", ""],
        FULL,
    ),
];

/// The zones of the servers, and the questions.
struct Material {
    authority: Zone,
    zones: Vec<Zone>,
    questions: Vec<Question>,
}

/// Case, name and type.
type Question = (&'static Case, String, &'static str);

fn material(names: usize) -> Material {
    let mut authority = format!(
        "$ORIGIN {APEX}\n$TTL 300\n@ SOA ns.{APEX} nobody.{APEX} 1 3600 600 86400 60\n@ NS ns\nns A 192.0.2.53\n\
         probe A 192.0.2.54\nwalled A 192.0.2.55\nwalled TXT \"walled\"\n*.garden A 192.0.2.56\n"
    );
    let mut zones = [1, 2].map(|number| {
        let name = format!("rpz{number}.example.");
        let text = format!(
            "$ORIGIN {name}\n$TTL 60\n@ SOA localhost. nobody.localhost. 1 3600 600 86400 60\n@ NS localhost.\n"
        );
        Zone { name, text }
    });
    let mut questions = Vec::new();
    for (number, case) in (1..=names).zip(CASES.iter().cycle()) {
        let [_, _, high, low] = (number as u32).to_be_bytes();
        let fill = |text: &str| {
            let name = format!("n{number}");
            let (address, reverse) = (format!("10.7.{high}.{low}"), format!("{low}.{high}.7.10"));
            text.replace("{n}", &name)
                .replace("{a}", &address)
                .replace("{r}", &reverse)
                .replace("{h}", &high.to_string())
                .replace("{x}", &format!("{number:x}"))
        };
        authority += &fill(case.records);
        for (zone, records) in zones.iter_mut().zip(case.zones) {
            zone.text += &fill(records);
        }
        let owners: BTreeSet<String> =
            case.records.lines().filter_map(|line| Some(fill(line.split(' ').next()?))).collect();
        let owners = if owners.is_empty() { BTreeSet::from([fill("{n}")]) } else { owners };
        for owner in owners {
            questions.extend(TYPES.iter().map(|rtype| (case, format!("{owner}.{APEX}"), *rtype)));
        }
    }
    Material {
        authority: Zone { name: APEX.to_owned(), text: authority },
        zones: zones.into(),
        questions,
    }
}

/// The reply to a client.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Got {
    Nothing,
    Answer { rcode: Rcode, is_truncated: bool, answer: BTreeSet<Record> },
}

impl Case {
    /// Whether Unbound acts on the answer rather than on the question.
    fn waits_for_an_answer(&self) -> bool {
        self.records == ALIAS || self.what.starts_with("ip")
    }
}

impl Got {
    /// If the reply is truncated, the one over TCP.
    fn of(reply: Reply, server: SocketAddr, ask: &Ask) -> Self {
        let is_truncated = reply.is_truncated();
        let by_tcp = || Tcp::to(server).exchange(&ask.octets()).map(|octets| Reply::read(&octets));
        let reply = if is_truncated { by_tcp() } else { Some(reply) };
        reply.map_or(Self::Nothing, |reply| {
            let answer = reply.answer.into_iter().map(|(record, _)| record).collect();
            Self::Answer { rcode: reply.rcode, is_truncated, answer }
        })
    }
}

/// Sends all questions concurrently and retries those without a reply.
fn ask_all(server: SocketAddr, questions: &[(String, &str)]) -> Vec<Got> {
    let client = Udp::to(server);
    let mut all = vec![Got::Nothing; questions.len()];
    for silence in SILENCES {
        let missing: Vec<usize> = (0..all.len()).filter(|at| all[*at] == Got::Nothing).collect();
        for window in missing.chunks(WINDOW) {
            ask_some(&client, server, (window, questions), silence, &mut all);
        }
    }
    all
}

/// Sends the questions at these indexes, until no reply arrives for `silence`.
fn ask_some(
    client: &Udp,
    server: SocketAddr,
    (window, questions): (&[usize], &[(String, &str)]),
    silence: Duration,
    all: &mut [Got],
) {
    let ask = |at: usize| Ask::of(&questions[at].0, questions[at].1).id(at as u16);
    window.iter().for_each(|at| client.send(&ask(*at).octets()));
    let mut missing: HashMap<u16, usize> = window.iter().map(|at| (*at as u16, *at)).collect();
    while !missing.is_empty() {
        let Some(octets) = client.receive(silence) else { return };
        let reply = Reply::read(&octets);
        if let Some(at) = missing.remove(&reply.header.id) {
            all[at] = Got::of(reply, server, &ask(at));
        }
    }
}

fn names() -> usize {
    std::env::var(NAMES_VARIABLE).ok().and_then(|value| value.parse().ok()).unwrap_or(NAMES)
}

/// The configuration tables for these zones.
fn lists(zones: &[Zone], data: &crate::harness::Directory) -> String {
    let lists = zones.iter().enumerate().map(|(number, zone)| {
        let path = data.write(&format!("{number}.zone"), &zone.text);
        format!("[[list]]\nname = \"{number}\"\nfile = \"{}\"\nformat = \"rpz\"\n", path.display())
    });
    lists.collect()
}

fn compare_with(filter: Filter) {
    let material = material(names());
    let Some(authority) = Kind::Nsd.serve(std::slice::from_ref(&material.authority)) else {
        return;
    };
    let probe = format!("probe.{APEX}");
    let Some(peer) = filter.start(authority.addr, &material.zones, &probe) else { return };
    let directory = crate::harness::Directory::create();
    let server =
        Setup::forwarding_to(authority.addr).tables(&lists(&material.zones, &directory)).start();
    let mut questions: Vec<_> =
        material.questions.iter().filter(|(case, ..)| case.with.contains(&filter)).collect();
    let mut differences = Vec::new();
    for _ in 0..ATTEMPTS {
        let asked: Vec<(String, &str)> =
            questions.iter().map(|(_, name, rtype)| (name.clone(), *rtype)).collect();
        let pairs = ask_all(server.addr, &asked).into_iter().zip(ask_all(peer.addr, &asked));
        let differ = |((case, name, rtype), (got, expected)): &(&Question, (Got, Got))| {
            let forgets = filter == Filter::Unbound && case.waits_for_an_answer();
            got != expected
                && !(forgets && ask_all(authority.addr, &[(name.clone(), rtype)])[0] == *expected)
        };
        differences = questions.iter().copied().zip(pairs).filter(differ).collect();
        questions = differences.iter().map(|(question, _)| *question).collect();
        if questions.is_empty() {
            break;
        }
    }
    let shown: Vec<String> = differences
        .iter()
        .map(|((case, name, rtype), (got, expected))| {
            format!("{}: {name} {rtype}\n  got {got:?}\n  {filter:?} {expected:?}", case.what)
        })
        .collect();
    assert!(
        shown.is_empty(),
        "{} of {} differ:\n{}",
        shown.len(),
        material.questions.len(),
        shown.join("\n")
    );
}

#[test]
fn zones_do_what_they_do_in_unbound() {
    compare_with(Filter::Unbound);
}

#[test]
fn zones_do_what_they_do_in_knot_resolver() {
    compare_with(Filter::Kresd);
}

#[test]
fn zones_do_what_they_do_in_bind() {
    compare_with(Filter::Named);
}

#[test]
fn a_name_that_cannot_be_resolved_is_blocked_all_the_same() {
    let directory = crate::harness::Directory::create();
    let head = "$TTL 60\n@ SOA localhost. nobody.localhost. 1 2 3 4 5\n";
    let zones = [
        "8.0.0.0.10.rpz-ip CNAME .\n",
        "bad.nowhere.example CNAME *.\nmoved.nowhere.example CNAME own.example.\n",
    ]
    .map(|records| Zone { name: String::new(), text: format!("{head}{records}") });
    let own = "[[record]]\nname = \"own.example\"\ntype = \"A\"\nvalues = [\"192.0.2.1\"]\n";
    let server = Setup::plain().tables(&lists(&zones, &directory)).tables(own).start();
    let rcode = |name: &str| server.ask(&Ask::of(name, "A")).rcode;
    assert_eq!(rcode("bad.nowhere.example"), Rcode::NOERROR);
    assert_eq!(rcode("other.nowhere.example"), Rcode::SERVFAIL);
    // The target of the alias does not resolve either, but the alias exists.
    assert_eq!(server.ask_tcp(&Ask::of("moved.nowhere.example", "CNAME")).answer.len(), 1);
}

#[test]
fn clients_are_distinguished_as_in_other_servers() {
    let mut material = material(2);
    material.zones[0].text += "32.7.0.0.127.rpz-client-ip CNAME .\n30.8.0.0.127.rpz-client-ip A 192.0.2.7\n32.9.0.0.127.rpz-client-ip CNAME rpz-passthru.\n";
    let Some(authority) = Kind::Nsd.serve(std::slice::from_ref(&material.authority)) else {
        return;
    };
    let directory = crate::harness::Directory::create();
    let server =
        Setup::forwarding_to(authority.addr).tables(&lists(&material.zones, &directory)).start();
    for filter in [Filter::Unbound, Filter::Named] {
        let Some(peer) = filter.start(authority.addr, &material.zones, &format!("probe.{APEX}"))
        else {
            continue;
        };
        // BIND adds the triggers of a zone in the order of their names, those by client last.
        let probe = Ask::of(&format!("n1.{APEX}"), "A");
        let blocked = SocketAddr::from(([127, 0, 0, 7], 0));
        until("the triggers by client are in force", || {
            (Udp::from(blocked, peer.addr).ask(&probe).rcode == Rcode::NXDOMAIN).then_some(())
        });
        for (_, name, rtype) in &material.questions {
            for last in [1, 7, 8, 9, 10, 12, 1]
                .into_iter()
                .filter(|last| *last != 9 || filter != Filter::Unbound)
            {
                let client = SocketAddr::from(([127, 0, 0, last], 0));
                let ask = |server| Udp::from(client, server).ask(&Ask::of(name, rtype));
                let (got, expected) = (ask(server.addr), ask(peer.addr));
                let records = |reply: &Reply| {
                    reply.answer.iter().map(|(record, _)| record.clone()).collect::<BTreeSet<_>>()
                };
                assert_eq!(
                    (got.rcode, records(&got)),
                    (expected.rcode, records(&expected)),
                    "{filter:?} {name} {rtype} {last}"
                );
            }
        }
    }
}

#[test]
fn what_was_given_over_tcp_is_not_given_by_datagram() {
    let directory = crate::harness::Directory::create();
    let text =
        "@ SOA localhost. nobody.localhost. 1 2 3 4 5\nby-zone.example CNAME rpz-tcp-only.\n"
            .to_owned();
    let rule =
        "[[rule]]\nname = \"tcp\"\nwhen = 'qname == \"by-rule.example\"'\naction = \"truncate\"\n";
    let upstream = Scripted::plain(300);
    let tables = lists(&[Zone { name: String::new(), text }], &directory);
    for (name, tables) in [("by-zone.example", tables.as_str()), ("by-rule.example", rule)] {
        let server = Setup::forwarding_to(upstream.addr).tables(tables).start();
        let ask = Ask::of(name, "A");
        for _ in 0..2 {
            let by_datagram = server.ask(&ask);
            assert!(by_datagram.is_truncated() && by_datagram.answer.is_empty(), "{name}");
            assert_eq!(server.ask_tcp(&ask).answer.len(), 1, "{name}");
        }
        assert!(!server.ask(&Ask::of("other.example", "A")).is_truncated());
    }
}
