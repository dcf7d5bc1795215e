//! Listeners with names: rules that test them, access lists of their own, reload and take-over.

use std::net::SocketAddr;

use crate::server::{Server, Site, ask, ask_over_tcp, free_address, query, udp_client};
use crate::upstream::{ADDRESS, Upstream};

/// The address of a blocked name.
const BLOCKED: [u8; 4] = [0; 4];
/// RCODE of a client that is not allowed.
const REFUSED: u8 = 5;

fn listener(name: &str, listen: SocketAddr, rest: &str) -> String {
    format!("[[listener]]\nname = \"{name}\"\nlisten = [\"{listen}\"]\n{rest}\n")
}

/// A rule that blocks names at a listener.
fn rule(listener: &str) -> String {
    format!(
        "[[rule]]\nname = \"guests\"\nwhen = '''client.listener == \"{listener}\" && \
         qname.under(\"secret.example\")'''\naction = \"block\"\n"
    )
}

/// The answers for a name that only guests must not see, at both addresses, over UDP and TCP.
#[track_caller]
fn check_both(site: &Site, guest: SocketAddr, name: &str) {
    for id in 0..2 {
        assert_eq!(ask(site.dns, id, name).0, ADDRESS);
        assert_eq!(ask(guest, id, name).0, BLOCKED);
        assert_eq!(ask_over_tcp(site.dns, name).0, ADDRESS);
        assert_eq!(ask_over_tcp(guest, name).0, BLOCKED);
    }
}

fn rcode(dns: SocketAddr) -> u8 {
    let socket = udp_client();
    socket.send_to(&query(9, "www.example"), dns).unwrap();
    let mut reply = [0; 512];
    socket.recv(&mut reply).unwrap();
    reply[3] & 0x0f
}

#[test]
fn a_rule_tests_the_listener_over_udp_and_tcp_and_in_the_cache() {
    let (site, upstream, guest) = (Site::new(), Upstream::start(), free_address());
    let rest = [listener("guest", guest, ""), rule("guest")].concat();
    site.configure(upstream.addr, "workers = 2", &rest);
    let server = site.start();
    // The first client of this name is blocked, and the next one is not.
    assert_eq!(ask(guest, 1, "a.secret.example").0, BLOCKED);
    for name in ["a.secret.example", "b.secret.example"] {
        check_both(&site, guest, name);
    }
    assert_eq!(ask(guest, 1, "www.example").0, ADDRESS);

    let mut command = site.serve();
    command.arg("--take-over");
    let successor = Server::start(command);
    let log = server.wait().1;
    assert!(!log.iter().any(|line| line.contains("panicked")), "{log:?}");
    check_both(&site, guest, "c.secret.example");
    successor.stop();
}

#[test]
fn why_takes_the_name_of_a_listener() {
    let (site, upstream, guest) = (Site::new(), Upstream::start(), free_address());
    let rest = [listener("guest", guest, ""), rule("guest")].concat();
    site.configure(upstream.addr, "", &rest);
    let _server = site.start();
    let text = site.avocet_text(&["why", "secret.example", "--listener", "guest"]);
    assert!(text.contains("guests") && text.contains(" IN A 0.0.0.0\n"), "{text}");
    let text = site.avocet_text(&["why", "secret.example"]);
    assert!(text.contains(" IN A 192.0.2.77\n"), "{text}");
    let output = site.avocet(&["why", "secret.example", "--listener", "guests"]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("there is no listener `guests`"), "{message}");

    let condition = "client.listener == \"guest\"";
    let test = ["policy", "test", condition, "--name", "secret.example", "--listener"];
    let yes = site.avocet_text(&[&test[..], &["guest"]].concat());
    let no = site.avocet_text(&[&test[..], &["lan"]].concat());
    assert_ne!(yes, no);
}

#[test]
fn a_listener_has_its_own_access_list() {
    let (site, upstream) = (Site::new(), Upstream::start());
    let (open, closed) = (free_address(), free_address());
    let rest = [
        listener("open", open, "allow = [\"127.0.0.0/8\"]"),
        listener("closed", closed, "allow = []"),
    ]
    .concat();
    site.configure(upstream.addr, "allow = [\"203.0.113.0/24\"]", &rest);
    let _server = site.start();
    assert_eq!([site.dns, open, closed].map(rcode), [REFUSED, 0, REFUSED]);
    assert_eq!(ask_over_tcp(open, "www.example").0, ADDRESS);
}

