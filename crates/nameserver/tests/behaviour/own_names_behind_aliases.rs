//! If a rule, list or policy zone redirects to a local name, the local data is the answer.

use crate::asked;

use std::net::SocketAddr;
use std::path::PathBuf;

use avocet_nameserver::{InProcess, MeantFor};
use avocet_wire::{Question, Rtype};

use asked::{Over, ask, ask_over, shown, wire};

const CLIENT: [u8; 4] = [10, 0, 0, 1];
const A: Rtype = Rtype::A;

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
block-ttl-secs = 30

[[record]]
name = "garden.home"
type = "A"
values = ["10.1.1.1"]
ttl-secs = 200

[[record]]
name = "far.home"
type = "CNAME"
values = ["www.example"]
ttl-secs = 200

[[record]]
name = "vault.home"
type = "A"
values = ["10.1.1.2"]

[[record]]
name = "near.home"
type = "CNAME"
values = ["vault.home"]

[[rule]]
name = "free"
when = 'qname == "free.example"'
action = "allow"

[[rule]]
name = "r"
when = 'qname == "by-rule.example"'
action = "redirect"
to = ["garden.home"]

[[rule]]
name = "far"
when = 'qname == "far.example"'
action = "redirect"
to = ["far.home"]

[[rule]]
name = "special"
when = 'qname == "special.example"'
action = "redirect"
to = ["localhost"]

[[rule]]
name = "alias"
when = 'list("cloaked")'
action = "redirect"
to = ["garden.home"]

[[rule]]
name = "outside"
when = 'qname == "outside.example"'
action = "redirect"
to = ["garden.example"]

[[list]]
name = "adblock"
file = "DIRECTORY/adblock"
rewrites = true

[[list]]
name = "zone"
file = "DIRECTORY/zone"
format = "rpz"

[[list]]
name = "cloaked"
file = "DIRECTORY/cloaked"
"#;

struct Server {
    inner: InProcess,
    directory: PathBuf,
}

