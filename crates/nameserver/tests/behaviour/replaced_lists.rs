//! Reloads that replace lists by others, until the new lists are compiled.

use crate::asked;

use std::net::SocketAddr;
use std::path::PathBuf;

use avocet_nameserver::InProcess;
use avocet_wire::Rtype;

use asked::{ask, wire};

const HEAD: &str = r#"
[resolver]
mode = "forward"

[[forward]]
zone = "."
upstreams = ["192.0.2.53"]

[policy]
block-ttl-secs = 20

[[client]]
name = "kid"
ids = ["10.0.0.9"]
groups = ["kids"]
"#;
const KID: [u8; 4] = [10, 0, 0, 9];
const PARENT: [u8; 4] = [10, 0, 0, 1];
const PASSED: &str = "NOERROR 300 192.0.2.7";

/// A server, and the directory with the texts of its lists.
struct Replaced {
    server: InProcess,
    directory: PathBuf,
}

impl Replaced {
    /// Starts a server with these lists, each with a name, additional keys and a text.
    fn start(test: &str, lists: &[(&str, &str, &str)], more: &str) -> Self {
        let directory =
            std::env::temp_dir().join(format!("avocet-replaced-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let mut configuration = format!("{HEAD}{more}");
        for (name, keys, text) in lists {
            let path = directory.join(name);
            std::fs::write(&path, text).unwrap();
            let path = path.display();
            configuration += &format!("[[list]]\nname = \"{name}\"\nfile = \"{path}\"\n{keys}\n");
        }
        let server = InProcess::new(&configuration, SocketAddr::from((PARENT, 4000))).unwrap();
        for name in ["malware.example.", "ads.example.", "good.example."] {
            server.learn(&wire(name), Rtype::A.0, 300, &[&[192, 0, 2, 7]]);
        }
        Self { server, directory }
    }

    /// Reloads the configuration with these lists, which have other sources and are not compiled
    /// yet, or are compiled already.
    fn reload(&mut self, lists: &[(&str, &str)], more: &str) {
        let list = |(name, keys): &(&str, &str)| {
            let path = self.directory.join(name);
            let path = path.display();
            format!("[[list]]\nname = \"{name}\"\nfile = \"{path}\"\n{keys}\n")
        };
        let lists: String = lists.iter().map(list).collect();
        self.server.reload_before_lists(&format!("{HEAD}{more}{lists}")).unwrap();
    }

    /// Checks the first answer, which comes from the records, and the cached one.
    #[track_caller]
    fn check(&mut self, client: [u8; 4], name: &str, expected: &str) {
        for _ in 0..2 {
            assert_eq!(ask(&mut self.server, client, name, Rtype::A), expected, "{name}");
        }
    }
}

impl Drop for Replaced {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn blocked(list: &str) -> String {
    format!("NOERROR 20 0.0.0.0 [17 list {list}]")
}

fn groups(kids: &str, default: &str) -> String {
    let group =
        |name: &str, lists: &str| format!("[[group]]\nname = \"{name}\"\nlists = [{lists}]\n");
    group("kids", kids) + &group("default", default)
}

#[test]
fn a_removed_list_blocks_until_the_list_that_replaces_it_is_compiled() {
    let text = "||malware.example^\n";
    let before = groups("\"old\"", "");
    let mut one = Replaced::start("blocks", &[("old", "", text)], &before);
    one.check(KID, "malware.example.", &blocked("old"));
    one.reload(&[("new", "")], &groups("\"new\"", "\"new\""));
    one.check(KID, "malware.example.", &blocked("new"));
    one.check(PARENT, "malware.example.", PASSED);
    one.reload(&[("other", "")], &groups("\"other\"", "\"other\""));
    one.check(KID, "malware.example.", &blocked("other"));
    one.check(PARENT, "malware.example.", PASSED);
    one.reload(&[], &groups("", ""));
    one.check(KID, "malware.example.", PASSED);
}

#[test]
fn conditions_do_not_see_a_removed_list_as_the_new_one() {
    let lists = [
        ("small", "", "||malware.example^\n"),
        ("big", "", "||malware.example^\n||ads.example^\n"),
    ];
    for action in ["\"allow\"", "\"forward\"\nto = [\"192.0.2.99\"]"] {
        let mut one = Replaced::start("conditions", &lists, &groups("", "\"small\", \"big\""));
        one.check(PARENT, "malware.example.", &blocked("small"));
        let rule = format!("[[rule]]\nname = \"r\"\nwhen = 'list(\"new\")'\naction = {action}\n");
        one.reload(&[("small", ""), ("new", "")], &(groups("", "\"small\"") + &rule));
        one.check(PARENT, "malware.example.", &blocked("small"));
        one.check(PARENT, "ads.example.", PASSED);
        // The same if the new list is in a group that used the removed list.
        one.reload(&[("small", ""), ("big", "")], &groups("", "\"small\", \"big\""));
        one.reload(&[("small", ""), ("new", "")], &(groups("", "\"small\", \"new\"") + &rule));
        one.check(PARENT, "malware.example.", &blocked("small"));
        one.check(PARENT, "ads.example.", &blocked("new"));
    }
}

#[test]
fn a_removed_allow_list_allows_nothing() {
    let allow = "kind = \"allow\"";
    let lists = [("adult", "", "||ads.example^\n"), ("old", allow, "ads.example\n")];
    let mut one = Replaced::start("allows", &lists, &groups("\"adult\"", "\"adult\", \"old\""));
    one.check(KID, "ads.example.", &blocked("adult"));
    one.check(PARENT, "ads.example.", PASSED);
    for (kids, default) in
        [("\"adult\", \"new\"", "\"adult\""), ("\"adult\"", "\"adult\", \"new\"")]
    {
        one.reload(&[("adult", ""), ("new", allow)], &groups(kids, default));
        one.check(KID, "ads.example.", &blocked("adult"));
        one.check(PARENT, "ads.example.", &blocked("adult"));
    }
}

#[test]
fn exceptions_of_a_removed_list_do_not_overrule_other_lists() {
    let exceptions = "||ads.example^\n@@||malware.example^\n||example^\n@@||good.example^\n";
    let zone = "$TTL 30\n@ SOA rpz.example. nobody.example. 1 2 3 4 5\n\
        malware.example CNAME rpz-passthru.\nads.example CNAME .\n";
    let rpz = "format = \"rpz\"";
    let small = "$TTL 30\n@ SOA rpz.example. nobody.example. 1 2 3 4 5\nmalware.example CNAME .\n";
    for (keys, old, text, expected) in [
        ("", exceptions, "||malware.example^\n", "NOERROR 20 0.0.0.0 [17 list small]"),
        (rpz, zone, small, "NXDOMAIN [17 list small, qname]"),
    ] {
        let lists = [("old", keys, old), ("small", keys, text)];
        let kids = "[[group]]\nname = \"kids\"\n";
        let mut one = Replaced::start("exceptions", &lists, kids);
        one.check(PARENT, "malware.example.", PASSED);
        one.reload(&[("new", keys), ("small", keys)], kids);
        one.check(PARENT, "malware.example.", expected);
        one.check(PARENT, "good.example.", PASSED);
        assert_ne!(ask(&mut one.server, PARENT, "ads.example.", Rtype::A), PASSED);
    }
}
