//! Hosted zones in the query path: their place among the stages, and what depends on the client.

use crate::asked;

use std::fs;
use std::path::PathBuf;

use asked::{ask, wire};
use avocet_nameserver::InProcess;
use avocet_wire::builder::OptFields;
use avocet_wire::edns::EdnsOption;
use avocet_wire::header::{AA, RD};
use avocet_wire::view::RecordSection;
use avocet_wire::{Builder, Class, MessageView, Rcode, Rtype};

const CLIENT: [u8; 4] = [10, 0, 0, 1];

const ZONE: &str = "$TTL 300
@ SOA ns host 7 2h 3m 4w 60
@ NS ns
ns A 192.0.2.1
www A 192.0.2.2
alias CNAME www
out CNAME www.other.
sub NS ns.sub
ns.sub A 192.0.2.3
blocked A 192.0.2.4
mine A 192.0.2.5
";

/// A file of this test that is deleted in the end.
struct ZoneFile(PathBuf);

impl ZoneFile {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("avocet-{name}-{}", std::process::id()));
        fs::write(&path, text).unwrap();
        Self(path)
    }

    fn server(&self, rest: &str) -> InProcess {
        let zone = format!(
            "{rest}\n[[forward]]\nzone = \".\"\nupstreams = [\"192.0.2.53\"]\n[[zone]]\nname = \
             \"corp.example\"\nfile = {:?}\n",
            self.0
        );
        InProcess::new(&zone, (CLIENT, 4000).into()).unwrap()
    }
}

impl Drop for ZoneFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn a_hosted_zone_answers_after_policy_and_local_records() {
    let file = ZoneFile::new("order", ZONE);
    let mut server = file.server(
        "[[record]]\nname = \"mine.corp.example\"\ntype = \"A\"\nvalues = \
         [\"10.0.0.9\"]\nttl-secs = 60\n[[rule]]\nname = \"no\"\nwhen = 'qname == \
         \"blocked.corp.example\"'\naction = \"block\"\n",
    );
    for (name, rtype, expected) in [
        ("www.corp.example.", Rtype::A, "NOERROR 300 192.0.2.2"),
        ("WWW.corp.example.", Rtype::TXT, "NOERROR"),
        ("nope.corp.example.", Rtype::A, "NXDOMAIN"),
        ("alias.corp.example.", Rtype::A, "NOERROR 300 www.corp.example. 300 192.0.2.2"),
        ("mine.corp.example.", Rtype::A, "NOERROR 60 10.0.0.9"),
        ("www.corp.example.", Rtype::ANY, "NOERROR 300 192.0.2.2"),
    ] {
        assert_eq!(ask(&mut server, CLIENT, name, rtype), expected, "{name}");
    }
    let blocked = ask(&mut server, CLIENT, "blocked.corp.example.", Rtype::A);
    assert!(!blocked.contains("192.0.2.4"), "{blocked}");
    let hosted = server.ended_by_stage().into_iter().find(|(stage, _)| *stage == "hosted");
    assert_eq!(hosted.map(|(_, count)| count), Some(5));
}

/// Returns RCODE, whether AA is set, and the number of records in each section.
fn without_recursion(server: &mut InProcess, name: &str, rtype: Rtype) -> (Rcode, bool, [u16; 3]) {
    let (mut query, mut out) = (vec![0; 512], vec![0; 4096]);
    let mut builder = Builder::new(&mut query, 512, 7, 0).unwrap();
    builder.question(&wire(name), rtype, Class::IN).unwrap();
    let len = builder.finish();
    let len = server.answer(&query[..len], &mut out).unwrap();
    let header = MessageView::new(&out[..len]).unwrap().header();
    let [_, answer, authority, additional] = header.counts;
    (header.rcode(), header.has(AA), [answer, authority, additional])
}

#[test]
fn what_is_beyond_a_zone_is_resolved_for_clients_that_want_recursion() {
    let file = ZoneFile::new("beyond", ZONE);
    let mut server = file.server("");
    // These queries wait for the network.
    assert_eq!(ask(&mut server, CLIENT, "a.sub.corp.example.", Rtype::A), "nothing");
    assert_eq!(ask(&mut server, CLIENT, "out.corp.example.", Rtype::A), "nothing");
    let noerror = Rcode::NOERROR;
    let asked = |server: &mut InProcess, name| without_recursion(server, name, Rtype::A);
    assert_eq!(asked(&mut server, "a.sub.corp.example."), (noerror, false, [0, 1, 1]));
    assert_eq!(asked(&mut server, "out.corp.example."), (noerror, true, [1, 0, 0]));
    assert_eq!(asked(&mut server, "www.corp.example."), (noerror, true, [1, 0, 0]));
    assert_eq!(asked(&mut server, "x.corp.example."), (Rcode::NXDOMAIN, true, [0, 1, 0]));
    assert_eq!(asked(&mut server, "example."), (Rcode::REFUSED, false, [0, 0, 0]));
}

