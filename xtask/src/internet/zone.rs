//! What a zone of the internet is, before it is written: how it is signed, delegated, served and
//! broken.

use std::net::Ipv4Addr;

/// How the absence of names and types is proved.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Denial {
    Nsec,
    /// RFC 5155, with the salt as hexadecimal digits or `-`.
    Nsec3 {
        salt: &'static str,
        iterations: u16,
    },
    /// The same, the insecure delegations left out of the chain (RFC 5155 §6).
    OptOut,
}

/// Which keys a zone shows, and which of them sign.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum KeySet {
    Usual,
    /// One key for everything.
    Single,
    /// Two keys sign the DNSKEY RRset, as while the key-signing key is rolled (RFC 6781 §4.1.2).
    TwoKeySigning,
    /// Two keys sign the data.
    TwoZoneSigning,
    /// A second zone-signing key is shown and does not sign yet (RFC 6781 §4.1.1.1).
    Prepublished,
    /// The key that the DS names is revoked (RFC 5011 §2.1).
    Revoked,
}

/// How a zone is signed.
#[derive(Clone, Copy)]
pub(super) struct Signing {
    pub(super) algorithms: &'static [u8],
    pub(super) denial: Denial,
    pub(super) keys: KeySet,
}

/// What the parent says of the keys.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Matching,
    Missing,
    /// The DS of a key that the zone does not have.
    WrongKey,
    /// The right DS beside that of a key not shown yet.
    Double,
    Sha1,
    Sha384,
    /// A right SHA-1 beside a wrong SHA-256, which forbids the former (RFC 4509 §3).
    WrongSha256,
    UnknownDigest,
    UnknownAlgorithm,
}

/// How a signed zone is broken.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    Expired,
    NotYetValid,
    NoSignatures,
    NoAddressSignatures,
    NoKeySignatures,
    NoDenial,
    NoDenialSignatures,
    /// Every second record of the chain is gone.
    DenialGap,
    /// The signatures over addresses are not over these.
    ForgedAddresses,
    MoreLabels,
    FewerLabels,
    WrongSigner,
    /// An existing name is answered with what a wildcard's signature covers, without the proof that
    /// it may be.
    ReplayedWildcard,
    UnknownAlgorithm,
    /// Only the first of the algorithms signs, which validators accept (RFC 6840 §5.11).
    OneAlgorithmSigns,
}

/// Where the names of a zone's servers are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Hosting {
    /// Drawn for each zone.
    Any,
    InBailiwick,
    /// At a zone whose own servers have no glue either.
    GluelessTwice,
    /// At the servers of the parent zone.
    WithParent,
}

/// Which servers of a zone answer for it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Liveness {
    All,
    OneSilent,
    NoneButSilent,
    OneLame,
    NoneButLame,
}

/// Below what the zones of a family are.
#[derive(Clone, Copy)]
pub(super) enum Place {
    Root,
    Tld(&'static str),
    AnyTld,
    SignedTld,
    /// Below each zone of the family with this label.
    Below(&'static str),
}

/// The most that a validator may find a zone's data to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Security {
    Secure,
    Insecure,
    Bogus,
}

/// Zones of one make.
#[derive(Clone, Copy)]
pub(super) struct Family {
    pub(super) label: &'static str,
    /// How many zones; below another family, how many in each of its zones.
    pub(super) count: usize,
    pub(super) place: Place,
    pub(super) signing: Option<Signing>,
    pub(super) anchor: Anchor,
    pub(super) fault: Fault,
    pub(super) hosting: Hosting,
    pub(super) liveness: Liveness,
    pub(super) security: Security,
}

/// A name server of a zone.
#[derive(Clone)]
pub(super) struct Server {
    pub(super) host: String,
    pub(super) address: Ipv4Addr,
    /// Whether the parent gives its address.
    pub(super) has_glue: bool,
}

/// A zone of the internet. All names are absolute, in lower case and with their final dot.
#[derive(Clone)]
pub(super) struct Zone {
    pub(super) name: String,
    pub(super) family: Family,
    /// Its place in the list of zones; the root is its own parent.
    pub(super) parent: usize,
    /// The name server process that has it.
    pub(super) daemon: usize,
    pub(super) servers: Vec<Server>,
    /// What its data can be at most, its ancestors considered.
    pub(super) security: Security,
}

impl Zone {
    /// A name in this zone.
    pub(super) fn below(&self, label: &str) -> String {
        if self.name == "." { format!("{label}.") } else { format!("{label}.{}", self.name) }
    }

    /// Whether a name is this zone's apex or below it.
    pub(super) fn contains(&self, name: &str) -> bool {
        self.name == "." || name == self.name || name.ends_with(&format!(".{}", self.name))
    }
}

#[cfg(test)]
pub(super) fn sample(name: &str, family: Family) -> Zone {
    let server =
        Server { host: format!("ns1.{name}"), address: Ipv4Addr::LOCALHOST, has_glue: true };
    Zone {
        name: name.to_owned(),
        family,
        parent: 0,
        daemon: 0,
        servers: vec![server],
        security: family.security,
    }
}

#[cfg(test)]
mod tests {
    use super::super::families::unsigned;
    use super::*;

    #[test]
    fn a_zone_contains_its_apex_and_what_is_below() {
        let zone = sample("a.com.", unsigned("plain", 1));
        assert!(zone.contains("a.com.") && zone.contains(&zone.below("b")));
        assert!(!zone.contains("ba.com.") && !zone.contains("com."));
        assert_eq!(sample(".", unsigned("root", 1)).below("com"), "com.");
    }
}
