//! Draws `avocet top`.
//!
//! ```text
//!   state of the server, warnings
//!   counts and times to answer   | queries over time
//!   ranking                      | outcomes, upstreams
//!   latest queries, or the details of one
//!   keys
//! ```
//! Texts from the network pass through [`plain`], so that they cannot control the terminal.

use avocet_control::log::{LogEntry, OutcomeKind};
use avocet_control::statistics::{Delays, LogOverview, OutcomeCounts, RankingKind};
use avocet_control::status::{ServerStatus, UpstreamState, UpstreamStatus};
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{
    Block, Borders, Cell, Clear, Paragraph, Row, Sparkline, Table, Widget, Wrap,
};

use crate::log_text::{Times, duration};
use crate::output::plain;
use crate::top_feed::TopReports;
use crate::top_screen::{TopFocus, TopScreen};

/// Maximum number of warnings that are shown.
const WARNINGS: usize = 3;
/// Number of columns of the left half of the screen, above the list of queries.
const LEFT: u16 = 56;
/// Number of lines of the counts, of the rankings, and of the details, with their borders.
const COUNTS: u16 = 6;
const RANKINGS: u16 = 13;
const DETAILS: u16 = 22;
const KEYS: &str =
    " q quit  t time  Tab ranking  / filter  Up Down select  Enter details  Home latest";

/// The state from which one frame is drawn.
pub(crate) struct TopView<'a> {
    pub(crate) reports: &'a TopReports,
    pub(crate) screen: &'a TopScreen,
    pub(crate) times: &'a Times,
}

