//! The meaning of a line of a list.

use avocet_wire::NameBuf;

use super::modifier::Modifiers;

/// The effect of an entry on the names it covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// The names are blocked, or answered by the rewrite of the entry.
    Block,
    /// The names are allowed.
    Allow,
}

/// The names that an entry covers, relative to a given name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scope {
    /// The name itself.
    Exact,
    /// The name and all names below it.
    Subtree,
    /// The names below the name, without the name itself.
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

    /// Reports whether the scope covers a name with `labels` labels if the entry's name is its
    /// suffix of `depth` labels.
    pub(super) const fn covers(bits: u8, depth: usize, labels: usize) -> bool {
        match bits {
            1 => true,
            2 => depth < labels,
            _ => depth == labels,
        }
    }
}

/// The names that an entry covers. An entry exists only while its line is read, in a reused vector.
#[allow(
    clippy::large_enum_variant,
    reason = "a boxed name would cost an allocation for each line of the list"
)]
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Target {
    /// A folded name and optionally the names below it.
    Name(Scope, NameBuf),
    /// Names that match a pattern with wildcards: see [`super::pattern::Glob`].
    Glob(String),
    /// Names in which a regular expression finds a match, ignoring case.
    Regex(String),
    /// Names in which a regular expression finds no match.
    NotRegex(String),
}

impl Target {
    /// Reports whether the target is the root with all names below it.
    pub(super) fn is_every_name(&self) -> bool {
        matches!(self, Self::Name(Scope::Subtree, name) if name.wire() == [0])
    }
}

/// A statement about names, which one line of a list makes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub(super) target: Target,
    pub(super) effect: Effect,
    /// A combination of [`IMPORTANT`], [`BADFILTER`] and [`GIVEN`].
    pub(super) marks: u8,
    pub(super) modifiers: Option<Box<Modifiers>>,
}

/// The entry takes precedence over entries without this mark.
pub(super) const IMPORTANT: u8 = 1;
/// The entry only disables other entries: those that are equal to it except for this mark.
pub(super) const BADFILTER: u8 = 2;
/// The entry supplies an answer as hosts files and dnsmasq do. Exceptions take precedence over it,
/// unlike over `$dnsrewrite`. If several such entries match, the entry for the closest name
/// applies.
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
