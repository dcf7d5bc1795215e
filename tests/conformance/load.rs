//! `avocet load` runs the load of its command line, and its exit code shows the result.

use std::process::{Command, Output};

use crate::harness::{Directory, Server, Setup};

const RECORDS: &str =
    "[[record]]\nname = \"*.load.example\"\ntype = \"A\"\nvalues = [\"192.0.2.7\"]\n";
const ZONE: &str = "$ORIGIN load.example.\n@ 60 SOA ns admin 1 1 1 1 1\n* A 192.0.2.7\n";

fn load(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_avocet")).arg("load").args(words).output().expect("it runs")
}

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[test]
fn a_run_is_checked_reported_and_compared() {
    let server = Setup::plain().tables(RECORDS).start();
    let directory = Directory::create();
    let zone = directory.write("zone", ZONE);
    let (addr, pid) = (server.addr.to_string(), server.pid().to_string());
    let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
    let (json, html) = (path("run.json"), path("run.html"));
    let asked = [
        "--zone-name",
        "load.example",
        "--population",
        "50",
        "--count",
        "2000",
        "--duration",
        "60s",
    ];
    let checked = [
        "--zone-file",
        zone.to_str().expect("a path"),
        "--pid",
        &pid,
        "--json",
        &json,
        "--html",
        &html,
    ];
    let output = load(&[&[addr.as_str()], &asked[..], &checked[..]].concat());
    assert_eq!(code(&output), Some(0), "{}", text(&output));
    assert!(text(&output).contains("2,000 answered"), "{}", text(&output));

    let report: serde_json::Value =
        serde_json::from_str(&directory.read("run.json")).expect("JSON");
    assert_eq!(report["format"], "avocet-load/2");
    assert_eq!(report["check"], "answer");
    assert_eq!(report["outcome"]["rcodes"]["NOERROR"], 2000);
    assert_eq!(report["server"]["process"], "avocet");
    assert!(report["memory"]["peak_bytes"].as_u64().is_some_and(|bytes| bytes > 0));
    assert!(directory.read("run.html").contains("<svg"));

    assert_eq!(code(&load(&["compare", &json, &json])), Some(0));
    let worse = directory.read("run.json").replace("\"total\": 0,", "\"total\": 5,");
    let worse = directory.write("worse.json", &worse).to_string_lossy().into_owned();
    let output = load(&["compare", &json, &worse]);
    assert_eq!(code(&output), Some(1), "{}", text(&output));
    assert!(text(&output).contains("WORSE"), "{}", text(&output));
}

#[test]
fn damaged_packets_and_floods_leave_the_server_answering() {
    let server: Server = Setup::plain().tables(RECORDS).start();
    let addr = server.addr.to_string();
    for scenario in ["malformed", "flood"] {
        let words = [
            "--zone-name",
            "load.example",
            "--population",
            "50",
            "--rate",
            "2000",
            "--duration",
            "2s",
        ];
        let output = load(&[&[addr.as_str(), "--scenario", scenario], &words[..]].concat());
        assert_eq!(code(&output), Some(0), "{scenario}: {}", text(&output));
    }
}

#[test]
fn a_public_address_is_refused_unless_it_is_ones_own() {
    let output = load(&["192.0.2.1", "--zone-name", "load.example"]);
    assert_eq!(code(&output), Some(2));
    assert!(text(&output).contains("--i-own-this-server"), "{}", text(&output));
}

#[test]
fn the_schema_of_the_results_is_written() {
    let output = load(&["--json-schema"]);
    let schema: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(schema["properties"]["latency"].is_object(), "{schema}");
}
