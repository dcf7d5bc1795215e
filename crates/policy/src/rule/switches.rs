//! Pauses and grants: temporary suspensions of filtering that end by themselves.
//!
//! Pauses and grants are not rules. The caller stores them, so that they survive a restart, and
//! rebuilds the program when they change.

use std::net::IpAddr;

use avocet_wire::text::write_name;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::PolicyError;
use crate::client::ClientTest;

/// Maximum number of simultaneous pauses, and maximum number of simultaneous grants.
pub const MAX_SWITCHES: usize = 1_024;

/// The clients to which a pause or a grant applies.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// All clients of the server.
    #[default]
    All,
    /// The clients of the group with this name.
    Group(String),
    /// The configured client with this name.
    Client(String),
    /// The client with this address.
    Address(IpAddr),
}

impl Scope {
    /// Returns the test that shows whether a client is in the scope.
    pub(super) fn test(&self) -> Option<ClientTest> {
        match self {
            Self::All => None,
            Self::Group(name) => Some(ClientTest::Group(name.clone())),
            Self::Client(name) => Some(ClientTest::Is(name.clone())),
            Self::Address(ip) => Some(ClientTest::Within((*ip).into())),
        }
    }
}

/// A pause: a temporary suspension of all filtering for some clients.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Pause {
    /// The clients to which the pause applies.
    #[serde(default)]
    pub scope: Scope,
    /// The Unix second at which the pause ends, so that the server filters again.
    pub until: u64,
}

/// A grant: a temporary suspension of filtering of one name, and of all names below the name, for
/// some clients.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Grant {
    /// The name, which includes all names below it.
    pub name: String,
    /// The clients to which the grant applies.
    #[serde(default)]
    pub scope: Scope,
    /// The Unix second at which the grant ends.
    pub until: u64,
}

/// The pauses and grants of the server.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Switches {
    /// The pauses.
    #[serde(default)]
    pub pauses: Vec<Pause>,
    /// The grants.
    #[serde(default)]
    pub grants: Vec<Grant>,
}

impl Switches {
    /// Adds a pause, replacing one with the same scope.
    ///
    /// # Errors
    /// There are already [`MAX_SWITCHES`] pauses.
    pub fn pause(&mut self, pause: Pause) -> Result<(), PolicyError> {
        self.pauses.retain(|other| other.scope != pause.scope);
        add(&mut self.pauses, pause)
    }

    /// Adds a grant, replacing one with the same name and scope.
    ///
    /// # Errors
    /// The name is invalid, or there are already [`MAX_SWITCHES`] grants.
    pub fn grant(&mut self, mut grant: Grant) -> Result<(), PolicyError> {
        grant.name = canonical(&grant.name)?;
        self.revoke(&grant.name, &grant.scope);
        add(&mut self.grants, grant)
    }

    /// Ends the pause of a scope before its time. Returns whether there was such a pause.
    pub fn resume(&mut self, scope: &Scope) -> bool {
        let before = self.pauses.len();
        self.pauses.retain(|pause| pause.scope != *scope);
        self.pauses.len() < before
    }

    /// Ends a grant before its time. The name may be written in any form. Returns whether there was
    /// such a grant.
    pub fn revoke(&mut self, name: &str, scope: &Scope) -> bool {
        let before = self.grants.len();
        let Ok(name) = canonical(name) else { return false };
        // A file of an earlier version may have the name in another form.
        let is_name = |other: &str| canonical(other).is_ok_and(|other| other == name);
        self.grants.retain(|grant| grant.scope != *scope || !is_name(&grant.name));
        self.grants.len() < before
    }

    /// Removes pauses and grants that have ended by `now`, in Unix seconds.
    pub fn expire(&mut self, now: u64) {
        self.pauses.retain(|pause| pause.until > now);
        self.grants.retain(|grant| grant.until > now);
    }

    /// Returns whether pauses or grants have ended by `now`, in Unix seconds.
    #[must_use]
    pub fn have_ended(&self, now: u64) -> bool {
        self.pauses.iter().any(|pause| pause.until <= now)
            || self.grants.iter().any(|grant| grant.until <= now)
    }

    /// Moves the end of all pauses and grants to an earlier time, by this number of seconds.
    pub fn end_earlier(&mut self, secs: u64) {
        let pauses = self.pauses.iter_mut().map(|pause| &mut pause.until);
        let ends = pauses.chain(self.grants.iter_mut().map(|grant| &mut grant.until));
        ends.for_each(|until| *until = until.saturating_sub(secs));
    }