impl TopView<'_> {
    /// Draws the frame.
    pub(crate) fn draw(&self, area: Rect, buffer: &mut Buffer) {
        let head = self.head();
        let rows = [
            Constraint::Length(u16::try_from(head.len()).unwrap_or(1)),
            Constraint::Length(COUNTS),
            Constraint::Max(RANKINGS),
            Constraint::Min(4),
            Constraint::Length(1),
        ];
        let [top, counts, rankings, queries, keys] = Layout::vertical(rows).areas(area);
        Paragraph::new(head).render(top, buffer);
        self.draw_counts(counts, buffer);
        self.draw_rankings(rankings, buffer);
        self.draw_queries(queries, buffer);
        self.draw_keys(keys, buffer);
        if self.screen.focus == TopFocus::Details {
            self.draw_details(area, buffer);
        }
    }

    /// Returns the lines about the server as a whole.
    fn head(&self) -> Vec<Line<'static>> {
        let TopReports { status, trouble, .. } = self.reports;
        let mut lines = vec![match status {
            Some(status) => state(status),
            None => Line::from(" Avocet"),
        }];
        lines.extend(trouble.iter().map(|why| Line::from(format!(" {}", plain(why))).red()));
        let warnings = status.iter().flat_map(|status| &status.warnings);
        let warnings = warnings.take(WARNINGS);
        lines.extend(warnings.map(|one| Line::from(format!(" ! {}", plain(one))).yellow()));
        lines
    }

    fn draw_counts(&self, area: Rect, buffer: &mut Buffer) {
        let [left, right] = halves(area);
        let block = Block::new().borders(Borders::TOP).title(format!(" {} ", self.window()));
        Paragraph::new(self.counts()).block(block).render(left, buffer);
        let steps = self.reports.series.as_ref().map_or(&[][..], |series| &series.steps);
        let block = Block::new().borders(Borders::TOP).title(" queries over time ");
        let inside = block.inner(right);
        block.render(right, buffer);
        // If there are more steps than columns, only the latest steps are shown.
        let shown = &steps[steps.len().saturating_sub(inside.width.into())..];
        let queries: Vec<u64> = shown.iter().map(|step| step.queries).collect();
        Sparkline::default().data(queries).cyan().render(inside, buffer);
    }

    fn window(&self) -> &'static str {
        self.reports.window.map_or("", |window| window.text())
    }

    fn counts(&self) -> Vec<Line<'static>> {
        let rate = self.reports.rate.map(|rate| format!(" {rate:.1} queries a second now"));
        let mut lines: Vec<_> = rate.into_iter().map(Line::from).collect();
        let Some(LogOverview { queries, outcomes, delays, .. }) = &self.reports.overview else {
            lines.push(Line::from(" no counts without the query log"));
            return lines;
        };
        lines.push(Line::from(format!(" {queries} queries")));
        lines.push(Line::from(format!(
            " {} blocked ({:.1} %), {} failed",
            outcomes.blocked,
            share(outcomes.blocked, *queries),
            outcomes.failed
        )));
        if let Delays { median_us: Some(median), p95_us: Some(p95), p99_us: Some(p99), .. } = delays
        {
            let [median, p95, p99] = [*median, *p95, *p99].map(duration);
            lines.push(Line::from(format!(" half in {median}, 95 % in {p95}, 99 % in {p99}")));
        }
        lines
    }

    fn draw_rankings(&self, area: Rect, buffer: &mut Buffer) {
        let [left, right] = halves(area);
        let kind = self.screen.ranking();
        let block = Block::new().borders(Borders::TOP).title(format!(" {} ", title(kind)));
        let lines = self.ranking(kind);
        Paragraph::new(lines).block(block).render(left, buffer);
        let block = Block::new().borders(Borders::TOP).title(" outcomes and upstreams ");
        let mut lines = self.reports.overview.as_ref().map_or_else(Vec::new, outcomes);
        let upstreams = self.reports.status.iter().flat_map(|status| &status.upstreams);
        lines.extend(upstreams.map(upstream));
        Paragraph::new(lines).block(block).render(right, buffer);
    }

    fn ranking(&self, kind: RankingKind) -> Vec<Line<'static>> {
        let tops = self.reports.overview.iter().flat_map(|overview| &overview.tops);
        let texts = tops.filter(|top| top.of == kind).flat_map(|top| &top.texts);
        let lines: Vec<_> = texts
            .map(|one| Line::from(format!("{:>9}  {}", one.queries, plain(&one.text))))
            .collect();
        if lines.is_empty() { vec![Line::from(" none").dim()] } else { lines }
    }

    fn draw_queries(&self, area: Rect, buffer: &mut Buffer) {
        let title = match (self.screen.is_stopped(), self.reports.skipped) {
            (true, _) => " queries (stopped; Home shows the latest) ".to_owned(),
            (false, 0) => " queries ".to_owned(),
            (false, skipped) => format!(" queries ({skipped} came too fast to be shown) "),
        };
        let block = Block::new().borders(Borders::TOP).title(title);
        let queries = self.screen.queries(self.reports);
        if queries.is_empty() {
            let why = self.reports.log_trouble.as_deref().map(plain);
            let why = why.unwrap_or_else(|| "no queries yet".to_owned());
            let text = Paragraph::new(format!(" {why}")).wrap(Wrap { trim: false });
            text.block(block).render(area, buffer);
            return;
        }
        let lines = usize::from(area.height.saturating_sub(1));
        // The selected line stays visible.
        let first = (self.screen.selected + 1).saturating_sub(lines);
        let rows = queries.iter().enumerate().skip(first).take(lines);
        let rows = rows.map(|(place, entry)| {
            let row = self.row(entry);
            if place == self.screen.selected && self.screen.is_stopped() {
                row.add_modifier(Modifier::REVERSED)
            } else {
                row
            }
        });
        let widths = [
            Constraint::Length(9),
            Constraint::Max(24),
            Constraint::Length(4),
            Constraint::Length(6),
            Constraint::Fill(3),
            Constraint::Fill(2),
            Constraint::Length(9),
            Constraint::Length(9),
        ];
        Table::new(rows, widths).block(block).render(area, buffer);
    }

    fn row(&self, entry: &LogEntry) -> Row<'static> {
        let cells = [
            format!(" {}", self.time_of_day(entry)),
            client(entry),
            entry.transport.text().to_owned(),
            entry.rtype.clone(),
            entry.name.clone().unwrap_or_else(|| "-".to_owned()),
            outcome(entry),
            entry.rcode.clone().unwrap_or_default(),
            entry.duration_us.map(duration).unwrap_or_default(),
        ];
        Row::new(cells.map(|text| Cell::from(plain(&text)))).style(colour(entry.kind))
    }

    fn time_of_day(&self, entry: &LogEntry) -> String {
        let text = self.times.secs(entry.time_us / 1_000_000);
        text.split_once(' ').map_or(text.clone(), |(_, time)| time.to_owned())
    }

    fn draw_keys(&self, area: Rect, buffer: &mut Buffer) {
        let line = match (self.screen.focus, self.screen.filter.as_str()) {
            (TopFocus::Filter, text) => Line::from(format!(" filter: {text}_  Enter keeps it")),
            (_, "") => Line::from(KEYS).dim(),
            (_, text) => Line::from(vec![
                Span::from(format!(" filter: {text} ")).add_modifier(Modifier::REVERSED),
                Span::from(KEYS).dim(),
            ]),
        };
        line.render(area, buffer);
    }

    fn draw_details(&self, area: Rect, buffer: &mut Buffer) {
        let queries = self.screen.queries(self.reports);
        let Some(entry) = queries.get(self.screen.selected) else { return };
        let height = DETAILS.min(area.height);
        let y = area.y + (area.height - height) / 2;
        let place = Rect { x: area.x, y, width: area.width, height };
        Clear.render(place, buffer);
        let block = Block::bordered().title(" query (Enter or Esc closes) ");
        let lines = details(entry, &self.times.secs(entry.time_us / 1_000_000));
        Paragraph::new(lines).wrap(Wrap { trim: false }).block(block).render(place, buffer);
    }
}

