//! Names and addresses in answers: if the policy blocks one of them, the client does not get the
//! answer, regardless of its other records.

use crate::asked;

use std::net::SocketAddr;
use std::path::PathBuf;

use avocet_nameserver::{InProcess, MeantFor};
use avocet_policy::rule::{Grant, Scope, Switches};
use avocet_wire::Rtype;

use asked::{Over, ask_over, shown, wire};

const CLIENT: [u8; 4] = [10, 0, 0, 1];
const BASE: &str = "[resolver]\nmode = \"forward\"\n[[forward]]\nzone = \".\"\nupstreams = \
                    [\"192.0.2.53\"]\n\
                    [cache]\npacket-bytes = \"1MiB\"\nrrset-bytes = \
                    \"1MiB\"\n[policy]\nblock-ttl-secs = 30\n";

struct Site {
    server: InProcess,
    directory: PathBuf,
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// The data of a name.
type Data<'a> = (&'a str, Rtype, Vec<Vec<u8>>);

impl Site {
    /// A server with this policy; `LIST` in it is a file with these lines.
    fn start(test: &str, policy: &str, lines: &str) -> Self {
        let directory =
            std::env::temp_dir().join(format!("avocet-behind-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let file = directory.join("list");
        std::fs::write(&file, lines).unwrap();
        let configuration = format!("{BASE}{policy}").replace("LIST", &file.to_string_lossy());
        let server = InProcess::new(&configuration, SocketAddr::from((CLIENT, 4000))).unwrap();
        Self { server, directory }
    }

    /// Queries each name twice before its data is known, over UDP and TCP, and then again.
    #[track_caller]
    fn check(&mut self, known: &[Data<'_>], rows: &[(&str, Rtype, &str)]) {
        let learn = |server: &InProcess| {
            for (name, rtype, data) in known {
                let data: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
                server.learn(&wire(name), rtype.0, 300, &data);
            }
        };
        for (round, over) in [Over::Udp, Over::Tcp, Over::Udp].into_iter().enumerate() {
            for (name, rtype, expected) in rows {
                let mut given = ask_over(over, &mut self.server, (CLIENT, name, *rtype));
                if self.server.waits_for().is_some() {
                    learn(&self.server);
                    let mut out = vec![0; 4096];
                    let len = self.server.resume(MeantFor::All, &mut out).unwrap();
                    given = shown(&out[..len]);
                }
                assert_eq!(given, *expected, "{name} {rtype} {over:?}, round {round}");
            }
        }
    }
}

fn a(name: &str, address: [u8; 4]) -> Data<'_> {
    (name, Rtype::A, vec![address.to_vec()])
}

fn cname<'a>(name: &'a str, target: &str) -> Data<'a> {
    (name, Rtype::CNAME, vec![wire(target)])
}

fn https<'a>(name: &'a str, targets: &[&str]) -> Data<'a> {
    let record = |(place, target): (usize, &&str)| {
        [&(place as u16 + 1).to_be_bytes()[..], &wire(target), &[0, 4, 0, 4, 192, 0, 2, 66]]
            .concat()
    };
    (name, Rtype::HTTPS, targets.iter().enumerate().map(record).collect())
}

const LISTED: &str =
    "[[list]]\nname = \"l\"\nfile = \"LIST\"\nformat = \"adblock\"\nrewrites = true\n";

