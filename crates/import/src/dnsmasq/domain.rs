//! `domain=NAME[,RANGE[,local]]`: the domain of the network, and domains of some address ranges.

use std::net::IpAddr;

use ipnet::IpNet;

use super::Statement;
use crate::draft::Draft;
use crate::hosts::Host;
use crate::{name, reverse};

/// The domains that `expand-hosts` appends to names without a dot.
#[derive(Debug, Default)]
pub(super) struct Domains {
    /// The domain of all addresses that are in no range of `some`.
    all: Option<String>,
    some: Vec<(Range, String)>,
}

/// Addresses with their own domain.
#[derive(Debug)]
enum Range {
    Network(IpNet),
    Between(IpAddr, IpAddr),
}

/// A parsed statement.
struct Written<'a> {
    name: Option<String>,
    range: Option<Range>,
    words: Vec<&'a str>,
}

impl Domains {
    /// Combines all statements. If several apply to all addresses, the last one wins.
    pub(super) fn of(statements: &[Statement]) -> Self {
        let mut domains = Self::default();
        for statement in statements.iter().filter(|statement| statement.key == "domain") {
            let Written { name, range, words } = Written::read(&statement.value);
            match (name, range) {
                (Some(name), Some(range)) => domains.some.push((range, name)),
                (Some(name), None) if words.is_empty() => domains.all = Some(name),
                _ => {}
            }
        }
        domains
    }

    /// Returns the domain of names without a known address.
    pub(super) fn all(&self) -> Option<&str> {
        self.all.as_deref()
    }

    /// Expands the names of a host.
    pub(super) fn expand(&self, host: &mut Host) {
        let own = self
            .some
            .iter()
            .find(|(range, _)| range.has(host.address))
            .map(|(_, name)| name.as_str());
        host.expand(own.or(self.all()));
    }
}

impl Range {
    fn has(&self, address: IpAddr) -> bool {
        match self {
            Self::Network(network) => network.contains(&address),
            Self::Between(first, last) => {
                first.is_ipv4() == address.is_ipv4() && (*first..=*last).contains(&address)
            }
        }
    }
}

impl<'a> Written<'a> {
    fn read(value: &'a str) -> Self {
        let mut words = value.split(',').map(str::trim);
        let name = words.next().and_then(name::domain).filter(|name| name != ".");
        let words: Vec<&str> = words.collect();
        let address = |at: usize| words.get(at).and_then(|word| word.parse::<IpAddr>().ok());
        let network = words.first().and_then(|word| word.parse::<IpNet>().ok());
        let range = match (network, address(0), address(1)) {
            (Some(network), ..) => Some(Range::Network(network)),
            (None, Some(first), Some(last)) => Some(Range::Between(first, last)),
            (None, Some(only), None) => Some(Range::Between(only, only)),
            _ => None,
        };
        Self { name, range, words }
    }
}

/// The treatment of names without a dot.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Names {
    #[default]
    AsWritten,
    /// The names get the domain of their address.
    Expanded,
}

/// Reads the part of a statement about names that are not forwarded. [`Domains`] reads the rest,
/// which has no effect unless names are expanded.
pub(super) fn take(statement: &Statement, names: Names, draft: &mut Draft) {
    let Written { name, range, words } = Written::read(&statement.value);
    let Some(name) = name else {
        return draft.note(statement, "expected the name of a domain");
    };
    if range.is_none() && !words.is_empty() {
        return draft
            .note(statement, "expected a network, or the first and the last of its addresses");
    }
    if words.last() == Some(&"local") {
        draft.local_zone(&name, &statement.place);
        match range {
            Some(Range::Network(network)) => {
                reverse::zones(network)
                    .iter()
                    .for_each(|zone| draft.local_zone(zone, &statement.place));
            }
            _ => {
                draft.note(statement, "the reverse names of its addresses are forwarded elsewhere")
            }
        }
    } else if names == Names::AsWritten {
        draft.quiet(statement.key.as_str());
    }
}
