//! Reloads of the configuration by a running server.

use std::process::Command;

use crate::server::{Server, Site};
use crate::upstream::Upstream;

fn record(address: &str) -> String {
    format!("[[record]]\nname = \"host.lan\"\ntype = \"A\"\nvalues = [\"{address}\"]\n")
}

fn started(upstream: &Upstream) -> (Site, Server) {
    let site = Site::new();
    site.configure(upstream.addr, "", &record("10.0.0.1"));
    let server = site.start();
    assert_eq!(site.ask("host.lan").0, [10, 0, 0, 1]);
    (site, server)
}

#[test]
fn a_broken_file_changes_nothing_and_its_line_is_named() {
    let upstream = Upstream::start();
    let (site, mut server) = started(&upstream);
    site.configure(upstream.addr, "", "[cache]\nmin-tll-secs = 5\n");
    let broken = format!("{}:12:1: unknown key `min-tll-secs`", site.file().display());

    server.signal("HUP");
    let line = server.wait_for_line("not reloaded");
    assert!(line.contains(&broken), "{line}");

    let answer = site.control_lines(b"{\"command\":\"reload\"}\n");
    assert!(answer[0]["error"].as_str().unwrap().contains(&broken), "{answer:?}");

    let client = site.avocet(&["reload"]);
    assert_eq!(client.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&client.stderr).contains(&broken));

    assert_eq!(site.ask("host.lan").0, [10, 0, 0, 1]);
    assert!(site.metric("avocet_reloads_total{result=\"refused\"}") >= 2.0);
    assert_eq!(site.metric("avocet_reloads_total{result=\"applied\"}"), 0.0);
}

#[test]
fn a_changed_file_is_noticed_and_drops_old_answers() {
    let upstream = Upstream::start();
    let (site, mut server) = started(&upstream);
    assert_eq!(site.ask("new.lan").0, crate::upstream::ADDRESS);
    site.configure(upstream.addr, "", &record("10.0.0.2").replace("host.lan", "new.lan"));
    server.wait_for_line("configuration reloaded");
    assert_eq!(
        site.ask("new.lan").0,
        [10, 0, 0, 2],
        "the answer in the packet cache no longer holds"
    );
}

#[test]
fn a_signal_and_the_command_reload() {
    let upstream = Upstream::start();
    let (site, mut server) = started(&upstream);
    site.configure(upstream.addr, "", &record("10.0.0.3"));
    server.signal("HUP");
    server.wait_for_line("configuration reloaded");
    assert_eq!(site.ask("host.lan").0, [10, 0, 0, 3]);
    site.configure(upstream.addr, "", &record("10.0.0.4"));
    assert_eq!(site.avocet_text(&["reload"]), "reloaded\n");
    assert_eq!(site.ask("host.lan").0, [10, 0, 0, 4]);
}

#[test]
fn an_emptied_file_is_refused_and_filtering_goes_on() {
    let upstream = Upstream::start();
    let (site, mut server) = started(&upstream);
    for text in ["", " \n\n", "# [server]\n[server]\n[policy]\n"] {
        site.write_as_it_is(text);
        let mut command = Command::new(env!("CARGO_BIN_EXE_avocet"));
        command
            .arg("reload")
            .arg("--config")
            .arg(site.file())
            .env("AVOCET_DATA__DIRECTORY", site.data());
        let client = command.output().unwrap();
        let said = String::from_utf8_lossy(&client.stderr);
        assert!(
            client.status.code() == Some(1) && said.contains("has no settings any more"),
            "{said}"
        );
        server.signal("HUP");
        server.wait_for_line("not reloaded, the current one stays");
        assert_eq!(site.ask("host.lan").0, [10, 0, 0, 1]);
    }
    assert_eq!(site.metric("avocet_reloads_total{result=\"applied\"}"), 0.0);
    // A file with settings is accepted again.
    site.configure(upstream.addr, "", &record("10.0.0.9"));
    server.wait_for_line("configuration reloaded");
    assert_eq!(site.ask("host.lan").0, [10, 0, 0, 9]);
}

