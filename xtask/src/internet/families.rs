//! The families of zones. They cover every algorithm, every form of denial of existence, and every
//! fault.

use super::zone::{
    Anchor, Denial, Family, Fault, Hosting, KeySet, Liveness, Place, Security, Signing,
};

const NSEC: Denial = Denial::Nsec;
/// The parameters that RFC 9276 §3.1 recommends.
const NSEC3: Denial = Denial::Nsec3 { salt: "-", iterations: 0 };

const P256: &[u8] = &[13];

/// Returns a family of unsigned zones below any top-level domain.
pub(super) const fn unsigned(label: &'static str, count: usize) -> Family {
    Family {
        label,
        count,
        place: Place::AnyTld,
        signing: None,
        anchor: Anchor::Missing,
        fault: Fault::None,
        hosting: Hosting::Any,
        liveness: Liveness::All,
        security: Security::Insecure,
    }
}

/// Returns a family of zones below signed top-level domains. The zones are signed with these
/// algorithms and have DS records.
pub(super) const fn signed(
    label: &'static str,
    count: usize,
    algorithms: &'static [u8],
    denial: Denial,
) -> Family {
    Family {
        place: Place::SignedTld,
        signing: Some(Signing { algorithms, denial, keys: KeySet::Usual }),
        anchor: Anchor::Matching,
        security: Security::Secure,
        ..unsigned(label, count)
    }
}

/// Returns a signed family with the default settings.
const fn p256(label: &'static str, count: usize) -> Family {
    signed(label, count, P256, NSEC)
}

const fn hashed(label: &'static str, count: usize) -> Family {
    signed(label, count, P256, NSEC3)
}

const fn iterated(label: &'static str, salt: &'static str, iterations: u16) -> Family {
    signed(label, 1, P256, Denial::Nsec3 { salt, iterations })
}

impl Family {
    const fn at(self, place: Place) -> Self {
        Self { place, ..self }
    }

    const fn keys(self, keys: KeySet) -> Self {
        match self.signing {
            Some(signing) => Self { signing: Some(Signing { keys, ..signing }), ..self },
            None => self,
        }
    }

    const fn anchored(self, anchor: Anchor) -> Self {
        Self { anchor, ..self }
    }

    const fn hosted(self, hosting: Hosting) -> Self {
        Self { hosting, ..self }
    }

    const fn served(self, liveness: Liveness) -> Self {
        Self { liveness, ..self }
    }

    const fn broken(self, fault: Fault) -> Self {
        Self { fault, ..self }
    }

    const fn insecure(self) -> Self {
        Self { security: Security::Insecure, ..self }
    }

    const fn bogus(self) -> Self {
        Self { security: Security::Bogus, ..self }
    }
}

/// The root zone, which is signed and uses NSEC.
pub(super) const ROOT: Family = p256("root", 1).at(Place::Root).hosted(Hosting::InBailiwick);

/// The families of the top-level domains.
pub(super) const TLDS: &[(&str, Family)] = &[
    ("com", signed("tld", 1, P256, Denial::OptOut)),
    ("net", signed("tld", 1, &[8], NSEC3)),
    ("org", p256("tld", 1)),
    ("de", signed("tld", 1, P256, Denial::OptOut)),
    ("nl", hashed("tld", 1)),
    ("se", p256("tld", 1)),
    ("io", signed("tld", 1, &[15], NSEC3)),
    ("cz", signed("tld", 1, &[14], NSEC)),
    ("info", unsigned("tld", 1)),
    ("xyz", unsigned("tld", 1)),
];

/// The zone with the names of the root servers. The root servers also serve this zone.
pub(super) const ROOT_SERVERS: Family = unsigned("root-servers", 1).at(Place::Tld("net"));

/// Zones that contain the names of other zones' servers. The servers of the last one have names in
/// the first.
pub(super) const HOSTERS: &[Family] = &[
    unsigned("hoster-a", 1).at(Place::Tld("com")).hosted(Hosting::InBailiwick),
    p256("hoster-b", 1).at(Place::Tld("org")).hosted(Hosting::InBailiwick),
    hashed("hoster-c", 1).at(Place::Tld("nl")).hosted(Hosting::InBailiwick),
    p256("hoster-d", 1).at(Place::Tld("cz")),
];

