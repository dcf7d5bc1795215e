//! What `avocet lists` writes for people.

use std::fmt::Write;

use avocet_nameserver::clock::wall_secs;
use serde_json::Value;

/// `avocet lists status`.
pub(crate) fn status_text(answer: &Value) -> String {
    let mut text = String::new();
    for list in answer["lists"].as_array().into_iter().flatten() {
        // Writing to a `String` does not fail.
        let _ = writeln!(
            text,
            "{} ({}) {}",
            plain(&list["name"]),
            plain(&list["kind"]),
            plain(&list["source"])
        );
        let _ = match list["in-force"] == true {
            true => writeln!(
                text,
                "  {} entries, {} broken lines, {} octets, format {}",
                list["entries"],
                list["broken-lines"],
                list["octets"],
                plain(&list["format"])
            ),
            false => writeln!(text, "  not in force: not fetched yet"),
        };
        if let Some(triggers) = triggers_text(&list["triggers"]) {
            let _ = writeln!(text, "  {triggers}");
        }
        let _ = writeln!(
            text,
            "  fetched {}, next {}",
            moment(&list["fetched-at"]),
            moment(&list["next-at"])
        );
        if let Some(error) = list["error"].as_str() {
            let _ = writeln!(text, "  failed {} times in a row: {error}", list["failures-in-row"]);
        }
    }
    let image = &answer["image"];
    let _ = match image.is_null() {
        true => write!(text, "no image"),
        false => write!(
            text,
            "image {}: {} names, {} patterns, {} octets, compiled {} in {} ms",
            plain(&image["digest"]),
            image["names"],
            image["patterns"],
            image["octets"],
            moment(&image["made-at"]),
            image["made-in-ms"]
        ),
    };
    text
}

/// `avocet lists refresh`. Lines that only say that it is still going on are left out.
pub(crate) fn refresh_text(answer: &Value) -> String {
    let mut lines = Vec::new();
    for list in answer["lists"].as_array().into_iter().flatten() {
        let name = plain(&list["name"]);
        let entries = list["entries"].as_u64().unwrap_or(0);
        let before = list["entries-before"].as_u64().unwrap_or(0);
        lines.push(match list["error"].as_str() {
            Some(error) => format!("{name}: {error}; the previous {entries} entries stay in force"),
            None if list["changed"] == true => {
                format!("{name}: {entries} entries, previously {before}")
            }
            None => format!("{name}: unchanged, {entries} entries"),
        });
    }
    lines.join("\n")
}

/// `avocet lists check`.
pub(crate) fn check_text(answer: &Value) -> String {
    check_lines(answer).join("\n")
}

/// `avocet lists check --skipped`.
pub(crate) fn check_text_with_skipped(answer: &Value) -> String {
    let shown = answer["first-passed-over-lines"].as_array().map_or(&[][..], Vec::as_slice);
    let mut lines: Vec<String> = shown
        .iter()
        .map(|line| {
            format!(
                "line {} has no effect: {}: {}",
                line["line"],
                plain(&line["reason"]),
                plain(&line["text"])
            )
        })
        .collect();
    let all = answer["passed-over-lines"].as_u64().unwrap_or(0);
    if all > shown.len() as u64 {
        lines.push(format!("and {} more without effect", all - shown.len() as u64));
    }
    lines.extend(check_lines(answer));
    lines.join("\n")
}

fn check_lines(answer: &Value) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for fault in answer["first-broken-lines"].as_array().into_iter().flatten() {
        lines.push(format!("line {}: {}", fault["line"], plain(&fault["reason"])));
    }
    let (shown, broken) = (lines.len() as u64, answer["broken-lines"].as_u64().unwrap_or(0));
    if broken > shown {
        lines.push(format!("and {} more", broken - shown));
    }
    lines.extend(triggers_text(&answer["triggers"]));
    if let Some(beyond @ 1..) = answer["beyond-limits"].as_u64() {
        lines.push(format!(
            "{beyond} of its entries are not in force: other lists use up a limit; see \"Limits\" \
             in the manual's page on lists"
        ));
    }
    let no_comments = match answer["passed-over-lines"].as_u64() {
        Some(count @ 1..) => format!(" ({count} of them not comments; see --skipped)"),
        _ => String::new(),
    };
    lines.push(format!(
        "{}: {} lines of format {}: {} entries, {} skipped{no_comments}, {broken} broken",
        plain(&answer["name"]),
        answer["lines"],
        plain(&answer["format"]),
        answer["entries"],
        answer["skipped-lines"]
    ));
    lines
}

/// The triggers of a policy zone; none where the list is none.
pub(crate) fn triggers_text(triggers: &Value) -> Option<String> {
    let counts = triggers
        .as_object()?
        .iter()
        .filter(|(kind, count)| *kind != "cannot-fire" && count.as_u64() != Some(0));
    let counts: Vec<String> = counts.map(|(kind, count)| format!("{count} {kind}")).collect();
    let mut text = format!(
        "triggers: {}",
        if counts.is_empty() { "none".to_owned() } else { counts.join(", ") }
    );
    if let Some(idle @ 1..) = triggers["cannot-fire"].as_u64() {
        let _ =
            write!(text, "; {idle} of them cannot match, because a forwarder has no delegations");
    }
    Some(text)
}

/// Text without control characters: what is written comes from others too.
fn plain(value: &Value) -> String {
    value
        .as_str()
        .unwrap_or("-")
        .chars()
        .map(|letter| if letter.is_control() { '?' } else { letter })
        .collect()
}

/// How far away a moment is.
fn moment(at: &Value) -> String {
    let Some(at) = at.as_u64() else { return "-".to_owned() };
    let now = wall_secs();
    if at > now { format!("in {}", span(at - now)) } else { format!("{} ago", span(now - at)) }
}

fn span(secs: u64) -> String {
    match secs {
        0..120 => format!("{secs} s"),
        120..7_200 => format!("{} min", secs / 60),
        7_200..172_800 => format!("{} h", secs / 3_600),
        _ => format!("{} d", secs / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_without_effect_are_named_where_they_are_asked_for() {
        let answer = json!({
            "name": "ads", "format": "adblock", "lines": 9, "entries": 3, "broken-lines": 0, "skipped-lines": 6,
            "passed-over-lines": 3, "beyond-limits": 2,
            "first-passed-over-lines": [
                { "line": 4, "text": "||x.example^$popup", "reason": "its modifiers apply to browsers only" },
                { "line": 5, "text": "x\u{1b}##.ad", "reason": "it applies to the content of pages" },
            ],
        });
        let text = check_text(&answer);
        assert!(
            text.ends_with(
                "3 entries, 6 skipped (3 of them not comments; see --skipped), 0 broken"
            ),
            "{text}"
        );
        assert!(text.starts_with("2 of its entries are not in force"), "{text}");
        let named = check_text_with_skipped(&answer);
        let expected = "line 4 has no effect: its modifiers apply to browsers only: \
                        ||x.example^$popup\nline 5 has no effect: it applies to the content of \
                        pages: x?##.ad\nand 1 more without effect\n";
        assert_eq!(named, format!("{expected}{text}"));
    }

    #[test]
    fn triggers_that_cannot_fire_are_told_of() {
        let triggers = json!({ "client-ip": 0, "qname": 7, "ip": 0, "nsdname": 2, "nsip": 0, "cannot-fire": 2 });
        let text = "triggers: 2 nsdname, 7 qname; 2 of them cannot match, because a forwarder has no delegations";
        assert_eq!(triggers_text(&triggers).as_deref(), Some(text));
        assert_eq!(triggers_text(&Value::Null), None);
    }
}
