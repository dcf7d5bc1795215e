//! The clients that may update a zone (RFC 2136), and the records that they may change.

use std::fmt;
use std::net::IpAddr;

use avocet_wire::{FoldedName, Rtype};
use avocet_zone::{EditScope, SerialPolicy};
use ipnet::IpNet;

use super::error::SettingError;
use super::name::{shown as shown_name, typed_name};
use super::setting::FromText;

/// An item of `allow-update`: a key, which must sign the request, and the records that it may
/// change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpdateRule {
    /// The network of the client.
    network: Option<IpNet>,
    /// The name of the key, in lower case and wire form.
    key: Box<[u8]>,
    names: UpdateNames,
    /// The types that the key may change. If empty, the key may change all types except those that
    /// an item must name.
    types: Vec<Rtype>,
}

/// The names that a key may change.
#[derive(Debug, Clone, PartialEq, Eq)]
enum UpdateNames {
    /// All names of the zone.
    All,
    /// Exactly this name, in lower case and wire form.
    Exact(Box<[u8]>),
    /// This name and all names below it.
    Subtree(Box<[u8]>),
    /// Only the name that equals the name of the key.
    SelfName,
}

impl UpdateRule {
    /// Returns the name of the key, in lower case and wire form.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Returns whether the rule is for a client with this address and this key.
    #[must_use]
    pub fn admits(&self, ip: IpAddr, key: &[u8]) -> bool {
        let ip = ip.to_canonical();
        self.network.is_none_or(|network| network.contains(&ip)) && *self.key == *key
    }

    /// Returns whether a client of the rule may change the records of `scope`.
    #[must_use]
    pub fn permits(&self, scope: EditScope<'_>) -> bool {
        let is_name = match &self.names {
            UpdateNames::All => true,
            UpdateNames::Exact(name) => **name == *scope.owner.wire(),
            UpdateNames::Subtree(name) => {
                scope.owner.is_at_or_below(FoldedName::from_folded_unchecked(name))
            }
            UpdateNames::SelfName => *self.key == *scope.owner.wire(),
        };
        is_name
            && match &self.types[..] {
                [] => is_plain(scope.rtype),
                types => types.contains(&scope.rtype),
            }
    }
}

/// Returns whether a rule without types permits this type. It does not permit the types of the zone
/// itself, of delegations and of signatures, nor ALIAS, because the server looks up the target of
/// an ALIAS record for clients that could not query this target themselves.
const fn is_plain(rtype: Rtype) -> bool {
    !matches!(rtype, Rtype::SOA | Rtype::NS | Rtype::DS | Rtype::DNAME | Rtype::DNSKEY)
        && !matches!(rtype, Rtype::ALIAS)
        && !rtype.is_dnssec_proof()
        // NSEC3PARAM, CDS, CDNSKEY and ZONEMD.
        && !matches!(rtype.0, 51 | 59 | 60 | 63)
}

impl fmt::Display for UpdateRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(network) = &self.network {
            write!(f, "{network} ")?;
        }
        write!(f, "key {}", shown_name(&self.key))?;
        match &self.names {
            UpdateNames::All => {}
            UpdateNames::Exact(name) => write!(f, " exact {}", shown_name(name))?,
            UpdateNames::Subtree(name) => write!(f, " subtree {}", shown_name(name))?,
            UpdateNames::SelfName => f.write_str(" self")?,
        }
        if !self.types.is_empty() {
            let types: Vec<_> = self.types.iter().map(ToString::to_string).collect();
            write!(f, " types {}", types.join(","))?;
        }
        Ok(())
    }
}

