//! Conditions of an entry in addition to its name (client, tags, type), and the answer that the
//! entry supplies.

use std::net::IpAddr;

use avocet_wire::{Rtype, name};
use ipnet::IpNet;

use super::binary::{Octets, Write};
use super::question::ListQuestion;
use super::rewrite::Rewrite;

/// A value that an entry requires or excludes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Subject<T> {
    /// The entry applies only to this value or to others that it requires.
    Is(T),
    /// The entry does not apply to this value.
    IsNot(T),
}

/// A client, as the modifier `$client` describes it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ClientTest {
    /// An address or a prefix.
    Network(IpNet),
    /// A client's name, compared ignoring case.
    Name(Box<str>),
}

/// The degree to which the modifiers limit an entry. An entry about every name needs a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Limit {
    /// The entry applies to everything, except possibly to clients that may not exist.
    Nothing,
    /// The entry only excludes types or names. Queries may never contain them, so this limit is
    /// accepted only from the operator.
    AllBut,
    /// The entry applies only to certain clients, tags or types.
    Named,
}

/// The modifiers of an entry.
#[derive(Clone, PartialEq, Eq, Hash, Default, Debug)]
pub struct Modifiers {
    /// The clients that `$client` requires or excludes.
    pub clients: Vec<Subject<ClientTest>>,
    /// The tags that `$ctag` requires or excludes.
    pub tags: Vec<Subject<Box<str>>>,
    /// The record types that `$dnstype` requires or excludes.
    pub types: Vec<Subject<Rtype>>,
    /// The names of `$denyallow` in lower-case wire form. The entry covers neither these names nor
    /// names below them.
    pub except: Vec<Box<[u8]>>,
    /// The answer of `$dnsrewrite`.
    pub rewrite: Option<Rewrite>,
}

impl Modifiers {
    /// Reports whether the modifiers let the entry apply to this question. `record` is the type of
    /// the record that leads to the name, if the name is not the QNAME.
    pub(super) fn admit(&self, question: &ListQuestion<'_>, record: Option<Rtype>) -> bool {
        permits(&self.types, |rtype| *rtype == question.qtype || Some(*rtype) == record)
            && permits(&self.clients, |client| client.is(question))
            && permits(&self.tags, |tag| {
                question.asker.tags.iter().any(|has| has.eq_ignore_ascii_case(tag))
            })
            && !self.except.iter().any(|zone| name::is_under(question.qname, zone))
    }

    /// Returns the maximum number of comparisons that [`Modifiers::admit`] makes.
    #[inline]
    pub(super) fn cost(&self, question: &ListQuestion<'_>) -> usize {
        let asker = &question.asker;
        let clients = self.clients.len() * asker.names.len().max(1);
        clients + self.tags.len() * asker.tags.len().max(1) + self.types.len() + self.except.len()
    }

    /// Returns how much these modifiers limit an entry.
    pub(super) fn limit(&self) -> Limit {
        let is_limit = |client: &ClientTest| match client {
            ClientTest::Network(network) => network.prefix_len() != 0,
            _ => true,
        };
        if names_some(&self.clients, is_limit)
            || names_some(&self.tags, |_| true)
            || names_some(&self.types, |_| true)
        {
            Limit::Named
        } else if self.types.is_empty() && self.except.is_empty() {
            Limit::Nothing
        } else {
            Limit::AllBut
        }
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.number(self.clients.len() as u64);
        for client in &self.clients {
            client.write(out, ClientTest::write);
        }
        out.number(self.tags.len() as u64);
        for tag in &self.tags {
            tag.write(out, |tag, out| out.octets(tag.as_bytes()));
        }
        out.number(self.types.len() as u64);
        for rtype in &self.types {
            rtype.write(out, |rtype, out| out.number(u64::from(rtype.0)));
        }
        out.number(self.except.len() as u64);
        for zone in &self.except {
            out.octets(zone);
        }
        match &self.rewrite {
            Some(rewrite) => rewrite.write(out),
            None => out.push(0),
        }
    }