fn halves(area: Rect) -> [Rect; 2] {
    Layout::horizontal([Constraint::Length(LEFT), Constraint::Min(0)]).areas(area)
}

fn state(status: &ServerStatus) -> Line<'static> {
    let ServerStatus { version, mode, uptime_secs, queries, .. } = status;
    let well = if status.healthy && status.serving { "healthy".green() } else { "unhealthy".red() };
    Line::from(vec![
        " Avocet ".bold(),
        Span::from(format!("{}  ", plain(version))),
        well,
        Span::from(format!(
            "  mode {mode}  up {}  {} queries since the start",
            uptime(*uptime_secs),
            queries.all
        )),
    ])
}

fn uptime(secs: u64) -> String {
    let (days, hours, minutes) = (secs / 86_400, secs / 3_600 % 24, secs / 60 % 60);
    match (days, hours) {
        (0, 0) => format!("{minutes} min"),
        (0, _) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

fn title(kind: RankingKind) -> &'static str {
    match kind {
        RankingKind::Types => "types",
        RankingKind::Rcodes => "RCODEs",
        RankingKind::Names => "names",
        RankingKind::Clients => "clients",
        RankingKind::Rules => "rules",
        RankingKind::Lists => "lists",
        RankingKind::LoneLists => "lists that alone have a name",
        RankingKind::Upstreams => "upstreams that answered",
        RankingKind::BlockedNames => "blocked names",
        RankingKind::BlockedClients => "clients with blocked queries",
    }
}

fn share(part: u64, all: u64) -> f64 {
    part as f64 * 100.0 / all.max(1) as f64
}

/// Returns the outcomes that occurred, each in its colour.
fn outcomes(overview: &LogOverview) -> Vec<Line<'static>> {
    let OutcomeCounts { answered, local, blocked, rewritten, .. } = overview.outcomes;
    let OutcomeCounts { refused, dropped, failed, malformed, .. } = overview.outcomes;
    let all = [
        (OutcomeKind::Answered, answered),
        (OutcomeKind::Local, local),
        (OutcomeKind::Blocked, blocked),
        (OutcomeKind::Rewritten, rewritten),
        (OutcomeKind::Refused, refused),
        (OutcomeKind::Dropped, dropped),
        (OutcomeKind::Failed, failed),
        (OutcomeKind::Malformed, malformed),
    ];
    let shown = all.into_iter().filter(|(_, count)| *count > 0);
    let line = |(kind, count): (OutcomeKind, u64)| {
        let text = format!("{count:>9}  {kind} ({:.1} %)", share(count, overview.queries));
        Line::from(text).style(colour(kind))
    };
    shown.map(line).collect()
}

