//! `avocet log search`, `export`, `verify`, and `top` with a filter: they read the files of the
//! query log, whether or not the server runs.

use std::collections::HashSet;
use std::fs::{self, OpenOptions};
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use avocet_config::Config;
use avocet_config::salvage::Whereabouts;
use avocet_querylog::{
    Broken, ExportFormat, Exported, Filter, LogEntry, LogError, LogReader, SearchExtent, export,
    rank, write_entry,
};
use avocet_server::{ranking, top_ranking};
use serde_json::json;

use crate::error::CommandError;
use crate::log_args::{LogExportArgs, LogFormat, LogSearchArgs, LogTopArgs};
use crate::log_filter;
use crate::log_text::{self, Times};
use crate::output::{self, Reader};

/// Maximum number of entries that are read before they are shown.
const PAGE_ENTRIES: u64 = 1_000;
/// The whole log.
const WHOLE: SearchExtent =
    SearchExtent { before_id: u64::MAX, entries: usize::MAX, max_rows: u64::MAX };

/// The form in which entries are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EntryForm {
    /// A line of text for each entry.
    Text,
    /// A JSON object for each entry.
    Json,
}

/// The files of the log of a configuration.
pub(crate) struct LogFiles<'a> {
    config: &'a Config,
    reader: LogReader,
    form: EntryForm,
}

impl<'a> LogFiles<'a> {
    /// Opens the log of a server.
    ///
    /// # Errors
    /// There is no log, or its directory is unreadable or unknown.
    pub(crate) fn open(found: &'a Whereabouts, form: EntryForm) -> Result<Self, CommandError> {
        let config = found.config.as_ref().ok_or(CommandError::QueryLogUnknown)?;
        let directory = Self::directory(found)?;
        let reader = match LogReader::open(directory.clone()) {
            Err(LogError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => None,
            opened => Some(opened?),
        };
        // A log that is on may have no file yet.
        let is_log = |reader: &LogReader| reader.files() > 0 || config.query_log.enabled;
        let reader = reader.filter(is_log).ok_or(CommandError::NoQueryLog(directory))?;
        Ok(Self { config, reader, form })
    }

    /// Returns the directory of the log of a server.
    ///
    /// # Errors
    /// The directory is unknown, or does not exist.
    pub(crate) fn directory(found: &Whereabouts) -> Result<PathBuf, CommandError> {
        let config = found.config.as_ref().ok_or(CommandError::QueryLogUnknown)?;
        let directory = config.query_log.directory_in(&found.directory);
        match fs::metadata(&directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(CommandError::NoQueryLog(directory))
            }
            _ => Ok(directory),
        }
    }

    /// Shows the latest entries, or their number.
    ///
    /// # Errors
    /// An argument is malformed, or standard output cannot be written.
    pub(crate) fn search(&self, args: &LogSearchArgs) -> Result<ExitCode, CommandError> {
        let filter = log_filter::of_files(&args.filter, self.config)?;
        if args.count {
            return self.count(&filter);
        }
        let times = Times::of(Some(self.config));
        let mut damaged = HashSet::new();
        let (mut left, mut before_id) = (args.limit, Some(u64::MAX));
        while let Some(id) = before_id.filter(|_| left > 0) {
            let entries = left.min(PAGE_ENTRIES) as usize;
            let page =
                self.reader.search(&filter, SearchExtent { before_id: id, entries, ..WHOLE });
            if self.write(&self.lines(&times, &page.entries))? == Reader::Gone {
                return Ok(ExitCode::SUCCESS);
            }
            left -= page.entries.len() as u64;
            before_id = page.next_before_id;
            damaged.extend(page.broken);
        }
        Ok(report_damaged(damaged))
    }

    fn write(&self, text: &str) -> Result<Reader, CommandError> {
        match self.form {
            EntryForm::Text => output::write(text),
            EntryForm::Json => output::write_data(text),
        }
    }

    fn lines(&self, times: &Times, entries: &[LogEntry]) -> String {
        let mut lines = Vec::new();
        for entry in entries {
            // Writing to memory does not fail.
            let _ = match self.form {
                EntryForm::Text => writeln!(lines, "{}", log_text::stored(times, entry)),
                EntryForm::Json => write_entry(ExportFormat::JsonLines, entry, &mut lines),
            };
        }
        String::from_utf8_lossy(&lines).into_owned()
    }

    fn count(&self, filter: &Filter) -> Result<ExitCode, CommandError> {
        let count = self.reader.count(filter, WHOLE);
        let text = match self.form {
            EntryForm::Text => count.entries.to_string(),
            EntryForm::Json => json!({ "entries": count.entries }).to_string(),
        };
        self.write(&format!("{text}\n"))?;
        Ok(report_damaged(count.broken))
    }

