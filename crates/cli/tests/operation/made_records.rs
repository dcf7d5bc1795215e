//! Addresses that are made for each answer: behind ALIAS records, and of pools in signed zones,
//! examined by `delv`.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::Value;

use crate::past::wait_until;
use crate::peers::{Peer, Program, Role, SECRET};
use crate::server::{Server, Site, ask, free_address, is_here};
use crate::upstream::{ADDRESS, Upstream};

const ZONE: &str = "$TTL 600\n@ SOA ns host 5 2h 3m 4w 60\n@ NS ns\nns A 192.0.2.1\n\
                    @ ALIAS web.other.\n@ MX 10 mail\nmail A 192.0.2.9\n\
                    near 30 ALIAS mail\nwww CNAME @\n*.any ALIAS mail\ntwice ALIAS near\n\
                    a ALIAS b\nb ALIAS a\nhome 60 ALIAS svc\nweb CNAME svc\n";
/// A pool without a healthy address. Both have the same probe, so that answers have both from the
/// beginning.
const POOL: &str = "[[pool]]\nname = \"svc.corp.example\"\naddresses = [\"192.0.2.20 probe \
                    127.0.0.1:9\", \"192.0.2.21 probe 127.0.0.1:9\"]\nmode = \"all\"\nprobe = \
                    \"tcp\"\nport = 9\ninterval-secs = 3600\nttl-secs = 20\n";

/// A server with `corp.example`.
struct Hosting {
    site: Site,
    _server: Server,
    _upstream: Upstream,
}

impl Hosting {
    fn start(zone: &str, settings: &str, rest: &str) -> Self {
        let (upstream, site) = (Upstream::start(), Site::new());
        fs::write(site.directory.join("corp.zone"), zone).unwrap();
        let table = format!(
            "[[zone]]\nname = \"corp.example\"\nfile = \"corp.zone\"\nsettle-secs = \
             3600\n{settings}\n{rest}"
        );
        site.configure(upstream.addr, "", &table);
        let server = site.start();
        Self { site, _server: server, _upstream: upstream }
    }

    fn run(&self, program: &str, arguments: &[&str]) -> String {
        run_at(self.site.dns, program, arguments)
    }

    /// Lets `delv` validate an answer with the DS record of the zone as its anchor.
    fn delv(&self, name: &str, rtype: &str) -> String {
        self.delv_at(self.site.dns, name, rtype)
    }

    /// Lets `delv` validate an answer of a server of the zone.
    fn delv_at(&self, server: SocketAddr, name: &str, rtype: &str) -> String {
        let text = self.site.avocet_text(&["zone", "keys", "corp.example", "--json"]);
        let report: Value = serde_json::from_str(&text).unwrap();
        let ds = report["keys"][0]["ds"].as_str().unwrap();
        let (head, digest) = ds.rsplit_once(' ').unwrap();
        let text = format!("trust-anchors {{ corp.example. static-ds {head} \"{digest}\"; }};\n");
        let anchors = self.site.directory.join("anchors");
        fs::write(&anchors, text).unwrap();
        let anchors = anchors.to_str().unwrap();
        run_at(server, "delv", &["-a", anchors, "+root=corp.example", name, rtype])
    }
}

fn run_at(server: SocketAddr, program: &str, arguments: &[&str]) -> String {
    let ran = Command::new(program)
        .arg(format!("@{}", server.ip()))
        .args(["-p", &server.port().to_string()])
        .args(arguments)
        .output()
        .unwrap();
    String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned()
}