fn upstream(one: &UpstreamStatus) -> Line<'static> {
    let rtt = one.rtt_ms.map(|ms| format!(", {ms} ms")).unwrap_or_default();
    let text = format!(
        "{:>9}  {} {}{rtt}, {} failures",
        one.queries, one.transport, one.address, one.failures
    );
    match (&one.tls_error, one.state) {
        (Some(error), _) => Line::from(format!("{text}, {error}")).red(),
        (None, UpstreamState::Asked) => Line::from(text),
        (None, UpstreamState::Avoided) => Line::from(format!("{text}, {}", one.state)).red(),
    }
}

fn client(entry: &LogEntry) -> String {
    let known = entry.client_name.as_ref().or(entry.client.as_ref());
    known.cloned().unwrap_or_else(|| "-".to_owned())
}

/// Returns the stage that ended a query, with the rule or list that decided.
fn outcome(entry: &LogEntry) -> String {
    match (&entry.rule, entry.lists.first()) {
        (Some(rule), _) => format!("{} by {rule}", entry.outcome),
        (None, Some(list)) => format!("{} by {list}", entry.outcome),
        (None, None) => entry.outcome.to_string(),
    }
}

fn colour(kind: OutcomeKind) -> Style {
    match kind {
        OutcomeKind::Answered => Style::new(),
        OutcomeKind::Local | OutcomeKind::Rewritten => Style::new().fg(Color::Cyan),
        OutcomeKind::Blocked => Style::new().fg(Color::Red),
        OutcomeKind::Failed | OutcomeKind::Malformed => Style::new().fg(Color::Yellow),
        OutcomeKind::Refused | OutcomeKind::Dropped => Style::new().fg(Color::Magenta),
    }
}

