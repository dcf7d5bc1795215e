//! The entry of the query log for every action of rules and policy zones. Its decider, extended
//! error and stage must equal those of a simulated query (`why`) and of the client's reply, for the
//! first answer and for a cached answer.

use crate::asked;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use avocet_nameserver::metrics::STAGES;
use avocet_nameserver::policy::Noted;
use avocet_nameserver::query::asked::Transport;
use avocet_nameserver::{InProcess, MeantFor};
use avocet_querylog::{NO_EDE, Record};
use avocet_wire::{FoldedNameBuf, QuestionBuf, Rcode, Rtype};

use asked::{Over, ask_over, shown, wire};

const CLIENT: [u8; 4] = [10, 0, 0, 1];

const CONFIGURATION: &str = r#"
[resolver]
mode = "forward"

[[forward]]
zone = "."
upstreams = ["192.0.2.53"]

[cache]
packet-bytes = "1MiB"
rrset-bytes = "1MiB"

[query-log]
enabled = true

[[list]]
name = "l"
file = "DIRECTORY/l.txt"

[[list]]
name = "allowed"
file = "DIRECTORY/allowed.txt"
kind = "allow"

[[list]]
name = "z"
file = "DIRECTORY/z.zone"
format = "rpz"
"#;

const ZONE: &str = "$ORIGIN z.\n@ 60 SOA a. b. 1 2 3 4 5\n\
    tcp.example 60 CNAME rpz-tcp-only.\n\
    dropped.example 60 CNAME rpz-drop.\n\
    nx.example 60 CNAME .\n\
    named.example 60 CNAME sinkhole.example.\n\
    32.4.100.51.198.rpz-ip 60 CNAME rpz-tcp-only.\n";

/// The conditions of rules: how they find the name or address to test.
const BY_NAME: &str = r#"qname in ["asked.example"]"#;
const BY_ALIAS: &str = r#"answer.cname in ["target.example"]"#;
const BY_ADDRESS: &str = r#"answer.ip.in("198.51.100.1/32")"#;

/// The rows: a rule's action, and what is expected over UDP and over TCP: decider and stage of the
/// first answer, and of the second.
const ROWS: &[(&str, [[&str; 2]; 2])] = &[
    ("action = \"block\"", [["r blocked", "r blocked"], ["r blocked", "r blocked"]]),
    ("action = \"allow\"", [["r rrset-hit", "r packet-hit"], ["r rrset-hit", "r packet-hit"]]),
    (
        "action = \"redirect\"\nto = [\"203.0.113.5\"]",
        [["r rewritten", "r rewritten"], ["r rewritten", "r rewritten"]],
    ),
    (
        "action = \"redirect\"\nto = [\"sinkhole.example\"]",
        [["r rewritten", "r rewritten"], ["r rewritten", "r rewritten"]],
    ),
    ("action = \"drop\"", [["r dropped", "r dropped"], ["r dropped", "r dropped"]]),
    ("action = \"truncate\"", [["r limited", "r limited"], ["- rrset-hit", "- packet-hit"]]),
    ("action = \"tag\"\ntag = \"word\"", [["- rrset-hit", "- packet-hit"]; 2]),
    ("log-only = true\naction = \"block\"", [["- rrset-hit", "- rrset-hit"]; 2]),
    ("action = \"forward\"\nto = [\"192.0.2.54\"]", [["r resolved", "r packet-hit"]; 2]),
];

static STARTED: AtomicUsize = AtomicUsize::new(0);

struct Server {
    inner: InProcess,
    directory: PathBuf,
}

