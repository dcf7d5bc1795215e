//! Every action of rules over each transport and for each kind of block.
//!
//! A rule that does not decide on a query must not change its result: what lists and the protection
//! against rebinding block remains blocked.

use crate::asked;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use avocet_nameserver::{InProcess, MeantFor};
use avocet_wire::Rtype;

use asked::{Over, ask, ask_over, shown, wire};

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

[policy]
block-answer = "zero"
block-private = true

[[list]]
name = "l"
file = "LIST"
"#;

/// The reason for a block, and a question that it affects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// The list has the QNAME.
    Question,
    /// The list has the target of an alias.
    Alias,
    /// The answer has a private address.
    Address,
    /// The answer has a hint that is a private address.
    Hint,
}

impl Place {
    const ALL: [Self; 4] = [Self::Question, Self::Alias, Self::Address, Self::Hint];

    fn question(self) -> (&'static str, Rtype) {
        match self {
            Self::Question => ("ads.example.net.", Rtype::A),
            Self::Alias => ("cloak.example.com.", Rtype::A),
            Self::Address => ("rebound.example.com.", Rtype::A),
            Self::Hint => ("hinted.example.com.", Rtype::HTTPS),
        }
    }

    /// The answer without any block.
    fn true_answer(self) -> &'static str {
        match self {
            Self::Question => "NOERROR 300 192.0.2.1",
            Self::Alias => "NOERROR 300 ads.example.net. 300 192.0.2.1",
            Self::Address => "NOERROR 300 192.168.1.1",
            Self::Hint => "NOERROR 300 1 . ipv4hint=192.168.1.1",
        }
    }

    /// The answer if no rule decides.
    fn blocked(self) -> &'static str {
        match self {
            Self::Question | Self::Alias => "NOERROR 60 0.0.0.0 [17 list l]",
            Self::Address | Self::Hint => "NOERROR [15 private address for a public name]",
        }
    }
}

/// The effect of a matching rule.
enum Does {
    /// The answer of the rule: for type A and for other types.
    Answers(&'static str, &'static str),
    /// The original answer is allowed.
    Allows,
    /// Over UDP an empty, truncated answer is sent. Over TCP the rule does not decide.
    Truncates,
    /// Other servers are queried.
    Forwards,
    /// The rule does not decide.
    Nothing,
}

/// A rule's action with its settings.
struct Row {
    action: &'static str,
    does: Does,
    /// Whether a condition on lists is also evaluated for the names in the answer.
    acts_on_answers: bool,
}

const fn row(action: &'static str, does: Does) -> Row {
    Row { action, does, acts_on_answers: true }
}

const fn of_question(action: &'static str, does: Does) -> Row {
    Row { action, does, acts_on_answers: false }
}

/// A limit of one token, which the first query takes.
macro_rules! limit {
    ($over:literal) => {
        concat!(
            "action = \"rate-limit\"\nrps = 1\nburst = 1\nper = \"rule\"\nover = \"",
            $over,
            "\""
        )
    };
}

const ROWS: &[Row] = &[
    row(
        "action = \"block\"\nanswer = \"nxdomain\"",
        Does::Answers("NXDOMAIN [15 rule r]", "NXDOMAIN [15 rule r]"),
    ),
    row("action = \"allow\"", Does::Allows),
    row(
        "action = \"redirect\"\nto = [\"203.0.113.5\"]",
        Does::Answers("NOERROR 60 203.0.113.5 [4 rule r]", "NOERROR [4 rule r]"),
    ),
    row(
        "action = \"redirect\"\nto = [\"sinkhole.example\"]",
        Does::Answers(
            "NOERROR 60 sinkhole.example. 300 203.0.113.6 [4 rule r]",
            "NOERROR 60 sinkhole.example. 300 2 . [4 rule r]",
        ),
    ),
    row("action = \"drop\"", Does::Answers("nothing", "nothing")),
    row("action = \"truncate\"", Does::Truncates),
    row("action = \"tag\"\ntag = \"word\"", Does::Nothing),
    row("action = \"ttl\"\nmin-secs = 30\nmax-secs = 300", Does::Nothing),
    of_question("action = \"forward\"\nto = [\"192.0.2.54\"]", Does::Forwards),
    of_question("action = \"safe-search\"", Does::Nothing),
    of_question(limit!("refuse"), Does::Answers("REFUSED [18 rule r]", "REFUSED [18 rule r]")),
    of_question(limit!("drop"), Does::Answers("nothing", "nothing")),
    of_question(limit!("truncate"), Does::Truncates),
    row("log-only = true\naction = \"block\"", Does::Nothing),
    row("log-only = true\naction = \"allow\"", Does::Nothing),
    row("log-only = true\naction = \"drop\"", Does::Nothing),
    row("log-only = true\naction = \"truncate\"", Does::Nothing),
    row("log-only = true\naction = \"redirect\"\nto = [\"sinkhole.example\"]", Does::Nothing),
    of_question("log-only = true\naction = \"forward\"\nto = [\"192.0.2.54\"]", Does::Nothing),
];

/// When a rule applies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Condition {
    Always,
    OnList,
}

