//! The control socket and the commands that use it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::Value;

use crate::server::{PATIENCE, Site};
use crate::upstream::{ADDRESS, Upstream};

#[test]
fn a_dump_shows_what_is_cached_and_a_flush_drops_it() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "");
    let _server = site.start();
    for name in ["www.a.example", "x.www.a.example", "other.example"] {
        site.ask(name);
    }
    assert_eq!(upstream.asked().len(), 3);

    let dump = site.avocet_text(&["cache", "dump"]);
    let has = |text: &str, start: &str, end: &str| {
        text.lines().any(|line| line.starts_with(start) && line.ends_with(end))
    };
    assert!(has(&dump, "www.a.example. ", " IN A 192.0.2.77"), "{dump}");
    assert!(has(&dump, "; answer www.a.example. ", " IN A NOERROR RD"), "{dump}");
    assert!(dump.ends_with("; 3 RRsets and negative answers, 3 responses\n"), "{dump}");
    for line in site.avocet_text(&["cache", "dump", "--json"]).lines() {
        serde_json::from_str::<Value>(line).unwrap();
    }

    assert_eq!(
        site.avocet_text(&["cache", "flush", "WWW.a.example"]),
        "removed 1 RRsets and negative answers\n"
    );
    for name in ["www.a.example", "x.www.a.example", "other.example"] {
        site.ask(name);
    }
    assert_eq!(upstream.asked(), ["www.a.example."]);

    assert_eq!(
        site.avocet_text(&["cache", "flush-tree", "a.example."]),
        "removed 2 RRsets and negative answers\n"
    );
    for name in ["www.a.example", "x.www.a.example", "other.example"] {
        site.ask(name);
    }
    assert_eq!(upstream.asked(), ["www.a.example.", "x.www.a.example."]);
}

#[test]
fn stats_count_entries_hits_and_misses() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "");
    let _server = site.start();
    for _ in 0..3 {
        site.ask("a.example");
    }
    let stats = site.avocet_text(&["cache", "stats"]);
    for line in [
        "packet-cache.entries 1",
        "packet-cache.hits 2",
        "rrset-cache.entries 1",
        "packet-cache.bytes-limit 67108864",
    ] {
        assert!(stats.lines().any(|found| found == line), "{line} in:\n{stats}");
    }
    let json: Value =
        serde_json::from_str(&site.avocet_text(&["cache", "stats", "--json"])).unwrap();
    assert_eq!(json["packet-cache"]["hits"], 2);
}

#[test]
fn only_the_owner_may_connect_and_nonsense_is_declined() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "");
    let _server = site.start();
    let socket = site.data().join("control.sock");
    assert_eq!(socket.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let long = vec![b'x'; 512 << 10];
    for request in [
        &b"\n"[..],
        b"stats\n",
        b"{\"command\":\"stats\"} x\n",
        b"{\"command\":\"no-such\"}\n",
        &long,
    ] {
        let lines = site.control_lines(request);
        assert_eq!(lines.len(), 1);
        assert!(lines[0]["error"].as_str().unwrap().starts_with("not a request"), "{lines:?}");
    }
    let client = site.avocet(&["cache", "flush", "a..b"]);
    assert_eq!(client.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&client.stderr).contains("\"a..b\" is not a name"));
}

#[test]
fn negative_trust_anchors_are_set_kept_over_a_restart_and_removed() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "");
    let server = site.start();
    assert_eq!(site.avocet_text(&["nta", "list"]), "; everything is validated\n");
    let added = site.avocet_text(&["nta", "add", "Broken.example", "--for", "2d"]);
    assert!(added.starts_with("validation of broken.example. is off for "), "{added}");
    server.stop();
    let _server = site.start();
    let listed = site.avocet_text(&["nta", "list"]);
    assert!(listed.starts_with("broken.example. for "), "{listed}");
    assert_eq!(
        site.avocet_text(&["nta", "remove", "broken.example"]),
        "validation of broken.example. is on again\n"
    );
    assert_eq!(site.avocet_text(&["nta", "list"]), "; everything is validated\n");
    for (arguments, error) in [
        (&["nta", "remove", "broken.example"][..], "has no negative trust anchor"),
        (&["nta", "add", "a..b"], "is not a name"),
    ] {
        let client = site.avocet(arguments);
        assert_eq!(client.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&client.stderr).contains(error), "{client:?}");
    }
}