#[test]
fn a_name_that_a_list_allows_frees_no_other_name_of_the_answer() {
    let lines = "||bad.example^\n@@||okay.example^\n@@||fine.bad.example^\n||must.example^$important\n@@||asked.example^\n";
    let mut site = Site::start("allowed", LISTED, lines);
    let blocked = "NOERROR 30 0.0.0.0 [17 list l]";
    let known = [
        cname("first.example.", "okay.example."),
        cname("okay.example.", "bad.example."),
        a("bad.example.", [192, 0, 2, 1]),
        https("services.example.", &["okay.example.", "bad.example."]),
        https("turned.example.", &["bad.example.", "okay.example."]),
        https("good.example.", &["okay.example.", "fine.bad.example."]),
        cname("through.example.", "fine.bad.example."),
        a("fine.bad.example.", [192, 0, 2, 2]),
        cname("asked.example.", "must.example."),
        a("must.example.", [192, 0, 2, 3]),
        cname("other.example.", "asked.example."),
    ];
    site.check(
        &known,
        &[
            ("first.example.", Rtype::A, blocked),
            ("services.example.", Rtype::HTTPS, "NOERROR [17 list l]"),
            ("turned.example.", Rtype::HTTPS, "NOERROR [17 list l]"),
            ("through.example.", Rtype::A, "NOERROR 300 fine.bad.example. 300 192.0.2.2"),
            (
                "good.example.",
                Rtype::HTTPS,
                "NOERROR 300 1 okay.example. ipv4hint=192.0.2.66 300 2 fine.bad.example. \
                 ipv4hint=192.0.2.66",
            ),
            // A rule or list that allows the QNAME exempts its answer, as in AdGuard Home.
            ("okay.example.", Rtype::A, "NOERROR 300 bad.example. 300 192.0.2.1"),
            ("asked.example.", Rtype::A, "NOERROR 300 must.example. 300 192.0.2.3"),
            ("other.example.", Rtype::A, blocked),
        ],
    );
}

#[test]
fn a_rewrite_answers_with_its_rcode() {
    let lines = "||short.example^$dnsrewrite=SERVFAIL\n||long.example^$dnsrewrite=SERVFAIL;;\n\
                 ||refused.example^$dnsrewrite=REFUSED\n||other.example^$dnsrewrite=NOTIMP;;\n";
    let mut site = Site::start("rcodes", LISTED, lines);
    let known = [cname("to-long.example.", "long.example."), a("long.example.", [192, 0, 2, 1])];
    site.check(
        &known,
        &[
            ("short.example.", Rtype::A, "SERVFAIL [17 list l]"),
            ("long.example.", Rtype::A, "SERVFAIL [17 list l]"),
            ("to-long.example.", Rtype::A, "SERVFAIL [17 list l]"),
            ("To-LONG.example.", Rtype::A, "SERVFAIL [17 list l]"),
            ("refused.example.", Rtype::A, "REFUSED [17 list l]"),
            ("other.example.", Rtype::A, "NOTIMP [17 list l]"),
        ],
    );
}

#[test]
fn a_rewrite_hides_no_block_of_a_name_behind_an_alias() {
    let lines = "||gone.example^$dnsrewrite=NXDOMAIN\n||both.example^$dnsrewrite=192.0.2.99\n||both.example^\n\
                 ||moved.example^$dnsrewrite=192.0.2.99\n";
    let mut site = Site::start("rewritten", LISTED, lines);
    let known = [
        cname("to-gone.example.", "gone.example."),
        cname("to-both.example.", "both.example."),
        cname("to-moved.example.", "moved.example."),
        a("gone.example.", [192, 0, 2, 1]),
        a("both.example.", [192, 0, 2, 2]),
        a("moved.example.", [192, 0, 2, 3]),
    ];
    site.check(
        &known,
        &[
            ("gone.example.", Rtype::A, "NXDOMAIN [17 list l]"),
            ("to-gone.example.", Rtype::A, "NXDOMAIN [17 list l]"),
            ("both.example.", Rtype::A, "NOERROR 30 192.0.2.99 [17 list l]"),
            ("to-both.example.", Rtype::A, "NOERROR 30 0.0.0.0 [17 list l]"),
            ("to-moved.example.", Rtype::A, "NOERROR 300 moved.example. 300 192.0.2.3"),
        ],
    );
}

