//! The dashboard and the alerts in `deploy/` use only metrics and labels that `/metrics` has.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::http::wait_for_upstream_series;
use crate::server::Site;
use crate::upstream::Upstream;

fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The queries of all panels.
fn dashboard_expressions(dashboard: &Value) -> Vec<String> {
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    targets.map(|target| target["expr"].as_str().unwrap().to_owned()).collect()
}

/// Checks the format of the rules, with each key on one line, and returns their expressions.
fn rule_expressions(rules: &str) -> Vec<String> {
    let (mut expressions, mut alerts, mut severities, mut summaries) =
        (Vec::new(), BTreeSet::new(), 0, 0);
    for line in rules.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let text = line.trim_start_matches(' ');
        assert_eq!((line.len() - text.len()) % 2, 0, "indentation: {line}");
        let (key, value) = text
            .trim_start_matches("- ")
            .split_once(':')
            .unwrap_or_else(|| panic!("no key: {line}"));
        let value = value.trim();
        assert!(
            !value.contains('\t') && (!value.starts_with('"') || value.ends_with('"')),
            "{line}"
        );
        match key {
            "alert" => assert!(alerts.insert(value.to_owned()), "twice: {value}"),
            "expr" => expressions.push(value.to_owned()),
            "severity" => {
                assert!(["warning", "critical"].contains(&value), "{line}");
                severities += 1;
            }
            "summary" => summaries += 1,
            "groups" | "name" | "rules" | "for" | "labels" | "annotations" | "description" => {}
            unknown => panic!("unknown key `{unknown}`"),
        }
    }
    assert_eq!(
        (alerts.len(), severities, summaries),
        (expressions.len(), expressions.len(), expressions.len())
    );
    expressions
}

/// Our metrics in an expression, each with the text in its braces.
fn selectors(expression: &str) -> Vec<(String, String)> {
    let starts = expression.match_indices("avocet_").map(|(at, _)| at);
    let of = |at: usize| {
        let rest = &expression[at..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let braces = rest[end..]
            .strip_prefix('{')
            .and_then(|rest| rest.split_once('}'))
            .map_or("", |(inner, _)| inner);
        (rest[..end].to_owned(), braces.to_owned())
    };
    starts.map(of).collect()
}

/// Label and values of each matcher without a variable of the dashboard.
fn matchers(braces: &str) -> Vec<(String, Vec<String>)> {
    let parts = braces.split(',').filter(|part| !part.is_empty() && !part.contains('$'));
    let pair = |part: &str| {
        let (label, value) = part.split_once('=').unwrap();
        let values = value.trim_start_matches('~').trim_matches('"').split('|');
        (label.to_owned(), values.map(str::to_owned).collect())
    };
    parts.map(pair).collect()
}

#[track_caller]
fn check(expressions: &[String], metrics: &str) {
    let samples: Vec<&str> = metrics.lines().filter(|line| !line.starts_with('#')).collect();
    let mut seen = 0;
    for (name, braces) in expressions.iter().flat_map(|expression| selectors(expression)) {
        let of_name = |line: &&&str| {
            line.strip_prefix(&name).is_some_and(|rest| rest.starts_with([' ', '{']))
        };
        assert!(samples.iter().any(|line| of_name(&line)), "the server has no metric {name}");
        for (label, values) in matchers(&braces) {
            for value in values {
                let pair = format!("{label}=\"{value}\"");
                assert!(
                    samples.iter().filter(of_name).any(|line| line.contains(&pair)),
                    "{name} has no {pair}"
                );
            }
        }
        seen += 1;
    }
    assert!(seen > 10, "only {seen} metrics are named");
}

#[test]
fn dashboard_and_alerts_name_what_the_server_tells() {
    let (site, upstream) = (Site::new(), Upstream::start());
    let list = site.directory.join("ads.txt");
    std::fs::write(&list, "ads.example\n").unwrap();
    site.configure(
        upstream.addr,
        "",
        &format!("[[list]]\nname = \"ads\"\nfile = \"{}\"\n", list.display()),
    );
    let _server = site.start();
    site.ask("first.example");
    wait_for_upstream_series(&site);
    let metrics = site.http_get("/metrics").1;
    let dashboard: Value = serde_json::from_str(&read("grafana/avocet.json")).unwrap();
    check(&dashboard_expressions(&dashboard), &metrics);
    check(&rule_expressions(&read("prometheus/avocet.rules.yml")), &metrics);
}

#[test]
fn the_panels_of_the_dashboard_have_different_ids_and_positions() {
    let dashboard: Value = serde_json::from_str(&read("grafana/avocet.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len());
    let places: BTreeSet<String> =
        panels.iter().map(|panel| panel["gridPos"].to_string()).collect();
    assert_eq!(places.len(), panels.len());
}

#[test]
fn selectors_and_matchers_are_found_in_expressions() {
    let found = selectors("sum(rate(avocet_a_total{job=~\"$job\",x=~\"b|c\"}[5m])) / avocet_d > 0");
    assert_eq!(found[0].0, "avocet_a_total");
    assert_eq!(found[1], ("avocet_d".to_owned(), String::new()));
    assert_eq!(matchers(&found[0].1), [("x".to_owned(), vec!["b".to_owned(), "c".to_owned()])]);
}

#[test]
fn a_start_that_fails_is_tried_again_for_as_long_as_it_takes() {
    let unit = read("avocet.service");
    let (head, service) = unit.split_once("[Service]").unwrap();
    assert!(
        head.lines().any(|line| line == "StartLimitIntervalSec=0"),
        "else systemd gives up after five starts"
    );
    assert!(service.lines().any(|line| line == "Restart=on-failure"));
}
