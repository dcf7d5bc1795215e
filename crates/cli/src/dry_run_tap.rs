//! `avocet policy dry-run --dnstap`: the queries in a file with dnstap messages.
//!
//! A file may have queries, responses, or both for each transaction. If it has responses, only
//! these are used: they have the question and the answer.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use avocet_dnstap::{TapFile, TapMessage, TapTime, TapTransport};
use avocet_nameserver::clock::wall_secs;
use avocet_nameserver::query::asked::Transport;
use avocet_server::dry_run::{DryRunReport, PastQuery, Sides};
use avocet_wire::{Class, MessageView, Rtype};

use crate::error::CommandError;
use crate::policy::NOBODY;

/// Evaluates the queries in a file.
///
/// # Errors
/// The file cannot be read, or is not a frame stream of dnstap.
pub(crate) fn of_file(path: &Path, sides: &mut Sides) -> Result<DryRunReport, CommandError> {
    let mut has_responses = false;
    each(path, |message| has_responses |= message.kind.is_sent_response())?;
    let mut report = DryRunReport::default();
    each(path, |message| {
        let is_wanted = match has_responses {
            true => message.kind.is_sent_response(),
            false => message.kind.is_received_query(),
        };
        match past_query(message) {
            _ if !is_wanted => {}
            Some(query) => report.judge(&query, sides),
            None => report.left_out += 1,
        }
    })?;
    Ok(report)
}

fn each(path: &Path, mut found: impl FnMut(&TapMessage<'_>)) -> Result<(), CommandError> {
    let file = File::open(path)
        .map_err(|source| CommandError::Unopened { path: path.to_owned(), source })?;
    let in_file = |source| CommandError::Tapped { path: path.to_owned(), source };
    let mut file = TapFile::open(BufReader::new(file)).map_err(in_file)?;
    while let Some(message) = file.read_message().map_err(in_file)? {
        found(&message);
    }
    Ok(())
}

/// Returns the query of a message; `None` if the message has no question of class IN.
fn past_query<'m>(message: &TapMessage<'m>) -> Option<PastQuery<'m>> {
    let octets = message.response_message.or(message.query_message)?;
    let view = MessageView::new(octets).ok()?;
    let question = view.question().ok()?;
    if question.qclass != Class::IN {
        return None;
    }
    // Rules on answers cannot match a response without answer records.
    let answer = message.response_message.filter(|_| view.header().counts[1] > 0);
    let time = message.query_time.or(message.response_time);
    Some(PastQuery {
        client: message.query_address.unwrap_or(NOBODY),
        name: question.qname().ok()?.folded(),
        rtype: Rtype(question.qtype.0),
        transport: match message.transport {
            Some(TapTransport::Tcp) => Transport::Tcp,
            Some(TapTransport::Tls) => Transport::Tls,
            Some(TapTransport::Https) => Transport::Https,
            Some(TapTransport::Quic) => Transport::Quic,
            _ => Transport::Udp,
        },
        listener: "",
        at_secs: time.map_or_else(wall_secs, |TapTime { secs, .. }| secs),
        alias: None,
        addresses: Vec::new(),
        answer,
        queries: 1,
    })
}
