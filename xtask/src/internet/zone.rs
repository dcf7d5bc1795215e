//! The properties of a zone: its signatures, delegation, servers and faults.

use std::net::Ipv4Addr;

/// The form of the denial of existence.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Denial {
    Nsec,
    /// NSEC3 (RFC 5155), with the salt as hexadecimal digits or `-`.
    Nsec3 {
        salt: &'static str,
        iterations: u16,
    },
    /// NSEC3 with Opt-Out: insecure delegations are not in the chain (RFC 5155 §6).
    OptOut,
}

/// The keys of a zone, and the keys that sign.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum KeySet {
    Usual,
    /// The zone has one key that signs everything.
    Single,
    /// Two keys sign the DNSKEY RRset, as during a rollover of the key-signing key (RFC 6781
    /// §4.1.2).
    TwoKeySigning,
    /// Two keys sign the data.
    TwoZoneSigning,
    /// A second zone-signing key is published but does not sign yet (RFC 6781 §4.1.1.1).
    Prepublished,
    /// The key to which the DS record refers is revoked (RFC 5011 §2.1).
    Revoked,
}

/// The signing of a zone.
#[derive(Clone, Copy)]
pub(super) struct Signing {
    pub(super) algorithms: &'static [u8],
    pub(super) denial: Denial,
    pub(super) keys: KeySet,
}

/// The DS records at the parent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Matching,
    Missing,
    /// The DS record of a key that the zone lacks.
    WrongKey,
    /// The right DS record, and a DS record for a key that is not published yet.
    Double,
    Sha1,
    Sha384,
    /// A right SHA-1 digest and a wrong SHA-256 digest, which takes precedence (RFC 4509 §3).
    WrongSha256,
    UnknownDigest,
    UnknownAlgorithm,
}

/// The fault of a signed zone.
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
    /// Every second record of the NSEC or NSEC3 chain is missing.
    DenialGap,
    /// The addresses differ from those that were signed.
    ForgedAddresses,
    MoreLabels,
    FewerLabels,
    WrongSigner,
    /// A signature of an existing wildcard is replayed for a name. The proof that the name does not
    /// exist is missing.
    ReplayedWildcard,
    UnknownAlgorithm,
    /// Only the first of the algorithms has signatures, which validators accept (RFC 6840 §5.11).
    OneAlgorithmSigns,
}

/// The zone that contains the names of a zone's servers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Hosting {
    /// The choice is made separately for each zone.
    Any,
    InBailiwick,
    /// The names are in a zone whose own servers have no glue either.
    GluelessTwice,
    /// The zone has the servers of its parent zone.
    WithParent,
}

/// The servers of a zone that respond.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Liveness {
    All,
    OneSilent,
    NoneButSilent,
    OneLame,
    NoneButLame,
}

/// The place of the zones of a family in the tree.
#[derive(Clone, Copy)]
pub(super) enum Place {
    Root,
    Tld(&'static str),
    AnyTld,
    SignedTld,
    /// Below each zone of the family with this label.
    Below(&'static str),
}

/// The best security status that a validator can determine for the data of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Security {
    Secure,
    Insecure,
    Bogus,
}

/// A family of zones with the same properties.
#[derive(Clone, Copy)]
pub(super) struct Family {
    pub(super) label: &'static str,
    /// The number of zones. If the family is below another one, this is the number below each zone
    /// of that family.
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
    /// Whether the parent has the server's address as glue.
    pub(super) has_glue: bool,
}

/// A zone of the internet. All names are absolute and in lower case, with a final dot.
#[derive(Clone)]
pub(super) struct Zone {
    pub(super) name: String,
    pub(super) family: Family,
    /// The index of the parent in the list of zones. The root is its own parent.
    pub(super) parent: usize,
    /// The name server process that serves the zone.
    pub(super) daemon: usize,
    pub(super) servers: Vec<Server>,
    /// The best possible security status, which also depends on the zone's ancestors.
    pub(super) security: Security,
}

impl Zone {
    /// Returns the name with this label in the zone.
    pub(super) fn below(&self, label: &str) -> String {
        if self.name == "." { format!("{label}.") } else { format!("{label}.{}", self.name) }
    }

    /// Returns whether a name is the apex of this zone or below it.
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
