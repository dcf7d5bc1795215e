//! Compares `avocet why` with the answers that clients really get: random names, clients and
//! configurations from a seed.
//!
//! 1,000 questions, and 10,000 with `AVOCET_LONG_TESTS=1`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration;

use avocet_testkit::Chance;
use avocet_wire::edns::EdnsOption;
use avocet_wire::view::RecordSection;
use avocet_wire::{MessageView, Rtype, rdata};
use serde_json::{Value, json};

use crate::server::{Site, query};

/// Random configurations.
const CONFIGURATIONS: u64 = 20;
/// Questions for each configuration; more in long tests.
const QUESTIONS: u64 = 50;
const QUESTIONS_IN_LONG_TESTS: u64 = 500;
/// Time without an answer after which the test checks whether the query was dropped.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// Extended errors that count as equal, because `why` itself changes them: a failure is new for the
/// first query and cached for the second.
const FAILURES: [u16; 4] = [13, 20, 22, 23];

/// Names of the zone `example` with special data at the upstream.
const LABELS: [&str; 12] = [
    "www", "ads", "ok.ads", "cloak", "cloak2", "allowed", "private", "missing", "broken",
    "fleeting", "video", "x.deep",
];
/// Local, reserved and public names.
const OTHERS: [&str; 17] = [
    "nas.lan",
    "printer.lan",
    "unknown.lan",
    "a.dev.lan",
    "out.lan",
    "loop.lan",
    "home.lan",
    "localhost",
    "a.test",
    "b.onion",
    "5.1.168.192.in-addr.arpa",
    "7.7.168.192.in-addr.arpa",
    "garden.home",
    "www.youtube.com",
    "www.google.com",
    "tracker.net",
    "cdn.tracker.net",
];
const TYPES: [Rtype; 4] = [Rtype::A, Rtype::AAAA, Rtype::PTR, Rtype::CNAME];
const CLIENTS: [&str; 5] = ["127.0.0.1", "127.0.0.9", "127.0.0.20", "127.0.0.21", "127.0.0.40"];

/// The answer to a client, real or predicted: RCODE, TC, records and the policy's extended error.
#[derive(PartialEq, Eq, Debug)]
struct Told {
    rcode: String,
    is_truncated: bool,
    records: Vec<String>,
    error: Option<(u16, String)>,
}

/// A client's question.
#[derive(Debug)]
struct Question {
    name: String,
    rtype: Rtype,
    client: usize,
}

#[test]
fn why_says_what_the_client_gets() {
    let is_long = std::env::var_os("AVOCET_LONG_TESTS").is_some();
    let questions = if is_long { QUESTIONS_IN_LONG_TESTS } else { QUESTIONS };
    let sockets = CLIENTS.map(|client| {
        let socket = UdpSocket::bind((client, 0)).unwrap();
        socket.set_read_timeout(Some(LOOK_AGAIN)).unwrap();
        socket
    });
    let mut verdicts: BTreeMap<String, u64> = BTreeMap::new();
    let mut stages: BTreeMap<String, u64> = BTreeMap::new();
    for seed in 0..CONFIGURATIONS {
        let (mut chance, site) = (Chance::new(seed), Site::new());
        let configuration = configuration(&mut chance, &site);
        let zones = if chance.percent(50) { "\"lan\"" } else { "" };
        let server = format!("workers = 1\nallow = [\"127.0.0.0/8\"]\nlocal-zones = [{zones}]\n");
        site.configure(upstream([192, 0, 2, 0]), &server, &configuration);
        let _server = site.start();
        switch(&mut chance, &site);
        for number in 0..questions {
            let question = draw(&mut chance);
            let (socket, id) = (&sockets[question.client], number as u16 + 1);
            let (said, section, got) = if chance.percent(50) {
                let (said, section) = why(&site, &question);
                (said, section, ask(&site, (socket, id), &question))
            } else {
                let got = ask(&site, (socket, id), &question);
                let (said, section) = why(&site, &question);
                (said, section, got)
            };
            assert_eq!(
                said, got,
                "seed {seed}, question {number}: {question:?}\n{section:#}\n{configuration}"
            );
            check_verdict(
                &section,
                got.as_ref(),
                &format!("seed {seed}, question {number}: {question:?}\n{section:#}"),
            );
            check_stage(&section, &question, &format!("{question:?}\n{section:#}"));
            let from = section["from"].as_str().unwrap_or_default();
            *stages.entry(from.to_owned()).or_default() += 1;
            let verdict = section["verdict"].as_str().unwrap_or("no policy");
            *verdicts.entry(verdict.to_owned()).or_default() += 1;
        }
    }
    for stage in ["local", "special"] {
        assert!(stages.get(stage).is_some_and(|count| *count > questions / 5), "{stages:?}");
    }
    // The comparison is meaningful only if each verdict occurs.
    for verdict in ["passes", "blocked", "rewritten", "dropped", "truncated", "forwarded"] {
        assert!(
            verdicts.get(verdict).is_some_and(|count| *count > questions / 20),
            "{verdict}: {verdicts:?}"
        );
    }
}

