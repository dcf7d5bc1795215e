//! `avocet why` and `avocet query +trace` for people: the policy's verdict, a trace as a tree, and
//! the answer.

use std::fmt::Write;

use serde_json::Value;

use crate::dump;

/// One line of the server's answer, as text. Sections come in this order: what the policy decided,
/// what failed, what is cached or was resolved for this command, and the answer that the client
/// gets.
pub(crate) fn text(line: &Value) -> String {
    match field(line, "section") {
        "policy" => policy(line),
        "failed" => format!("It failed {} s ago:\n{}", line["secs-ago"], tree(line)),
        "failure-cache" => format!(
            "The failure is cached, so the server does not retry yet: {} (extended error {})",
            field(line, "text"),
            line["ede"]
        ),
        "cache" => cache(line),
        "resolved" => format!("{}{}", tree(line), answer(line)),
        "answer" => given(line),
        _ => String::new(),
    }
}

/// The verdict, whom it is for, and all that speaks for or against it.
fn policy(line: &Value) -> String {
    let client = &line["client"];
    let groups: Vec<&str> =
        client["groups"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let who = client["name"].as_str().map_or_else(String::new, |name| format!("{name}, "));
    let why = match field(line, "why") {
        "" => String::new(),
        why => format!(" by {why}"),
    };
    let mut text = format!(
        "The policy: {}{why}, for {} ({who}groups: {})",
        field(line, "verdict"),
        field(client, "address"),
        groups.join(", ")
    );
    let noted = line["noted"].as_array().into_iter().flatten();
    for (rule, does) in noted
        .map(|rule| (rule, "holds"))
        .chain(line["rule"].is_object().then(|| (&line["rule"], "decides")))
    {
        let _ = write!(
            text,
            "\n  rule {} {does}: {}  ; {}",
            field(rule, "name"),
            field(rule, "when"),
            field(rule, "action")
        );
    }
    if let Some(lifted) = line["lifted"].as_str() {
        let _ = write!(text, "\n  a {lifted} suspends filtering");
    }
    if let Some(countries) = line["countries"].as_array() {
        let countries: Vec<&str> = countries.iter().filter_map(Value::as_str).collect();
        let known =
            if countries.is_empty() { "none known".to_owned() } else { countries.join(", ") };
        let _ = write!(text, "\n  countries of the addresses: {known}");
    }
    for one in line["lists"].as_array().into_iter().flatten() {
        let _ = write!(text, "\n  {}", list_line(one, &line["rule"]));
    }
    if line["own-record"] == true {
        text += "\n  the name has a local record, so lists do not apply";
    }
    for group in client["left-groups"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let _ = write!(
            text,
            "\n  group {group} names only its network and does not apply: the client has its own \
             [[client]]"
        );
    }
    if let Some(until) = line["valid-until-local"].as_str() {
        let _ = write!(text, "\n  until {until}");
    }
    text
}

/// A line of a list: where it is, what it does, about which alias, and its text. `rule` is the one
/// that decided, or null.
fn list_line(one: &Value, rule: &Value) -> String {
    let force = if one["in-force"] == true { "" } else { ", does not apply to this client" };
    let decides = match (one["decides"] == true, one["overruled"] == true) {
        (true, _) => ", decides".to_owned(),
        (false, true) if rule.is_object() => {
            format!(", would decide, but rule {} goes first", field(rule, "name"))
        }
        (false, true) => ", would decide, but filtering is lifted".to_owned(),
        (false, false) => String::new(),
    };
    let trigger =
        one["trigger"].as_str().map_or_else(String::new, |trigger| format!(" by {trigger}"));
    let alias =
        one["alias"].as_str().map_or_else(String::new, |alias| format!(" the alias {alias}"));
    let text = one["text"].as_str().map_or_else(String::new, |text| format!("  ; {text}"));
    let (list, effect) = (field(one, "list"), field(one, "effect"));
    format!("list {list}, line {}: {effect}{alias}{trigger}{force}{decides}{text}", one["line"])
}

/// The answer that the client gets, and where it comes from.
fn given(line: &Value) -> String {
    let (name, rtype, client) = (field(line, "name"), field(line, "type"), field(line, "client"));
    let from = match field(line, "from") {
        "local" => "from local records; no other server is queried",
        "special" => "in a local zone or a special-use name; no other server is queried",
        "refused" => "the client's address is not in [server] allow",
        "packet-hit" | "rrset-hit" => "from the cache",
        "resolved" => "as resolved",
        "stale" => "expired data, because resolution failed",
        "failed" => "because resolution failed",
        "failure-hit" => "because resolution failed recently",
        "blocked" => "from the policy",
        "rewritten" => "from the policy, which rewrites the answer",
        "limited" if line["truncated"] == true => {
            "truncated by the policy, so that the client retries over TCP"
        }
        "limited" => "from the policy, which limits the rate",
        "dropped" => "the policy drops the query",
        "malformed" => "queries of this type are not answered",
        other => other,
    };
    let ede = line["ede"].as_u64().map_or_else(String::new, |code| match field(line, "ede-text") {
        "" => format!(", extended error {code}"),
        text => format!(", extended error {code} ({text})"),
    });
    let rcode = line["rcode"].as_str().unwrap_or("no answer");
    format!("The answer to {name} {rtype} for {client}: {rcode}{ede}; {from}{}", answer(line))
}

fn field<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

/// A server's address; its port where it is not that of DNS.
fn server(step: &Value) -> &str {
    let server = field(step, "server");
    server.strip_suffix(":53").unwrap_or(server)
}

fn cache(line: &Value) -> String {
    let mut text = format!("In the cache, of {}:", field(line, "name"));
    for held in line["rrsets"].as_array().into_iter().flatten() {
        let origin = match (field(held, "rank"), field(held, "security")) {
            _ if held["to-find-servers"] == true => "delegation data from the parent".to_owned(),
            ("", _) => "a denial".to_owned(),
            (rank, security) => format!("{}, {security}", rank.replace('-', " ")),
        };
        for record in dump::records(held).lines() {
            let _ = write!(text, "\n  {record}  ; {origin}");
        }
    }
    text
}

fn tree(trace: &Value) -> String {
    let counted = |count: u64, one: &str, many: &str| {
        if count == 1 { format!("1 {one}") } else { format!("{count} {many}") }
    };
    let queries = counted(trace["queries"].as_u64().unwrap_or(0), "query", "queries");
    let mut text = format!(
        "{} {}, {} ms, {queries}\n",
        field(trace, "name"),
        field(trace, "type"),
        trace["took-ms"]
    );
    branch(&trace["steps"], "", &mut text);
    if let Some(left_out @ 1..) = trace["steps-left-out"].as_u64() {
        let _ = writeln!(text, "{} left out", counted(left_out, "step was", "steps were"));
    }
    text
}

fn branch(steps: &Value, indent: &str, out: &mut String) {
    let steps = steps.as_array().map(Vec::as_slice).unwrap_or_default();
    for (place, step) in steps.iter().enumerate() {
        let is_last = place + 1 == steps.len();
        let (fork, below) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        let at_ms = step["at-ms"].as_u64().unwrap_or(0);
        let _ = writeln!(out, "{at_ms:>5} ms {indent}{fork}{}", sentence(step));
        branch(&step["steps"], &format!("{indent}{below}"), out);
    }
}

fn sentence(step: &Value) -> String {
    let f = |key: &str| field(step, key);
    match f("step") {
        "seek" => format!("{}: {} {}", f("for"), f("name"), f("type")),
        "addresses" => format!("{} found", addresses(step["found"].as_u64())),
        "cached" => format!(
            "in the cache: {} {}, {}, {}, for {} s",
            f("name"),
            f("type"),
            f("found"),
            f("security"),
            step["ttl"]
        ),
        "cut" => {
            let servers = step["servers"].as_u64().unwrap_or(0);
            let plural = if servers == 1 { "server" } else { "servers" };
            format!(
                "zone {}: {servers} {plural}, {} known",
                f("zone"),
                addresses(step["addresses"].as_u64())
            )
        }
        "ask" => ask(step),
        "own" => format!("this server answers {} {} itself", f("name"), f("type")),
        "local-root" => format!("copy of the root zone, {} {}", f("name"), f("type")),
        "joined" => "an equal query is in flight; its response serves both".to_owned(),
        "reply" => reply(step),
        "silent" => format!("{} has not responded after {} ms", server(step), step["after-ms"]),
        "unreachable" => format!("{} cannot be reached", server(step)),
        "taken" => taken(step),
        "no-reply" => f("why").to_owned(),
        "alias" => format!("alias: continuing with {}", f("name")),
        "keys" | "known-keys" | "validated" => validation(step),
        "limit" => format!("limit reached: {}", f("limit")),
        "answered" => format!(
            "{}{}",
            f("rcode"),
            if step["authentic"] == true { ", all of it secure" } else { "" }
        ),
        "failed" => format!("failed: {} (extended error {})", f("text"), step["ede"]),
        other => other.to_owned(),
    }
}

fn addresses(count: Option<u64>) -> String {
    match count.unwrap_or(0) {
        0 => "no address".to_owned(),
        1 => "1 address".to_owned(),
        count => format!("{count} addresses"),
    }
}

fn ask(step: &Value) -> String {
    let by = if field(step, "transport") == "tcp" { " by TCP" } else { "" };
    let plain = if step["edns"] == false { ", without EDNS" } else { "" };
    let rtype = field(step, "type");
    match (step["name"].as_str(), step["zone"].as_str()) {
        (Some(name), Some(zone)) => {
            format!("ask {}{by} for {name} {rtype}, of zone {zone}{plain}", server(step))
        }
        _ => format!("ask {}{by}, as a forwarder{plain}", server(step)),
    }
}

fn reply(step: &Value) -> String {
    let rcode = field(step, "rcode");
    let what = match field(step, "reply") {
        "truncated" => "truncated, retrying over TCP",
        "other-case" => "other letter case than in the query, retrying over TCP",
        "malformed" => "malformed",
        "bad-cookie" => "BADCOOKIE",
        "no-edns" => &format!("{rcode}, retrying without EDNS"),
        _ => rcode,
    };
    format!("{} after {} ms: {what}", server(step), step["rtt-ms"])
}

fn taken(step: &Value) -> String {
    match field(step, "as") {
        "answer" => "accepted as answer".to_owned(),
        "referral" => format!("referral to {}", field(step, "zone")),
        "hearsay" => "the server is not authoritative for the zone; used only without a better \
                      response"
            .to_owned(),
        "lame" => "lame: the server is not authoritative for the zone".to_owned(),
        "error" => format!("error: {}", field(step, "rcode")),
        _ => "unusable".to_owned(),
    }
}

fn validation(step: &Value) -> String {
    let tags = |key: &str| {
        let tags = step[key].as_array().map(Vec::as_slice).unwrap_or_default();
        tags.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    };
    let what = match field(step, "step") {
        "keys" if tags("vouched-by").is_empty() => {
            format!("keys of {} [{}] by the trust anchor", field(step, "zone"), tags("key-tags"))
        }
        "keys" => format!(
            "keys of {} [{}] by DS {}",
            field(step, "zone"),
            tags("key-tags"),
            tags("vouched-by")
        ),
        "known-keys" => format!("chain of trust to {}, known", field(step, "zone")),
        _ => {
            let by = match step["signer"].as_str() {
                Some(signer) => format!(
                    " signed by {signer} {}, algorithm {}",
                    step["key-tag"], step["algorithm"]
                ),
                None => " not signed".to_owned(),
            };
            format!("{} {}{by}", field(step, "name"), field(step, "type"))
        }
    };
    let why = step["why"].as_str().map(|why| format!(" ({why})")).unwrap_or_default();
    format!("{what}: {}{why}", field(step, "verdict"))
}

fn answer(line: &Value) -> String {
    let mut text = String::new();
    for record in line["answer"].as_array().into_iter().flatten() {
        let ttl = record["ttl"].as_u64().unwrap_or(0);
        let (name, rtype, data) =
            (field(record, "name"), field(record, "type"), field(record, "data"));
        let comment = if field(record, "section") == "answer" { "" } else { "; " };
        let _ = write!(text, "\n{comment}{name} {ttl} IN {rtype} {data}");
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_trace_is_a_tree() {
        let line = json!({
            "section": "resolved", "name": "a.", "type": "A", "took-ms": 21, "queries": 2, "steps-left-out": 1,
            "steps": [
                { "step": "cut", "at-ms": 0, "zone": ".", "servers": 1, "addresses": 0 },
                { "step": "seek", "at-ms": 0, "for": "address of a server", "name": "ns.", "type": "A", "steps": [
                    { "step": "ask", "at-ms": 1, "server": "192.0.2.1:53", "zone": ".", "name": "ns.", "type": "A",
                      "transport": "udp", "edns": true },
                ]},
                { "step": "answered", "at-ms": 21, "rcode": "NOERROR", "authentic": true },
            ],
            "answer": [{ "section": "answer", "name": "a.", "ttl": 60, "type": "A", "data": "192.0.2.7" }],
        });
        let expected = "a. A, 21 ms, 2 queries\n    0 ms ├─ zone .: 1 server, no address known\n    0 ms ├─ \
             address of a server: ns. A\n    1 ms │  └─ ask 192.0.2.1 for ns. A, of zone .\n   21 \
             ms └─ NOERROR, all of it secure\n1 step was left out\n\na. 60 IN A 192.0.2.7";
        assert_eq!(text(&line), expected);
    }
}