#[test]
fn the_target_of_an_alias_record_is_the_answer() {
    let hosting = Hosting::start(ZONE, "", POOL);
    let check = |name: &str, address: [u8; 4], ttl_secs: u32| {
        let (found, ttl) = hosting.site.ask(name);
        assert_eq!(found, address, "{name}");
        assert!(ttl <= ttl_secs && ttl + 5 > ttl_secs, "{name}: {ttl}");
    };
    // The lower TTL of the record and of its target.
    check("corp.example", ADDRESS, 300);
    check("near.corp.example", [192, 0, 2, 9], 30);
    check("twice.corp.example", [192, 0, 2, 9], 30);
    check("x.any.corp.example", [192, 0, 2, 9], 600);
    // The resolution of a loop ends.
    let (flags, _) = hosting.site.ask_any("a.corp.example");
    assert_eq!(flags & 15, 2);
    if !is_here("dig") {
        return;
    }
    let dig = |arguments: &[&str]| hosting.run("dig", arguments);
    // The same holds for other resolvers, which do not request recursion.
    let text = dig(&["+norec", "corp.example", "A"]);
    assert!(text.contains("flags: qr aa ra;") && text.contains("192.0.2.77"), "{text}");
    assert!(!text.contains("CNAME") && !text.contains("ALIAS"), "{text}");
    let text = dig(&["www.corp.example", "A"]);
    assert!(text.contains("CNAME\tcorp.example.") && text.contains("192.0.2.77"), "{text}");
    let text = dig(&["home.corp.example", "A"]);
    assert!(text.contains("192.0.2.20") && text.contains("192.0.2.21"), "{text}");
    // The name exists and has its other records; nobody gets the record itself.
    for (name, rtype) in [("near.corp.example", "AAAA"), ("near.corp.example", "TYPE65401")] {
        let text = dig(&[name, rtype]);
        assert!(text.contains("NOERROR") && text.contains("ANSWER: 0"), "{text}");
        assert!(text.contains("SOA\tns.corp.example."), "{text}");
    }
    let text = dig(&["corp.example", "MX"]);
    assert!(text.contains("10 mail.corp.example."), "{text}");
    let text = dig(&["a.corp.example", "A"]);
    assert!(text.contains("ALIAS records lead in a circle"), "{text}");
}

#[test]
fn addresses_that_are_made_for_an_answer_are_signed_with_it() {
    if !is_here("delv") {
        return;
    }
    let policies = ["sign = true", "sign = \"three\""];
    let three = "[[signing-policy]]\nname = \"three\"\ndenial = \"nsec3\"\n";
    for settings in policies {
        let hosting = Hosting::start(ZONE, settings, &format!("{POOL}{three}"));
        for (name, rtype, expected) in [
            ("corp.example", "A", "; fully validated"),
            ("near.corp.example", "A", "; fully validated"),
            ("near.corp.example", "AAAA", "; negative response, fully validated"),
            ("near.corp.example", "TXT", "; negative response, fully validated"),
            ("x.any.corp.example", "A", "; fully validated"),
            ("x.any.corp.example", "AAAA", "; negative response, fully validated"),
            ("x.any.corp.example", "TXT", "; negative response, fully validated"),
            ("twice.corp.example", "A", "; fully validated"),
            ("www.corp.example", "A", "; fully validated"),
            ("corp.example", "MX", "; fully validated"),
            ("corp.example", "TXT", "; negative response, fully validated"),
            ("svc.corp.example", "A", "; fully validated"),
            ("svc.corp.example", "AAAA", "; negative response, fully validated"),
            ("svc.corp.example", "MX", "; negative response, fully validated"),
            ("home.corp.example", "A", "; fully validated"),
            ("web.corp.example", "A", "; fully validated"),
            ("nothing.corp.example", "A", "; negative response, fully validated"),
        ] {
            let said = hosting.delv(name, rtype);
            assert!(said.contains(expected), "{settings} {name} {rtype}: {said}");
        }
        // Resolvers must not use the proof for longer than an address (RFC 8198, RFC 9077).
        let said = hosting.run("dig", &["+dnssec", "svc.corp.example", "AAAA"]);
        let lines = said.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let proofs =
            lines.filter(|words| words.get(3).is_some_and(|rtype| rtype.starts_with("NSEC")));
        let ttls: Vec<_> = proofs.map(|words| words[1].to_owned()).collect();
        assert_eq!(ttls, ["20"], "{settings}: {said}");
        // A restart has nothing to sign again.
        let before = hosting.site.avocet_text(&["zone", "export", "corp.example"]);
        let Hosting { site, _server: server, _upstream } = hosting;
        server.stop();
        let hosting = Hosting { _server: site.start(), site, _upstream };
        let after = hosting.site.avocet_text(&["zone", "export", "corp.example"]);
        assert_eq!(before, after, "{settings}");
        let said = hosting.delv("svc.corp.example", "A");
        assert!(said.contains("; fully validated"), "{said}");
    }
}

