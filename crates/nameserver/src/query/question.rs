//! A question to the names that this server answers by itself.

use avocet_wire::Rtype;

/// A question of class IN, as local records and special names see it.
#[derive(Clone, Copy)]
pub struct LocalQuestion<'a> {
    /// Folded QNAME.
    pub qname: &'a [u8],
    /// QTYPE.
    pub qtype: Rtype,
    /// Which of several addresses comes first: that many places on, around the end. The message ID
    /// will do.
    pub turn: u16,
}

impl<'a> LocalQuestion<'a> {
    /// The question in folded wire form.
    pub fn of(question: &'a [u8]) -> Self {
        let (qname, qtype) = match question.split_last_chunk::<4>() {
            Some((qname, fixed)) => (qname, u16::from_be_bytes([fixed[0], fixed[1]])),
            None => (question, 0),
        };
        Self { qname, qtype: Rtype(qtype), turn: 0 }
    }
}
