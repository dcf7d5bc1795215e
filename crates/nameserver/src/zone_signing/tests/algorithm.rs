//! Another algorithm in the policy of a zone that is signed: each version is validated with the DS
//! records of the parent, and with the keys of the version before and after it.

use avocet_dnssec::{Budget, Context, Policy, Rrset, Trust, ZoneKeys, chain, signature};
use avocet_wire::Class;
use avocet_zone::{HostedSet, Node};

use super::*;

/// A site that validates all versions, follows the wishes of the zone at the parent, and restarts
/// after each step of a key.
struct Watched {
    site: Site,
    /// The last versions, in order.
    versions: Vec<Arc<HostedZone>>,
    serial: u32,
    /// The different states of the keys, in order.
    seen: Vec<Vec<&'static str>>,
}

fn node_of<'z>(zone: &'z HostedZone, name: &[u8]) -> Option<Node<'z>> {
    zone.iter().find(|node| node.name().wire() == name)
}

fn dnskeys_of(zone: &HostedZone) -> HostedSet<'_> {
    node_of(zone, zone.apex().wire())
        .unwrap()
        .sets()
        .find(|set| set.rtype == Rtype::DNSKEY)
        .unwrap()
}

fn data_of<'z>(set: &HostedSet<'z>) -> (Vec<&'z [u8]>, Vec<&'z [u8]>) {
    let records = set.iter().map(|record| record.rdata).collect();
    (records, set.signatures().map(|record| record.rdata).collect())
}

fn rrset<'r>(
    owner: &'r [u8],
    set: &HostedSet<'_>,
    data: &'r (Vec<&[u8]>, Vec<&[u8]>),
) -> Rrset<'r> {
    let (rtype, class, ttl_secs) = (set.rtype, Class::IN, 300);
    Rrset { owner, rtype, class, ttl_secs, records: &data.0, signatures: &data.1 }
}

impl Watched {
    fn new(name: &str, scheme: KeyScheme) -> Self {
        let mut site = Site::new(name);
        site.config.policy.keys.scheme = scheme;
        site.restart();
        Self { site, versions: Vec::new(), serial: 1, seen: Vec::new() }
    }

    /// One check, as the server makes it, with what the parent does meanwhile.
    fn tick(&mut self) {
        let site = &mut self.site;
        let now_secs = site.now_secs;
        site.signer.note(now_secs).unwrap();
        if site.signer.wants_parent(now_secs) {
            site.signer.note_parent(&site.parent, 86_400, now_secs);
        }
        if site.signer.is_due(now_secs) {
            self.publish();
        }
        let site = &mut self.site;
        let states = site.states();
        if let Some(at) = states.iter().position(|state| *state == "submitted") {
            site.parent = vec![site.ds(at)];
        }
        if self.seen.last() != Some(&states) {
            self.seen.push(states);
            site.restart();
            self.publish();
        }
        self.site.now_secs += TICK_SECS;
    }

    fn publish(&mut self) {
        let site = &mut self.site;
        let zone = site.signer.publish(&site.source, None, site.now_secs).unwrap();
        self.versions.push(zone.clone());
        let last = self.versions.len().saturating_sub(2);
        for other in &self.versions[last..] {
            self.validate(&zone, other);
            self.validate(other, &zone);
        }
    }

    /// Validates the records of one version with the keys of another.
    fn validate(&self, of_keys: &HostedZone, of_data: &HostedZone) {
        if self.site.parent.is_empty() {
            return;
        }
        let context = Context { now_secs: self.site.now_secs as u32, policy: Policy::default() };
        let keys = self.keys(of_keys, &context);
        let dnskeys = dnskeys_of(of_keys);
        let published: Vec<u8> = dnskeys.iter().map(|record| record.rdata[3]).collect();
        for node in of_data.iter() {
            for set in node.sets() {
                let data = data_of(&set);
                let rrset = rrset(node.name().wire(), &set, &data);
                let states = &self.seen;
                signature::verify(&rrset, &keys, &context, &mut Budget::default())
                    .unwrap_or_else(|reason| panic!("{:?}: {reason:?} {states:?}", set.rtype));
                // Some validators require a signature of each algorithm in the DNSKEY RRset.
                let signs = |number: &u8| data.1.iter().any(|rrsig| rrsig[2] == *number);
                let is_of_zone = ![Rtype::DNSKEY, Rtype(59), Rtype(60)].contains(&set.rtype);
                assert!(!is_of_zone || published.iter().all(signs), "{:?} {states:?}", set.rtype);
            }
        }
    }

    fn keys(&self, zone: &HostedZone, context: &Context) -> ZoneKeys {
        let set = dnskeys_of(zone);
        let ds: Vec<&[u8]> = self.site.parent.iter().map(|data| &data[..]).collect();
        let trust = Trust { ds: &ds, dnskeys: &[], lifetime_secs: u32::MAX };
        let data = data_of(&set);
        let rrset = rrset(zone.apex().wire(), &set, &data);
        chain::zone_keys(&rrset, &trust, context, &mut Budget::default())
            .unwrap_or_else(|reason| panic!("DNSKEY: {reason:?} {:?}", self.seen))
    }