/// Returns the lines about one query, without lines for missing data.
fn details(entry: &LogEntry, time: &str) -> Vec<Line<'static>> {
    let some = |text: &Option<String>| text.clone().unwrap_or_default();
    let listed = |texts: &[String]| texts.join(", ");
    let facts = [
        ("name", some(&entry.name)),
        ("type", format!("{} {}", entry.class, entry.rtype)),
        ("time", time.to_owned()),
        ("client", some(&entry.client)),
        ("device", some(&entry.client_name)),
        ("groups", listed(&entry.groups)),
        ("listener", some(&entry.listener)),
        ("transport", entry.transport.to_string()),
        ("outcome", format!("{} ({})", entry.outcome, entry.kind)),
        ("rule", some(&entry.rule)),
        ("lists", listed(&entry.lists)),
        ("RCODE", some(&entry.rcode)),
        ("EDE", entry.ede.map(|code| code.to_string()).unwrap_or_default()),
        ("cache", entry.cache.to_string()),
        ("validation", entry.validated.to_string()),
        ("upstream", some(&entry.upstream)),
        ("upstream RTT", entry.upstream_rtt_ms.map(|ms| format!("{ms} ms")).unwrap_or_default()),
        ("answered in", entry.duration_us.map(duration).unwrap_or_default()),
        ("flags", listed(&entry.flags)),
        ("octets", format!("{} asked, {} answered", entry.query_octets, entry.reply_octets)),
        ("answer", listed(&entry.answer)),
    ];
    let shown = facts.into_iter().filter(|(_, value)| !value.is_empty());
    shown.map(|(name, value)| Line::from(format!("{name:>13}  {}", plain(&value)))).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use avocet_control::log::LogTransport;
    use avocet_control::why::{CacheUse, QueryStage, ValidationState};

    use super::*;

    /// Returns a query for a name.
    pub(crate) fn query(name: &str) -> LogEntry {
        LogEntry {
            id: None,
            time_us: 1_700_000_000_000_000,
            client: Some("192.0.2.7".to_owned()),
            client_name: None,
            groups: Vec::new(),
            listener: None,
            transport: LogTransport::Udp,
            name: Some(name.to_owned()),
            rtype: "A".to_owned(),
            class: "IN".to_owned(),
            rcode: Some("NOERROR".to_owned()),
            flags: Vec::new(),
            ede: None,
            outcome: QueryStage::PacketHit,
            kind: OutcomeKind::Answered,
            cache: CacheUse::Hit,
            validated: ValidationState::Unknown,
            rule: None,
            lists: Vec::new(),
            revision: 1,
            upstream: None,
            upstream_rtt_ms: None,
            duration_us: Some(12),
            query_octets: 30,
            reply_octets: 46,
            answers: 1,
            answer: vec!["192.0.2.1".to_owned()],
        }
    }

    fn drawn(reports: &TopReports, screen: &TopScreen, (width, height): (u16, u16)) -> String {
        let area = Rect { x: 0, y: 0, width, height };
        let mut buffer = Buffer::empty(area);
        TopView { reports, screen, times: &Times::of(None) }.draw(area, &mut buffer);
        let cells = buffer.content().chunks(width.max(1).into());
        cells.map(|line| line.iter().map(|cell| cell.symbol()).collect::<String>() + "\n").collect()
    }

    #[test]
    fn a_query_has_a_line() {
        let mut reports = TopReports::default();
        let blocked = QueryStage::Blocked;
        let lists = vec!["ads".to_owned()];
        reports.add(LogEntry { outcome: blocked, lists, ..query("www.example.") });
        let text = drawn(&reports, &TopScreen::default(), (120, 40));
        let line = text.lines().find(|line| line.contains("www.example.")).unwrap();
        for part in ["22:13:20", "192.0.2.7", "udp", "blocked by ads", "NOERROR", "12 us"] {
            assert!(line.contains(part), "{line}");
        }
    }

    #[test]
    fn texts_of_the_network_cannot_control_the_terminal() {
        let mut reports = TopReports::default();
        let rule = Some("\u{1b}[2J".to_owned());
        reports.add(LogEntry { rule, ..query("\u{1b}]0;title\u{7}.example.") });
        let mut screen = TopScreen::default();
        screen.focus = TopFocus::Details;
        for focus in [TopFocus::Queries, TopFocus::Details] {
            screen.focus = focus;
            let text = drawn(&reports, &screen, (200, 40));
            assert!(text.contains("\\u{1b}]0;title"), "{text}");
            assert!(!text.contains(['\u{1b}', '\u{7}']));
        }
    }

    #[test]
    fn every_size_of_the_terminal_can_be_drawn() {
        let mut reports = TopReports::default();
        (0..50).for_each(|number| reports.add(query(&format!("{number}.example."))));
        let mut screen = TopScreen::default();
        screen.selected = 40;
        for focus in [TopFocus::Queries, TopFocus::Filter, TopFocus::Details] {
            screen.focus = focus;
            for width in [0, 1, 2, 10, 56, 57, 80, 300] {
                for height in [0, 1, 2, 5, 8, 12, 24, 100] {
                    drawn(&reports, &screen, (width, height));
                }
            }
        }
    }

    #[test]
    fn without_a_log_the_reason_is_shown() {
        let reports = TopReports {
            log_trouble: Some("the query log is off".to_owned()),
            ..TopReports::default()
        };
        let text = drawn(&reports, &TopScreen::default(), (100, 30));
        assert!(text.contains("the query log is off") && text.contains("without the query log"));
    }
}
