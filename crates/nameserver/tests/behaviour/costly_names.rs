//! Names for which lists take more work than a query may cost.

use crate::asked;

use std::net::SocketAddr;
use std::path::PathBuf;

use avocet_nameserver::InProcess;
use avocet_policy::rule::{Pause, Scope, Switches};
use avocet_wire::Rtype;

use asked::{ask, wire};

/// 2026-11-21, a Saturday, 12:00 in UTC.
const NOON: u64 = 1_795_262_400;
const CLIENT: [u8; 4] = [10, 0, 0, 1];
const A: Rtype = Rtype::A;
const BLOCKED: &str = "NOERROR [15 the lists take too much work for this name]";
const OPEN: &str = "NOERROR 300 192.0.2.7";

/// A name that an expression of the list "ads" matches after expressions that take all steps.
fn costly() -> String {
    let label = "a".repeat(60);
    format!("{label}.{label}.{label}.evilx.example.")
}

/// Starts a server with costly expressions, the list "ads", and this policy. All names have an
/// address, and `www.example` is an alias of the costly name.
fn start(test: &str, policy: &str) -> (InProcess, PathBuf) {
    let directory =
        std::env::temp_dir().join(format!("avocet-costly-{test}-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let list = |name: &str, text: &str| {
        let path = directory.join(name);
        std::fs::write(&path, text).unwrap();
        format!(
            "[[list]]\nname = \"{name}\"\nformat = \"adblock\"\nfile = \"{}\"\n",
            path.display()
        )
    };
    let expressions: String =
        (0..80).map(|number| format!("/aaa[a-z.]{{0,{}}}[0-9]/\n", 100 + number)).collect();
    let slow = list("slow", &expressions);
    let ads = list("ads", "/evilx[.]example$/\n");
    let head = "[resolver]\nmode = \"forward\"\n[[forward]]\nzone = \".\"\nupstreams = \
                [\"192.0.2.53\"]\n";
    let configuration = format!("{head}{slow}{ads}{policy}");
    let mut server = InProcess::new(&configuration, SocketAddr::from((CLIENT, 4000))).unwrap();
    server.set_wall_clock(NOON);
    for name in [&costly(), "mail.example."] {
        server.learn(&wire(name), A.0, 300, &[&[192, 0, 2, 7]]);
    }
    server.learn(&wire("www.example."), Rtype::CNAME.0, 300, &[&wire(&costly())]);
    (server, directory)
}

/// Checks the answers for the costly name, for an alias of it, and for another name.
#[track_caller]
fn check(test: &str, policy: &str, expected: [&str; 3]) {
    let (mut server, directory) = start(test, policy);
    let answers =
        [&costly(), "www.example.", "mail.example."].map(|name| ask(&mut server, CLIENT, name, A));
    assert_eq!(answers, expected, "{policy}");
    std::fs::remove_dir_all(directory).unwrap();
}

const NO_LISTS: &str = "[[group]]\nname = \"default\"\nlists = []\n";

fn rule(when: &str, action: &str) -> String {
    format!("[[rule]]\nname = \"{action}\"\nwhen = '{when}'\naction = \"{action}\"\n")
}

#[test]
fn a_name_that_lists_cannot_look_up_as_a_whole_is_blocked() {
    check("lists", "", [BLOCKED, BLOCKED, OPEN]);
    let (mut server, directory) = start("short", "");
    let listed = "NOERROR 60 0.0.0.0 [17 list ads]";
    assert_eq!(ask(&mut server, CLIENT, "www.evilx.example.", A), listed);
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn lists_of_other_groups_do_not_make_a_name_costly() {
    let plain = std::env::temp_dir().join(format!("avocet-plain-{}", std::process::id()));
    std::fs::write(&plain, "other.example\n").unwrap();
    let policy = format!(
        "[[list]]\nname = \"plain\"\nformat = \"domains\"\nfile = \"{}\"\n[[group]]\nname = \
         \"default\"\nlists = [\"plain\"]\n[[group]]\nname = \"kids\"\nlists = [\"slow\"]\n\
         [[client]]\nname = \"tablet\"\nids = [\"10.0.0.2\"]\ngroups = [\"kids\"]\n",
        plain.display()
    );
    let (mut server, directory) = start("groups", &policy);
    assert_eq!(ask(&mut server, CLIENT, &costly(), A), OPEN);
    assert_eq!(ask(&mut server, [10, 0, 0, 2], &costly(), A), BLOCKED);
    std::fs::remove_file(plain).unwrap();
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_rule_that_tests_lists_blocks_a_name_that_they_cannot_look_up_as_a_whole() {
    let block = rule("list(\"ads\")", "block");
    check("rule", &format!("{NO_LISTS}{block}"), [BLOCKED, BLOCKED, OPEN]);
    // Rules before it decide without the lists.
    let allow = rule("qname.under(\"example\")", "allow");
    let alias = &format!("NOERROR 300 {} 300 192.0.2.7", costly());
    check("allowed", &format!("{NO_LISTS}{allow}{block}"), [OPEN, alias, OPEN]);
    let not_listed = rule("!list(\"ads\")", "allow");
    // The rule decides on the question, so that the alias does not matter.
    check("inverted", &format!("{NO_LISTS}{not_listed}"), [BLOCKED, alias, OPEN]);
}

#[test]
fn a_pause_lets_a_costly_name_pass() {
    let (mut server, directory) = start("pause", &rule("list(\"ads\")", "block"));
    let pause = Pause { scope: Scope::All, until: NOON + 86_400 };
    server.switch(Switches { pauses: vec![pause], grants: Vec::new() }).unwrap();
    assert_eq!(ask(&mut server, CLIENT, &costly(), A), OPEN);
    std::fs::remove_dir_all(directory).unwrap();
}
