//! The places from which a zone gets its settings: the zone itself, its view, and `options`.

use crate::networks::Networks;

use super::statement::{Statement, last};

/// A view, or the whole configuration if there are no views.
#[derive(Clone, Debug)]
pub(super) struct View<'s> {
    /// The name; `None` if there are no views.
    pub(super) name: Option<&'s str>,
    pub(super) place: Option<&'s Statement>,
    /// The statements of the view.
    pub(super) block: &'s [Statement],
    /// The statements of `options`.
    pub(super) options: &'s [Statement],
    /// The clients that see this view and no earlier one.
    pub(super) clients: Networks,
    /// Whether the view has all clients that are in no earlier view.
    pub(super) is_last: bool,
}

impl<'s> View<'s> {
    /// Returns a setting of the view, or else of `options`.
    pub(super) fn find(&self, key: &str) -> Option<&'s Statement> {
        self.own(key).or_else(|| last(self.options, key))
    }

    /// Returns a setting of the view itself.
    pub(super) fn own(&self, key: &str) -> Option<&'s Statement> {
        self.name.and_then(|_| last(self.block, key))
    }

    /// Returns a setting of a zone.
    pub(super) fn find_for(&self, zone: &'s [Statement], keys: &[&str]) -> Option<&'s Statement> {
        let inner = keys.iter().find_map(|key| last(zone, key));
        inner.or_else(|| keys.iter().find_map(|key| self.find(key)))
    }
}