#[test]
fn names_and_access_change_at_a_reload_and_addresses_at_a_restart() {
    let (site, upstream) = (Site::new(), Upstream::start());
    let (guest, other) = (free_address(), free_address());
    let write = |name: &str, listen: SocketAddr, rest: &str| {
        let rest = [listener(name, listen, rest), rule(name)].concat();
        site.configure(upstream.addr, "", &rest);
    };
    write("guest", guest, "");
    let mut server = site.start();
    assert_eq!(ask(guest, 1, "a.secret.example").0, BLOCKED);

    write("visitors", guest, "");
    server.wait_for_line("configuration reloaded");
    check_both(&site, guest, "a.secret.example");

    write("visitors", guest, "allow = []");
    server.wait_for_line("configuration reloaded");
    assert_eq!((rcode(guest), rcode(site.dns)), (REFUSED, 0));

    write("visitors", other, "");
    server.wait_for_line(&format!(
        "a restart is needed for listener; it opens {other}; it closes {guest}"
    ));
    assert_eq!((rcode(guest), rcode(site.dns)), (REFUSED, 0));
}

#[test]
fn an_address_that_waits_for_a_restart_does_not_keep_the_names_and_access_of_others() {
    let (site, upstream) = (Site::new(), Upstream::start());
    let [guest, lab, gone, moved, added] = [(); 5].map(|()| free_address());
    let before = [
        listener("guest", guest, ""),
        listener("lab", lab, ""),
        listener("gone", gone, ""),
        listener("other", moved, "allow = [\"127.0.0.0/8\"]"),
        rule("guest"),
    ];
    site.configure(upstream.addr, "", &before.concat());
    let _server = site.start();
    assert_eq!(ask(guest, 1, "a.secret.example").0, BLOCKED);
    assert_eq!([lab, gone, moved].map(rcode), [0; 3]);

    // One is renamed, one narrowed, one removed, one moved, with a narrower list.
    let after = [
        listener("visitors", guest, ""),
        listener("lab", lab, "allow = []"),
        listener("other", added, "allow = [\"127.0.0.0/30\"]"),
        rule("visitors"),
    ];
    site.configure(upstream.addr, "", &after.concat());
    let waits = format!("listener; it opens {added}; it closes {gone}, {moved}\n");
    for removed in ["2 listeners (guest, gone)", ""] {
        let text = site.avocet_text(&["reload"]);
        assert!(text.starts_with(&format!("reloaded; a restart is needed for {waits}")), "{text}");
        assert_eq!(text.contains("listeners ("), !removed.is_empty(), "{text}");
        assert!(text.contains(removed), "{text}");
    }
    assert_eq!(ask(guest, 2, "a.secret.example").0, BLOCKED);
    assert_eq!([guest, lab, gone, moved].map(rcode), [0, REFUSED, REFUSED, 0]);
    let status = site.avocet_text(&["status"]);
    assert!(status.contains(&format!("warning: a restart is pending for {waits}")), "{status}");

    // The list of the listener is now wider elsewhere, and not at the address that closes.
    let wider = [
        listener("guest", guest, ""),
        listener("lab", lab, ""),
        listener("gone", gone, ""),
        listener("other", added, "allow = [\"203.0.113.0/24\"]"),
        rule("guest"),
    ];
    site.configure(upstream.addr, "", &wider.concat());
    site.avocet_text(&["reload"]);
    assert_eq!([guest, lab, gone, moved].map(rcode), [0, 0, 0, REFUSED]);

    site.configure(upstream.addr, "", &before.concat());
    assert_eq!(site.avocet_text(&["reload"]), "reloaded\n");
    assert_eq!([guest, lab, gone, moved].map(rcode), [0; 4]);
    let status = site.avocet_text(&["status"]);
    assert!(!status.contains("pending"), "{status}");
}