    /// Shows the most frequent texts of the entries that match.
    ///
    /// # Errors
    /// An argument is malformed, or standard output cannot be written.
    pub(crate) fn top(&self, args: &LogTopArgs) -> Result<ExitCode, CommandError> {
        let filter = log_filter::of_files(&args.filter, self.config)?;
        let kind = args.of.kind();
        // Every word of the command line has a ranking.
        let Some(counted) = ranking(kind) else { return Ok(ExitCode::FAILURE) };
        let show = |entries| progress(&format!("{entries} entries"));
        let ranked = rank(&self.reader, &filter, counted, show);
        progress("");
        let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
        let top = top_ranking(kind, &ranked.top, limit);
        let text = match self.form {
            EntryForm::Text => {
                format!("{} queries\n{}", ranked.entries, log_text::ranking_text(&top))
            }
            EntryForm::Json => serde_json::to_string(&top)? + "\n",
        };
        self.write(&text)?;
        Ok(report_damaged(ranked.broken))
    }

    /// Writes entries to a file or to standard output.
    ///
    /// # Errors
    /// An argument is malformed, or the output cannot be written.
    pub(crate) fn export(&self, args: &LogExportArgs) -> Result<ExitCode, CommandError> {
        let filter = log_filter::of_files(&args.filter, self.config)?;
        let format = match args.format {
            LogFormat::Csv => ExportFormat::Csv,
            LogFormat::Json => ExportFormat::JsonLines,
            LogFormat::Parquet => ExportFormat::Parquet,
        };
        if let Some(path) = &args.output {
            let unwritten = |source| CommandError::Unwritten { path: path.clone(), source };
            let exported = self.export_to(path, &filter, format).map_err(unwritten)?;
            output::write(&format!(
                "{} written to {}\n",
                output::entries(exported.entries),
                path.display()
            ))?;
            return Ok(report_damaged(exported.broken));
        }
        let mut out = BufWriter::new(io::stdout().lock());
        let exported = export(&self.reader, &filter, format, &mut out, |_| ());
        match exported.and_then(|exported| out.flush().map(|()| exported)) {
            Ok(exported) => Ok(report_damaged(exported.broken)),
            // The reader has closed the pipe: this is no error.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
            Err(error) => Err(CommandError::Output(error)),
        }
    }

    /// Writes entries to a new file that only this account may read. If the export fails, removes
    /// the incomplete file.
    fn export_to(
        &self,
        path: &Path,
        filter: &Filter,
        format: ExportFormat,
    ) -> io::Result<Exported> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        let mut out = BufWriter::new(file);
        let show = |entries| progress(&format!("{entries} entries"));
        let exported = export(&self.reader, filter, format, &mut out, show);
        progress("");
        let exported = exported.and_then(|exported| out.flush().map(|()| exported));
        if exported.is_err() {
            let _ = fs::remove_file(path);
        }
        exported
    }

    /// Compares all files with their checksums.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(crate) fn verify(&self) -> Result<ExitCode, CommandError> {
        let show = |done, all| progress(&format!("{done} of {all} files"));
        let damaged = self.reader.verify(show);
        progress("");
        let entries = self.reader.count(&Filter::default(), WHOLE).entries;
        let files = self.reader.files();
        let text = match self.form {
            EntryForm::Text => format!("{files} files read, {entries} entries"),
            EntryForm::Json => {
                let file = |one: &Broken| json!({ "file": one.path, "reason": one.reason });
                let damaged: Vec<_> = damaged.iter().map(file).collect();
                json!({ "files": files, "entries": entries, "damaged": damaged }).to_string()
            }
        };
        self.write(&format!("{text}\n"))?;
        Ok(report_damaged(damaged))
    }
}

/// Names damaged files on standard error. Returns the exit code.
pub(crate) fn report_damaged(damaged: impl IntoIterator<Item = Broken>) -> ExitCode {
    let mut lines: Vec<String> = damaged.into_iter().map(|one| line(&one)).collect();
    lines.sort_unstable();
    for line in &lines {
        output::note(&format!("avocet: {line}"));
    }
    if lines.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns the reason with the path of the file, unless the reason contains the path.
fn line(Broken { path, reason }: &Broken) -> String {
    let path = path.display().to_string();
    if reason.contains(&path) { reason.clone() } else { format!("{path}: {reason}") }
}

/// Replaces the progress line on standard error, if that is a terminal.
pub(crate) fn progress(text: &str) {
    let mut out = io::stderr();
    if out.is_terminal() {
        let _ = write!(out, "\r{text}\x1b[K");
    }
}
