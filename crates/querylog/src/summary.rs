//! The summary of an answer: its last alias and its addresses.
//!
//! The text has the last alias, if there is one, and then up to four addresses, separated by
//! spaces. The summary is computed from the octets of the answer section in an
//! [`Entry`](crate::Entry), which may be cut short.

use std::fmt::Write as _;
use std::net::IpAddr;

use avocet_wire::header::HEADER_LEN;
use avocet_wire::name::{self, NameBuf};
use avocet_wire::{Rtype, text};

use crate::entry::Entry;

/// Maximum number of addresses in a summary.
const MAX_ADDRESSES: usize = 4;
/// Number of octets of a record after its owner: type, class, TTL, length (RFC 1035 §3.2.1).
const RECORD_HEAD: usize = 10;

/// A writer of summaries, which reuses its buffers.
#[derive(Default)]
pub(crate) struct Summary {
    /// The start of the reply. Octets have the same offsets as in the reply, so that compression
    /// pointers work.
    message: Vec<u8>,
    text: String,
}

impl Summary {
    /// Returns the summary of the answer in an entry. The summary is empty if there is no answer.
    pub(crate) fn of(&mut self, entry: &Entry<'_>) -> &str {
        self.text.clear();
        if entry.answer.is_empty() || entry.facts.answer_count == 0 {
            return &self.text;
        }
        self.message.clear();
        self.message.resize(HEADER_LEN, 0);
        self.message.extend_from_slice(entry.qname);
        self.message.resize(self.message.len() + 4, 0);
        let start = self.message.len();
        self.message.extend_from_slice(entry.answer);
        let mut found = Found { alias: None, addresses: [None; MAX_ADDRESSES], count: 0 };
        let mut at = Some(start);
        for _ in 0..entry.facts.answer_count {
            at = at.and_then(|at| found.record(&self.message, at));
        }
        found.write(&mut self.text);
        &self.text
    }
}

struct Found {
    alias: Option<NameBuf>,
    addresses: [Option<IpAddr>; MAX_ADDRESSES],
    count: usize,
}

impl Found {
    /// Reads a record and returns the offset after it, or `None` if the record is incomplete.
    fn record(&mut self, message: &[u8], at: usize) -> Option<usize> {
        let at = name::skip(message, at).ok()?;
        let head: [u8; RECORD_HEAD] = message.get(at..at + RECORD_HEAD)?.try_into().ok()?;
        let start = at + RECORD_HEAD;
        let end = start + usize::from(u16::from_be_bytes([head[8], head[9]]));
        let data = message.get(start..end)?;
        let address = match Rtype(u16::from_be_bytes([head[0], head[1]])) {
            Rtype::A => <[u8; 4]>::try_from(data).ok().map(IpAddr::from),
            Rtype::AAAA => <[u8; 16]>::try_from(data).ok().map(IpAddr::from),
            Rtype::CNAME => {
                self.alias = NameBuf::read(message, start).ok();
                None
            }
            _ => None,
        };
        if address.is_some() && self.count < MAX_ADDRESSES {
            self.addresses[self.count] = address;
            self.count += 1;
        }
        Some(end)
    }

    fn write(&self, out: &mut String) {
        // Writing to a string does not fail.
        if let Some(alias) = &self.alias {
            let _ = text::write_name(alias.folded().wire(), out);
        }
        for address in self.addresses.iter().flatten() {
            let space = if out.is_empty() { "" } else { " " };
            let _ = write!(out, "{space}{address}");
        }
    }
}
