//! What a line of a list says, once it is read.

use avocet_wire::NameBuf;

use super::modifier::Modifiers;

/// What an entry does to the names that it is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// They are blocked, or answered as its rewrite says.
    Block,
    /// They are let through.
    Allow,
}

/// Which names an entry is about, given one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scope {
    /// The name alone.
    Exact,
    /// The name and all below it.
    Subtree,
    /// The names below it.
    Below,
}

impl Scope {
    pub(super) const fn bits(self) -> u8 {
        match self {
            Self::Exact => 0,
            Self::Subtree => 1,
            Self::Below => 2,
        }
    }

    /// Is a name within the scope that has the entry's name as its suffix of `depth` out of
    /// `labels` labels?
    pub(super) const fn covers(bits: u8, depth: usize, labels: usize) -> bool {
        match bits {
            1 => true,
            2 => depth < labels,
            _ => depth == labels,
        }
    }
}

/// The names that an entry is about. Entries live for one line, in a vector that is used again: a
/// box around the name would be an allocation for each line of a million.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Target {
    /// One name, folded, and perhaps those below it.
    Name(Scope, NameBuf),
    /// Names that a pattern matches: see [`super::pattern::Glob`].
    Glob(String),
    /// Names in which a regular expression finds something, whatever the case.
    Regex(String),
    /// Names in which it finds nothing.
    NotRegex(String),
}

impl Target {
    /// Is it the root with all below it?
    pub(super) fn is_every_name(&self) -> bool {
        matches!(self, Self::Name(Scope::Subtree, name) if name.wire() == [0])
    }
}

/// What a line says of some names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub(super) target: Target,
    pub(super) effect: Effect,
    /// [`IMPORTANT`], [`BADFILTER`] and [`GIVEN`].
    pub(super) marks: u8,
    pub(super) modifiers: Option<Box<Modifiers>>,
}

/// The entry beats those without this mark.
pub(super) const IMPORTANT: u8 = 1;
/// The entry does nothing but to switch off those that are equal but for this mark.
pub(super) const BADFILTER: u8 = 2;
/// The entry gives an answer as hosts files and dnsmasq do: exceptions go before it, which they do
/// not before `$dnsrewrite`, and of several the one about the closest name holds.
pub(super) const GIVEN: u8 = 4;

impl Entry {
    pub(super) fn block(target: Target) -> Self {
        Self { target, effect: Effect::Block, marks: 0, modifiers: None }
    }

    pub(super) fn block_name(scope: Scope, name: NameBuf) -> Self {
        Self::block(Target::Name(scope, name))
    }

    pub(super) fn with(mut self, modifiers: Modifiers) -> Self {
        self.modifiers = (modifiers != Modifiers::default()).then(|| Box::new(modifiers));
        self
    }
}
