//! `avocet top`: the overview and the latest queries of the running server, in a terminal.
//!
//! ```text
//!   control socket -- top_feed (a thread each for counts and queries) --> TopReports
//!   keys ----------- top_screen (what is selected, filtered, paused) ---> top_view draws both
//! ```
//! The terminal is drawn only by the main thread, at most ten times a second.

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use ratatui::DefaultTerminal;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::layout::Rect;

use crate::call::{refuse, whereabouts};
use crate::control_args::ControlArgs;
use crate::error::CommandError;
use crate::log_text::Times;
use crate::output;
use crate::top_feed::TopFeed;
use crate::top_screen::{KeyEffect, TopScreen};
use crate::top_view::TopView;

/// Longest time between two frames.
const FRAME: Duration = Duration::from_millis(250);
/// Columns and lines of a frame that is printed once.
const PRINTED: Rect = Rect { x: 0, y: 0, width: 120, height: 48 };

/// Arguments of `avocet top`.
#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// Period that the counts and rankings cover; the key t changes the period
    #[arg(long, value_enum, default_value_t = TimeWindow::Hour)]
    pub(crate) last: TimeWindow,
    /// Print the display once as text, and exit
    #[arg(long)]
    pub(crate) once: bool,
    /// Connection to the running server.
    #[command(flatten)]
    pub(crate) control: ControlArgs,
}

/// The period before now that the counts and rankings cover.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum TimeWindow {
    /// The last hour
    Hour,
    /// The last 24 hours
    Day,
    /// The last seven days
    Week,
}

impl TimeWindow {
    /// Returns the length in seconds.
    pub(crate) const fn secs(self) -> u64 {
        match self {
            Self::Hour => 3_600,
            Self::Day => 86_400,
            Self::Week => 7 * 86_400,
        }
    }

    /// Returns the next longer window; the shortest one after the longest one.
    pub(crate) const fn next(self) -> Self {
        match self {
            Self::Hour => Self::Day,
            Self::Day => Self::Week,
            Self::Week => Self::Hour,
        }
    }

    /// Returns the name.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Hour => "last hour",
            Self::Day => "last 24 hours",
            Self::Week => "last 7 days",
        }
    }
}

/// Runs `avocet top`.
pub(crate) fn run(args: &TopArgs) -> ExitCode {
    match show(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => refuse(&error),
    }
}

fn show(args: &TopArgs) -> Result<(), CommandError> {
    let found = whereabouts(&args.control)?;
    let times = Times::of(found.config.as_ref());
    let feed = Arc::new(TopFeed::new(found.directory, args.last));
    // If no server answers, the command fails here, before it uses the whole screen.
    feed.ask_status()?;
    if args.once || args.control.json {
        feed.ask_counts();
        feed.ask_latest();
        return print(&feed, &times, args);
    }
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(CommandError::NoTerminal);
    }
    TopFeed::follow(&feed).map_err(CommandError::Terminal)?;
    let mut terminal = ratatui::try_init().map_err(CommandError::Terminal)?;
    let shown = live(&mut terminal, &feed, &times);
    ratatui::try_restore().map_err(CommandError::Terminal)?;
    shown.map_err(CommandError::Terminal)
}

/// Prints one frame, or its data as JSON.
fn print(feed: &TopFeed, times: &Times, args: &TopArgs) -> Result<(), CommandError> {
    let reports = feed.reports();
    if args.control.json {
        return output::write_data(&format!("{}\n", reports.json()?)).map(|_| ());
    }
    let mut buffer = Buffer::empty(PRINTED);
    TopView { reports: &reports, screen: &TopScreen::default(), times }.draw(PRINTED, &mut buffer);
    let lines = buffer.content().chunks(PRINTED.width.into());
    let text: String = lines
        .map(|cells| {
            let line: String = cells.iter().map(|cell| cell.symbol()).collect();
            format!("{}\n", line.trim_end())
        })
        .collect();
    output::write(&text).map(|_| ())
}

fn live(terminal: &mut DefaultTerminal, feed: &TopFeed, times: &Times) -> io::Result<()> {
    let mut screen = TopScreen::default();
    loop {
        {
            let reports = feed.reports();
            screen.follow(&reports);
            let view = TopView { reports: &reports, screen: &screen, times };
            terminal.draw(|frame| view.draw(frame.area(), frame.buffer_mut()))?;
        }
        if !event::poll(FRAME)? {
            continue;
        }
        let Event::Key(key) = event::read()? else { continue };
        if key.kind == KeyEventKind::Release {
            continue;
        }
        match screen.press(key) {
            KeyEffect::Stay => {}
            KeyEffect::NextWindow => feed.next_window(),
            KeyEffect::Quit => return Ok(()),
        }
    }
}
