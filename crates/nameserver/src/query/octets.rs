//! Owned octets that are stored inline if they are few, otherwise on the heap.

use std::fmt;
use std::ops::Deref;

/// Maximum number of octets that are stored inline: a question for a name of forty octets.
const IN_PLACE: usize = 46;

/// Octets in owned memory.
#[derive(Clone)]
pub struct Octets(Form);

#[derive(Clone)]
enum Form {
    InPlace(u8, [u8; IN_PLACE]),
    OnHeap(Box<[u8]>),
}

impl Octets {
    /// Copies octets.
    #[inline]
    pub fn new(octets: &[u8]) -> Self {
        let mut place = [0; IN_PLACE];
        Self(match place.get_mut(..octets.len()) {
            Some(front) => {
                front.copy_from_slice(octets);
                Form::InPlace(octets.len() as u8, place)
            }
            None => Form::OnHeap(octets.into()),
        })
    }
}

impl Deref for Octets {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Form::InPlace(len, place) => &place[..usize::from(*len)],
            Form::OnHeap(octets) => octets,
        }
    }
}

impl fmt::Debug for Octets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_of_every_length_are_kept() {
        let all: Vec<u8> = (0..=255).collect();
        for len in 0..all.len() {
            assert_eq!(*Octets::new(&all[..len]), all[..len]);
        }
    }
}
