//! The RDATA of the records of an RRset.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

/// A list of RDATA that is cheap to clone: clones share the octets.
///
/// A cold name clones and drops tens of RRsets, most of which have one record and one signature.
/// With an allocation for each record, this took a tenth of the instructions of the resolver
/// outside of cryptography.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) enum RdataList {
    #[default]
    Empty,
    One(Arc<[u8]>),
    Several {
        len: usize,
        /// For each record, the length of its RDATA in two octets, then the RDATA.
        octets: Arc<Vec<u8>>,
    },
}

impl RdataList {
    /// Returns the number of records.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Empty => 0,
            Self::One(_) => 1,
            Self::Several { len, .. } => *len,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn first(&self) -> Option<&[u8]> {
        self.iter().next()
    }

    pub(crate) fn iter(&self) -> Iter<'_> {
        match self {
            Self::Empty => Iter { one: None, rest: &[] },
            Self::One(rdata) => Iter { one: Some(rdata), rest: &[] },
            Self::Several { octets, .. } => Iter { one: None, rest: octets },
        }
    }

    /// Adds the RDATA of a record. RDATA longer than 65,535 octets, which no message can have, is
    /// ignored.
    pub(crate) fn push(&mut self, rdata: &[u8]) {
        if u16::try_from(rdata.len()).is_err() {
            return;
        }
        match self {
            Self::Empty => *self = Self::One(rdata.into()),
            Self::One(first) => {
                let mut octets = Vec::with_capacity(2 * (4 + first.len() + rdata.len()));
                append(&mut octets, first);
                append(&mut octets, rdata);
                *self = Self::Several { len: 2, octets: Arc::new(octets) };
            }
            Self::Several { len, octets } => {
                append(Arc::make_mut(octets), rdata);
                *len += 1;
            }
        }
    }
}

fn append(octets: &mut Vec<u8>, rdata: &[u8]) {
    octets.extend_from_slice(&(rdata.len() as u16).to_ne_bytes());
    octets.extend_from_slice(rdata);
}

impl<T: AsRef<[u8]>> FromIterator<T> for RdataList {
    fn from_iter<I: IntoIterator<Item = T>>(records: I) -> Self {
        let mut list = Self::default();
        records.into_iter().for_each(|rdata| list.push(rdata.as_ref()));
        list
    }
}

impl<'a> IntoIterator for &'a RdataList {
    type Item = &'a [u8];
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl Debug for RdataList {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

/// The RDATA of a list, in order.
#[derive(Clone)]
pub(crate) struct Iter<'a> {
    one: Option<&'a [u8]>,
    rest: &'a [u8],
}

impl<'a> Iterator for Iter<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if let Some(one) = self.one.take() {
            return Some(one);
        }
        let (len, rest) = self.rest.split_first_chunk()?;
        let (rdata, rest) = rest.split_at_checked(usize::from(u16::from_ne_bytes(*len)))?;
        self.rest = rest;
        Some(rdata)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_returns_what_was_pushed_and_a_clone_keeps_its_own_records() {
        let mut list = RdataList::default();
        assert_eq!((list.len(), list.is_empty(), list.first()), (0, true, None));
        list.push(b"");
        list.push(&[7; 65_535]);
        list.push(&[7; 65_536]);
        let clone = list.clone();
        list.push(b"last");
        assert_eq!(clone.iter().map(<[u8]>::len).collect::<Vec<_>>(), [0, 65_535]);
        assert_eq!(list.iter().map(<[u8]>::len).collect::<Vec<_>>(), [0, 65_535, 4]);
        assert_eq!((clone.len(), list.len(), list.first()), (2, 3, Some(&b""[..])));
        assert_ne!(clone, list);
        assert_eq!(list, list.iter().collect());
    }
}