impl Condition {
    fn text(self) -> &'static str {
        match self {
            Self::Always => "true",
            Self::OnList => r#"list("l")"#,
        }
    }

    fn holds(self, row: &Row, place: Place) -> bool {
        match self {
            Self::Always => true,
            Self::OnList => {
                place == Place::Question || (place == Place::Alias && row.acts_on_answers)
            }
        }
    }
}

fn expected(row: &Row, (condition, place, over): (Condition, Place, Over)) -> &'static str {
    if !condition.holds(row, place) {
        return place.blocked();
    }
    match row.does {
        Does::Answers(of_address, of_other) => {
            if place == Place::Hint {
                of_other
            } else {
                of_address
            }
        }
        Does::Allows => place.true_answer(),
        Does::Truncates if over == Over::Udp => "NOERROR TC",
        Does::Forwards => "nothing",
        Does::Truncates | Does::Nothing => place.blocked(),
    }
}

/// Counts the servers of the tests, so that each has its own list.
static STARTED: AtomicUsize = AtomicUsize::new(0);

struct Server {
    inner: InProcess,
    list: PathBuf,
}

impl Server {
    fn start(rule: &str) -> Self {
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let list = std::env::temp_dir()
            .join(format!("avocet-rule-table-{}-{number}.txt", std::process::id()));
        std::fs::write(&list, "||ads.example.net^\n").unwrap();
        let configuration = CONFIGURATION.replace("LIST", &list.display().to_string()) + rule;
        let inner = InProcess::new(&configuration, SocketAddr::from((CLIENT, 4000))).unwrap();
        let server = Self { inner, list };
        server.learn();
        server
    }

    fn learn(&self) {
        let learn = |name: &str, rtype: Rtype, data: &[u8]| {
            self.inner.learn(&wire(name), rtype.0, 300, &[data])
        };
        learn("ads.example.net.", Rtype::A, &[192, 0, 2, 1]);
        learn("cloak.example.com.", Rtype::CNAME, &wire("ads.example.net."));
        learn("rebound.example.com.", Rtype::A, &[192, 168, 1, 1]);
        learn("hinted.example.com.", Rtype::HTTPS, b"\x00\x01\x00\x00\x04\x00\x04\xc0\xa8\x01\x01");
        learn("sinkhole.example.", Rtype::A, &[203, 0, 113, 6]);
        learn("sinkhole.example.", Rtype::HTTPS, b"\x00\x02\x00");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.list);
    }
}

fn rule(condition: Condition, action: &str) -> String {
    format!("[[rule]]\nname = \"r\"\nwhen = '{}'\n{action}\n", condition.text())
}

#[test]
fn without_a_rule_all_of_it_is_blocked() {
    let mut server = Server::start("");
    for place in Place::ALL {
        let (name, rtype) = place.question();
        for over in [Over::Udp, Over::Tcp, Over::Udp] {
            assert_eq!(
                ask_over(over, &mut server.inner, (CLIENT, name, rtype)),
                place.blocked(),
                "{place:?} {over:?}"
            );
        }
    }
}

#[test]
fn a_rule_that_does_not_decide_lifts_no_block() {
    for row in ROWS {
        for condition in [Condition::Always, Condition::OnList] {
            for over in [Over::Udp, Over::Tcp] {
                let mut server = Server::start(&rule(condition, row.action));
                // Takes the only token of a rate limit.
                ask(&mut server.inner, CLIENT, "ads.example.net.", Rtype::TXT);
                for place in Place::ALL {
                    let (name, rtype) = place.question();
                    let expected = expected(row, (condition, place, over));
                    for round in 1..=2 {
                        let answer = ask_over(over, &mut server.inner, (CLIENT, name, rtype));
                        let case = format!(
                            "{} if {condition:?}, {place:?} {over:?}, round {round}",
                            row.action
                        );
                        assert_eq!(answer, expected, "{case}");
                    }
                }
            }
        }
    }
}

/// Repeats the test with an answer that is resolved while the client waits.
#[test]
fn a_rule_that_does_not_decide_lifts_no_block_of_an_answer_that_comes_late() {
    for row in ROWS {
        for condition in [Condition::Always, Condition::OnList] {
            for over in [Over::Udp, Over::Tcp] {
                let mut server = Server::start(&rule(condition, row.action));
                for place in Place::ALL {
                    let (name, rtype) = place.question();
                    // The caches are empty again, and the rate limit has its token back.
                    server.inner.pass(1000);
                    ask(&mut server.inner, CLIENT, "ads.example.net.", Rtype::TXT);
                    let at_once = ask_over(over, &mut server.inner, (CLIENT, name, rtype));
                    let is_forwarded =
                        matches!(row.does, Does::Forwards) && condition.holds(row, place);
                    if server.inner.waits_for().is_none() || is_forwarded {
                        continue;
                    }
                    assert_eq!(at_once, "nothing");
                    server.learn();
                    let mut out = vec![0; 4096];
                    let len = server.inner.resume(MeantFor::All, &mut out);
                    let answer = len.map_or_else(|| "nothing".to_owned(), |len| shown(&out[..len]));
                    let case = format!("{} if {condition:?}, {place:?} {over:?}", row.action);
                    assert_eq!(answer, expected(row, (condition, place, over)), "{case}");
                }
            }
        }
    }
}
