//! A question in wire form, as a type (RFC 1035 §4.1.2).

use std::fmt;

use crate::code::{Class, Rtype};
use crate::folded::FoldedName;

/// Number of octets of QTYPE and QCLASS, which follow QNAME.
const FIXED: usize = 4;

/// A question in wire form: QNAME in lower case, QTYPE, QCLASS.
///
/// Its octets are the key in caches and in the table of queries in flight.
///
/// ```
/// use avocet_wire::{Class, Question, Rtype};
///
/// let question = Question::new(b"\x07example\x00\x00\x1c\x00\x01").expect("a folded question");
/// assert_eq!(question.qname().to_string(), "example.");
/// assert_eq!((question.qtype(), question.qclass()), (Rtype::AAAA, Class::IN));
/// assert_eq!(Question::new(b"\x07Example\x00\x00\x1c\x00\x01"), None);
/// assert_eq!(Question::new(b"\x07example\x00\x00\x1c"), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Question<'a>(&'a [u8]);

impl<'a> Question<'a> {
    /// Checks that the octets are one question whose name has no capital letters.
    #[must_use]
    pub const fn new(octets: &'a [u8]) -> Option<Self> {
        if is_question(octets) { Some(Self(octets)) } else { None }
    }

    /// Wraps octets that the caller has folded or checked before, and does not check them again.
    ///
    /// The octets must be one question whose name has no capital letters. With other octets,
    /// look-ups find nothing and comparisons are false; nothing worse happens.
    #[inline]
    #[must_use]
    pub const fn from_folded_unchecked(octets: &'a [u8]) -> Self {
        debug_assert!(is_question(octets), "not a folded question");
        Self(octets)
    }

    /// Returns the wire form.
    #[inline]
    #[must_use]
    pub const fn octets(self) -> &'a [u8] {
        self.0
    }

    /// Returns QNAME.
    #[inline]
    #[must_use]
    pub fn qname(self) -> FoldedName<'a> {
        FoldedName::from_folded_unchecked(&self.0[..self.0.len().saturating_sub(FIXED)])
    }

    /// Returns QTYPE.
    #[inline]
    #[must_use]
    pub fn qtype(self) -> Rtype {
        let [high, low, ..] = self.fixed();
        Rtype(u16::from_be_bytes([high, low]))
    }

    /// Returns QCLASS.
    #[inline]
    #[must_use]
    pub fn qclass(self) -> Class {
        let [.., high, low] = self.fixed();
        Class(u16::from_be_bytes([high, low]))
    }

    #[inline]
    fn fixed(self) -> [u8; FIXED] {
        self.0.last_chunk().copied().unwrap_or_default()
    }
}

/// Reports whether the octets are one question whose name has no capital letters.
const fn is_question(octets: &[u8]) -> bool {
    match octets.split_last_chunk::<FIXED>() {
        Some((qname, _)) => FoldedName::new(qname).is_some(),
        None => false,
    }
}

impl fmt::Debug for Question<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.qname(), self.qclass().0, self.qtype().0)
    }
}

/// A question that owns its memory, which later questions reuse. Empty until it is set.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct QuestionBuf(Vec<u8>);

impl QuestionBuf {
    /// Assembles a question.
    #[must_use]
    pub fn new(qname: FoldedName<'_>, qtype: Rtype, qclass: Class) -> Self {
        Self([qname.wire(), &qtype.0.to_be_bytes(), &qclass.0.to_be_bytes()].concat())
    }

    /// Replaces the question.
    pub fn set(&mut self, question: Question<'_>) {
        self.0.clear();
        self.0.extend_from_slice(question.0);
    }

    /// Replaces QNAME and keeps QTYPE and QCLASS.
    pub fn set_qname(&mut self, qname: FoldedName<'_>) {
        let old_len = self.0.len().saturating_sub(FIXED);
        self.0.splice(..old_len, qname.iter().copied());
    }

    /// Returns the question, which must have been set.
    #[inline]
    #[must_use]
    pub fn view(&self) -> Question<'_> {
        Question::from_folded_unchecked(&self.0)
    }
}

impl From<Question<'_>> for QuestionBuf {
    fn from(question: Question<'_>) -> Self {
        Self(question.0.to_vec())
    }
}

impl fmt::Debug for QuestionBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Question::new(&self.0) {
            Some(question) => question.fmt(f),
            None => f.write_str("no question"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_of_a_question_may_equal_a_letter() {
        let question = Question::new(b"\x01a\x00\x00\x41\x00\x01").unwrap();
        assert_eq!(question.qtype(), Rtype(65));
        assert_eq!(question.qname().wire(), b"\x01a\x00");
        assert_eq!(Question::new(b"\x01A\x00\x00\x41\x00\x01"), None);
        assert_eq!(Question::new(b"\x00\x01"), None);
    }

    #[test]
    fn an_assembled_question_has_its_parts() {
        let mut buf = QuestionBuf::new(FoldedName::ROOT, Rtype::NS, Class::CH);
        let question = buf.view();
        assert_eq!(Question::new(question.octets()), Some(question));
        assert_eq!((question.qname(), question.qtype()), (FoldedName::ROOT, Rtype::NS));
        assert_eq!(question.qclass(), Class::CH);
        buf.set_qname(FoldedName::new(b"\x01a\x00").unwrap());
        assert_eq!(buf.view().octets(), b"\x01a\x00\x00\x02\x00\x03");
        assert_eq!(QuestionBuf::from(buf.view()), buf);
    }
}