/// The families of all other zones. A family below another one follows it in the list.
pub(super) const FAMILIES: &[Family] = &[
    unsigned("plain", 18),
    p256("nsec", 10),
    hashed("hashed", 8),
    signed("optout", 6, P256, Denial::OptOut),
    // Families with the algorithms of RFC 8624 §3.1, each with the forms of denial that the
    // algorithm supports.
    signed("alg5", 1, &[5], NSEC),
    signed("alg7", 1, &[7], NSEC),
    signed("alg7-hashed", 1, &[7], NSEC3),
    signed("alg8", 1, &[8], NSEC),
    signed("alg8-hashed", 1, &[8], NSEC3),
    signed("alg10", 1, &[10], NSEC),
    signed("alg10-hashed", 1, &[10], NSEC3),
    signed("alg14", 1, &[14], NSEC),
    signed("alg14-hashed", 1, &[14], NSEC3),
    signed("alg15", 1, &[15], NSEC),
    signed("alg15-hashed", 1, &[15], NSEC3),
    signed("alg16", 1, &[16], NSEC),
    signed("alg16-hashed", 1, &[16], NSEC3),
    signed("alg13-and-8", 2, &[13, 8], NSEC),
    signed("alg13-without-8", 1, &[13, 8], NSEC).broken(Fault::OneAlgorithmSigns),
    // Families with special parameters of NSEC3 (RFC 9276).
    iterated("salted", "5ca1ab1e", 0),
    iterated("iterated1", "-", 1),
    iterated("iterated20", "ab", 20),
    iterated("iterated100", "-", 100),
    iterated("iterated150", "00ff", 150),
    // Families with special sets of keys and DS records.
    p256("single-key", 2).keys(KeySet::Single),
    p256("two-ksk", 2).keys(KeySet::TwoKeySigning),
    p256("two-zsk", 2).keys(KeySet::TwoZoneSigning),
    p256("prepublished", 1).keys(KeySet::Prepublished),
    p256("revoked", 1).keys(KeySet::Revoked),
    p256("double-ds", 2).anchored(Anchor::Double),
    p256("sha1-ds", 2).anchored(Anchor::Sha1),
    p256("sha384-ds", 2).anchored(Anchor::Sha384),
    p256("missing-ds", 3).anchored(Anchor::Missing).insecure(),
    p256("unknown-digest", 2).anchored(Anchor::UnknownDigest).insecure(),
    p256("unknown-algorithm", 2)
        .anchored(Anchor::UnknownAlgorithm)
        .broken(Fault::UnknownAlgorithm)
        .insecure(),
    p256("wrong-ds", 2).anchored(Anchor::WrongKey).bogus(),
    p256("wrong-sha256", 1).anchored(Anchor::WrongSha256).bogus(),
    // Families with faults.
    p256("expired", 1).broken(Fault::Expired).bogus(),
    hashed("expired-hashed", 1).broken(Fault::Expired).bogus(),
    p256("not-yet-valid", 2).broken(Fault::NotYetValid).bogus(),
    p256("no-signatures", 2).broken(Fault::NoSignatures).bogus(),
    p256("no-address-signatures", 2).broken(Fault::NoAddressSignatures),
    p256("no-key-signatures", 1).broken(Fault::NoKeySignatures).bogus(),
    p256("no-denial", 2).broken(Fault::NoDenial),
    hashed("no-denial-hashed", 2).broken(Fault::NoDenial),
    p256("no-denial-signatures", 1).broken(Fault::NoDenialSignatures),
    hashed("no-denial-signatures-hashed", 1).broken(Fault::NoDenialSignatures),
    p256("denial-gap", 1).broken(Fault::DenialGap),
    hashed("denial-gap-hashed", 1).broken(Fault::DenialGap),
    signed("denial-gap-optout", 2, P256, Denial::OptOut).broken(Fault::DenialGap),
    p256("forged", 2).broken(Fault::ForgedAddresses),
    p256("more-labels", 1).broken(Fault::MoreLabels),
    p256("fewer-labels", 1).broken(Fault::FewerLabels),
    p256("wrong-signer", 1).broken(Fault::WrongSigner),
    p256("replayed", 2).broken(Fault::ReplayedWildcard),
    hashed("replayed-hashed", 2).broken(Fault::ReplayedWildcard),
    // Families with special servers.
    unsigned("glueless", 3).hosted(Hosting::GluelessTwice),
    p256("glueless-signed", 2).hosted(Hosting::GluelessTwice),
    unsigned("one-silent", 2).served(Liveness::OneSilent),
    p256("one-silent-signed", 2).served(Liveness::OneSilent),
    unsigned("all-silent", 1).served(Liveness::NoneButSilent),
    unsigned("one-lame", 2).served(Liveness::OneLame),
    p256("one-lame-signed", 2).served(Liveness::OneLame),
    unsigned("all-lame", 1).served(Liveness::NoneButLame),
    // Families below other zones, on separate servers or on the servers of their parents.
    p256("parent", 3),
    p256("child", 1).at(Place::Below("parent")),
    hashed("child-beside", 1).at(Place::Below("parent")).hosted(Hosting::WithParent),
    unsigned("child-unsigned", 1).at(Place::Below("parent")),
    unsigned("child-unsigned-beside", 1).at(Place::Below("parent")).hosted(Hosting::WithParent),
    p256("child-island", 1).at(Place::Below("parent")).anchored(Anchor::Missing).insecure(),
    p256("grandchild", 1).at(Place::Below("child")).hosted(Hosting::InBailiwick),
    unsigned("plain-parent", 2),
    unsigned("plain-child", 1).at(Place::Below("plain-parent")),
    unsigned("plain-child-beside", 1).at(Place::Below("plain-parent")).hosted(Hosting::WithParent),
    p256("plain-island", 1).at(Place::Below("plain-parent")).insecure(),
    signed("optout-parent", 2, P256, Denial::OptOut),
    unsigned("optout-unsigned", 2).at(Place::Below("optout-parent")),
    p256("optout-signed", 1).at(Place::Below("optout-parent")),
    hashed("undenied-parent", 1).broken(Fault::NoDenial),
    unsigned("undenied-child", 1).at(Place::Below("undenied-parent")).bogus(),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_name_one_family_each() {
        let mut labels: Vec<_> =
            FAMILIES.iter().chain(HOSTERS).map(|family| family.label).collect();
        labels.sort_unstable();
        let count = labels.len();
        labels.dedup();
        assert_eq!(labels.len(), count);
    }
}