#[test]
fn trust_anchors_are_shown() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "");
    let _server = site.start();
    let shown = site.avocet_text(&["anchors"]);
    assert_eq!(shown, ". 20326 configured\n. 38696 configured\n; nothing is validated\n");
    let json: Value = serde_json::from_str(&site.avocet_text(&["anchors", "--json"])).unwrap();
    assert_eq!(json["anchors"][1]["tag"], 38696);
}

#[test]
fn a_command_without_a_server_says_so() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "");
    for arguments in [&["cache", "stats"][..], &["reload"]] {
        let client = site.avocet(arguments);
        assert_eq!(client.status.code(), Some(1));
        let expected = format!(
            "avocet: no avocet is running with data directory {}, which does not exist; a running \
             server keeps its data directory until it restarts\n",
            site.data().display()
        );
        assert_eq!(String::from_utf8_lossy(&client.stderr), expected);
    }
}

#[test]
fn status_is_a_page_with_what_is_wrong_at_its_end() {
    let (site, upstream) = (Site::new(), Upstream::start());
    let list = site.directory.join("ads.txt");
    fs::write(&list, "ads.example\n").unwrap();
    let tables = format!(
        "[[list]]\nname = \"ads\"\nfile = \"{}\"\n[[list]]\nname = \"gone\"\nfile = \"{}.gone\"\n",
        list.display(),
        list.display()
    );
    site.configure(upstream.addr, "", &tables);
    let _server = site.start();
    for name in ["ads.example", "ads.example", "www.example"] {
        site.ask(name);
    }
    let text = site.avocet_text(&["status"]);
    for part in [
        ", running with 1 warning, up ",
        " s (since 20",
        &format!(" UTC), by {}\n", site.file().display()),
        "mode forward\n",
        "3 queries: ",
        "blocked 2 (66.7 %)",
        "\nlist ads: 1 entry\n",
        "\nlist gone: not in force\n",
        &format!("\nupstream udp://{}: asked, ", upstream.addr),
        "\nwarning: the list gone is not in force; ",
    ] {
        assert!(text.contains(part), "{part:?} in:\n{text}");
    }
    let json: Value = serde_json::from_str(&site.avocet_text(&["status", "--json"])).unwrap();
    assert_eq!((&json["queries"]["all"], &json["queries"]["blocked"]), (&3.into(), &2.into()));
    assert_eq!(json["warnings"].as_array().unwrap().len(), 1, "{json}");
}

#[test]
fn a_reader_that_closes_the_pipe_ends_a_command_without_a_word() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "");
    let _server = site.start();
    site.ask("www.example");
    let file = site.file().display().to_string();
    let server = site.dns.to_string();
    let commands: [&[&str]; 9] = [
        &["cache", "dump", "--config", &file],
        &["cache", "stats", "--config", &file],
        &["status", "--config", &file],
        &["why", "www.example", "--config", &file],
        &["query", "www.example", "--config", &file],
        &["config", "show", &file],
        &["config", "schema"],
        &["policy", "services"],
        &["load", &server, "--zone-name", "example.", "--duration", "100ms", "--json", "-"],
    ];
    for arguments in commands {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = Command::new(env!("CARGO_BIN_EXE_avocet"))
            .args(arguments)
            .stdout(writer)
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(
            !told.contains("panicked") && !told.contains("Broken pipe"),
            "{arguments:?}: {told}"
        );
        assert!(
            arguments[0] == "load" || output.status.success() && told.is_empty(),
            "{arguments:?}: {told}"
        );
    }
}

#[test]
fn grants_of_several_clients_at_once_are_all_in_force() {
    const CLIENTS: usize = 6;
    const EACH: usize = 10;
    let (site, upstream) = (Site::new(), Upstream::start());
    let list = site.directory.join("ads.txt");
    fs::write(&list, "ads.example\n").unwrap();
    site.configure(
        upstream.addr,
        "",
        &format!("[[list]]\nname = \"ads\"\nfile = \"{}\"\n", list.display()),
    );
    let _server = site.start();
    let grant = |client: usize| {
        for number in 0..EACH {
            let name = format!("c{client}n{number}.example");
            let request = format!("{{\"command\":\"grant\",\"name\":\"{name}\",\"secs\":3600}}\n");
            let answer = site.control_lines(request.as_bytes());
            assert_eq!(answer[0]["done"], true, "{answer:?}");
        }
    };
    std::thread::scope(|scope| {
        (0..CLIENTS).for_each(|client| drop(scope.spawn(move || grant(client))))
    });
    let status = site.control_lines(b"{\"command\":\"switches\"}\n");
    assert_eq!(status[0]["grants"].as_array().map(Vec::len), Some(CLIENTS * EACH), "{status:?}");
}

