//! The identity of a zone: its name and, because several zones may have the same name, its view.

use std::fmt;

use avocet_wire::text;

/// The identity of a zone: its name, and its view if only some clients see it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ZoneId {
    /// The name of the zone, in lower case and wire form.
    pub name: Box<[u8]>,
    /// The first item of the setting `view` of the zone; `None` if all clients see the zone.
    pub view: Option<Box<str>>,
}

impl ZoneId {
    /// Returns the identity of the zone with this folded name that all clients see.
    #[must_use]
    pub fn common(name: &[u8]) -> Self {
        Self { name: name.into(), view: None }
    }

    /// Reports whether the zone belongs to no view. All clients see it, unless their view has
    /// another zone with this name.
    #[must_use]
    pub fn is_common(&self) -> bool {
        self.view.is_none()
    }
}

impl fmt::Display for ZoneId {
    /// Writes the name with a final dot, then a slash and the view, if there is one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        text::write_name(&self.name, f)?;
        self.view.as_ref().map_or(Ok(()), |view| write!(f, "/{view}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_shown_with_its_view() {
        let common = ZoneId::common(b"\x04corp\x07example\x00");
        assert_eq!(common.to_string(), "corp.example.");
        let office = ZoneId { view: Some("office".into()), ..common.clone() };
        assert_eq!(office.to_string(), "corp.example./office");
        assert!(common < office && common.is_common() && !office.is_common());
    }
}