#[test]
fn any_below_a_dname_record_is_answered_without_the_network() {
    let zone = format!("{ZONE}tree DNAME other.\nown DNAME corp.example.\n");
    let file = ZoneFile::new("dname-any", &zone);
    let mut server = file.server("");
    assert_eq!(ask(&mut server, CLIENT, "a.tree.corp.example.", Rtype::A), "nothing");
    let any = ask(&mut server, CLIENT, "a.tree.corp.example.", Rtype::ANY);
    assert_eq!(any, "NOERROR 300 other. 300 a.other.");
    // Within the zones, the DNAME record is followed (RFC 6672 §3.2), and a CNAME record is not.
    let any = ask(&mut server, CLIENT, "www.own.corp.example.", Rtype::ANY);
    assert_eq!(any, "NOERROR 300 corp.example. 300 www.corp.example. 300 192.0.2.2");
    let any = ask(&mut server, CLIENT, "alias.own.corp.example.", Rtype::ANY);
    assert_eq!(any, "NOERROR 300 corp.example. 300 alias.corp.example. 300 www.corp.example.");
}

/// Returns the additional records of a reply: owner and type.
fn additional(server: &mut InProcess, name: &str, rtype: Rtype) -> Vec<String> {
    let (mut query, mut out) = (vec![0; 512], vec![0; 4096]);
    let mut builder = Builder::new(&mut query, 512, 7, RD).unwrap();
    builder.question(&wire(name), rtype, Class::IN).unwrap();
    let len = builder.finish();
    let len = server.answer(&query[..len], &mut out).unwrap();
    let view = MessageView::new(&out[..len]).unwrap();
    assert!(view.header().counts[1] > 0);
    let records = view.records().unwrap().map(Result::unwrap);
    let records = records.filter(|record| record.section == RecordSection::Additional);
    records.map(|record| format!("{} {}", record.owner().unwrap().folded(), record.rtype)).collect()
}

#[test]
fn an_answer_has_only_additional_addresses_that_the_client_may_query() {
    let zone = format!(
        "{ZONE}@ MX 1 www\n@ MX 2 blocked\nwww AAAA 2001:db8::2\n_s._tcp SRV 0 0 1 www\n\
         _b._tcp SRV 0 0 1 blocked\n"
    );
    let file = ZoneFile::new("additional", &zone);
    let www = ["www.corp.example. A", "www.corp.example. AAAA"];
    let blocked = "blocked.corp.example. A";
    let rule = |name: &str, when: &str| {
        format!("[[rule]]\nname = \"{name}\"\nwhen = '{when}'\naction = \"block\"\n")
    };
    let here = rule("here", "client.ip.in(\"10.0.0.0/24\") && qname == \"blocked.corp.example\"");
    let elsewhere =
        rule("there", "client.ip.in(\"10.0.9.0/24\") && qname == \"blocked.corp.example\"");
    let alias = "[[record]]\nname = \"mail.lan\"\ntype = \"CNAME\"\nvalues = \
                 [\"corp.example\"]\n";
    for (rules, expected) in [
        (String::new(), &[www[0], www[1], blocked][..]),
        (elsewhere, &[www[0], www[1], blocked]),
        (format!("{here}{alias}"), &www),
        (format!("{here}{}", rule("type", "qtype == \"AAAA\"")), &www[..1]),
    ] {
        let mut server = file.server(&rules);
        assert_eq!(additional(&mut server, "corp.example.", Rtype::MX), expected, "{rules}");
        let of_srv: Vec<_> = ["_s._tcp.corp.example.", "_b._tcp.corp.example."]
            .iter()
            .flat_map(|name| additional(&mut server, name, Rtype(33)))
            .collect();
        assert_eq!(of_srv, expected, "{rules}");
        if rules.contains("mail.lan") {
            assert_eq!(additional(&mut server, "mail.lan.", Rtype::MX), expected);
        }
        // The check of an additional name does not count as a query for it.
        let counts = server.state().policy.iter().flat_map(|policy| policy.rule_counts());
        assert!(counts.map(|(_, count)| count).all(|count| count == 0), "{rules}");
    }
}

