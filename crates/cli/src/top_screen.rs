//! The choices of the person at the terminal in `avocet top`, and the effect of each key.

use avocet_control::log::LogEntry;
use avocet_control::statistics::RankingKind;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::top_feed::TopReports;

/// The rankings in the order of the key Tab.
const RANKINGS: [RankingKind; 10] = [
    RankingKind::Names,
    RankingKind::BlockedNames,
    RankingKind::Clients,
    RankingKind::BlockedClients,
    RankingKind::Lists,
    RankingKind::LoneLists,
    RankingKind::Rules,
    RankingKind::Upstreams,
    RankingKind::Types,
    RankingKind::Rcodes,
];
/// Number of lines of a page.
const PAGE: usize = 10;
/// Longest text of the filter.
const FILTER_MAX: usize = 64;

/// The reaction of the main loop to a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum KeyEffect {
    /// Draw the screen again.
    Stay,
    /// Show the counts of the next time window.
    NextWindow,
    /// End the program.
    Quit,
}

/// The parts of the screen that can have the keyboard focus.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum TopFocus {
    /// The list of queries.
    #[default]
    Queries,
    /// The text of the filter.
    Filter,
    /// The details of the selected query.
    Details,
}

/// The choices of the person at the terminal.
#[derive(Debug, Default)]
pub(crate) struct TopScreen {
    ranking: usize,
    pub(crate) focus: TopFocus,
    /// Text that a query must have, in lower case.
    pub(crate) filter: String,
    /// The line of the selected query in the list.
    pub(crate) selected: usize,
    /// The queries in the list when it was stopped; `None` while the list follows the log.
    frozen: Option<Vec<LogEntry>>,
    /// The number of received queries when the list was last drawn.
    received: u64,
}

impl TopScreen {
    /// Returns the ranking to show.
    pub(crate) fn ranking(&self) -> RankingKind {
        RANKINGS[self.ranking]
    }

    /// Reports whether the list of queries is stopped.
    pub(crate) fn is_stopped(&self) -> bool {
        self.frozen.is_some()
    }

    /// Returns the queries to show, the latest first.
    pub(crate) fn queries<'a>(&'a self, reports: &'a TopReports) -> Vec<&'a LogEntry> {
        let suits = |entry: &&LogEntry| self.suits(entry);
        match &self.frozen {
            Some(frozen) => frozen.iter().filter(suits).collect(),
            None => reports.latest.iter().filter(suits).collect(),
        }
    }

    fn suits(&self, entry: &LogEntry) -> bool {
        let has = |text: &str| text.to_lowercase().contains(&self.filter);
        let texts = [&entry.name, &entry.client, &entry.client_name, &entry.rule, &entry.rcode];
        self.filter.is_empty()
            || texts.into_iter().flatten().any(|text| has(text))
            || entry.lists.iter().chain(&entry.groups).any(|text| has(text))
            || has(entry.outcome.text())
            || has(&entry.rtype)
    }

    /// Keeps the selected query selected when other queries arrive: stops the list while a query
    /// other than the first is selected.
    pub(crate) fn follow(&mut self, reports: &TopReports) {
        if self.frozen.is_none() && (self.selected > 0 || self.focus == TopFocus::Details) {
            let more = usize::try_from(reports.received - self.received).unwrap_or(usize::MAX);
            let before: Vec<LogEntry> = reports.latest.iter().skip(more).cloned().collect();
            self.frozen = Some(before);
        }
        self.received = reports.received;
        let last = self.queries(reports).len().saturating_sub(1);
        self.selected = self.selected.min(last);
    }