#[test]
fn a_grant_of_all_names_below_a_name_includes_that_name() {
    let (site, upstream) = (Site::new(), Upstream::start());
    let list = site.directory.join("ads.txt");
    fs::write(&list, "||x.example^\n").unwrap();
    let list = format!("[[list]]\nname = \"ads\"\nfile = \"{}\"\n", list.display());
    site.configure(upstream.addr, "", &list);
    let _server = site.start();
    let given = || ["x.example", "www.x.example"].map(|name| site.ask(name).0);
    assert_eq!(given(), [[0; 4]; 2], "blocked with the null address");
    site.avocet_text(&["grant", "*.x.example", "--for", "1h"]);
    assert_eq!(given(), [ADDRESS; 2]);
}

#[test]
fn many_clients_at_once_all_get_their_reply() {
    const CLIENTS: usize = 80;
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "");
    let _server = site.start();
    let mut silent = Vec::new();
    silent.resize_with(60, || site.control());
    let ask = || {
        let answer = site.control_lines(b"{\"command\":\"status\"}\n");
        assert_eq!(answer[0]["done"], true, "{answer:?}");
    };
    std::thread::scope(|scope| (0..CLIENTS).for_each(|_| drop(scope.spawn(ask))));
}

#[test]
fn an_error_has_a_code_and_the_next_step() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "[policy]\nblock-private = true\n");
    let _server = site.start();
    for (request, code, next) in [
        ("{\"command\":\"lists-check\",\"name\":\"x\"}", "not-found", Value::Null),
        (
            "{\"command\":\"why\",\"name\":\"a\",\"client\":\"x\"}",
            "not-found",
            "give --client an address or the name of a [[client]]".into(),
        ),
        ("{\"command\":\"no-such\"}", "not-a-request", Value::Null),
    ] {
        let answer = site.control_lines(format!("{request}\n").as_bytes());
        assert_eq!((&answer[0]["code"], &answer[0]["next"]), (&code.into(), &next), "{answer:?}");
    }
}

#[test]
fn a_control_client_waits_where_no_descriptor_is_left() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "tcp-connections = 10\nworkers = 1", "");
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "ulimit -n 200; exec \"$0\" serve --config \"$1\"",
        env!("CARGO_BIN_EXE_avocet"),
    ]);
    let mut server = crate::server::Server::start({
        command.arg(site.file());
        command
    });
    // All threads have begun: one that lacks a descriptor at the start ends the server.
    site.avocet_text(&["status"]);
    // The process's own limit is lowered to what it has open, as if all were taken.
    let pid = server.id().to_string();
    let limit = |count: usize| {
        let arguments = ["--pid".to_owned(), pid.clone(), format!("--nofile={count}:200")];
        Command::new("prlimit").args(arguments).status().is_ok_and(|status| status.success())
    };
    if !limit(3) {
        println!("passed over: there is no prlimit");
        return;
    }
    let mut waiting = site.control();
    std::io::Write::write_all(&mut waiting, b"{\"command\":\"stats\"}\n").unwrap();
    let limited = server.wait_for_line("cannot accept control clients");
    assert!(limited.contains("WARN"), "{limited}");
    assert!(main_thread_share(&server) < 0.2);
    assert!(limit(200));
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut waiting, &mut answer).unwrap();
    assert!(answer.contains("\"done\":true"), "{answer}");
    let log = server.stop();
    let limited = log.iter().filter(|line| line.contains("cannot accept control clients")).count();
    assert_eq!(limited, 1, "a failure that lasts is logged once");
}

#[test]
fn control_clients_beyond_the_limit_do_not_keep_the_main_thread_busy() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "");
    let server = site.start();
    let silent: Vec<_> = (0..70).map(|_| site.control()).collect();
    assert!(main_thread_share(&server) < 0.2);
    drop(silent);
    assert!(site.avocet_text(&["status"]).contains("queries"));
}

/// Returns the share of half a second for which the main thread of a server uses a core.
fn main_thread_share(server: &crate::server::Server) -> f64 {
    let used_nanos = || -> f64 {
        let path = format!("/proc/{0}/task/{0}/schedstat", server.id());
        let text = fs::read_to_string(path).unwrap();
        text.split_whitespace().next().unwrap().parse().unwrap()
    };
    let (began, before) = (std::time::Instant::now(), used_nanos());
    assert!(before > 0.0, "the kernel does not count the time of threads");
    std::thread::park_timeout(std::time::Duration::from_millis(500));
    (used_nanos() - before) / began.elapsed().as_nanos() as f64
}