#[test]
fn a_rule_that_allows_a_name_frees_no_other_name_and_no_address_of_an_answer() {
    let policy = format!(
        "block-private = true\n{LISTED}\
         [[rule]]\nname = \"trusted\"\nwhen = '(list(\"l\") && !qname.under(\"bad.example\")) || \
         service(\"youtube\")'\n\
         action = \"allow\"\n\
         [[rule]]\nname = \"both\"\nwhen = 'list(\"l\") && \
         answer.ip.in(\"192.0.2.0/24\")'\naction = \"allow\"\n"
    );
    let mut site = Site::start("allowing-rules", &policy, "||good.example^\n||bad.example^\n");
    let private = "NOERROR [15 private address for a public name]";
    let known = [
        a("good.example.", [192, 168, 1, 1]),
        a("www.youtube.com.", [192, 168, 1, 1]),
        cname("alias.example.", "good.example."),
        cname("video.example.", "www.youtube.com."),
        https("services.example.", &["good.example.", "youtube.com."]),
        https("to-good.example.", &["good.example.", "bad.example."]),
        https("to-youtube.example.", &["youtube.com.", "bad.example."]),
    ];
    site.check(
        &known,
        &[
            ("good.example.", Rtype::A, "NOERROR 300 192.168.1.1"),
            ("www.youtube.com.", Rtype::A, "NOERROR 300 192.168.1.1"),
            ("alias.example.", Rtype::A, private),
            ("video.example.", Rtype::A, private),
            (
                "services.example.",
                Rtype::HTTPS,
                "NOERROR 300 1 good.example. ipv4hint=192.0.2.66 300 2 youtube.com. \
                 ipv4hint=192.0.2.66",
            ),
            ("to-good.example.", Rtype::HTTPS, "NOERROR [17 list l]"),
            ("to-youtube.example.", Rtype::HTTPS, "NOERROR [17 list l]"),
        ],
    );
}

#[test]
fn a_name_behind_an_alias_passes_where_a_rule_lets_it_pass() {
    let policy = format!(
        "{LISTED}[[group]]\nname = \"parents\"\nclients = [\"10.0.0.1\"]\n\
         [[rule]]\nname = \"exempt\"\nwhen = 'client.group(\"parents\") && (service(\"youtube\") \
         || qname == \"cdn.bad.example\")'\n\
         action = \"allow\"\n\
         [[rule]]\nname = \"no video\"\nwhen = 'service(\"youtube\", \"tiktok\")'\naction = \
         \"block\"\nanswer = \"nxdomain\"\n"
    );
    let mut site = Site::start("freed", &policy, "||bad.example^\n||youtube.com^\n");
    let known = [
        cname("video.example.", "www.youtube.com."),
        a("www.youtube.com.", [192, 0, 2, 1]),
        cname("cdn.example.", "cdn.bad.example."),
        a("cdn.bad.example.", [192, 0, 2, 2]),
        https("both.example.", &["www.youtube.com.", "www.tiktok.com."]),
        https("listed.example.", &["www.youtube.com.", "bad.example."]),
    ];
    site.check(
        &known,
        &[
            ("video.example.", Rtype::A, "NOERROR 300 www.youtube.com. 300 192.0.2.1"),
            ("cdn.example.", Rtype::A, "NOERROR 300 cdn.bad.example. 300 192.0.2.2"),
            ("both.example.", Rtype::HTTPS, "NXDOMAIN [15 rule no video]"),
            ("listed.example.", Rtype::HTTPS, "NOERROR [17 list l]"),
        ],
    );
}

