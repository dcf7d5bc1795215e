//! `avocet log`: follows, searches, exports, checks, counts and prunes the query log, through the
//! running server or in the files of the log.

use std::process::ExitCode;

use avocet_config::salvage::Whereabouts;
use avocet_control::Call;
use avocet_control::line::ReplyLine;
use avocet_control::log::{LogLine, LogTail};

use crate::call::{exchange, refuse, whereabouts};
use crate::error::CommandError;
use crate::log_args::{LogArgs, LogCommand, LogTailArgs};
use crate::log_files::{EntryForm, LogFiles};
use crate::log_overview::LogOverviews;
use crate::log_text::{self, Times};
use crate::output::{self, Reader};
use crate::{log_filter, log_prune};

/// Runs `avocet log`.
pub(crate) fn run(args: &LogArgs) -> ExitCode {
    match whereabouts(&args.control).and_then(|found| LogQuery { args, found }.run()) {
        Ok(code) => code,
        Err(error) => refuse(&error),
    }
}

/// A command, and the server whose log it reads.
struct LogQuery<'a> {
    args: &'a LogArgs,
    found: Whereabouts,
}

impl LogQuery<'_> {
    fn run(&self) -> Result<ExitCode, CommandError> {
        let form = if self.args.control.json { EntryForm::Json } else { EntryForm::Text };
        let files = || LogFiles::open(&self.found, form);
        match &self.args.command {
            LogCommand::Tail(tail) => self.tail(tail),
            LogCommand::Search(search) => files()?.search(search),
            LogCommand::Export(export) => files()?.export(export),
            LogCommand::Verify => files()?.verify(),
            LogCommand::Top(top) => LogOverviews::of(&self.found, form).top(top),
            LogCommand::Stats(stats) => LogOverviews::of(&self.found, form).stats(stats),
            LogCommand::Clients(clients) => LogOverviews::of(&self.found, form).clients(clients),
            LogCommand::Prune(prune) => log_prune::run(&self.found, form, prune),
        }
    }

    fn tail(&self, tail: &LogTailArgs) -> Result<ExitCode, CommandError> {
        let config = self.found.config.as_ref();
        let times = Times::of(config);
        let request = LogTail { filter: log_filter::of_request(&tail.filter, config)? };
        let text = |line: &LogLine| match line {
            LogLine::Query(entry) => log_text::entry(&times, entry),
            LogLine::Skipped(count) => format!("{count} queries skipped"),
            LogLine::Waiting {} => String::new(),
        };
        self.show(request, text, |_| String::new())
    }

    /// Sends a request and shows the reply.
    fn show<C: Call>(
        &self,
        request: C,
        part: impl Fn(&C::Part) -> String,
        end: impl Fn(&C::Reply) -> String,
    ) -> Result<ExitCode, CommandError> {
        exchange::<C>(&self.found.directory, request, |line, reply| {
            let text = match reply {
                _ if self.args.control.json => line.to_owned(),
                ReplyLine::Part(one) => part(one),
                ReplyLine::End(one) => end(one),
            };
            match text.is_empty() {
                true => Ok(Reader::Reads),
                false if self.args.control.json => output::write_data(&format!("{text}\n")),
                false => output::write(&format!("{text}\n")),
            }
        })?;
        Ok(ExitCode::SUCCESS)
    }
}
