//! Zones that only some clients see: each client gets its zones, and no cache gives an answer of
//! one view to a client of another view.

use crate::asked;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use asked::{Over, ask, ask_over, wire};
use avocet_nameserver::InProcess;
use avocet_policy::client::Neighbour;
use avocet_wire::Rtype;

const OFFICE: [u8; 4] = [10, 0, 0, 1];
const BOTH: [u8; 4] = [10, 0, 0, 2];
const GUEST: [u8; 4] = [10, 0, 9, 1];
const NETWORK: [u8; 4] = [10, 7, 0, 1];
const NOBODY: [u8; 4] = [10, 0, 200, 1];

const GROUPS: &str = "[[forward]]\nzone = \".\"\nupstreams = [\"192.0.2.53\"]\n\
    [[client]]\nname = \"both\"\nids = [\"10.0.0.2\"]\ngroups = [\"office\", \"guests\"]\n\
    [[group]]\nname = \"office\"\nclients = [\"10.0.0.1\"]\n\
    [[group]]\nname = \"guests\"\nclients = [\"10.0.9.0/24\"]\n";

/// Zone files that are deleted in the end.
struct ZoneFiles {
    directory: PathBuf,
    tables: String,
}

impl ZoneFiles {
    fn new(test: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("avocet-{test}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        Self { directory, tables: String::new() }
    }

    /// Adds a zone with the address of `www` and further records.
    fn with(mut self, name: &str, view: &str, records: &str) -> Self {
        let file = self.directory.join(format!("{}.zone", self.tables.len()));
        fs::write(&file, format!("$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns.other.\n{records}\n"))
            .unwrap();
        let view = if view.is_empty() { String::new() } else { format!("view = [{view}]\n") };
        self.tables += &format!("[[zone]]\nname = \"{name}\"\nfile = {file:?}\n{view}");
        self
    }

    fn server(&self, rest: &str) -> InProcess {
        let text = format!("{GROUPS}{rest}\n{}", self.tables);
        InProcess::new(&text, (OFFICE, 4000).into()).unwrap()
    }
}

impl Drop for ZoneFiles {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn a_of(server: &mut InProcess, client: [u8; 4], name: &str) -> String {
    let udp = ask(server, client, name, Rtype::A);
    assert_eq!(udp, ask_over(Over::Tcp, server, (client, name, Rtype::A)), "{name}");
    udp
}

#[test]
fn clients_see_the_zone_of_their_view_or_the_common_one() {
    let files = ZoneFiles::new("views")
        .with("corp.example", "", "www A 192.0.2.1\nonly A 192.0.2.9")
        .with("corp.example", "\"office\"", "www A 10.0.0.10")
        .with("corp.example", "\"guests\", \"10.7.0.0/16\"", "www A 10.0.0.20");
    let mut server = files.server("");
    for (client, expected) in [
        (OFFICE, "NOERROR 60 10.0.0.10"),
        (GUEST, "NOERROR 60 10.0.0.20"),
        (NETWORK, "NOERROR 60 10.0.0.20"),
        (NOBODY, "NOERROR 60 192.0.2.1"),
        // The first zone of the file.
        (BOTH, "NOERROR 60 10.0.0.10"),
    ] {
        assert_eq!(a_of(&mut server, client, "www.corp.example."), expected, "{client:?}");
    }
    assert_eq!(a_of(&mut server, NOBODY, "only.corp.example."), "NOERROR 60 192.0.2.9");
    // The zones of a name are not merged.
    assert_eq!(a_of(&mut server, OFFICE, "only.corp.example."), "NXDOMAIN");
}

#[test]
fn the_order_of_the_file_decides_for_clients_of_two_views() {
    let files = ZoneFiles::new("order-of-views")
        .with("corp.example", "\"guests\"", "www A 10.0.0.20")
        .with("corp.example", "\"office\"", "www A 10.0.0.10")
        // Each name has its own order.
        .with("lab.example", "\"office\"", "www A 10.0.0.11")
        .with("lab.example", "\"guests\"", "www A 10.0.0.21");
    let mut server = files.server("");
    assert_eq!(a_of(&mut server, BOTH, "www.corp.example."), "NOERROR 60 10.0.0.20");
    assert_eq!(a_of(&mut server, BOTH, "www.lab.example."), "NOERROR 60 10.0.0.11");
}

#[test]
fn a_name_that_is_resolved_for_some_is_never_taken_from_a_cache_for_those_of_a_view() {
    let files = ZoneFiles::new("caches").with(
        "corp.example",
        "\"office\"",
        "www A 10.0.0.10\nout CNAME www.elsewhere.example.",
    );
    let mut server = files.server("");
    let www = "www.corp.example.";
    assert_eq!(a_of(&mut server, OFFICE, www), "NOERROR 60 10.0.0.10");
    // No zone has this name for a guest, so it is resolved and cached.
    assert_eq!(ask(&mut server, GUEST, www, Rtype::A), "nothing");
    server.learn(&wire(www), Rtype::A.0, 300, &[&[203, 0, 113, 7]]);
    for _ in 0..2 {
        assert_eq!(a_of(&mut server, GUEST, www), "NOERROR 300 203.0.113.7");
        assert_eq!(a_of(&mut server, NOBODY, www), "NOERROR 300 203.0.113.7");
        assert_eq!(a_of(&mut server, OFFICE, www), "NOERROR 60 10.0.0.10");
    }
    // An alias of a view leads to a name in the shared cache. The alias itself is not in that
    // cache.
    let out = "out.corp.example.";
    server.learn(&wire("www.elsewhere.example."), Rtype::A.0, 300, &[&[198, 51, 100, 1]]);
    let through = "NOERROR 60 www.elsewhere.example. 300 198.51.100.1";
    assert_eq!(a_of(&mut server, OFFICE, out), through);
    assert_eq!(ask(&mut server, GUEST, out, Rtype::A), "nothing");
    let kept = server.kept();
    assert!(kept.iter().any(|question| question.starts_with(&wire(www))), "{kept:?}");
    assert!(kept.iter().all(|question| !question.starts_with(&wire(out))), "{kept:?}");
}

#[test]
fn a_reload_that_adds_moves_or_removes_a_view_ends_earlier_answers() {
    let files = ZoneFiles::new("reloads").with("other.example", "", "www A 192.0.2.1");
    let mut server = files.server("");
    let www = "www.corp.example.";
    assert_eq!(ask(&mut server, OFFICE, www, Rtype::A), "nothing");
    server.learn(&wire(www), Rtype::A.0, 300, &[&[203, 0, 113, 7]]);
    assert_eq!(a_of(&mut server, OFFICE, www), "NOERROR 300 203.0.113.7");
    assert_eq!(a_of(&mut server, GUEST, www), "NOERROR 300 203.0.113.7");
    let corp = |view: &str| ZoneFiles::new("added").with("corp.example", view, "www A 10.0.0.10");
    let (hosted, resolved) = ("NOERROR 60 10.0.0.10", "NOERROR 300 203.0.113.7");
    for (view, of_office, of_guest) in [
        ("\"office\"", hosted, resolved),
        ("\"guests\"", resolved, hosted),
        ("\"office\", \"guests\"", hosted, hosted),
        ("", hosted, hosted),
        ("\"guests\"", resolved, hosted),
    ] {
        let files = corp(view);
        server.reload(&format!("{GROUPS}{}", files.tables)).unwrap();
        assert_eq!(a_of(&mut server, OFFICE, www), of_office, "{view}");
        assert_eq!(a_of(&mut server, GUEST, www), of_guest, "{view}");
    }
}

#[test]
fn the_zones_of_views_are_made_again_only_if_something_about_them_changes() {
    let files = ZoneFiles::new("shared-views")
        .with("corp.example", "\"office\"", "www A 10.0.0.10")
        .with("corp.example", "\"guests\"", "www A 10.0.0.20");
    let text = format!("{GROUPS}{}", files.tables);
    let mut server = files.server("");
    let sets = |server: &InProcess| {
        let views = server.state().views.clone().unwrap();
        std::ptr::from_ref(views.of_profile(0).unwrap())
    };
    let first = sets(&server);
    server.rotate_cookie_secret([9; 16]).unwrap();
    assert_eq!(sets(&server), first);
    // Another policy with the same clients.
    let policy = server.state().policy.clone().unwrap();
    let phone = Neighbour { address: GUEST.into(), mac: None, name: Some("phone".to_owned()) };
    server.meet(&[phone]).unwrap();
    assert!(!Arc::ptr_eq(&policy, server.state().policy.as_ref().unwrap()));
    assert_eq!(sets(&server), first);
    // One with other clients, other views, and other zones.
    let kept = server.state().clone();
    let group = text.replace("10.0.0.1\"]", "10.0.0.3\"]");
    let view = text.replace("view = [\"guests\"]", "view = [\"guests\", \"default\"]");
    let before = sets(&server);
    server.reload(&group).unwrap();
    assert_eq!(a_of(&mut server, [10, 0, 0, 3], "www.corp.example."), "NOERROR 60 10.0.0.10");
    server.reload(&view).unwrap();
    assert_ne!(sets(&server), before);
    assert_eq!(a_of(&mut server, NOBODY, "www.corp.example."), "NOERROR 60 10.0.0.20");
    let (kept, before) = ([kept, server.state().clone()], sets(&server));
    let file = files.directory.join("0.zone");
    fs::write(file, "$TTL 60\n@ SOA ns h 2 2 3 4 5\n@ NS ns.other.\nwww A 10.0.0.11\n").unwrap();
    server.reload(&view).unwrap();
    assert_ne!(sets(&server), before);
    assert_eq!(a_of(&mut server, OFFICE, "www.corp.example."), "NOERROR 60 10.0.0.11");
    drop(kept);
}
