//! The texts of `avocet lists`.

use std::fmt::Write;

use avocet_control::lists::{
    ImageStatus, ListReport, ListStatus, ListsReport, Refreshed, RefreshedList, TriggerCounts,
};
use avocet_nameserver::clock::wall_secs;

use crate::output::{counted, entries, plain};

/// Returns the text of `avocet lists status`.
pub(crate) fn status_text(report: &ListsReport) -> String {
    let mut text: String = report.lists.iter().map(list_text).collect();
    text += &report.image.as_ref().map_or_else(|| "no image".to_owned(), image_text);
    text
}

fn list_text(list: &ListStatus) -> String {
    let (name, source) = (plain(&list.name), plain(&list.source));
    let mut text = format!("{name} ({}) {source}\n", list.kind);
    // Writing to a `String` does not fail.
    let _ = match (list.in_force, list.format) {
        (true, format) => writeln!(
            text,
            "  {}, {}, {} octets, format {}",
            entries(list.entries),
            counted(list.broken_lines, "broken line", "broken lines"),
            list.octets,
            format.map_or("-", |format| format.name())
        ),
        (false, _) => writeln!(text, "  not in force: {}", why_not_in_force(list)),
    };
    if let Some(triggers) = &list.triggers {
        let _ = writeln!(text, "  {}", triggers_text(triggers));
    }
    let (fetched, next) = (moment(list.fetched_at), moment(list.next_at));
    let _ = writeln!(text, "  fetched {fetched}, next {next}");
    if let Some(share) = &list.share {
        let _ = writeln!(
            text,
            "  has the names of {} blocked queries since {}, {} of them are in no other list",
            share.queries,
            moment(Some(share.since)),
            share.alone
        );
    }
    if let Some(error) = list.error.as_ref().filter(|_| list.failures_in_row > 0) {
        let _ = writeln!(text, "  failed {} times in a row: {error}", list.failures_in_row);
    }
    text
}

/// Returns why a list is not in force.
fn why_not_in_force(list: &ListStatus) -> &str {
    match (&list.error, list.fetched_at) {
        // A fetch that failed is shown separately.
        (_, None) => "not fetched yet",
        (Some(error), Some(_)) if list.failures_in_row == 0 => error,
        (_, Some(_)) => "its last good copy is not compiled yet",
    }
}

fn image_text(image: &ImageStatus) -> String {
    format!(
        "image {}: {} names, {} patterns, {} octets, compiled {} in {} ms",
        plain(&image.digest),
        image.names,
        image.patterns,
        image.octets,
        moment(Some(image.made_at)),
        image.made_in_ms
    )
}

/// Returns the text of `avocet lists refresh`.
pub(crate) fn refresh_text(reply: &Refreshed) -> String {
    let line = |list: &RefreshedList| {
        let name = plain(&list.name);
        let (count, before) = (list.entries.unwrap_or(0), list.entries_before.unwrap_or(0));
        let count = entries(count);
        match &list.error {
            Some(error) => format!("{name}: {error}; still in force: {count}"),
            None if list.changed => format!("{name}: {count}, previously {before}"),
            None => format!("{name}: unchanged, {count}"),
        }
    };
    reply.lists.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Returns the text of `avocet lists check`.
pub(crate) fn check_text(report: &ListReport) -> String {
    check_lines(report).join("\n")
}

/// Returns the text of `avocet lists check --skipped`.
pub(crate) fn check_text_with_skipped(report: &ListReport) -> String {
    let shown = &report.first_passed_over_lines;
    let mut lines: Vec<String> = shown
        .iter()
        .map(|line| {
            let shown = format!("line {} has no effect: {}", line.line, plain(&line.reason));
            match &line.text {
                Some(text) => format!("{shown}: {}", plain(text)),
                None => shown,
            }
        })
        .collect();
    let more = report.passed_over_lines.saturating_sub(shown.len() as u64);
    if more > 0 {
        lines.push(format!("and {more} more without effect"));
    }
    lines.extend(check_lines(report));
    lines.join("\n")
}

fn check_lines(report: &ListReport) -> Vec<String> {
    let shown = &report.first_broken_lines;
    let mut lines: Vec<String> = shown
        .iter()
        .map(|fault| format!("line {}: {}", fault.line, plain(&fault.reason)))
        .collect();
    let more = report.broken_lines.saturating_sub(shown.len() as u64);
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    lines.extend(report.triggers.as_ref().map(triggers_text));
    if report.beyond_limits > 0 {
        lines.push(format!(
            "{} of its entries are not in force: a limit of one list or of all lists is used up; \
             see \"Limits\" in the manual's page on lists",
            report.beyond_limits
        ));
    }
    let no_comments = match report.passed_over_lines {
        0 => String::new(),
        count => format!(" ({count} of them not comments; see --skipped)"),
    };
    lines.push(format!(
        "{}: {} of format {}: {}, {} skipped{no_comments}, {} broken",
        plain(&report.name),
        counted(report.lines.into(), "line", "lines"),
        report.format,
        entries(report.entries),
        report.skipped_lines,
        report.broken_lines
    ));
    lines
}

/// Returns the triggers of a policy zone in words.
pub(crate) fn triggers_text(triggers: &TriggerCounts) -> String {
    let TriggerCounts { client_ip, ip, nsdname, nsip, qname, cannot_fire } = triggers;
    let kinds = [
        (client_ip, "client-ip"),
        (ip, "ip"),
        (nsdname, "nsdname"),
        (nsip, "nsip"),
        (qname, "qname"),
    ];
    let counts: Vec<String> = kinds
        .iter()
        .filter(|(count, _)| **count > 0)
        .map(|(count, kind)| format!("{count} {kind}"))
        .collect();
    let counts = if counts.is_empty() { "none".to_owned() } else { counts.join(", ") };
    match cannot_fire {
        0 => format!("triggers: {counts}"),
        idle => format!(
            "triggers: {counts}; {idle} of them cannot match, because a forwarder has no \
             delegations"
        ),
    }
}

/// Returns the time from now until a Unix second, or since one.
fn moment(at: Option<u64>) -> String {
    let Some(at) = at else { return "-".to_owned() };
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
    use avocet_control::lists::PassedOverLine;
    use avocet_policy::list::Format;

    use super::*;

    fn passed_over(line: u32, text: &str, reason: &str) -> PassedOverLine {
        PassedOverLine { line, text: Some(text.to_owned()), reason: reason.to_owned() }
    }

    #[test]
    fn lines_without_effect_are_named_where_they_are_asked_for() {
        let answer = ListReport {
            name: "ads".to_owned(),
            format: Format::Adblock,
            lines: 9,
            entries: 3,
            broken_lines: 0,
            skipped_lines: 6,
            passed_over_lines: 3,
            beyond_limits: 2,
            first_passed_over_lines: vec![
                passed_over(4, "||x.example^$popup", "its modifiers apply to browsers only"),
                passed_over(5, "x\u{1b}##.ad", "it applies to the content of pages"),
            ],
            triggers: None,
            first_broken_lines: Vec::new(),
        };
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
                        pages: x\\u{1b}##.ad\nand 1 more without effect\n";
        assert_eq!(named, format!("{expected}{text}"));
    }

    #[test]
    fn triggers_that_cannot_fire_are_told_of() {
        let triggers =
            TriggerCounts { client_ip: 0, qname: 7, ip: 0, nsdname: 2, nsip: 0, cannot_fire: 2 };
        let text = "triggers: 2 nsdname, 7 qname; 2 of them cannot match, because a forwarder has no delegations";
        assert_eq!(triggers_text(&triggers), text);
    }
}