    /// Executes the action of a key.
    pub(crate) fn press(&mut self, key: KeyEvent) -> KeyEffect {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => KeyEffect::Quit,
                _ => KeyEffect::Stay,
            };
        }
        match self.focus {
            TopFocus::Filter => self.edit(key.code),
            TopFocus::Queries | TopFocus::Details => return self.choose(key.code),
        }
        KeyEffect::Stay
    }

    fn edit(&mut self, key: KeyCode) {
        match key {
            KeyCode::Enter => self.focus = TopFocus::Queries,
            KeyCode::Esc => {
                self.filter.clear();
                self.focus = TopFocus::Queries;
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(one) if self.filter.len() < FILTER_MAX => {
                self.filter.extend(one.to_lowercase());
            }
            _ => {}
        }
    }

    fn choose(&mut self, key: KeyCode) -> KeyEffect {
        match key {
            KeyCode::Char('q') => return KeyEffect::Quit,
            KeyCode::Char('t') => return KeyEffect::NextWindow,
            KeyCode::Tab => self.ranking = (self.ranking + 1) % RANKINGS.len(),
            KeyCode::BackTab => {
                self.ranking = (self.ranking + RANKINGS.len() - 1) % RANKINGS.len();
            }
            KeyCode::Char('/') => self.focus = TopFocus::Filter,
            KeyCode::Enter if self.focus == TopFocus::Queries => self.focus = TopFocus::Details,
            KeyCode::Enter => self.focus = TopFocus::Queries,
            KeyCode::Esc if self.focus == TopFocus::Details => self.focus = TopFocus::Queries,
            KeyCode::Esc | KeyCode::Home | KeyCode::Char('g') => self.resume(),
            KeyCode::Down | KeyCode::Char('j') => self.selected += 1,
            KeyCode::Up | KeyCode::Char('k') => self.selected = self.selected.saturating_sub(1),
            KeyCode::PageDown => self.selected += PAGE,
            KeyCode::PageUp => self.selected = self.selected.saturating_sub(PAGE),
            _ => {}
        }
        KeyEffect::Stay
    }

    /// Shows the latest queries again.
    fn resume(&mut self) {
        self.frozen = None;
        self.selected = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top_view::tests::query;

    fn key(screen: &mut TopScreen, code: KeyCode) -> KeyEffect {
        screen.press(KeyEvent::new(code, KeyModifiers::NONE))
    }

    fn names(screen: &TopScreen, reports: &TopReports) -> Vec<String> {
        let queries = screen.queries(reports).into_iter();
        queries.filter_map(|entry| entry.name.clone()).collect()
    }

    #[test]
    fn a_selected_query_stays_while_others_arrive() {
        let (mut reports, mut screen) = (TopReports::default(), TopScreen::default());
        reports.add(query("first.example."));
        reports.add(query("second.example."));
        screen.follow(&reports);
        key(&mut screen, KeyCode::Down);
        reports.add(query("third.example."));
        screen.follow(&reports);
        assert_eq!(names(&screen, &reports), ["second.example.", "first.example."]);
        assert_eq!(screen.selected, 1);
        assert!(screen.is_stopped());
        key(&mut screen, KeyCode::Home);
        screen.follow(&reports);
        assert_eq!(names(&screen, &reports).len(), 3);
    }

    #[test]
    fn a_filter_takes_letters_that_are_commands_elsewhere() {
        let (mut reports, mut screen) = (TopReports::default(), TopScreen::default());
        reports.add(query("Quiet.example."));
        reports.add(query("other.example."));
        key(&mut screen, KeyCode::Char('/'));
        "QuX".chars().for_each(|one| {
            assert_eq!(key(&mut screen, KeyCode::Char(one)), KeyEffect::Stay);
        });
        key(&mut screen, KeyCode::Backspace);
        key(&mut screen, KeyCode::Enter);
        assert_eq!(names(&screen, &reports), ["Quiet.example."]);
        assert_eq!(key(&mut screen, KeyCode::Char('q')), KeyEffect::Quit);
    }

    #[test]
    fn the_selection_never_leaves_the_list() {
        let (mut reports, mut screen) = (TopReports::default(), TopScreen::default());
        key(&mut screen, KeyCode::PageDown);
        screen.follow(&reports);
        assert_eq!(screen.selected, 0);
        reports.add(query("only.example."));
        key(&mut screen, KeyCode::Up);
        screen.follow(&reports);
        assert_eq!(screen.selected, 0);
    }

    #[test]
    fn tab_visits_each_ranking_and_returns() {
        let mut screen = TopScreen::default();
        let first = screen.ranking();
        key(&mut screen, KeyCode::BackTab);
        key(&mut screen, KeyCode::Tab);
        assert_eq!(screen.ranking(), first);
        (0..RANKINGS.len()).for_each(|_| {
            key(&mut screen, KeyCode::Tab);
        });
        assert_eq!(screen.ranking(), first);
    }

    #[test]
    fn control_c_ends_it_everywhere() {
        let mut screen = TopScreen::default();
        key(&mut screen, KeyCode::Char('/'));
        let end = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(screen.press(end), KeyEffect::Quit);
    }
}
