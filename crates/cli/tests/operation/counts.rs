//! The match counts of rules and lists in metrics and in `avocet policy status`.

use crate::server::Site;
use crate::upstream::{ADDRESS, Upstream};

/// The address in responses to blocked questions.
const BLOCKED: [u8; 4] = [0; 4];

const POLICY: &str = r#"
[policy]
block-answer = "zero"

[[list]]
name = "ads"
file = "LIST"

[[rule]]
name = "games"
when = 'qname.under("game.example")'
action = "block"

[[rule]]
name = "shadow"
when = 'qname.under("shadow.example")'
action = "block"
log-only = true

[[rule]]
name = "marked"
when = 'qname.under("marked.example")'
action = "tag"
tag = "mark"

[[rule]]
name = "slow"
when = 'qname.under("slow.example")'
action = "rate-limit"
rps = 1
burst = 2
over = "truncate"
"#;

fn site(upstream: &Upstream) -> Site {
    let site = Site::new();
    let list = site.directory.join("ads.txt");
    std::fs::write(&list, "ads.example\n").unwrap();
    site.configure(
        upstream.addr,
        "workers = 2",
        &POLICY.replace("LIST", &list.display().to_string()),
    );
    site
}

#[test]
fn rules_and_lists_are_counted_by_name_over_reloads() {
    let upstream = Upstream::start();
    let site = site(&upstream);
    let _server = site.start();
    for _ in 0..5 {
        assert_eq!(site.ask("a.game.example").0, BLOCKED);
        assert_eq!(site.ask("ads.example").0, BLOCKED);
        assert_eq!(site.ask("b.shadow.example").0, ADDRESS);
        assert_eq!(site.ask("c.marked.example").0, ADDRESS);
    }
    let rule = |name: &str, mode: &str| {
        site.metric(&format!("avocet_policy_rule_hits_total{{rule=\"{name}\",mode=\"{mode}\"}}"))
    };
    assert_eq!((rule("games", "in-force"), rule("shadow", "log-only")), (5.0, 5.0));
    assert!(rule("marked", "in-force") >= 1.0, "what is cached is not asked about again");
    assert_eq!(site.metric("avocet_policy_list_hits_total{list=\"ads\"}"), 5.0);

    // After a change of order and of one name, the other counts continue.
    let text = std::fs::read_to_string(site.file()).unwrap();
    site.write(&text.replace("name = \"games\"", "name = \"play\"\npriority = 5"));
    site.avocet_text(&["reload"]);
    site.ask("a.game.example");
    site.ask("b.shadow.example");
    assert_eq!((rule("play", "in-force"), rule("shadow", "log-only")), (1.0, 6.0));
    let status = site.avocet_text(&["policy", "status"]);
    for line in [
        "rule shadow (block, log only): 6 matches",
        "rule play (block): 1 matches",
        "list ads: 5 responses",
    ] {
        assert!(status.contains(line), "{status}");
    }
}

#[test]
fn an_explanation_shows_the_word_of_a_tag() {
    let upstream = Upstream::start();
    let site = site(&upstream);
    let _server = site.start();
    let why = site.avocet_text(&["why", "x.marked.example"]);
    let line = "rule marked holds: qname.under(\"marked.example\")  ; tag mark";
    assert!(why.contains(line), "{why}");
}

#[test]
fn an_explanation_takes_no_token_of_a_client() {
    let upstream = Upstream::start();
    let site = site(&upstream);
    let _server = site.start();
    let why = || site.avocet_text(&["why", "x.slow.example", "--client", "127.0.0.1"]);
    for _ in 0..4 {
        assert!(why().contains("The policy: passes"), "{}", why());
    }
    assert_eq!(site.ask("x.slow.example").0, ADDRESS);
    assert_eq!(site.metric("avocet_policy_rule_hits_total{rule=\"slow\",mode=\"in-force\"}"), 1.0);
}

#[test]
fn a_policy_zone_is_counted_for_whatever_it_does() {
    let (site, upstream) = (Site::new(), Upstream::start());
    let zone = site.directory.join("threats.zone");
    let text = "$TTL 30\n@ SOA a. b. 1 2 3 4 5\nblocked.example CNAME .\ntcp.example CNAME rpz-tcp-only.\n\
                moved.example CNAME walled.example.\nfine.example CNAME rpz-passthru.\n";
    std::fs::write(&zone, text).unwrap();
    let list =
        format!("[[list]]\nname = \"threats\"\nformat = \"rpz\"\nfile = \"{}\"\n", zone.display());
    site.configure(upstream.addr, "workers = 2", &list);
    let _server = site.start();
    for _ in 0..3 {
        assert_eq!(site.ask_any("blocked.example").0 & 0xf, 3, "NXDOMAIN");
        assert_eq!(site.ask_any("tcp.example").0 & 0x200, 0x200, "TC");
        assert_eq!(site.ask_any("moved.example").1, 2, "alias and address");
        assert_eq!(site.ask("fine.example").0, ADDRESS);
        crate::server::ask_over_tcp(site.dns, "tcp.example");
    }
    assert_eq!(site.metric("avocet_policy_list_hits_total{list=\"threats\"}"), 9.0);
}