#[test]
fn a_service_is_blocked_behind_an_alias_too() {
    let policy = "[[rule]]\nname = \"work\"\nwhen = 'qname == \"work.example\"'\naction = \
                  \"allow\"\n\
                  [[rule]]\nname = \"no video\"\nwhen = 'service(\"youtube\")'\naction = \
                  \"block\"\nanswer = \"nxdomain\"\n";
    let mut site = Site::start("services", policy, "||nobody.invalid^\n");
    let known = [
        cname("video.example.", "www.youtube.com."),
        cname("work.example.", "www.youtube.com."),
        a("www.youtube.com.", [192, 0, 2, 1]),
        a("else.example.", [192, 0, 2, 2]),
        https("hidden.example.", &["x.googlevideo.com."]),
    ];
    site.check(
        &known,
        &[
            ("www.youtube.com.", Rtype::A, "NXDOMAIN [15 rule no video]"),
            ("video.example.", Rtype::A, "NXDOMAIN [15 rule no video]"),
            ("hidden.example.", Rtype::HTTPS, "NXDOMAIN [15 rule no video]"),
            ("work.example.", Rtype::A, "NOERROR 300 www.youtube.com. 300 192.0.2.1"),
            ("else.example.", Rtype::A, "NOERROR 300 192.0.2.2"),
        ],
    );
}

/// The forms of IPv6 addresses that contain an IPv4 address.
const FORMS: [&str; 5] = ["::ffff:A.B", "::ffff:0:A.B", "64:ff9b::A.B", "::A.B", "2002:HEX::1"];

fn aaaa(name: &str, address: &str) -> Vec<u8> {
    let octets = address.parse::<std::net::Ipv6Addr>().map(|address| address.octets());
    octets.unwrap_or_else(|error| panic!("{name}: {address}: {error}")).to_vec()
}

#[test]
fn an_ipv4_address_inside_an_ipv6_address_is_judged_as_itself() {
    let zone =
        "$TTL 30\n@ SOA rpz.example. nobody.example. 1 2 3 4 5\n24.0.1.168.192.rpz-ip CNAME *.\n";
    let policies = [
        ("block-private = true\n", "NOERROR [15 private address for a public name]"),
        (
            "[[rule]]\nname = \"net\"\nwhen = 'answer.ip.in(\"192.168.1.0/24\")'\naction = \
             \"block\"\nanswer = \"nodata\"\n",
            "NOERROR [15 rule net]",
        ),
        ("[[list]]\nname = \"z\"\nfile = \"LIST\"\nformat = \"rpz\"\n", "NOERROR [17 list z, ip]"),
    ];
    for (place, (policy, blocked)) in policies.into_iter().enumerate() {
        let mut site = Site::start(&format!("embedded-{place}"), policy, zone);
        for (number, form) in FORMS.iter().enumerate() {
            let bad = form.replace("A.B", "192.168.1.1").replace("HEX", "c0a8:101");
            let good = form.replace("A.B", "192.0.2.7").replace("HEX", "c000:207");
            let (bad_name, good_name) =
                (format!("bad{number}.example."), format!("good{number}.example."));
            let data = [&b"\x00\x01\x00\x00\x06\x00\x10"[..], &aaaa(form, &bad)].concat();
            let known = [
                (&bad_name[..], Rtype::AAAA, vec![aaaa(form, &bad)]),
                (&bad_name[..], Rtype::HTTPS, vec![data]),
                (&good_name[..], Rtype::AAAA, vec![aaaa(form, &good)]),
            ];
            let given = format!("NOERROR 300 {}", good.parse::<std::net::Ipv6Addr>().unwrap());
            site.check(
                &known,
                &[
                    (&bad_name, Rtype::AAAA, blocked),
                    (&bad_name, Rtype::HTTPS, blocked),
                    (&good_name, Rtype::AAAA, &given),
                ],
            );
        }
    }
}

