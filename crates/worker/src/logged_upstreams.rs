//! The upstreams that entries of the query log name, by their numbers.
//!
//! A resolver gives its identifier of an upstream to another one after a reload. The numbers here
//! keep their meaning until the process ends, so that an entry names its upstream whenever it is
//! completed.

use std::sync::{Mutex, PoisonError};

/// Maximum number of upstreams: more than reloads of a network ever use. Entries of further ones
/// name none.
pub const MAX_LOGGED: usize = 16_384;

/// The upstreams of all workers since the start.
#[derive(Debug, Default)]
pub struct LoggedUpstreams {
    texts: Mutex<Vec<String>>,
}

impl LoggedUpstreams {
    /// Returns the number of an upstream, counted from 1; 0 if there are too many.
    pub fn number(&self, text: String) -> u16 {
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        let place = texts.iter().position(|one| *one == text).unwrap_or_else(|| {
            if texts.len() < MAX_LOGGED {
                texts.push(text);
                texts.len() - 1
            } else {
                MAX_LOGGED
            }
        });
        if place < MAX_LOGGED { place as u16 + 1 } else { 0 }
    }

    /// Adds the upstreams after the first ones that the caller knows.
    pub fn add_to(&self, known: &mut Vec<String>) {
        let texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        known.extend(texts.iter().skip(known.len()).cloned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_keeps_its_upstream() {
        let upstreams = LoggedUpstreams::default();
        let number = |text: &str| upstreams.number(text.to_owned());
        assert_eq!((number("a"), number("b"), number("a")), (1, 2, 1));
        let mut known = vec!["a".to_owned()];
        upstreams.add_to(&mut known);
        assert_eq!(known, ["a", "b"]);
        for text in 2..MAX_LOGGED {
            assert_eq!(usize::from(number(&text.to_string())), text + 1);
        }
        assert_eq!((number("other"), number("b")), (0, 2));
        upstreams.add_to(&mut known);
        assert_eq!(known.len(), MAX_LOGGED);
    }
}
