//! Protection against DNS rebinding: a public name must not resolve to addresses in the client's
//! network.
//!
//! The name of a web page can resolve first to a server of the page's author and then to a private
//! address. The page can then talk to devices at that address, because the browser treats both
//! addresses as one origin. Private addresses are therefore accepted only for names that may have
//! them.

use std::net::IpAddr;

use avocet_wire::name::is_under;
use avocet_wire::special_purpose::Scope;

use crate::PolicyError;

/// Names in lower-case wire form that, with all names below them, may have private addresses.
#[derive(Clone, Debug, Default)]
pub struct Exceptions {
    names: Vec<Box<[u8]>>,
}

impl Exceptions {
    /// Creates the set from names in lower-case wire form.
    #[must_use]
    pub fn of(names: impl IntoIterator<Item = Box<[u8]>>) -> Self {
        Self { names: names.into_iter().collect() }
    }

    /// Creates the set from names as text.
    ///
    /// # Errors
    /// A name is invalid. The error holds the name and the reason.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, PolicyError> {
        let wire = |text: &str| {
            super::action::name(text).map_err(|source| PolicyError::RebindingException {
                name: text.to_owned(),
                source: Box::new(source),
            })
        };
        Ok(Self { names: names.into_iter().map(wire).collect::<Result<_, _>>()? })
    }

    /// Reports whether a folded name may have private addresses.
    #[must_use]
    pub fn contains(&self, qname: &[u8]) -> bool {
        self.names.iter().any(|name| is_under(qname, name))
    }
}

/// Returns the first private address of an answer, unless the name may have private addresses.
/// `addresses` come from A and AAAA records, and from the hints of SVCB and HTTPS records.
#[must_use]
pub fn rebinds(
    qname: &[u8],
    mut addresses: impl Iterator<Item = IpAddr>,
    exceptions: &Exceptions,
) -> Option<IpAddr> {
    let private = addresses.find(|address| Scope::Unroutable.contains(*address))?;
    (!exceptions.contains(qname)).then_some(private)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_an_exception_may_lead_home() {
        let exceptions = Exceptions::new(["plex.direct", "home.example."]).unwrap();
        let addresses = ["192.0.2.1".parse().unwrap(), "::ffff:10.0.0.1".parse().unwrap()];
        let rebinds = |text: &str| {
            rebinds(&super::super::action::name(text).unwrap(), addresses.into_iter(), &exceptions)
        };
        assert_eq!(rebinds("evil.example"), Some(addresses[1]));
        assert_eq!((rebinds("a.plex.direct"), rebinds("home.example")), (None, None));
        assert!(Exceptions::new(["a..b"]).is_err());
    }
}
