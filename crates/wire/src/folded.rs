//! Names in lower case, as types.
//!
//! DNS names compare without regard to ASCII case (RFC 4343). Caches, rules and zones therefore
//! fold each name once, when it is read, and from then on compare octets. The types here guarantee
//! this: code that takes a [`FoldedName`] neither checks nor folds.
//!
//! Some constructors fold a name, such as [`NameBuf::folded`], others check it, such as
//! [`FoldedName::new`]. [`FoldedName::from_folded_unchecked`] wraps stored octets that were folded
//! or checked before. All types cost as much as the octets that they wrap.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::name::{self, MAX_LABEL, MAX_NAME, NameBuf, NameError};
use crate::text;

/// A name in uncompressed wire form and lower case.
///
/// It dereferences to its octets.
///
/// ```
/// use avocet_wire::{FoldedName, NameBuf};
///
/// let name = FoldedName::new(b"\x03www\x07example\x00").expect("a folded name");
/// let zone = FoldedName::new(b"\x07example\x00").expect("a folded name");
/// assert!(name.is_at_or_below(zone));
/// assert_eq!(name.parent(), Some(zone));
/// assert_eq!(FoldedName::new(b"\x03WWW\x07example\x00"), None);
///
/// let sent = NameBuf::from_wire(b"\x03WWW\x07Example\x00").expect("a name");
/// assert_eq!(sent.folded().view(), name);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FoldedName<'a>(&'a [u8]);

impl<'a> FoldedName<'a> {
    /// The root.
    pub const ROOT: FoldedName<'static> = FoldedName(&[0]);

    /// Checks that the octets are one name in wire form without capital letters.
    #[must_use]
    pub const fn new(wire: &'a [u8]) -> Option<Self> {
        if is_folded_name(wire) { Some(Self(wire)) } else { None }
    }

    /// Wraps octets that the caller has folded or checked before, and does not check them again.
    ///
    /// The octets must be one name in wire form without capital letters. With other octets,
    /// look-ups find nothing and comparisons are false; nothing worse happens.
    #[inline]
    #[must_use]
    pub const fn from_folded_unchecked(wire: &'a [u8]) -> Self {
        debug_assert!(is_folded_name(wire), "not a folded name");
        Self(wire)
    }

    /// Returns the wire form, which ends with the root's zero octet.
    #[inline]
    #[must_use]
    pub const fn wire(self) -> &'a [u8] {
        self.0
    }

    /// Returns the name without its first label, or `None` for the root.
    #[inline]
    #[must_use]
    pub fn parent(self) -> Option<Self> {
        name::parent(self.0).map(Self)
    }

    /// Returns the name itself and all its ancestors, the root last.
    #[inline]
    pub fn ancestors(self) -> impl Iterator<Item = Self> {
        std::iter::successors(Some(self), |name| name.parent())
    }

    /// Returns the name itself or its ancestor of `len` octets, which must exist.
    #[inline]
    #[must_use]
    pub fn ancestor_of_len(self, len: usize) -> Self {
        Self::from_folded_unchecked(&self.0[self.0.len().saturating_sub(len)..])
    }

    /// Returns the labels from left to right, without the root.
    pub fn labels(self) -> impl Iterator<Item = &'a [u8]> + Clone {
        name::labels(self.0)
    }

    /// Reports whether the name equals `above` or is below it.
    #[inline]
    #[must_use]
    pub fn is_at_or_below(self, above: FoldedName<'_>) -> bool {
        name::is_under(self.0, above.0)
    }

    /// Copies the name to the stack.
    #[must_use]
    pub fn to_buf(self) -> FoldedNameBuf {
        // The octets are a name, so this cannot fail.
        FoldedNameBuf(NameBuf::from_wire(self.0).unwrap_or(NameBuf::ROOT))
    }
}

/// Reports whether the octets are one name in wire form without capital letters.
const fn is_folded_name(wire: &[u8]) -> bool {
    let (mut at, mut label_end) = (0, 0);
    while at < wire.len() && at < MAX_NAME {
        let octet = wire[at];
        if at < label_end {
            if octet.is_ascii_uppercase() {
                return false;
            }
        } else if octet == 0 {
            return at + 1 == wire.len();
        } else if octet as usize > MAX_LABEL {
            return false;
        } else {
            label_end = at + 1 + octet as usize;
        }
        at += 1;
    }
    false
}