    /// Publishes an edit of the zone at once.
    fn edit(&mut self) {
        self.serial += 1;
        self.site.source = source(self.serial);
        self.publish();
        let owner = format!("v{}", self.serial);
        let owner = [&[owner.len() as u8], owner.as_bytes(), b"\x07example\x00"].concat();
        assert!(node_of(self.versions.last().unwrap(), &owner).is_some(), "{:?}", self.seen);
    }

    /// Runs until all keys are in use, with an edit before each check.
    fn settle(&mut self) {
        for _ in 0..2_000 {
            self.edit();
            self.tick();
            if self.site.states().iter().all(|state| *state == "active") {
                return;
            }
        }
        panic!("{:?}", self.seen);
    }

    fn follow(&mut self, policy: &SigningPolicy) {
        self.site.config.policy = policy.clone();
        self.site.signer.follow(&self.site.config, None);
        assert!(self.site.signer.is_due(self.site.now_secs), "a change is applied at once");
    }

    fn algorithms(&self) -> Vec<&'static str> {
        let report = self.site.signer.report(self.site.now_secs);
        report.keys.iter().map(|key| key.algorithm).collect()
    }
}

#[test]
fn another_algorithm_replaces_all_keys_while_edits_are_published() {
    for (scheme, name) in [(KeyScheme::Csk, "alg-csk"), (KeyScheme::Split, "alg-split")] {
        let mut zone = Watched::new(name, scheme);
        zone.settle();
        let number = scheme.roles().len();
        let mut policy = zone.site.config.policy.clone();
        for (algorithm, mnemonic) in [
            (SigningAlgorithm::Ed25519, "ED25519"),
            (SigningAlgorithm::EcdsaP256Sha256, "ECDSAP256SHA256"),
        ] {
            zone.seen.clear();
            policy.keys.algorithm = algorithm;
            zone.follow(&policy);
            zone.edit();
            assert_eq!(zone.site.states()[number..], vec!["prepared"; number]);
            zone.settle();
            assert_eq!(zone.algorithms(), vec![mnemonic; number]);
            for state in ["published", "submitted", "confirmed", "leaving"] {
                let has = |states: &Vec<_>| states.contains(&state);
                assert!(zone.seen.iter().any(has), "{state} {:?}", zone.seen);
            }
        }
    }
}

#[test]
fn an_algorithm_that_changes_in_a_roll_over_is_replaced_right_after_it() {
    let mut zone = Watched::new("alg-twice", KeyScheme::Csk);
    zone.settle();
    let mut policy = zone.site.config.policy.clone();
    for algorithm in [SigningAlgorithm::Ed25519, SigningAlgorithm::EcdsaP256Sha256] {
        policy.keys.algorithm = algorithm;
        zone.follow(&policy);
        zone.edit();
        assert_eq!(zone.site.states(), ["active", "prepared"]);
    }
    let site = &mut zone.site;
    site.run_until(&["active", "submitted"]);
    site.parent = vec![site.ds(1)];
    site.run_until(&["leaving", "active"]);
    // Without an edit, only the time brings the next step.
    let before_secs = site.now_secs;
    site.run_until(&["active", "prepared"]);
    assert!(site.now_secs - before_secs < DAY / 4);
    assert_eq!(zone.algorithms(), ["ED25519", "ECDSAP256SHA256"]);
    zone.versions.clear();
    zone.settle();
    assert_eq!(zone.algorithms(), ["ECDSAP256SHA256"]);
}

#[test]
fn a_zone_that_waits_for_its_parent_is_not_signed_all_the_time() {
    for (scheme, name) in [(KeyScheme::Csk, "idle-csk"), (KeyScheme::Split, "idle-split")] {
        let mut zone = Watched::new(name, scheme);
        zone.settle();
        let mut policy = zone.site.config.policy.clone();
        policy.keys.algorithm = SigningAlgorithm::Ed25519;
        policy.keys.entry_lifetime_secs = 3_600;
        policy.keys.zone_lifetime_secs = 3_600;
        zone.follow(&policy);
        let site = &mut zone.site;
        // The parent keeps the old record.
        site.run(2 * DAY);
        assert!(site.states().contains(&"submitted"), "{:?}", site.states());
        assert!(!site.signer.is_due(site.now_secs));
        let mut signed = 0;
        for _ in 0..3_600 {
            site.now_secs += 1;
            if site.signer.is_due(site.now_secs) {
                site.publish();
                signed += 1;
            }
        }
        assert!(signed <= 1, "{signed}");
    }
}

#[test]
fn other_settings_of_the_policy_take_effect_with_the_next_edit() {
    let mut zone = Watched::new("settings", KeyScheme::Csk);
    zone.settle();
    let mut policy = zone.site.config.policy.clone();
    for denial in [SignedDenial::Nsec3, SignedDenial::Nsec3OptOut, SignedDenial::Nsec] {
        // The keys are those of the first signing.
        policy.keys.scheme = KeyScheme::Split;
        (policy.denial, policy.validity_secs) = (denial, policy.validity_secs + DAY as u32);
        policy.keys.dnskey_ttl_secs /= 2;
        zone.follow(&policy);
        zone.edit();
        assert_eq!(zone.site.states(), ["active"]);
    }
    assert_eq!(zone.algorithms().len(), 1);
}
