//! Fetches: inquiries that were sent and have no result yet.

use std::collections::HashMap;
use std::sync::Arc;

use avocet_wire::Rtype;
use avocet_wire::hash::DrawnHashKey;

use super::fetch::{Fetched, Inquiry};
use super::load::ClientPlace;
use super::rrset::Name;
use crate::exchange::Exchange;

/// An inquiry that was sent and has no result yet.
#[derive(Debug)]
pub(crate) struct Fetch {
    pub(crate) inquiry: Inquiry,
    /// The client that caused the inquiry, to which it counts.
    pub(crate) client: ClientPlace,
    /// The indices of the tasks that wait for the fetch.
    pub(crate) waiters: Vec<u32>,
    pub(crate) exchange: Exchange,
    /// The NXDOMAIN reply for a name in mixed case. It is used if the repeated query in lower case
    /// fails.
    pub(crate) denied: Option<Arc<Fetched>>,
    /// Whether the fetch is exempt from the limits on inquiries in flight.
    pub(crate) is_free: bool,
}

impl Fetch {
    pub(crate) fn new(inquiry: Inquiry, client: ClientPlace) -> Self {
        Self {
            inquiry,
            client,
            waiters: Vec::new(),
            exchange: Exchange::default(),
            denied: None,
            is_free: false,
        }
    }
}

/// All fetches of a resolver.
#[derive(Debug, Default)]
pub(crate) struct Fetches {
    all: Vec<Option<Fetch>>,
    free: Vec<u32>,
    /// The indices of the fetches in flight, by name and type.
    index: HashMap<(Name, Rtype), Vec<u32>, DrawnHashKey>,
}

impl Fetches {
    /// Returns a fetch in flight whose result also answers this inquiry.
    pub(crate) fn find(&self, inquiry: &Inquiry) -> Option<u32> {
        let alike = self.index.get(&(inquiry.qname.clone(), inquiry.qtype))?;
        let is_same = |at: &u32| self.get(*at).is_some_and(|fetch| fetch.inquiry.is_same(inquiry));
        alike.iter().copied().find(is_same)
    }

    /// Returns the number of fetches in flight.
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
}