    pub(super) fn from_octets(octets: &mut Octets<'_>) -> Option<Self> {
        let clients = many(octets, |octets| Subject::from_octets(octets, ClientTest::from_octets))?;
        let tags = many(octets, |octets| {
            Subject::from_octets(octets, |octets| Some(octets.text()?.into()))
        })?;
        let types = many(octets, |octets| {
            Subject::from_octets(octets, |octets| Some(Rtype(octets.number()?.try_into().ok()?)))
        })?;
        let except = many(octets, |octets| {
            let zone = octets.octets()?;
            (name::wire_len(zone) == Ok(zone.len())).then(|| zone.into())
        })?;
        let mut peeked = *octets;
        let rewrite = match peeked.octet()? {
            0 => {
                *octets = peeked;
                None
            }
            _ => Some(Rewrite::from_octets(octets)?),
        };
        Some(Self { clients, tags, types, except, rewrite })
    }
}

fn many<'a, T>(
    octets: &mut Octets<'a>,
    mut one: impl FnMut(&mut Octets<'a>) -> Option<T>,
) -> Option<Vec<T>> {
    let count = octets.count()?;
    (0..count).map(|_| one(octets)).collect()
}

fn names_some<T>(subjects: &[Subject<T>], is_limit: impl Fn(&T) -> bool) -> bool {
    subjects.iter().any(|subject| matches!(subject, Subject::Is(named) if is_limit(named)))
}

/// Reports whether no excluded value applies and, if there are required values, at least one of
/// them applies.
fn permits<T>(subjects: &[Subject<T>], applies: impl Fn(&T) -> bool) -> bool {
    let (mut wanted, mut found) = (false, false);
    for subject in subjects {
        match subject {
            Subject::IsNot(subject) if applies(subject) => return false,
            Subject::IsNot(_) => {}
            Subject::Is(subject) => {
                wanted = true;
                found |= applies(subject);
            }
        }
    }
    found || !wanted
}

impl<T> Subject<T> {
    /// Returns the value, whether it is required or excluded.
    pub const fn inner(&self) -> &T {
        match self {
            Self::Is(subject) | Self::IsNot(subject) => subject,
        }
    }

    fn write(&self, out: &mut Vec<u8>, inner: impl FnOnce(&T, &mut Vec<u8>)) {
        out.push(u8::from(matches!(self, Self::IsNot(_))));
        inner(self.inner(), out);
    }

    fn from_octets<'a>(
        octets: &mut Octets<'a>,
        inner: impl FnOnce(&mut Octets<'a>) -> Option<T>,
    ) -> Option<Self> {
        match octets.octet()? {
            0 => inner(octets).map(Self::Is),
            1 => inner(octets).map(Self::IsNot),
            _ => None,
        }
    }
}

impl ClientTest {
    fn is(&self, question: &ListQuestion<'_>) -> bool {
        match self {
            Self::Network(network) => {
                question.asker.address.is_some_and(|address| network.contains(&address))
            }
            Self::Name(name) => {
                question.asker.names.iter().any(|has| has.eq_ignore_ascii_case(name))
            }
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Name(name) => {
                out.push(0);
                out.octets(name.as_bytes());
            }
            Self::Network(network) => {
                match network.addr() {
                    IpAddr::V4(v4) => {
                        out.push(4);
                        out.extend_from_slice(&v4.octets());
                    }
                    IpAddr::V6(v6) => {
                        out.push(6);
                        out.extend_from_slice(&v6.octets());
                    }
                }
                out.push(network.prefix_len());
            }
        }
    }

    fn from_octets(octets: &mut Octets<'_>) -> Option<Self> {
        let address: IpAddr = match octets.octet()? {
            0 => return Some(Self::Name(octets.text()?.into())),
            4 => <[u8; 4]>::try_from(octets.take(4)?).ok()?.into(),
            6 => <[u8; 16]>::try_from(octets.take(16)?).ok()?.into(),
            _ => return None,
        };
        IpNet::new(address, octets.octet()?).ok().map(Self::Network)
    }
}
