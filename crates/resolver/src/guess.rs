//! Guesses from silence at what a server cannot do.

/// How long it is remembered that a server cannot do something, in ms, where silence alone says so,
/// which may have been chance.
pub(crate) const GUESSED_INABILITY_MS: u64 = 60_000;
/// How often in a row only queries without EDNS must be answered for that.
pub(crate) const GUESSES: u32 = 3;

/// Is it from silence that a query with EDNS is taken to have failed?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Guessed {
    No,
    Yes,
}
