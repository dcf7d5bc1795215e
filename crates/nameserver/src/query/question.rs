//! A question for names that this server answers by itself.

use avocet_wire::Rtype;

/// A question of class IN, in the form for local records and special-use names.
#[derive(Clone, Copy)]
pub struct LocalQuestion<'a> {
    /// Folded QNAME.
    pub qname: &'a [u8],
    /// QTYPE.
    pub qtype: Rtype,
    /// The number of positions by which addresses are rotated. The message ID serves the purpose.
    pub turn: u16,
}

impl<'a> LocalQuestion<'a> {
    /// Parses a folded question.
    pub fn of(question: &'a [u8]) -> Self {
        let (qname, qtype) = match question.split_last_chunk::<4>() {
            Some((qname, fixed)) => (qname, u16::from_be_bytes([fixed[0], fixed[1]])),
            None => (question, 0),
        };
        Self { qname, qtype: Rtype(qtype), turn: 0 }
    }
}