#[test]
fn a_pool_behind_an_alias_contradicts_no_proof_of_a_signed_zone() {
    if !is_here("delv") {
        return;
    }
    let zone = format!("{ZONE}hidden CNAME mail\nd DNAME deep\nx.deep A 192.0.2.8\n");
    let pools = ["hidden", "x.d"].map(|name| POOL.replace("\"svc.", &format!("\"{name}.")));
    let hosting = Hosting::start(&zone, "sign = true", &(POOL.to_owned() + &pools.concat()));
    for (name, rtype, expected) in [
        ("hidden.corp.example", "A", "192.0.2.9"),
        ("hidden.corp.example", "AAAA", ""),
        ("hidden.corp.example", "TXT", ""),
        ("x.d.corp.example", "A", "192.0.2.8"),
        ("x.d.corp.example", "AAAA", ""),
        ("svc.corp.example", "A", "192.0.2.20"),
    ] {
        let said = hosting.delv(name, rtype);
        assert!(said.contains("fully validated"), "{name} {rtype}: {said}");
        assert!(said.contains(expected), "{name} {rtype}: {said}");
    }
}

#[test]
fn an_alias_record_that_cannot_be_answered_is_an_error() {
    let check = |more: &str, settings: &str, expected: &str| {
        let (upstream, site) = (Upstream::start(), Site::new());
        let head = "$TTL 60\n@ SOA ns host 5 2h 3m 4w 60\n@ NS ns\nns A 192.0.2.1\n";
        fs::write(site.directory.join("corp.zone"), format!("{head}{more}\n")).unwrap();
        let table =
            format!("[[zone]]\nname = \"corp.example\"\nfile = \"corp.zone\"\n{settings}\n");
        site.configure(upstream.addr, "", &table);
        let output = site.avocet(&["check"]);
        let text =
            String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
        assert!(text.contains(expected), "{more}: {text}");
    };
    check("a ALIAS A", "", "a.corp.example. has an ALIAS record that leads to itself");
    check("a ALIAS b\na ALIAS c", "", "a.corp.example. has more than one ALIAS record");
    check("a ALIAS b\na CNAME c", "", "a.corp.example. has a CNAME record and other records");
    let signed = "a ALIAS b\n@ NSEC a A NS SOA NSEC\na NSEC @ NSEC";
    check(signed, "", "a.corp.example. has an ALIAS record, and the zone was signed elsewhere");
    check("a ALIAS b", "allow-transfer = [\"::/0\"]", "so that transfers are refused");
}

#[test]
fn a_zone_with_alias_records_is_transferred_as_it_is_or_not_at_all() {
    if !is_here("dig") {
        return;
    }
    let transfer = |settings: &str| {
        let settings = format!("allow-transfer = [\"127.0.0.0/8\"]\n{settings}");
        Hosting::start(ZONE, &settings, POOL).run("dig", &["corp.example", "AXFR"])
    };
    let text = transfer("");
    assert!(text.contains("Transfer failed"), "{text}");
    let text = transfer("transfer-alias = \"literal\"");
    assert!(text.contains("TYPE65401") && text.contains("SOA"), "{text}");
}

#[test]
fn addresses_behind_alias_records_are_transferred_with_serials_of_their_own() {
    if !is_here("dig") {
        return;
    }
    let (keys, at_bind) = (Site::new(), free_address());
    let (settings, key) = transferred(&keys, at_bind);
    // A policy for clients does not decide about the records of a zone.
    let rest = format!(
        "{POOL}{key}[[rule]]\nname = \"closed\"\nwhen = '!qname.under(\"corp.example\")'\naction = \
         \"block\"\nanswer = \"refused\"\n"
    );
    let hosting = Hosting::start(ZONE, &settings, &rest);
    let transfer = || {
        let text = hosting.run("dig", &["corp.example", "AXFR"]);
        let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        lines.filter(|line| !line.starts_with(';')).collect::<Vec<_>>()
    };
    let has = |line: &str| transfer().iter().any(|one| one == line);
    wait_until("the addresses are known", || has("corp.example. 600 IN A 192.0.2.77"));
    let lines = transfer();
    for line in [
        "near.corp.example. 30 IN A 192.0.2.9",
        "twice.corp.example. 600 IN A 192.0.2.9",
        "*.any.corp.example. 600 IN A 192.0.2.9",
        "home.corp.example. 60 IN A 192.0.2.20",
        "home.corp.example. 60 IN A 192.0.2.21",
    ] {
        assert!(lines.iter().any(|one| one == line), "{line}: {lines:?}");
    }
    // A loop does not prevent the transfer, and the status names it.
    let literal: Vec<_> = lines.iter().filter(|line| line.contains("TYPE65401")).collect();
    assert!(literal.len() == 2 && literal[0].starts_with("a.corp."), "{literal:?}");
    let fault = "cannot resolve a.corp.example., b.corp.example.";
    wait_until("the circle is named", || hosting.site.avocet_text(&["status"]).contains(fault));
    // The file has the ALIAS records, including the loop.
    let file = hosting.site.directory.join("corp.zone");
    hosting.site.avocet_text(&["zone", "diff", "corp.example", file.to_str().unwrap()]);
    // This server gives the same answers.
    assert_eq!(hosting.site.ask("near.corp.example"), (vec![192, 0, 2, 9], 30));

    let role = Role::Secondary(hosting.site.dns);
    let peer = Peer::start(Program::Bind, role, "", at_bind);
    peer.iter().for_each(|peer| peer.wait_for("near.corp.example"));
    hosting.site.avocet_text(&["zone", "set", "corp.example", "mail", "A", "192.0.2.99"]);
    hosting.site.avocet_text(&["zone", "reload", "corp.example"]);
    wait_until("the change arrives", || has("near.corp.example. 30 IN A 192.0.2.99"));
    if peer.is_some() {
        wait_until("the secondary has the change", || {
            ask(at_bind, 9, "near.corp.example").0 == [192, 0, 2, 99]
        });
    }
}