#[test]
fn only_the_configured_translator_is_accepted_and_never_for_private_addresses() {
    let private = "NOERROR [15 private address for a public name]";
    for (prefix, good, bad) in [
        ("64:ff9b:1:7::/96", "64:ff9b:1:7::c000:207", "64:ff9b:1:7::c0a8:101"),
        ("fd00:64::/96", "fd00:64::c000:207", "fd00:64::c0a8:101"),
    ] {
        let policy = format!("block-private = true\n[dns64]\nprefix = \"{prefix}\"\n");
        let mut site = Site::start("translators", &policy, "");
        let known = [
            ("good.example.", Rtype::AAAA, vec![aaaa("good", good)]),
            ("bad.example.", Rtype::AAAA, vec![aaaa("bad", bad)]),
            ("other.example.", Rtype::AAAA, vec![aaaa("other", "64:ff9b:1:8::c000:207")]),
            ("unique.example.", Rtype::AAAA, vec![aaaa("unique", "fd00:65::c000:207")]),
        ];
        let given = format!("NOERROR 300 {good}");
        site.check(
            &known,
            &[
                ("good.example.", Rtype::AAAA, &given),
                ("bad.example.", Rtype::AAAA, private),
                ("other.example.", Rtype::AAAA, private),
                ("unique.example.", Rtype::AAAA, private),
            ],
        );
    }
}

#[test]
fn a_service_of_a_public_name_does_not_lead_to_a_local_name() {
    let policy = "block-private = true\nprivate-exceptions = [\"home.example\"]\n\
                  [[record]]\nname = \"nas.lan\"\ntype = \"A\"\nvalues = [\"192.168.1.5\"]\n";
    let mut site = Site::start("local-services", policy, "");
    let known = [
        https("evil.example.", &["cdn.example.", "NAS.lan."]),
        https("www.home.example.", &["nas.lan."]),
        https("good.example.", &["cdn.example."]),
    ];
    let given = |target: &str| format!("NOERROR 300 1 {target} ipv4hint=192.0.2.66");
    site.check(
        &known,
        &[
            ("evil.example.", Rtype::HTTPS, "NOERROR [15 private address for a public name]"),
            ("www.home.example.", Rtype::HTTPS, &given("nas.lan.")),
            ("good.example.", Rtype::HTTPS, &given("cdn.example.")),
        ],
    );
}

#[test]
fn a_service_of_a_public_name_leads_to_no_name_of_this_network() {
    let policy = "block-private = true\n\
                  [[pool]]\nname = \"pool.corp.example\"\naddresses = [\"192.168.7.9\"]\n\
                  probe = \"icmp\"\n\
                  [[forward]]\nzone = \"office.example\"\nupstreams = [\"192.0.2.53\"]\n";
    let mut site = Site::start("own-services", policy, "");
    let targets = ["pool.corp.example.", "nas.office.example.", "localhost.", "a.localhost."];
    let owner = |at: usize| format!("s{at}.example.");
    let owners: Vec<_> = (0..targets.len()).map(owner).collect();
    let known: Vec<_> =
        owners.iter().zip(targets).map(|(owner, target)| https(owner, &[target])).collect();
    let withheld = "NOERROR [15 private address for a public name]";
    let checks: Vec<_> =
        owners.iter().map(|owner| (owner.as_str(), Rtype::HTTPS, withheld)).collect();
    site.check(&known, &checks);
}

#[test]
fn a_grant_counts_for_the_name_that_is_queried_and_its_aliases() {
    let mut site = Site::start("granted", LISTED, "||tracker.example^\n");
    let grants =
        vec![Grant { name: "shop.example".to_owned(), scope: Scope::All, until: 4_000_000_000 }];
    site.server.switch(Switches { pauses: Vec::new(), grants }).unwrap();
    let known = [
        cname("www.shop.example.", "tracker.example."),
        cname("else.example.", "shop.example."),
        cname("shop.example.", "tracker.example."),
        a("tracker.example.", [192, 0, 2, 1]),
    ];
    let blocked = "NOERROR 30 0.0.0.0 [17 list l]";
    site.check(
        &known,
        &[
            ("www.shop.example.", Rtype::A, "NOERROR 300 tracker.example. 300 192.0.2.1"),
            ("tracker.example.", Rtype::A, blocked),
            ("else.example.", Rtype::A, blocked),
        ],
    );
}
