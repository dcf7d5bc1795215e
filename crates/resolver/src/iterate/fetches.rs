//! Inquiries under way and the queries that were sent for them.

use std::collections::HashMap;
use std::sync::Arc;

use avocet_wire::Rtype;

use super::fetch::{Fetched, Inquiry};
use super::rrset::Name;
use crate::ids::SocketId;

/// A query that is waited for. Its number is that of its socket or connection, which is its own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exchange {
    pub(crate) fetch: u32,
    pub(crate) server: u32,
    /// The server's place in the inquiry.
    pub(crate) place: u8,
    pub(crate) id: u16,
    pub(crate) over_tcp: bool,
    pub(crate) sent_ms: u64,
    /// When the next server is asked; the reply is waited for nevertheless.
    pub(crate) due_ms: u64,
    pub(crate) overdue: bool,
    /// It never left, for want of something of our own.
    pub(crate) unsent: bool,
    pub(crate) with_edns: bool,
    /// The reply must have the very letters.
    pub(crate) exact_case: bool,
    /// The question as sent; empty: the place is free.
    pub(crate) question: Vec<u8>,
}

impl Exchange {
    /// Returns whether the name was sent in mixed case.
    pub(crate) fn is_mixed(&self) -> bool {
        let qname = self.question.len().saturating_sub(4);
        self.question[..qname].iter().any(u8::is_ascii_uppercase)
    }
}

/// An inquiry under way. Sets of servers are bits by their place in the inquiry.
#[derive(Debug)]
pub(crate) struct Fetch {
    pub(crate) inquiry: Inquiry,
    /// Tasks whose walks wait for it.
    pub(crate) waiters: Vec<u32>,
    pub(crate) exchanges: Vec<SocketId>,
    pub(crate) sends: u32,
    /// Those of `sends` that never left, for want of something of our own.
    pub(crate) unsent: u32,
    /// How long the last query was waited for in vain.
    pub(crate) waited_ms: u64,
    pub(crate) round: u32,
    pub(crate) tried: u64,
    pub(crate) failed: u64,
    pub(crate) by_tcp: u64,
    pub(crate) plain: u64,
    /// Those of `plain` that only kept silent when asked with EDNS.
    pub(crate) guessed_plain: u64,
    pub(crate) bad_cookies: u8,
    /// Servers that are asked in lower case.
    pub(crate) lower_case: u64,
    /// What the first of these said to mixed case, for want of a reply to the other.
    pub(crate) denied: Option<Arc<Fetched>>,
    pub(crate) any_unreachable: bool,
    pub(crate) any_unusable: bool,
    /// No limit of what is under way holds for it.
    pub(crate) is_free: bool,
}

impl Fetch {
    pub(crate) fn new(inquiry: Inquiry) -> Self {
        Self {
            inquiry,
            waiters: Vec::new(),
            exchanges: Vec::new(),
            sends: 0,
            unsent: 0,
            waited_ms: 0,
            round: 0,
            tried: 0,
            failed: 0,
            by_tcp: 0,
            plain: 0,
            guessed_plain: 0,
            bad_cookies: 0,
            lower_case: 0,
            denied: None,
            any_unreachable: false,
            any_unusable: false,
            is_free: false,
        }
    }

    /// All places of the inquiry.
    pub(crate) fn all(&self) -> u64 {
        let count = self.inquiry.servers.len().min(64) as u32;
        u64::MAX.checked_shr(64 - count).unwrap_or(0)
    }
}

/// All fetches and their exchanges.
#[derive(Debug, Default)]
pub(crate) struct Fetches {
    all: Vec<Option<Fetch>>,
    free: Vec<u32>,
    /// Those under way by what they ask for.
    index: HashMap<(Name, Rtype), Vec<u32>>,
    exchanges: Vec<Exchange>,
    free_exchanges: Vec<SocketId>,
}

impl Fetches {
    /// One under way that asks the same.
    pub(crate) fn find(&self, inquiry: &Inquiry) -> Option<u32> {
        let alike = self.index.get(&(inquiry.qname.clone(), inquiry.qtype))?;
        let is_same = |at: &u32| self.get(*at).is_some_and(|fetch| fetch.inquiry.is_same(inquiry));
        alike.iter().copied().find(is_same)
    }

    /// Fetches under way.
    pub(crate) fn len(&self) -> usize {
        self.all.len() - self.free.len()
    }

    pub(crate) fn insert(&mut self, fetch: Fetch) -> u32 {
        let key = (fetch.inquiry.qname.clone(), fetch.inquiry.qtype);
        let at = match self.free.pop() {
            Some(at) => {
                self.all[at as usize] = Some(fetch);
                at
            }
            None => {
                self.all.push(Some(fetch));
                (self.all.len() - 1) as u32
            }
        };
        self.index.entry(key).or_default().push(at);
        at
    }

    pub(crate) fn get(&self, at: u32) -> Option<&Fetch> {
        self.all.get(at as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, at: u32) -> Option<&mut Fetch> {
        self.all.get_mut(at as usize)?.as_mut()
    }

    pub(crate) fn remove(&mut self, at: u32) -> Option<Fetch> {
        let fetch = self.all.get_mut(at as usize)?.take();
        if let Some(fetch) = &fetch {
            self.free.push(at);
            let key = (fetch.inquiry.qname.clone(), fetch.inquiry.qtype);
            if let Some(alike) = self.index.get_mut(&key) {
                alike.retain(|&other| other != at);
                if alike.is_empty() {
                    self.index.remove(&key);
                }
            }
        }
        fetch
    }

    /// Takes a place for a query with this question as sent.
    pub(crate) fn begin_exchange(&mut self, exchange: Exchange) -> SocketId {
        match self.free_exchanges.pop() {
            Some(socket) => {
                self.exchanges[socket as usize] = exchange;
                socket
            }
            None => {
                self.exchanges.push(exchange);
                (self.exchanges.len() - 1) as SocketId
            }
        }
    }

    pub(crate) fn exchange(&self, socket: SocketId) -> Option<&Exchange> {
        self.exchanges.get(socket as usize).filter(|exchange| !exchange.question.is_empty())
    }

    pub(crate) fn exchange_mut(&mut self, socket: SocketId) -> Option<&mut Exchange> {
        self.exchanges.get_mut(socket as usize).filter(|exchange| !exchange.question.is_empty())
    }

    pub(crate) fn end_exchange(&mut self, socket: SocketId) -> Option<Exchange> {
        let exchange = std::mem::take(self.exchange_mut(socket)?);
        self.free_exchanges.push(socket);
        Some(exchange)
    }
}
