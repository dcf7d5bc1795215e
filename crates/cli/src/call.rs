//! The exchange with the running server over its control socket.

use std::fmt::Display;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use avocet_config::salvage::Whereabouts;
use avocet_config::{environment, find};
use avocet_control::line::{self, LineKind, ReplyLine};
use avocet_control::{Call, NoPart, Request, connect};
use zeroize::Zeroizing;

use crate::control_args::ControlArgs;
use crate::error::CommandError;
use crate::output::{self, Reader};

/// The longest time to wait for the next line of a reply. A reload with many records takes long.
const PATIENCE: Duration = Duration::from_secs(60);

/// The exit code of a command whose change is in force but not saved to disk.
const UNSAVED: u8 = 3;

/// The functions that format a reply for people. An empty text is not shown.
pub(crate) struct View<C: Call> {
    /// Formats a part of the reply.
    pub(crate) part: fn(&C::Part) -> String,
    /// Formats the end of the reply.
    pub(crate) end: fn(&C::Reply) -> String,
    /// Returns how much of the request is done.
    pub(crate) done: fn(&C::Reply) -> Done,
}

impl<C: Call<Part = NoPart>> View<C> {
    /// Creates the view of a reply with one line.
    pub(crate) fn of(end: fn(&C::Reply) -> String) -> Self {
        Self { part: |part| match *part {}, end, done: |_| Done::Whole }
    }

    /// Creates the view of a one-line reply to a change. `done` returns whether it was saved.
    pub(crate) fn of_change(end: fn(&C::Reply) -> String, done: fn(&C::Reply) -> Done) -> Self {
        Self { done, ..Self::of(end) }
    }
}

/// How much of a request is done.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Done {
    /// The whole request.
    Whole,
    /// The server executed a part of the request; the text of the reply describes the rest.
    InPart,
    /// The whole request, but the change is not saved. Holds the reason.
    Unsaved(String),
}

impl Done {
    /// Classifies a change by the reason why it is not saved, if there is one.
    pub(crate) fn of_change(unsaved: Option<&String>) -> Self {
        unsaved.map_or(Self::Whole, |why| Self::Unsaved(why.clone()))
    }

    /// Returns the exit code of the command, with a warning about changes that were not saved.
    pub(crate) fn exit_code(self) -> ExitCode {
        match self {
            Self::Whole => ExitCode::SUCCESS,
            Self::InPart => ExitCode::FAILURE,
            Self::Unsaved(why) => {
                output::note(&format!("avocet: warning: in force, but a restart undoes it: {why}"));
                ExitCode::from(UNSAVED)
            }
        }
    }
}

/// The form in which a reply is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ReplyForm {
    /// The JSON lines as received.
    Json,
    /// Text.
    Text,
}

/// Sends a request to the server of a configuration and shows the reply.
pub(crate) fn run<C: Call>(args: &ControlArgs, request: C, view: &View<C>) -> ExitCode {
    match whereabouts(args) {
        Ok(found) => send(args, &found.directory, request, view),
        Err(error) => refuse(&error),
    }
}

/// Finds the server by a configuration file, which may have errors: the server may run with an
/// earlier version of the file.
pub(crate) fn whereabouts(args: &ControlArgs) -> Result<Whereabouts, CommandError> {
    let found = Whereabouts::find(find(args.config.as_deref()).as_deref(), environment())?;
    if let Some(warning) = &found.warning {
        output::note(&format!("avocet: warning: {warning}"));
    }
    Ok(found)
}

/// Sends a request to the server of a data directory and shows the reply.
pub(crate) fn send<C: Call>(
    args: &ControlArgs,
    directory: &Path,
    request: C,
    view: &View<C>,
) -> ExitCode {
    let form = if args.json { ReplyForm::Json } else { ReplyForm::Text };
    match ask(directory, request, view, form) {
        Ok(done) => done.exit_code(),
        Err(error) => refuse(&error),
    }
}

/// Reports an error.
pub(crate) fn refuse(error: &impl Display) -> ExitCode {
    output::note(&format!("avocet: {error}"));
    ExitCode::FAILURE
}

/// Sends the request and writes the lines of the reply to standard output.
fn ask<C: Call>(
    directory: &Path,
    request: C,
    view: &View<C>,
    form: ReplyForm,
) -> Result<Done, CommandError> {
    let reply = exchange::<C>(directory, request, |line, reply| {
        let text = match (form, reply) {
            (ReplyForm::Json, _) => line.to_owned(),
            (ReplyForm::Text, ReplyLine::Part(part)) => (view.part)(part),
            (ReplyForm::Text, ReplyLine::End(end)) => (view.end)(end),
        };
        match form {
            _ if text.is_empty() => Ok(Reader::Reads),
            ReplyForm::Json => output::write_data(&format!("{text}\n")),
            ReplyForm::Text => output::write(&format!("{text}\n")),
        }
    })?;
    Ok(reply.map_or(Done::Whole, |end| (view.done)(&end)))
}

/// Sends the request and passes each line of the reply to `take`. Returns the last line of the
/// reply; `None` if the reader of the output has closed the pipe.
///
/// # Errors
/// No server answers, the server reports an error, the reply is malformed or incomplete, or `take`
/// fails.
pub(crate) fn exchange<C: Call>(
    directory: &Path,
    request: C,
    mut take: impl FnMut(&str, &ReplyLine<C>) -> Result<Reader, CommandError>,
) -> Result<Option<C::Reply>, CommandError> {
    let mut end = None;
    exchange_lines(directory, request, |line, _| {
        let reply = line::read_reply::<C>(line)?;
        let reader = take(line, &reply)?;
        if let (Reader::Reads, ReplyLine::End(reply)) = (reader, reply) {
            end = Some(reply);
        }
        Ok(reader)
    })?;
    Ok(end)
}

/// Sends a request and passes each line of the reply on, until the reader of the output is gone.
///
/// # Errors
/// No server answers, or it reports an error.
pub(crate) fn exchange_lines(
    directory: &Path,
    request: impl Into<Request>,
    mut take: impl FnMut(&str, LineKind) -> Result<Reader, CommandError>,
) -> Result<(), CommandError> {
    let mut stream = connect(directory).map_err(|error| unreachable_server(directory, &error))?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(CommandError::Broken)?;
    let request = Zeroizing::new(line::of_request(request));
    stream.write_all(request.as_bytes()).map_err(CommandError::Broken)?;
    for line in BufReader::new(stream).lines() {
        let line = line.map_err(CommandError::Broken)?;
        let kind = line::read_kind(&line)?;
        if take(&line, kind)? == Reader::Gone || kind == LineKind::End {
            return Ok(());
        }
    }
    Err(CommandError::Incomplete)
}

fn unreachable_server(directory: &Path, error: &io::Error) -> CommandError {
    match error.kind() {
        io::ErrorKind::PermissionDenied => CommandError::OtherAccount(directory.to_owned()),
        _ => CommandError::NoServer(directory.to_owned()),
    }
}