#[test]
fn an_ended_pause_leaves_the_file() {
    let (site, upstream) = (Site::new(), Upstream::start());
    let rule =
        "[[rule]]\nname = \"games\"\nwhen = 'qname.under(\"game.example\")'\naction = \"block\"\n";
    site.configure(upstream.addr, "", rule);
    let _server = site.start();
    site.avocet_text(&["pause", "--for", "1s"]);
    let began = std::time::Instant::now();
    while fs::read_to_string(site.data().join("switches.json")).unwrap().contains("until") {
        assert!(began.elapsed() < PATIENCE);
        std::thread::park_timeout(std::time::Duration::from_millis(20));
    }
}

#[test]
fn pauses_and_grants_are_shown_with_the_time_left() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "[policy]\nblock-private = true\n");
    let _server = site.start();
    // The whole minutes left are one less as soon as a second has passed.
    let check = |text: String| {
        let is_left = ["46 min left", "45 min left"].iter().any(|left| text.contains(left));
        assert!(is_left, "{text}");
    };
    check(site.avocet_text(&["pause", "--for", "46m"]));
    check(site.avocet_text(&["policy", "status"]));
    check(site.avocet_text(&["grant", "x.example", "--for", "46m"]));
    site.avocet_text(&["pause", "--end"]);
    check(site.avocet_text(&["policy", "status"]));
}

#[test]
fn a_pause_for_an_address_needs_no_table() {
    let (site, upstream) = (Site::new(), Upstream::start());
    let rule =
        "[[rule]]\nname = \"games\"\nwhen = 'qname.under(\"game.example\")'\naction = \"block\"\n";
    site.configure(upstream.addr, "", rule);
    let server = site.start();
    let blocked = [0; 4];
    site.avocet_text(&["pause", "--client", "192.0.2.7"]);
    assert_eq!(site.ask("game.example").0, blocked);
    assert!(
        site.avocet_text(&["pause", "--client", "127.0.0.1"])
            .contains("paused for address 127.0.0.1, ")
    );
    assert_eq!(site.ask("game.example").0, ADDRESS);
    server.stop();
    // With a table for the address, the scope differs, but the pause is still found.
    site.configure(
        upstream.addr,
        "",
        &format!("{rule}[[client]]\nname = \"here\"\nids = [\"127.0.0.1\"]\n"),
    );
    let _server = site.start();
    assert_eq!(site.ask("game.example").0, ADDRESS);
    site.avocet_text(&["pause", "--end", "--client", "127.0.0.1"]);
    assert_eq!(site.ask("game.example").0, blocked);
    assert!(
        site.avocet_text(&["pause", "--client", "127.0.0.1"]).contains("paused for client here")
    );
}

#[test]
fn numbers_of_the_control_socket_have_bounds() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "[policy]\nblock-private = true\n");
    let _server = site.start();
    let most = u64::MAX;
    for (request, error) in [
        (format!("{{\"command\":\"pause\",\"secs\":{most}}}"), "expected 1 to 31536000 seconds"),
        (
            "{\"command\":\"grant\",\"name\":\"a\",\"secs\":31536001}".to_owned(),
            "expected 1 to 31536000 seconds",
        ),
        (
            format!("{{\"command\":\"nta-add\",\"name\":\"a\",\"secs\":{most}}}"),
            "expected 1 to 604800 seconds",
        ),
        (
            "{\"command\":\"nta-add\",\"name\":\"a\",\"secs\":0}".to_owned(),
            "expected 1 to 604800 seconds",
        ),
        ("{\"command\":\"pause\",\"secs\":-1}".to_owned(), "not a request"),
        ("{\"command\":\"pause\",\"secs\":1e3}".to_owned(), "not a request"),
    ] {
        let answer = site.control_lines(format!("{request}\n").as_bytes());
        assert!(
            answer[0]["error"].as_str().is_some_and(|said| said.contains(error)),
            "{request}: {answer:?}"
        );
    }
    for at in [0, u64::from(u32::MAX), i64::MAX as u64, most] {
        let request = format!("{{\"command\":\"why\",\"name\":\"localhost\",\"at\":{at}}}\n");
        let answer = site.control_lines(request.as_bytes());
        assert_eq!(answer.last().unwrap()["done"], true, "{answer:?}");
    }
}
