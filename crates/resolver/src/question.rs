//! Questions in wire format.

use avocet_wire::{Class, Rtype};

/// Splits a question into name, type and class.
pub(crate) fn split_question(question: &[u8]) -> Option<(&[u8], Rtype, Class)> {
    let (qname, fixed) = question.split_last_chunk::<4>()?;
    let qtype = Rtype(u16::from_be_bytes([fixed[0], fixed[1]]));
    Some((qname, qtype, Class(u16::from_be_bytes([fixed[2], fixed[3]]))))
}