impl FromText for UpdateRule {
    const EXPECTED: &'static str = "\"[NETWORK] key NAME [exact NAME | subtree NAME | self] [types \
                                    TYPE,TYPE]\", such as \"key acme subtree \
                                    _acme-challenge.corp.example types TXT\"";

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        let mut words = text.split_ascii_whitespace().peekable();
        let network = words.next_if(|word| *word != "key").map(network_of).transpose()?;
        let (Some("key"), Some(key)) = (words.next(), words.next()) else { return Err(None) };
        let key = folded(key)?;
        let mut names = UpdateNames::All;
        let mut types = Vec::new();
        if let Some(word) = words.next_if(|word| *word != "types") {
            let name = |word: Option<&str>| folded(word.ok_or(None)?);
            names = match word {
                "exact" => UpdateNames::Exact(name(words.next())?),
                "subtree" => UpdateNames::Subtree(name(words.next())?),
                "self" => UpdateNames::SelfName,
                _ => return Err(None),
            };
        }
        if words.next_if_eq(&"types").is_some() {
            let list = words.next().ok_or(None)?;
            types = list.split(',').map(Rtype::from_text).collect::<Result<_, _>>()?;
        }
        if words.next().is_some() {
            return Err(None);
        }
        Ok(Self { network, key, names, types })
    }
}

fn network_of(text: &str) -> Result<IpNet, Option<SettingError>> {
    let address = || text.parse().ok().map(|ip: IpAddr| IpNet::from(ip));
    text.parse().ok().or_else(address).ok_or(None)
}

fn folded(name: &str) -> Result<Box<[u8]>, Option<SettingError>> {
    typed_name(name).map(|name| name.to_ascii_lowercase().into()).map_err(|_| None)
}

impl FromText for SerialPolicy {
    const EXPECTED: &'static str = "\"increment\", \"date\" or \"unixtime\"";

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        let found = Self::NAMES.into_iter().find(|(_, name)| *name == text);
        found.map(|(policy, _)| policy).ok_or(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> Option<UpdateRule> {
        UpdateRule::from_text(text).ok()
    }

    #[test]
    fn rules_are_read_and_shown() {
        for text in [
            "key acme.",
            "192.0.2.0/24 key acme. subtree a.example. types TXT",
            "key acme. exact a.example.",
            "key h.example. self types A,AAAA",
        ] {
            assert_eq!(rule(text).map(|rule| rule.to_string()).as_deref(), Some(text));
        }
        for text in [
            "",
            "key",
            "192.0.2.1",
            "acme",
            "key a below b",
            "key a exact",
            "key a types",
            "key a types NOPE",
            "key a self self",
            "key a types A AAAA",
            "key a exact b types ANY",
        ] {
            assert!(rule(text).is_none(), "{text}");
        }
    }

    #[test]
    fn rules_permit_what_they_name_and_nothing_else() {
        let check = |text: &str, name: &[u8], rtype: Rtype, expected: bool| {
            let owner = FoldedName::from_folded_unchecked(name);
            let permits = rule(text).unwrap().permits(EditScope { owner, rtype });
            assert_eq!(permits, expected, "{text} {rtype}");
        };
        let (a, below) = (b"\x01a\x07example\0", b"\x01b\x01a\x07example\0");
        check("key k", a, Rtype::TXT, true);
        check("key k", a, Rtype::NS, false);
        check("key k", a, Rtype::RRSIG, false);
        check("key k exact a.example", a, Rtype::ALIAS, false);
        check("key k types ALIAS", a, Rtype::ALIAS, true);
        check("key k types NS", a, Rtype::NS, true);
        check("key k types NS", a, Rtype::TXT, false);
        check("key k exact a.example", a, Rtype::TXT, true);
        check("key k exact A.example", below, Rtype::TXT, false);
        check("key k subtree a.example", below, Rtype::TXT, true);
        check("key k subtree b.a.example", a, Rtype::TXT, false);
        check("key a.example self", a, Rtype::A, true);
        check("key a.example self", below, Rtype::A, false);
        let rule = rule("192.0.2.0/24 key k").unwrap();
        let [inside, outside]: [IpAddr; 2] =
            ["192.0.2.9", "192.0.3.9"].map(|ip| ip.parse().unwrap());
        assert!(rule.admits(inside, b"\x01k\0") && !rule.admits(outside, b"\x01k\0"));
        assert!(!rule.admits(inside, b"\x01j\0"));
    }
}