impl Server {
    fn start(test: &str) -> Self {
        let directory =
            std::env::temp_dir().join(format!("avocet-own-names-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let file = |name: &str, text: &str| std::fs::write(directory.join(name), text).unwrap();
        file(
            "adblock",
            "||by-list.example^$dnsrewrite=garden.home\n||outside-by-list.example^$dnsrewrite=garden.example\n||vault.home^\n",
        );
        file(
            "zone",
            "$TTL 40\n@ SOA rpz.example. nobody.example. 1 2 3 4 5\nby-zone.example CNAME \
             garden.home.\n\
             32.9.2.0.192.rpz-ip CNAME garden.home.\n",
        );
        file("cloaked", "tracker.example\n");
        let configuration = CONFIGURATION.replace("DIRECTORY", &directory.display().to_string());
        let inner = InProcess::new(&configuration, SocketAddr::from((CLIENT, 4000))).unwrap();
        Self { inner, directory }
    }

    fn learn(&self, name: &str, rtype: Rtype, data: &[u8]) {
        self.inner.learn(&wire(name), rtype.0, 300, &[data]);
    }

    /// The answer after the response from the network; the resolved question must be for this name.
    fn resume(&mut self, name: &str) -> String {
        let question = [&wire(name)[..], &[0, 1, 0, 1]].concat();
        assert_eq!(self.inner.waits_for().map(Question::octets), Some(&question[..]), "{name}");
        let mut out = vec![0; 4096];
        let len = self.inner.resume(MeantFor::All, &mut out);
        len.map_or_else(|| "nothing".to_owned(), |len| shown(&out[..len]))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

#[test]
fn redirects_of_questions_lead_to_own_names() {
    let mut server = Server::start("questions");
    for (name, answer) in [
        ("by-rule.example.", "NOERROR 30 garden.home. 200 10.1.1.1 [4 rule r]"),
        ("by-list.example.", "NOERROR 30 garden.home. 200 10.1.1.1 [17 list adblock]"),
        ("by-zone.example.", "NOERROR 40 garden.home. 200 10.1.1.1 [17 list zone, qname]"),
        ("special.example.", "NOERROR 30 localhost. 10800 127.0.0.1 [4 rule special]"),
    ] {
        for over in [Over::Udp, Over::Tcp, Over::Udp] {
            assert_eq!(
                ask_over(over, &mut server.inner, (CLIENT, name, A)),
                answer,
                "{name} {over:?}"
            );
            assert_eq!(server.inner.waits_for(), None, "{name} asks the network");
        }
    }
}

#[test]
fn a_list_blocks_public_aliases_to_an_own_name_but_not_the_name() {
    let mut server = Server::start("listed");
    for name in ["public.example.", "free.example."] {
        server.learn(name, Rtype::CNAME, &wire("vault.home."));
    }
    for (name, answer) in [
        ("vault.home.", "NOERROR 300 10.1.1.2"),
        ("near.home.", "NOERROR 300 vault.home. 300 10.1.1.2"),
        ("public.example.", "NOERROR 30 0.0.0.0 [17 list adblock]"),
        ("free.example.", "NOERROR 300 vault.home. 300 10.1.1.2"),
    ] {
        for _ in 0..2 {
            assert_eq!(ask(&mut server.inner, CLIENT, name, A), answer, "{name}");
        }
    }
}

#[test]
fn redirects_of_answers_lead_to_own_names() {
    let mut server = Server::start("answers");
    let rows: [(&str, Rtype, &[u8], &str); 2] = [
        (
            "cloak.example.",
            Rtype::CNAME,
            &wire("tracker.example."),
            "NOERROR 30 garden.home. 200 10.1.1.1 [4 rule alias]",
        ),
        (
            "hosted.example.",
            A,
            &[192, 0, 2, 9],
            "NOERROR 40 garden.home. 200 10.1.1.1 [17 list zone, ip]",
        ),
    ];
    for (name, rtype, data, answer) in rows {
        assert_eq!(ask(&mut server.inner, CLIENT, name, A), "nothing");
        server.learn(name, rtype, data);
        server.learn("tracker.example.", A, &[192, 0, 2, 8]);
        assert_eq!(server.resume(name), answer, "{name}, late");
        assert_eq!(ask(&mut server.inner, CLIENT, name, A), answer, "{name}, cached");
        assert_eq!(server.inner.waits_for(), None, "{name} asks the network");
    }
}

#[test]
fn an_own_alias_that_leads_outside_is_followed() {
    let mut server = Server::start("outside");
    assert_eq!(ask(&mut server.inner, CLIENT, "far.example.", A), "nothing");
    server.learn("www.example.", A, &[192, 0, 2, 7]);
    let answer = "NOERROR 30 far.home. 200 www.example. 300 192.0.2.7 [4 rule far]";
    assert_eq!(server.resume("www.example."), answer);
    assert_eq!(ask(&mut server.inner, CLIENT, "far.example.", A), answer);
}

#[test]
fn what_is_known_of_a_redirected_name_is_not_given_where_its_target_fails() {
    let mut server = Server::start("failing");
    for name in ["outside.example.", "outside-by-list.example."] {
        server.learn(name, A, &[192, 0, 2, 66]);
        assert_eq!(ask(&mut server.inner, CLIENT, name, A), "nothing");
        let answer = server.resume("garden.example.");
        assert!(answer.starts_with("SERVFAIL"), "{name}: {answer}");
    }
    server.learn("garden.example.", A, &[192, 0, 2, 7]);
    server.inner.pass(400);
    for name in ["outside.example.", "outside-by-list.example."] {
        server.learn(name, A, &[192, 0, 2, 66]);
        assert_eq!(ask(&mut server.inner, CLIENT, name, A), "nothing");
        let answer = server.resume("garden.example.");
        assert_eq!(
            answer, "NOERROR 30 garden.example. 30 192.0.2.7 [3 resolution failed or is slow]",
            "{name}"
        );
    }
}

fn plain(more: &str) -> String {
    let forward =
        "[resolver]\nmode = \"forward\"\n[[forward]]\nzone = \".\"\nupstreams = [\"192.0.2.53\"]\n";
    format!("{forward}[cache]\npacket-bytes = \"1MiB\"\nrrset-bytes = \"1MiB\"\n{more}")
}

const NAS: &str = "[[record]]\nname = \"nas.lan\"\ntype = \"A\"\nvalues = [\"192.168.1.5\"]\n";

#[test]
fn a_reload_that_changes_own_names_holds_for_cached_aliases_that_lead_to_them() {
    let mut server = InProcess::new(&plain(""), SocketAddr::from((CLIENT, 4000))).unwrap();
    server.learn(&wire("www.example."), Rtype::CNAME.0, 300, &[&wire("nas.lan.")]);
    server.learn(&wire("nas.lan."), A.0, 300, &[&[203, 0, 113, 66]]);
    let mut check = |more: &str, expected: &str| {
        server.reload(&plain(more)).unwrap();
        for turn in ["first", "again"] {
            assert_eq!(ask(&mut server, CLIENT, "www.example.", A), expected, "{more}, {turn}");
            assert_eq!(server.waits_for(), None);
        }
    };
    check("", "NOERROR 300 nas.lan. 300 203.0.113.66");
    check(NAS, "NOERROR 300 nas.lan. 300 192.168.1.5");
    check("[server]\nlocal-zones = [\"lan\"]\n", "NXDOMAIN 300 nas.lan.");
    check("", "NOERROR 300 nas.lan. 300 203.0.113.66");
}

#[test]
fn an_own_address_behind_an_alias_of_others_is_private_and_a_direct_question_for_it_is_not_judged()
{
    let policy =
        format!("{NAS}[policy]\nblock-private = true\nprivate-exceptions = [\"home.example\"]\n");
    let mut server = InProcess::new(&plain(&policy), SocketAddr::from((CLIENT, 4000))).unwrap();
    for name in ["evil.example.", "nas.home.example."] {
        server.learn(&wire(name), Rtype::CNAME.0, 300, &[&wire("nas.lan.")]);
    }
    assert_eq!(ask(&mut server, CLIENT, "nas.lan.", A), "NOERROR 300 192.168.1.5");
    assert_eq!(
        ask(&mut server, CLIENT, "nas.home.example.", A),
        "NOERROR 300 nas.lan. 300 192.168.1.5"
    );
    let blocked = ask(&mut server, CLIENT, "evil.example.", A);
    assert!(!blocked.contains("192.168.1.5"), "{blocked}");
}