impl Server {
    fn start(rule: &str) -> Self {
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir()
            .join(format!("avocet-logged-decisions-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("l.txt"), "||listed.example^\n").unwrap();
        std::fs::write(directory.join("allowed.txt"), "free.example\n").unwrap();
        std::fs::write(directory.join("z.zone"), ZONE).unwrap();
        let configuration =
            CONFIGURATION.replace("DIRECTORY", &directory.display().to_string()) + rule;
        let inner = InProcess::new(&configuration, SocketAddr::from((CLIENT, 4000)));
        let server = Self { inner: inner.unwrap(), directory };
        server.learn();
        server
    }

    fn learn(&self) {
        let learn = |name: &str, rtype: Rtype, data: &[u8]| {
            self.inner.learn(&wire(name), rtype.0, 300, &[data])
        };
        for name in ["asked.example.", "target.example.", "plain.example.", "free.example."] {
            learn(name, Rtype::A, &[198, 51, 100, 1]);
        }
        learn("alias.example.", Rtype::CNAME, &wire("target.example."));
        learn("address.example.", Rtype::A, &[198, 51, 100, 4]);
        learn("sinkhole.example.", Rtype::A, &[203, 0, 113, 6]);
    }

    /// Asks, and returns the decider and the stage that the log has. Decider, stage, extended error
    /// and RCODE must equal those of the reply, and of a rehearsal just before the query.
    fn logged(&mut self, over: Over, name: &str, case: &str) -> String {
        let transport = if over == Over::Udp { Transport::Udp } else { Transport::Tcp };
        let qname = FoldedNameBuf::from_wire(&wire(name)).unwrap();
        let question = QuestionBuf::new(qname.view(), Rtype::A, avocet_wire::Class::IN);
        let rehearsed = self.inner.rehearse(question.view(), transport);
        let mut reply = ask_over(over, &mut self.inner, (CLIENT, name, Rtype::A));
        let waits = self.inner.waits_for().is_some();
        assert_eq!(rehearsed.is_none(), waits, "{case}");
        if waits {
            let mut out = vec![0; 4096];
            let len = self.inner.resume(MeantFor::All, &mut out).unwrap();
            reply = shown(&out[..len]);
        }
        let mut record = Record::default();
        assert!(self.inner.take_logged(&mut record), "{case} is not logged");
        let facts = record.entry().facts;
        assert!(!self.inner.take_logged(&mut Record::default()), "{case} is logged twice");
        let policy = self.inner.state().policy.as_ref().unwrap();
        let of_note = policy.ede_of(facts.rule, facts.stage, Rcode(facts.rcode));
        let ede = Some(facts.ede).filter(|ede| *ede != NO_EDE).or(of_note.map(|ede| ede.0));
        let sent = reply.split('[').nth(1).map(|ede| ede.split(' ').next().unwrap().to_owned());
        assert_eq!(ede.map(|ede| ede.to_string()), sent, "{case}: {reply}");
        if let Some(rehearsed) = rehearsed {
            let of_why = (rehearsed.note, rehearsed.stage as u8, rehearsed.rcode.0);
            assert_eq!((facts.rule, facts.stage, facts.rcode), of_why, "{case}: {reply}");
        }
        let by = match policy.noted(facts.rule) {
            Noted::Nobody => "-".to_owned(),
            Noted::Rule(name) | Noted::Protection(name) => name.to_owned(),
            Noted::List(place) => ["l", "allowed", "z"][place].to_owned(),
        };
        format!("{by} {}", STAGES[usize::from(facts.stage)])
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

#[test]
fn the_log_has_the_decider_of_each_rule_at_first_and_from_the_cache() {
    for (action, expected) in ROWS {
        for (name, condition) in [
            ("asked.example.", BY_NAME),
            ("alias.example.", BY_ALIAS),
            ("asked.example.", BY_ADDRESS),
        ] {
            let tests_answer = condition != BY_NAME;
            let needs_question = ["forward", "drop", "truncate", "sinkhole"];
            if tests_answer && needs_question.iter().any(|word| action.contains(word)) {
                continue;
            }
            for (over, expected) in [Over::Udp, Over::Tcp].into_iter().zip(expected) {
                let rule = format!("[[rule]]\nname = \"r\"\nwhen = '{condition}'\n{action}\n");
                let mut server = Server::start(&rule);
                for (round, expected) in expected.iter().enumerate() {
                    let case = format!("{action} if {condition} over {over:?}, round {round}");
                    let logged = server.logged(over, name, &case);
                    assert_eq!(logged, *expected, "{case}");
                }
            }
        }
    }
}

#[test]
fn the_log_has_the_list_and_the_policy_zone_at_first_and_from_the_cache() {
    let rows = [
        ("listed.example.", ["l blocked", "l blocked"], ["l blocked", "l blocked"]),
        ("tcp.example.", ["z limited", "z limited"], ["", ""]),
        ("address.example.", ["z limited", "z limited"], ["- rrset-hit", "- packet-hit"]),
        ("dropped.example.", ["z dropped", "z dropped"], ["z dropped", "z dropped"]),
        ("nx.example.", ["z blocked", "z blocked"], ["z blocked", "z blocked"]),
        ("named.example.", ["z rewritten", "z rewritten"], ["z rewritten", "z rewritten"]),
        ("plain.example.", ["- rrset-hit", "- packet-hit"], ["- rrset-hit", "- packet-hit"]),
        ("free.example.", ["- rrset-hit", "- packet-hit"], ["- rrset-hit", "- packet-hit"]),
    ];
    for (name, over_udp, over_tcp) in rows {
        for (over, expected) in [(Over::Udp, over_udp), (Over::Tcp, over_tcp)] {
            let mut server = Server::start("");
            for expected in expected.into_iter().filter(|expected| !expected.is_empty()) {
                let case = format!("{name} over {over:?}");
                assert_eq!(server.logged(over, name, &case), expected, "{case}");
            }
        }
    }
}

#[test]
fn a_rule_that_leads_to_another_name_counts_once_for_each_query() {
    let rule = format!(
        "[[rule]]\nname = \"r\"\nwhen = '{BY_NAME}'\naction = \"redirect\"\n\
         to = [\"sinkhole.example\"]\n"
    );
    let mut server = Server::start(&rule);
    for round in 1..=3 {
        server.logged(Over::Udp, "asked.example.", "redirect");
        let policy = server.inner.state().policy.as_ref().unwrap();
        // The rules of the server itself come after those of the file.
        let counts: Vec<u64> = policy.rule_counts().map(|(_, count)| count).collect();
        assert_eq!(counts, [round, 0]);
    }
}