/// The settings of a zone that BIND transfers with signed requests, and of the key.
fn transferred(keys: &Site, at_bind: SocketAddr) -> (String, String) {
    let secret = keys.directory.join("transfer.secret");
    fs::write(&secret, SECRET).unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let settings = format!(
        "transfer-alias = \"addresses\"\nallow-transfer = [\"127.0.0.0/8\", \"key \
         transfer\"]\nnotify = [\"{at_bind}\"]"
    );
    let key = format!("[[key]]\nname = \"transfer\"\nsecret-file = \"{}\"\n", secret.display());
    (settings, key)
}

#[test]
fn addresses_behind_alias_records_are_signed_for_all_servers_of_the_zone() {
    if !is_here("delv") {
        return;
    }
    let (keys, at_bind) = (Site::new(), free_address());
    let (settings, key) = transferred(&keys, at_bind);
    let hosting =
        Hosting::start(ZONE, &format!("sign = true\n{settings}"), &format!("{POOL}{key}"));
    let check = |server, address: &str| {
        for (name, rtype, expected) in [
            ("corp.example", "A", "; fully validated"),
            ("corp.example", "TXT", "; negative response, fully validated"),
            ("near.corp.example", "A", "; fully validated"),
            ("near.corp.example", "AAAA", "; negative response, fully validated"),
            ("x.any.corp.example", "A", "; fully validated"),
            ("x.any.corp.example", "AAAA", "; negative response, fully validated"),
            ("home.corp.example", "A", "; fully validated"),
            ("nothing.corp.example", "A", "; negative response, fully validated"),
        ] {
            let said = hosting.delv_at(server, name, rtype);
            assert!(said.contains(expected), "{server} {name} {rtype}: {said}");
        }
        let said = hosting.delv_at(server, "near.corp.example", "A");
        assert!(said.contains(address), "{server}: {said}");
    };
    let dns = hosting.site.dns;
    let transferred = || {
        let text = run_at(dns, "dig", &["corp.example", "AXFR"]);
        text.lines().filter(|line| !line.starts_with(';')).collect::<Vec<_>>().join("\n")
    };
    wait_until("the addresses are known", || transferred().contains("192.0.2.77"));
    check(dns, "192.0.2.9");
    let peer = Peer::start(Program::Bind, Role::Secondary(dns), "", at_bind);
    if let Some(peer) = &peer {
        peer.wait_for("near.corp.example");
        check(at_bind, "192.0.2.9");
    }

    hosting.site.avocet_text(&["zone", "set", "corp.example", "mail", "A", "192.0.2.99"]);
    hosting.site.avocet_text(&["zone", "reload", "corp.example"]);
    wait_until("the change arrives", || {
        hosting.run("dig", &["near.corp.example", "+short"]).trim() == "192.0.2.99"
    });
    check(dns, "192.0.2.99");
    if peer.is_some() {
        wait_until("the secondary has the change", || {
            ask(at_bind, 9, "near.corp.example").0 == [192, 0, 2, 99]
        });
        check(at_bind, "192.0.2.99");
    }

    // A restart publishes the same version.
    let before = transferred();
    let Hosting { site, _server: server, _upstream } = hosting;
    server.stop();
    let _server = site.start();
    assert_eq!(site.ask("near.corp.example").0, [192, 0, 2, 99]);
    assert_eq!(transferred(), before);
}