/// Returns RCODE and the version of the zone in the reply to a query with these options.
fn version(server: &mut InProcess, name: &str, options: &[EdnsOption<'_>]) -> String {
    let (mut query, mut out) = (vec![0; 512], vec![0; 4096]);
    let mut builder = Builder::new(&mut query, 512, 7, 0).unwrap();
    builder.question(&wire(name), Rtype::A, Class::IN).unwrap();
    let fields = OptFields { udp_size: 1232, rcode: Rcode(0), dnssec_ok: false };
    builder.opt(&fields, options).unwrap();
    let len = builder.finish();
    let len = server.answer(&query[..len], &mut out).unwrap();
    let view = MessageView::new(&out[..len]).unwrap();
    let edns = view.edns().unwrap().unwrap();
    let found = edns.options().map(Result::unwrap).find_map(|option| match option {
        EdnsOption::ZoneVersion(found) => Some(format!("{found:?}")),
        _ => None,
    });
    format!("{} {}", view.header().rcode(), found.unwrap_or_default())
}

#[test]
fn authoritative_answers_have_the_version_of_the_zone_if_it_is_asked_for() {
    let file = ZoneFile::new("version", ZONE);
    let mut server = file.server(
        "[[record]]\nname = \"mine.corp.example\"\ntype = \"A\"\nvalues = [\"10.0.0.9\"]\n",
    );
    let asked = [EdnsOption::ZoneVersion(None)];
    let mut check = |name: &str, options: &[EdnsOption<'_>], expected: &str| {
        for _ in 0..2 {
            assert_eq!(version(&mut server, name, options), expected, "{name}");
        }
    };
    let serial_7 = "Some((2, 0, [0, 0, 0, 7]))";
    check("www.corp.example.", &asked, &format!("NOERROR {serial_7}"));
    check("www.corp.example.", &[], "NOERROR ");
    check("a.ns.corp.example.", &asked, &format!("NXDOMAIN {serial_7}"));
    check("alias.corp.example.", &asked, &format!("NOERROR {serial_7}"));
    // The zone above a referral, a record of the configuration, and a name of no zone.
    check("a.sub.corp.example.", &asked, &format!("NOERROR {serial_7}"));
    check("mine.corp.example.", &asked, "NOERROR ");
    check("other.example.", &asked, "REFUSED ");
    let with_data = [EdnsOption::ZoneVersion(Some((2, 0, &[0, 0, 0, 8])))];
    check("www.corp.example.", &with_data, &format!("NOERROR {serial_7}"));
    let short = [EdnsOption::Unknown(19, &[1])];
    check("www.corp.example.", &short, &format!("NOERROR {serial_7}"));
}

/// The DS records of a hosted zone are at the servers of its parent.
#[test]
fn ds_records_of_a_zone_are_resolved_unless_its_parent_is_hosted() {
    let file = ZoneFile::new("ds", ZONE);
    let mut server = file.server("");
    assert_eq!(ask(&mut server, CLIENT, "corp.example.", Rtype::DS), "nothing");
    assert_eq!(ask(&mut server, CLIENT, "www.corp.example.", Rtype::DS), "NOERROR");
    // Without recursion, the child zone states that it has no DS records (RFC 4035 §3.1.4.1).
    let expected = (Rcode::NOERROR, true, [0, 1, 0]);
    assert_eq!(without_recursion(&mut server, "corp.example.", Rtype::DS), expected);
    let parent = ZoneFile::new("ds-parent", "$TTL 300\n@ SOA n h 1 2 3 4 5\n@ NS n.\ncorp NS n.\n");
    let parent = format!("[[zone]]\nname = \"example\"\nfile = {:?}\n", parent.0);
    let mut server = file.server(&parent);
    assert_eq!(ask(&mut server, CLIENT, "corp.example.", Rtype::DS), "NOERROR");
}

#[test]
fn names_of_a_zone_that_cannot_be_loaded_never_leave_the_server() {
    let file = ZoneFile::new("broken", "@ A 1.2.3\n");
    let mut server = file.server("");
    let expected = "SERVFAIL [14 the zone is not loaded]";
    assert_eq!(ask(&mut server, CLIENT, "www.corp.example.", Rtype::A), expected);
    assert_eq!(ask(&mut server, CLIENT, "www.example.", Rtype::A), "nothing");
}

#[test]
fn equal_answers_for_different_names_and_types_share_one_limit() {
    let file = ZoneFile::new("equal", &format!("{ZONE}*.wild A 192.0.2.6\n"));
    let own: String = (0..10)
        .map(|at| {
            format!(
                "[[record]]\nname = \"own{at}.corp.example\"\ntype = \"A\"\nvalues = [\"10.0.0.9\"]\n"
            )
        })
        .collect();
    let mut server = file.server(
        &("[rate-limit]\nresponses-per-second = 1\nslip = 0\n[server]\nminimal-responses = false\n"
            .to_owned() + &own),
    );
    let names: Vec<_> = (0..20).map(|at| wire(&format!("n{at}.sub.corp.example."))).collect();
    names.iter().for_each(|name| server.learn(name, Rtype::A.0, 300, &[&[192, 0, 2, 7]]));
    let mut ask = |flags: u16, name: &dyn Fn(usize) -> String, rtype: &dyn Fn(usize) -> u16| {
        server.pass(10);
        let answered = (0..20).filter(|at| {
            let (mut query, mut out) = (vec![0; 512], vec![0; 4096]);
            let mut builder = Builder::new(&mut query, 512, 7, flags).unwrap();
            builder.question(&wire(&name(*at)), Rtype(rtype(*at)), Class::IN).unwrap();
            let len = builder.finish();
            server.answer(&query[..len], &mut out).is_some()
        });
        answered.count()
    };
    let text = |name: &'static str| move |_: usize| name.to_owned();
    let a = |_| Rtype::A.0;
    // The capacity is two seconds of the limit.
    assert_eq!(ask(0, &text("www.corp.example."), &a), 2, "one question");
    let numbered = |rest: &'static str| move |at: usize| format!("n{at}.{rest}.corp.example.");
    assert_eq!(ask(0, &numbered("wild"), &a), 2, "a wildcard");
    assert_eq!(ask(0, &numbered("wild"), &|_| Rtype::TXT.0), 2, "no data from a wildcard");
    assert_eq!(ask(0, &text("www.corp.example."), &|at| 300 + at as u16), 2, "no data");
    assert_eq!(ask(0, &numbered("sub"), &a), 2, "a referral");
    assert_eq!(ask(0, &numbered("nope"), &a), 2, "names that do not exist");
    let different =
        |at: usize| ["www", "ns", "mine", "blocked"][at % 4].to_owned() + ".corp.example.";
    assert_eq!(ask(0, &different, &a), 8, "each has its own data");
    assert_eq!(ask(RD, &numbered("sub"), &a), 20, "data of another server");
    assert_eq!(ask(0, &text("out.corp.example."), &|at| 300 + at as u16), 2, "an alias");
    let own = |at: usize| format!("own{}.corp.example.", at % 10);
    assert_eq!(ask(0, &own, &a), 20, "each has a local record");
}

/// A client that follows such a record would treat a host of this network as the public name.
#[test]
fn a_public_service_at_a_hosted_name_that_leads_home_is_blocked() {
    let zone = "$TTL 300\n@ SOA ns host 7 2h 3m 4w 60\n@ NS ns\nns A 192.0.2.1\n\
                www A 192.0.2.2\nhome A 10.0.0.7\nchain CNAME home\nali ALIAS home.corp.example.\n\
                twice CNAME ali\nrecord CNAME nas.lan.\npool CNAME pool.lan.\n\
                side CNAME x.side.example.\n*.wild CNAME nas.lan.\ntree DNAME lan.\n\
                out CNAME www.other.\nround CNAME round2\nround2 CNAME round\n\
                half A 192.0.2.8\nhalf ALIAS home6.corp.example.\nhome6 AAAA fd00::7\n\
                svc-alias HTTPS 0 home\nsvc-hint SVCB 1 . ipv4hint=10.0.0.7\n\
                svc-far HTTPS 0 svc-1\nsvc-1 HTTPS 0 svc-2\nsvc-2 HTTPS 1 nas.lan.\n\
                svc-www HTTPS 1 www\nsvc-round HTTPS 0 svc-round\n\
                loop1 ALIAS loop2.corp.example.\nloop2 ALIAS loop1.corp.example.\n";
    let far: String = (0..9).map(|at| format!("far{at} HTTPS 0 far{}\n", at + 1)).collect();
    let file = ZoneFile::new("home", &format!("{zone}{far}"));
    let mut server = file.server(
        "[policy]\nblock-private = true\n\
         [[record]]\nname = \"nas.lan\"\ntype = \"A\"\nvalues = [\"192.168.0.5\"]\n\
         [[pool]]\nname = \"pool.lan\"\naddresses = [\"192.168.0.6\"]\nprobe = \"tcp\"\nport = 1\n\
         [[forward]]\nzone = \"side.example\"\nupstreams = [\"192.0.2.9\"]\n",
    );
    let blocked = "NOERROR [15 private address for a public name]";
    for (target, is_blocked) in [
        ("home", true),
        ("chain", true),
        ("ali", true),
        ("twice", true),
        ("record", true),
        ("pool", true),
        ("side", true),
        ("q.wild", true),
        ("nas.tree", true),
        ("half", true),
        ("svc-alias", true),
        ("svc-hint", true),
        ("svc-far", true),
        // It leads further than is followed.
        ("far0", true),
        ("www", false),
        ("out", false),
        ("svc-www", false),
        ("svc-round", false),
        ("round", false),
        ("loop1", false),
        ("none", false),
    ] {
        let (owner, target) =
            (format!("{target}.public.example."), wire(&format!("{target}.corp.example.")));
        server.learn(&wire(&owner), Rtype::HTTPS.0, 300, &[&[&[0, 1][..], &target].concat()]);
        let answer = ask(&mut server, CLIENT, &owner, Rtype::HTTPS);
        assert_eq!(answer == blocked, is_blocked, "{owner}: {answer}");
    }
}
