//! `avocet log`: the query log of the running server.

use std::net::SocketAddr;
use std::process::ExitCode;

use avocet_config::policy::parse_duration;
use avocet_config::salvage::Whereabouts;
use avocet_control::Call;
use avocet_control::line::ReplyLine;
use avocet_control::log::{LogFilter, LogLine, LogTail};
use avocet_control::why::QueryStage;
use avocet_nameserver::clock::wall_secs;

use crate::call::{exchange, refuse, whereabouts};
use crate::error::CommandError;
use crate::log_args::{LogArgs, LogCommand, LogFilterArgs};
use crate::log_text::{self, Times};
use crate::output::{self, Reader};
use crate::policy::unix_secs;

/// The port of an upstream that is given without one.
const DNS_PORT: u16 = 53;
/// Runs `avocet log`.
pub(crate) fn run(args: &LogArgs) -> ExitCode {
    match whereabouts(&args.control).and_then(|found| LogQuery { args, found }.run()) {
        Ok(code) => code,
        Err(error) => refuse(&error),
    }
}

/// A command and the server that it is about.
struct LogQuery<'a> {
    args: &'a LogArgs,
    found: Whereabouts,
}

impl LogQuery<'_> {
    fn run(&self) -> Result<ExitCode, CommandError> {
        let times = Times::of(self.found.config.as_ref());
        match &self.args.command {
            LogCommand::Tail(tail) => {
                let request = LogTail { filter: self.filter(&tail.filter)? };
                let text = |line: &LogLine| match line {
                    LogLine::Query(entry) => log_text::entry(&times, entry),
                    LogLine::Skipped(count) => format!("{count} queries skipped"),
                    LogLine::Waiting {} => String::new(),
                };
                self.show(request, text, |_| String::new())
            }
        }
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
            if text.is_empty() { Ok(Reader::Reads) } else { output::write(&format!("{text}\n")) }
        })?;
        Ok(ExitCode::SUCCESS)
    }

    fn filter(&self, args: &LogFilterArgs) -> Result<LogFilter, CommandError> {
        let LogFilterArgs { name, under, client, rtype, rcode, rule, list, .. } = args.clone();
        let time = |text: &Option<String>| text.as_deref().map(|text| self.time(text)).transpose();
        let outcome = args.outcome.as_deref().map(outcome).transpose()?;
        let upstream = args.upstream.as_deref().map(upstream).transpose()?;
        let (from, to) = (time(&args.from)?, time(&args.to)?);
        Ok(LogFilter { name, under, client, rtype, rcode, outcome, rule, list, upstream, from, to })
    }

    /// Parses a time: a duration before now, Unix seconds, or a date and time of day.
    fn time(&self, text: &str) -> Result<u64, CommandError> {
        if let Some(span) = parse_duration(text) {
            return Ok(wall_secs().saturating_sub(span.as_secs()));
        }
        match &self.found.config {
            Some(config) => unix_secs(config, text),
            // The time zone is unknown.
            None => text.parse().map_err(|_| CommandError::NotUnixSecs(text.to_owned())),
        }
    }
}

fn upstream(text: &str) -> Result<SocketAddr, CommandError> {
    let with_port = || text.parse().map(|ip| SocketAddr::new(ip, DNS_PORT)).ok();
    let address = text.parse().ok().or_else(with_port);
    address.ok_or_else(|| CommandError::NotAnAddress(text.to_owned()))
}

fn outcome(word: &str) -> Result<QueryStage, CommandError> {
    let value = serde_json::Value::from(word);
    serde_json::from_value(value).map_err(|_| CommandError::NotAnOutcome(word.to_owned()))
}