#[test]
fn what_a_cut_file_has_lost_is_said() {
    let upstream = Upstream::start();
    let site = Site::new();
    let rule =
        "[[rule]]\nname = \"bed\"\nwhen = 'qname.under(\"game.example\")'\naction = \"block\"\n";
    site.configure(upstream.addr, "", &format!("{}{rule}", record("10.0.0.1")));
    let mut server = site.start();
    site.configure(upstream.addr, "", "");
    let said = site.avocet_text(&["reload"]);
    assert!(said.starts_with("reloaded\nremoved: 1 rule (bed), 1 record (host.lan. A)"), "{said}");
    let line = server.wait_for_line("this reload removes 1 rule (bed), 1 record (host.lan. A)");
    assert!(line.contains("WARN"), "{line}");
}

#[test]
fn commands_reach_the_server_while_its_file_has_errors() {
    let upstream = Upstream::start();
    let (site, _server) = started(&upstream);
    let whole = std::fs::read_to_string(site.file()).unwrap();
    for broken in
        [format!("{whole}[cache]\nmin-tll-secs = 5\n"), format!("{whole}[[rule]]\nname = \"a")]
    {
        site.write(&broken);
        for command in [
            &["status"][..],
            &["cache", "flush", "host.lan"],
            &["cache", "stats"],
            &["anchors"],
            &["query", "host.lan"],
        ] {
            let done = site.avocet(command);
            let said = String::from_utf8_lossy(&done.stderr);
            assert!(done.status.success(), "{command:?}: {said}");
            assert!(said.contains("warning: the configuration has an error"), "{said}");
        }
    }
}

#[test]
fn a_pipe_in_place_of_the_file_is_an_error_and_blocks_nothing() {
    let upstream = Upstream::start();
    let (site, mut server) = started(&upstream);
    std::fs::remove_file(site.file()).unwrap();
    assert!(Command::new("mkfifo").arg(site.file()).status().unwrap().success());
    server.signal("HUP");
    let line = server.wait_for_line("not reloaded");
    assert!(line.contains("it is a pipe or a device, not a file"), "{line}");
    assert_eq!(site.ask("host.lan").0, [10, 0, 0, 1]);
    let checked = site.avocet(&["check"]);
    let message = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(message.contains("it is a pipe or a device, not a file"), "{message}");
    let answer = site.control_lines(b"{\"command\":\"reload\"}\n");
    assert!(answer[0]["error"].as_str().unwrap().contains("it is a pipe"), "{answer:?}");

    std::fs::remove_file(site.file()).unwrap();
    site.configure(upstream.addr, "", &record("10.0.0.2"));
    server.wait_for_line("configuration reloaded");
    assert_eq!(site.ask("host.lan").0, [10, 0, 0, 2]);
}

#[test]
fn what_needs_a_restart_is_named_and_the_rest_applies() {
    let upstream = Upstream::start();
    let (site, mut server) = started(&upstream);
    site.configure(upstream.addr, "workers = 3\nminimal-responses = false", &record("10.0.0.5"));
    let text = site.avocet_text(&["reload"]);
    assert_eq!(text, "reloaded; a restart is needed for server.workers\n");
    server.wait_for_line("a restart is needed for server.workers");
    assert_eq!(site.ask("host.lan").0, [10, 0, 0, 5]);
    assert!(
        site.avocet_text(&["reload", "--json"])
            .contains("\"restart-needed-for\":[\"server.workers\"]")
    );
}

#[test]
fn a_reload_that_changes_no_answer_keeps_the_packet_cache() {
    let upstream = Upstream::start();
    let (site, _server) = started(&upstream);
    site.ask("kept.example");
    let epoch = site.metric("avocet_epoch");
    site.configure(upstream.addr, "", &format!("{}[log]\nlevel = \"warn\"\n", record("10.0.0.1")));
    site.avocet_text(&["reload"]);
    assert_eq!(site.metric("avocet_epoch"), epoch);
    let hits = site.metric("avocet_cache_hits_total{cache=\"packet\"}");
    site.ask("kept.example");
    assert_eq!(site.metric("avocet_cache_hits_total{cache=\"packet\"}"), hits + 1.0);
}

#[test]
fn a_reload_that_changes_a_record_keeps_the_cached_answers_of_other_names() {
    let upstream = Upstream::start();
    let (site, _server) = started(&upstream);
    site.ask("kept.example");
    let hits = || site.metric("avocet_cache_hits_total{cache=\"packet\"}");
    let before = hits();
    site.configure(upstream.addr, "", &record("10.0.0.9"));
    site.avocet_text(&["reload"]);
    site.ask("kept.example");
    assert_eq!(hits(), before + 1.0);
    assert_eq!(site.ask("host.lan").0, [10, 0, 0, 9]);
}