/// A special-use name that the policy allows is answered here: the prediction has no upstream.
fn check_stage(section: &Value, question: &Question, context: &str) {
    let name = &question.name;
    let is_special = [".test", ".onion", "localhost"].iter().any(|end| name.ends_with(end));
    if is_special && section["verdict"] == "passes" {
        assert_eq!(section["from"], "special", "{context}");
    }
}

/// Checks that the verdict and its reason match the answer.
fn check_verdict(section: &Value, got: Option<&Told>, context: &str) {
    let verdict = section["verdict"].as_str().unwrap_or("passes");
    let error = got.and_then(|told| told.error.as_ref());
    match got {
        None => assert_eq!(verdict, "dropped", "{context}"),
        Some(told) if told.is_truncated => assert_eq!(verdict, "truncated", "{context}"),
        Some(_) => match error {
            Some((_, reason)) => {
                assert!(["blocked", "rewritten"].contains(&verdict), "{context}");
                assert_eq!(section["why"], reason.as_str(), "{context}");
            }
            None => assert!(["passes", "rewritten", "forwarded"].contains(&verdict), "{context}"),
        },
    }
}

/// Lists, rules, clients and records, each present at random.
fn configuration(chance: &mut Chance, site: &Site) -> String {
    let mut text = String::from("[policy]\n");
    let form = ["zero", "nxdomain", "nodata", "refused"][chance.below(4) as usize];
    let _ = writeln!(text, "block-answer = \"{form}\"\nblock-private = {}", chance.percent(50));
    text += RECORDS;
    text += "[[client]]\nname = \"tablet\"\nids = [\"127.0.0.9\"]\ngroups = [\"kids\"]\n";
    text += "[[group]]\nname = \"kids\"\nclients = [\"127.0.0.16/28\"]\n";
    if chance.percent(50) {
        text += "[[group]]\nname = \"guests\"\nclients = [\"127.0.0.21\"]\nlists = []\n";
    } else {
        text += "[[group]]\nname = \"guests\"\nclients = [\"127.0.0.40\"]\n";
    }
    for (name, kind, format, lines) in LISTS {
        if chance.percent(60) {
            let file = site.directory.join(format!("{name}.txt"));
            let kept: Vec<&str> = lines
                .iter()
                .copied()
                .filter(|line| line.starts_with('$') || chance.percent(70))
                .collect();
            let lines = kept.join("\n").replacen("$TTL 30", "$TTL 30\n@ SOA a. b. 1 2 3 4 5", 1);
            fs::write(&file, lines + "\n").unwrap();
            let _ = writeln!(
                text,
                "[[list]]\nname = \"{name}\"\nkind = \"{kind}\"\nformat = \"{format}\"\nfile = \"{}\"",
                file.display()
            );
        }
    }
    let other = upstream([198, 51, 100, 0]);
    for number in 0..chance.below(6) {
        let rule = RULES[chance.below(RULES.len() as u64) as usize];
        let condition = CONDITIONS[chance.below(CONDITIONS.len() as u64) as usize];
        // A condition on the answer can only block, allow or redirect to addresses.
        let is_late = condition.contains("answer.");
        let rule = if is_late && !rule.starts_with("action = \"block\"") { RULES[0] } else { rule };
        let rule = rule.replace("OTHER", &format!("{}@{}", other.ip(), other.port()));
        let log = if chance.percent(10) { "log-only = true\n" } else { "" };
        let _ = writeln!(
            text,
            "[[rule]]\nname = \"rule {number}\"\nwhen = '{condition}'\n{rule}\n{log}"
        );
    }
    text
}

