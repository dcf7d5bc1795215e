//! Lists from texts: compiled to one image, and opened.

use std::fs::File;
use std::io::{self, Read};

use avocet_policy::list::{Compiler, Format, Image, Kind, ListId, Progress, Report, Rewrites, Source};

use super::Lists;
use crate::config::policy::{ListConfig, ListKind, ListSource, PolicyConfig};

/// Octets that are read of a text at once.
const CHUNK: usize = 256 * 1024;

/// Compiles the texts of all lists; `open` gives that of each, or none where there is none yet.
pub(crate) fn compile<R: Read>(
    config: &PolicyConfig,
    secret: [u8; 32],
    mut open: impl FnMut(&ListConfig) -> io::Result<Option<R>>,
) -> (Vec<u8>, Vec<io::Result<Option<Report>>>) {
    let mut compiler = Compiler::new(secret);
    let mut reports = Vec::new();
    for (place, list) in config.lists.iter().enumerate() {
        let report = match open(list) {
            Ok(Some(text)) => read(&mut compiler, (place, list), text).map(Some),
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        reports.push(report);
    }
    (compiler.finish().0, reports)
}

fn read(compiler: &mut Compiler, (place, list): (usize, &ListConfig), mut text: impl Read) -> io::Result<Report> {
    let number = ListId::at(place).ok_or_else(|| io::Error::other("there are too many lists"))?;
    let mut reader = compiler.list(Source {
        list: number,
        kind: match list.kind {
            ListKind::Block => Kind::Block,
            ListKind::Allow => Kind::Allow,
        },
        format: Format::from_name(list.format.0),
        rewrites: if list.rewrites { Rewrites::Permitted } else { Rewrites::Refused },
    });
    let mut chunk = vec![0; CHUNK];
    loop {
        let len = text.read(&mut chunk)?;
        if len == 0 || reader.feed(&chunk[..len]) == Progress::Enough {
            return Ok(reader.finish());
        }
    }
}

/// The text of a list that is a file of this machine.
pub(crate) fn open_file(list: &ListConfig) -> io::Result<Option<File>> {
    match &list.source {
        ListSource::File(path) => File::open(path).map(Some),
        ListSource::Url(_) => Ok(None),
    }
}

/// The lists that are files of this machine, compiled; a line of the log for each that cannot be read, and for each
/// with lines that were not taken.
pub(crate) fn from_files(config: &PolicyConfig, secret: [u8; 32]) -> Option<Lists> {
    if config.lists.is_empty() {
        return None;
    }
    let (octets, reports) = compile(config, secret, open_file);
    for (list, report) in config.lists.iter().zip(reports) {
        match report {
            Err(error) => tracing::error!(list = list.name, %error, "cannot read a list"),
            Ok(Some(report)) => {
                tracing::info!(list = list.name, entries = report.entries, faults = report.faults, "read")
            }
            Ok(None) => tracing::warn!(list = list.name, "was not fetched yet"),
        }
    }
    match Image::open(octets) {
        Ok(lists) => Some(lists),
        Err(error) => {
            tracing::error!(%error, "the lists just compiled cannot be opened");
            None
        }
    }
}