    /// Returns the next Unix second after `now` at which a pause or a grant ends.
    #[must_use]
    pub fn next_boundary(&self, now: u64) -> Option<u64> {
        let ends = self
            .pauses
            .iter()
            .map(|pause| pause.until)
            .chain(self.grants.iter().map(|grant| grant.until));
        ends.filter(|until| *until > now).min()
    }

    /// Returns the tests of clients that the scopes of pauses and grants require.
    #[must_use]
    pub fn client_tests(&self) -> Vec<ClientTest> {
        let scopes = self
            .pauses
            .iter()
            .map(|pause| &pause.scope)
            .chain(self.grants.iter().map(|grant| &grant.scope));
        let mut tests: Vec<ClientTest> = Vec::new();
        for test in scopes.filter_map(Scope::test) {
            if !tests.contains(&test) {
                tests.push(test);
            }
        }
        tests
    }
}

/// Returns the canonical form of a name: folded, in A-labels, without the final dot.
fn canonical(name: &str) -> Result<String, PolicyError> {
    let mut text = String::new();
    // Writing to a `String` cannot fail, and the name is well-formed.
    let _ = write_name(&super::action::name(name)?, &mut text);
    match text.strip_suffix('.') {
        Some(short) if !short.is_empty() => Ok(short.to_owned()),
        _ => Ok(text),
    }
}

fn add<T>(switches: &mut Vec<T>, switch: T) -> Result<(), PolicyError> {
    if switches.len() == MAX_SWITCHES {
        return Err(PolicyError::TooManySwitches(MAX_SWITCHES));
    }
    switches.push(switch);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_replace_their_like_and_end_by_themselves() {
        let mut switches = Switches::default();
        let kids = Scope::Group("kids".to_owned());
        switches.pause(Pause { scope: Scope::All, until: 100 }).unwrap();
        switches.pause(Pause { scope: Scope::All, until: 50 }).unwrap();
        switches
            .grant(Grant { name: "a.example".to_owned(), scope: kids.clone(), until: 70 })
            .unwrap();
        assert!(
            switches
                .grant(Grant { name: "a..b".to_owned(), scope: kids.clone(), until: 70 })
                .is_err()
        );
        assert_eq!(
            (switches.pauses.len(), switches.next_boundary(10), switches.next_boundary(50)),
            (1, Some(50), Some(70))
        );
        let mut earlier = switches.clone();
        earlier.end_earlier(20);
        assert_eq!((earlier.next_boundary(10), earlier.next_boundary(30)), (Some(30), Some(50)));
        switches.expire(50);
        assert!(switches.pauses.is_empty() && switches.grants.len() == 1);
        assert!(switches.revoke("a.example", &kids) && !switches.revoke("a.example", &kids));
        assert_eq!(switches.next_boundary(0), None);
    }

    #[test]
    fn a_name_has_one_grant_in_whatever_form_it_is_written() {
        let mut switches = Switches::default();
        let grant = |name: &str| Grant { name: name.to_owned(), scope: Scope::All, until: 7 };
        for name in ["ADS.example", "ads.example.", "ads.example", "\\097ds.example"] {
            switches.grant(grant(name)).unwrap();
            assert_eq!(switches.grants, [grant("ads.example")], "{name}");
        }
        assert!(!switches.revoke("a..b", &Scope::All));
        assert!(switches.revoke("Ads.Example.", &Scope::All) && switches.grants.is_empty());
        // This is the form in which an earlier version saved the switches.
        switches.grants = vec![grant("ADS.example."), grant("ads.example")];
        assert!(switches.revoke("ads.example", &Scope::All) && switches.grants.is_empty());
        switches.grant(grant(".")).unwrap();
        assert_eq!(switches.grants, [grant(".")]);
    }

    #[test]
    fn they_are_written_and_read_as_text() {
        let mut switches = Switches::default();
        switches
            .pause(Pause { scope: Scope::Client("tv".to_owned()), until: 1_795_298_400 })
            .unwrap();
        switches
            .grant(Grant { name: "a.example".to_owned(), scope: Scope::All, until: 7 })
            .unwrap();
        let text = toml::to_string(&switches).unwrap();
        assert_eq!(toml::from_str::<Switches>(&text).unwrap(), switches);
    }
}