const RECORDS: &str = "\
[[record]]
name = \"nas.lan\"
type = \"A\"
values = [\"192.168.1.5\", \"192.168.1.6\"]
[[record]]
name = \"*.dev.lan\"
type = \"A\"
values = [\"192.168.1.7\"]
[[record]]
name = \"home.lan\"
type = \"CNAME\"
values = [\"nas.lan\"]
[[record]]
name = \"out.lan\"
type = \"CNAME\"
values = [\"www.example\"]
[[record]]
name = \"loop.lan\"
type = \"CNAME\"
values = [\"loop.lan\"]
[[record]]
name = \"garden.home\"
type = \"A\"
values = [\"192.168.1.8\"]
";

const LISTS: [(&str, &str, &str, &[&str]); 5] = [
    (
        "ads",
        "block",
        "adblock",
        &[
            "||ads.example^",
            "||tracker.net^",
            "@@||ok.ads.example^",
            "||nas.lan^",
            "||www.example^$important",
        ],
    ),
    (
        "more",
        "block",
        "adblock",
        &[
            "||video.example^$dnsrewrite=NOERROR;A;192.0.2.200",
            "||www.example^$dnsrewrite=garden.home",
            "||x.test^",
            "||deep.example^$dnstype=AAAA",
        ],
    ),
    ("good", "allow", "domains", &["allowed.example", "video.example"]),
    (
        "zone",
        "block",
        "rpz",
        &[
            "$ORIGIN rpz.local.",
            "$TTL 30",
            "cloak2.example CNAME .",
            "*.tracker.net CNAME *.",
            "32.1.1.168.192.rpz-ip CNAME .",
            "www.example CNAME garden.home.",
            "missing.example CNAME rpz-drop.",
            "video.example CNAME rpz-passthru.",
            "fleeting.example CNAME rpz-tcp-only.",
            "32.21.0.0.127.rpz-client-ip CNAME rpz-passthru.",
        ],
    ),
    (
        "plain",
        "block",
        "hosts",
        &["0.0.0.0 cdn.tracker.net", "0.0.0.0 private.example", "0.0.0.0 garden.home"],
    ),
];

const CONDITIONS: [&str; 12] = [
    "qname.under(\"ads.example\")",
    "qname == \"www.example\" && client.group(\"kids\")",
    "qname.under(\"example\") && qtype == \"AAAA\"",
    "client.group(\"guests\") && qname.under(\"net\")",
    "qname.under(\"lan\")",
    "qname.under(\"test\") || qname == \"localhost\"",
    "service(\"youtube\") || qname == \"www.google.com\"",
    "answer.ip.in(\"192.168.0.0/16\")",
    "answer.cname.under(\"tracker.net\")",
    "client.name == \"tablet\" && qname.under(\"video.example\")",
    "qname.contains(\"cloak\")",
    "client.ip == \"127.0.0.1\" && qname.under(\"home\")",
];

const RULES: [&str; 11] = [
    "action = \"block\"",
    "action = \"block\"\nanswer = \"refused\"",
    "action = \"allow\"",
    "action = \"redirect\"\nto = [\"192.0.2.99\"]",
    "action = \"redirect\"\nto = [\"garden.home\"]",
    "action = \"redirect\"\nto = [\"video.example\"]",
    "action = \"drop\"",
    "action = \"truncate\"",
    "action = \"forward\"\nto = [\"OTHER\"]",
    "action = \"safe-search\"",
    "action = \"ttl\"\nmin-secs = 5\nmax-secs = 10",
];

/// Sets a pause or a grant, or none.
fn switch(chance: &mut Chance, site: &Site) {
    let request = match chance.below(6) {
        0 => json!({ "command": "pause", "scope": { "group": "kids" }, "secs": 3600 }),
        1 => json!({ "command": "pause", "scope": { "client": "127.0.0.9" }, "secs": 3600 }),
        2 => json!({ "command": "grant", "name": "*.tracker.net", "secs": 3600 }),
        3 => {
            json!({ "command": "grant", "name": "www.example", "scope": { "group": "kids" }, "secs": 3600 })
        }
        _ => return,
    };
    let answer = site.control_lines(format!("{request}\n").as_bytes());
    assert_eq!(answer.last().unwrap()["done"], true, "{answer:?}");
}

fn draw(chance: &mut Chance) -> Question {
    let name = match chance.below(10) {
        0..6 => format!("{}.example", LABELS[chance.below(LABELS.len() as u64) as usize]),
        _ => OTHERS[chance.below(OTHERS.len() as u64) as usize].to_owned(),
    };
    let name = if chance.percent(10) { format!("n{}.{name}", chance.below(3)) } else { name };
    let rtype = if chance.percent(70) {
        Rtype::A
    } else {
        TYPES[chance.below(TYPES.len() as u64) as usize]
    };
    Question { name, rtype, client: chance.below(CLIENTS.len() as u64) as usize }
}

/// Returns the answer that `why` predicts, and its report on the policy.
fn why(site: &Site, question: &Question) -> (Option<Told>, Value) {
    let Question { name, rtype, client } = question;
    let request = json!({ "command": "why", "name": name, "type": rtype.to_string(), "client": CLIENTS[*client] });
    let lines = site.control_lines(format!("{request}\n").as_bytes());
    let section = |wanted: &str| lines.iter().find(|line| line["section"] == wanted);
    let answer = section("answer").unwrap_or_else(|| panic!("{question:?}: {lines:?}"));
    let mut policy = section("policy").cloned().unwrap_or_default();
    policy["from"] = answer["from"].clone();
    let Some(rcode) = answer["rcode"].as_str() else { return (None, policy) };
    let text = |record: &Value, key: &str| record[key].as_str().unwrap().to_ascii_lowercase();
    let records =
        answer["answer"].as_array().unwrap().iter().filter(|record| record["section"] == "answer");
    let records = records.map(|record| {
        format!("{} {} {}", text(record, "name"), text(record, "type"), text(record, "data"))
    });
    let error = answer["ede"]
        .as_u64()
        .map(|code| (code as u16, answer["ede-text"].as_str().unwrap().to_owned()));
    let is_truncated = answer["truncated"] == true;
    (Some(told(rcode.to_owned(), is_truncated, records.collect(), error)), policy)
}

fn told(
    rcode: String,
    is_truncated: bool,
    mut records: Vec<String>,
    error: Option<(u16, String)>,
) -> Told {
    records.sort();
    Told { rcode, is_truncated, records, error: error.filter(|(code, _)| !FAILURES.contains(code)) }
}

/// Returns the client's answer; `None` if the server counts the query as dropped.
fn ask(site: &Site, (socket, id): (&UdpSocket, u16), question: &Question) -> Option<Told> {
    let dropped = || site.metric("avocet_query_outcomes_total{outcome=\"dropped\"}");
    let before = dropped();
    socket.send_to(&edns_query(id, (&question.name, question.rtype)), site.dns).unwrap();
    let mut buffer = [0; 4096];
    loop {
        if let Ok(len) = socket.recv(&mut buffer) {
            let message = MessageView::new(&buffer[..len]).unwrap();
            assert_eq!(message.header().id, id);
            return Some(read(&message));
        }
        if dropped() > before {
            return None;
        }
    }
}

fn read(message: &MessageView<'_>) -> Told {
    let mut records = Vec::new();
    for record in message.records().unwrap().map(Result::unwrap) {
        if record.section == RecordSection::Answer {
            let mut data = [0; 4096];
            let len = record.expand_rdata(&mut data).unwrap();
            let data = rdata::display(record.rtype.0, &data[..len]);
            records.push(
                format!("{} {} {data}", record.owner().unwrap(), record.rtype).to_ascii_lowercase(),
            );
        }
    }
    let edns = message.edns().unwrap().unwrap();
    let error = edns.options().map(Result::unwrap).find_map(|option| match option {
        EdnsOption::Ede(code, text) => Some((code.0, String::from_utf8_lossy(text).into_owned())),
        _ => None,
    });
    let header = message.header();
    told(header.rcode().to_string(), header.has(avocet_wire::header::TC), records, error)
}

/// A query with OPT.
fn edns_query(id: u16, (name, rtype): (&str, Rtype)) -> Vec<u8> {
    let mut message = query(id, name);
    let at = message.len() - 4;
    message[at..at + 2].copy_from_slice(&rtype.0.to_be_bytes());
    message[11] = 1;
    message.extend([0, 0, 41, 0x10, 0, 0, 0, 0, 0, 0, 0]);
    message
}

/// An upstream with addresses in this network. The labels of a name determine its answer.
fn upstream(network: [u8; 4]) -> SocketAddr {
    let socket = crate::server::udp_socket();
    let addr = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok((len, from)) = socket.recv_from(&mut buffer) {
            // The test may be over.
            let _ = socket.send_to(&reply(&buffer[..len], network), from);
        }
    });
    addr
}

fn reply(query: &[u8], network: [u8; 4]) -> Vec<u8> {
    let end = 12 + query[12..].iter().position(|octet| *octet == 0).unwrap() + 1;
    let (name, rtype) =
        (query[12..end].to_ascii_lowercase(), u16::from_be_bytes([query[end], query[end + 1]]));
    let has = |label: &[u8]| name.windows(label.len()).any(|part| part == label);
    let mut reply = query[..end + 4].to_vec();
    let (mut rcode, mut answers) = (0, 0);
    let alias: Option<&[u8]> = if has(b"\x05cloak") {
        Some(b"\x07tracker\x03net\x00")
    } else if has(b"\x06cloak2") {
        Some(b"\x03cdn\x07tracker\x03net\x00")
    } else if has(b"\x07allowed") {
        Some(b"\x03ads\x07example\x00")
    } else {
        None
    };
    let ttl = if has(b"\x08fleeting") { [0; 4] } else { 300_u32.to_be_bytes() };
    let mut record = |owner: &[u8], rtype: u16, data: &[u8]| {
        reply.extend_from_slice(owner);
        reply.extend(rtype.to_be_bytes());
        reply.extend([0, 1]);
        reply.extend(ttl);
        reply.extend((data.len() as u16).to_be_bytes());
        reply.extend_from_slice(data);
        answers += 1;
    };
    let mut address = network;
    address[3] = name.iter().fold(0_u8, |sum, octet| sum.wrapping_mul(31).wrapping_add(*octet)) | 1;
    if has(b"\x07missing") {
        rcode = 3;
    } else if has(b"\x06broken") {
        rcode = 2;
    } else {
        let address = if has(b"\x07private") { [192, 168, 1, 1] } else { address };
        if let Some(target) = alias {
            record(&[0xc0, 12], 5, target);
            if rtype == 1 {
                record(target, 1, &address);
            }
        } else if rtype == 1 {
            record(&[0xc0, 12], 1, &address);
        }
    }
    (reply[2], reply[3]) = (0x81, 0x80 | rcode);
    reply[4..12].copy_from_slice(&[0, 1, 0, answers, 0, 0, 0, 0]);
    reply
}