impl Deref for FoldedName<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.0
    }
}

/// Lets maps whose keys are octets or owned names find a view of a name. The hashes are equal.
impl Borrow<[u8]> for FoldedName<'_> {
    #[inline]
    fn borrow(&self) -> &[u8] {
        self.0
    }
}

impl From<FoldedName<'_>> for Box<[u8]> {
    fn from(name: FoldedName<'_>) -> Self {
        name.0.into()
    }
}

impl fmt::Display for FoldedName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        text::write_name(self.0, f)
    }
}

impl fmt::Debug for FoldedName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        text::write_name(self.0, f)
    }
}

/// A name in lower case on the stack.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FoldedNameBuf(NameBuf);

impl FoldedNameBuf {
    /// The root.
    pub const ROOT: Self = Self(NameBuf::ROOT);

    /// Folds a name.
    #[inline]
    #[must_use]
    pub(crate) fn of(name: &NameBuf) -> Self {
        Self(name.in_lower_case())
    }

    /// Copies and folds an uncompressed wire name.
    ///
    /// # Errors
    /// The octets are not one valid name.
    pub fn from_wire(wire: &[u8]) -> Result<Self, NameError> {
        NameBuf::from_wire(wire).map(|name| Self::of(&name))
    }

    /// Replaces the name.
    #[inline]
    pub fn set(&mut self, name: FoldedName<'_>) {
        // The octets are a name, so this cannot fail.
        let _ = self.0.set_wire(name.0);
    }

    /// Returns the name as a view.
    #[inline]
    #[must_use]
    pub fn view(&self) -> FoldedName<'_> {
        FoldedName(self.0.wire())
    }
}

impl Deref for FoldedNameBuf {
    type Target = NameBuf;

    #[inline]
    fn deref(&self) -> &NameBuf {
        &self.0
    }
}

impl From<FoldedNameBuf> for NameBuf {
    fn from(name: FoldedNameBuf) -> Self {
        name.0
    }
}

impl fmt::Display for FoldedNameBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for FoldedNameBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A name in lower case that several owners share.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SharedName(Arc<[u8]>);

impl SharedName {
    /// Returns the name as a view.
    #[inline]
    #[must_use]
    pub fn view(&self) -> FoldedName<'_> {
        FoldedName(&self.0)
    }
}

impl Deref for SharedName {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// Lets maps whose keys are shared names find a name by its octets. The hashes are equal.
impl Borrow<[u8]> for SharedName {
    #[inline]
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl From<FoldedName<'_>> for SharedName {
    fn from(name: FoldedName<'_>) -> Self {
        Self(name.0.into())
    }
}

impl fmt::Display for SharedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.view().fmt(f)
    }
}

impl fmt::Debug for SharedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_names_in_lower_case_are_folded_names() {
        for (wire, is_folded) in [
            (&b"\x00"[..], true),
            (b"\x03a-1\x00", true),
            (b"\x02\xc3\x84\x00", true),
            (b"\x03aB1\x00", false),
            (b"\x03ab1", false),
            (b"\x03ab", false),
            (b"\x03ab1\x00\x00", false),
            (b"\xc0\x00", false),
            (b"", false),
        ] {
            assert_eq!(FoldedName::new(wire).is_some(), is_folded, "{wire:?}");
        }
        // A length of 65 would be the letter A, but no label has it.
        let long = [&[65][..], &[b'a'; 65], &[0]].concat();
        assert_eq!(FoldedName::new(&long), None);
    }

    #[test]
    fn folded_names_have_at_most_255_octets() {
        let name = |last: u8| {
            let label = |len: u8| [&[len][..], &vec![b'a'; len.into()]].concat();
            [label(63), label(63), label(63), label(last), vec![0]].concat()
        };
        assert_eq!(name(61).len(), MAX_NAME);
        assert!(FoldedName::new(&name(61)).is_some());
        assert_eq!(FoldedName::new(&name(62)), None);
    }

    #[test]
    fn ancestors_end_with_the_root() {
        let name = FoldedName::new(b"\x01b\x01a\x00").unwrap();
        let shown: Vec<String> = name.ancestors().map(|above| above.to_string()).collect();
        assert_eq!(shown, ["b.a.", "a.", "."]);
        assert_eq!(name.ancestor_of_len(3).to_string(), "a.");
        assert_eq!(name.to_buf().view(), name);
    }
}
