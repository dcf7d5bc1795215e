//! Tests of a signer with a parent, in virtual time.

mod algorithm;
mod held_ttls;

use std::path::PathBuf;

use avocet_dnssec::signing::SigningAlgorithm;
use avocet_wire::{NameBuf, Rtype, rdata};
use avocet_zone::sign::SignedDenial;
use avocet_zone::sign::timeline::{KeyPolicy, KeyScheme};

use super::*;

const START: u64 = 1_800_000_000;
const DAY: u64 = 86_400;
/// Seconds between two checks. A longer time would count as a gap.
const TICK_SECS: u64 = 1_200;

/// A signer whose parent has the DS records that the test chooses.
struct Site {
    directory: PathBuf,
    source: HostedZone,
    config: ZoneSigning,
    signer: ZoneSigner,
    now_secs: u64,
    parent: Vec<Vec<u8>>,
    ds_ttl_secs: u32,
    /// The times at which the DS records of the parent were looked up.
    looks: Vec<u64>,
}

impl Site {
    fn new(name: &str) -> Self {
        let directory =
            std::env::temp_dir().join(format!("avocet-parent-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        let config = signing(&directory);
        let source = source(1);
        let signer = ZoneSigner::new(source.apex(), &config);
        let (now_secs, parent, looks) = (START, Vec::new(), Vec::new());
        let ds_ttl_secs = 86_400;
        Self { directory, source, config, signer, now_secs, parent, ds_ttl_secs, looks }
    }

    fn restart(&mut self) {
        let apex = self.signer.apex;
        self.signer = ZoneSigner::new(apex.view(), &self.config);
    }

    /// Repeats, once per twenty minutes of this period, what the server does every second.
    fn run(&mut self, secs: u64) {
        let end = self.now_secs + secs;
        while self.now_secs < end {
            self.signer.note(self.now_secs).unwrap();
            self.publish();
            if self.signer.wants_parent(self.now_secs) {
                self.looks.push(self.now_secs);
                self.signer.note_parent(&self.parent, self.ds_ttl_secs, self.now_secs);
                self.publish();
            }
            self.now_secs += TICK_SECS;
        }
    }

    fn publish(&mut self) {
        if self.signer.is_due(self.now_secs) {
            self.signer.publish(&self.source, None, self.now_secs).unwrap();
        }
    }

    fn run_until(&mut self, states: &[&str]) {
        for _ in 0..2_000 {
            if self.states() == states {
                return;
            }
            self.run(TICK_SECS);
        }
        panic!("{:?}", self.states());
    }

    fn states(&self) -> Vec<&'static str> {
        self.signer.report(self.now_secs).keys.iter().map(|key| key.state).collect()
    }

    fn fault(&self) -> Option<String> {
        self.signer.ds_fault(self.now_secs)
    }

    /// Returns the DS record of the key with this index.
    fn ds(&self, at: usize) -> Vec<u8> {
        let report = self.signer.report(self.now_secs);
        let text = report.keys[at].ds.clone().unwrap();
        let mut data = Vec::new();
        rdata::parse(Rtype::DS.0, &text, &[0], &mut data).unwrap();
        data
    }

    /// Returns a site with a first key that is in use, and with the key's DS record at the parent.
    fn settled(name: &str) -> Self {
        let mut site = Self::new(name);
        site.run_until(&["submitted"]);
        site.parent = vec![site.ds(0)];
        site.run_until(&["active"]);
        site
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Returns a version of the zone without signatures.
fn source(serial: u32) -> HostedZone {
    source_with_ttl(serial, 300)
}

fn source_with_ttl(serial: u32, ttl_secs: u32) -> HostedZone {
    let apex = NameBuf::from_wire(b"\x07example\x00").unwrap().folded();
    let text = format!(
        "$TTL {ttl_secs}\n@ SOA ns h {serial} 2h 3m 4w 300\n@ NS ns\nns A 192.0.2.1\nv{serial} TXT x\n"
    );
    let mut open = |_: &std::path::Path, _: u64| Ok(text.as_bytes().to_vec());
    avocet_zone::load(apex.view(), std::path::Path::new("z"), START, &mut open).0.unwrap()
}

fn signing(directory: &std::path::Path) -> ZoneSigning {
    let policy = SigningPolicy {
        name: "default".to_owned(),
        keys: KeyPolicy {
            algorithm: SigningAlgorithm::EcdsaP256Sha256,
            scheme: KeyScheme::Csk,
            entry_lifetime_secs: 0,
            zone_lifetime_secs: 0,
            dnskey_ttl_secs: 3_600,
            propagation_secs: 300,
            parent_ds_ttl_secs: 86_400,
            parent_propagation_secs: 3_600,
        },
        denial: SignedDenial::Nsec,
        validity_secs: 14 * 86_400,
        refresh_secs: 5 * 86_400,
        parent_check_secs: 3_600,
        parent_patience_secs: 30 * 86_400,
    };
    ZoneSigning { policy, directory: directory.to_owned(), pools: Vec::new(), pools_ttl_secs: 0 }
}

#[test]
fn a_zone_is_signed_after_a_crash_between_the_first_keys_and_their_state() {
    let mut site = Site::new("crash");
    site.signer.read_files().unwrap();
    let made = site.signer.make_keys(&mut SignerState::default(), START).unwrap();
    site.restart();
    site.publish();
    let tags: Vec<_> = site.signer.report(START).keys.iter().map(|key| key.tag).collect();
    assert_eq!((made.len(), tags.len()), (1, 1));
    // Without the state, the parent may refer to the keys on disk.
    std::fs::remove_file(site.directory.join("state.json")).unwrap();
    site.restart();
    let refused = site.signer.publish(&site.source, None, START).unwrap_err();
    assert!(refused.to_string().contains("has keys and no state.json"), "{refused}");
}

/// Fails writes to a file, as a full disk does: a directory is in its place.
fn block(path: &std::path::Path) {
    std::fs::create_dir(path).unwrap();
}

#[test]
fn a_version_that_cannot_be_kept_on_disk_is_not_published_and_the_last_one_stays() {
    let mut site = Site::settled("full");
    let serial = site.signer.kept_version(site.now_secs).unwrap().serial();
    let (next, state) =
        (site.directory.join("signed.zone.next"), site.directory.join("state.json"));
    let kept_state = std::fs::read(&state).unwrap();
    for file in [&next, &state] {
        let _ = std::fs::remove_file(file);
        block(file);
        let failed = site.signer.publish(&source(7), None, site.now_secs).unwrap_err();
        assert!(failed.to_string().contains("cannot write"), "{failed}");
        assert_eq!(site.signer.last.as_ref().unwrap().serial(), serial);
        std::fs::remove_dir(file).unwrap();
        std::fs::write(&state, &kept_state).unwrap();
        assert!(!next.exists(), "the copy of the version is removed");
        site.restart();
        assert_eq!(site.signer.kept_version(site.now_secs).unwrap().serial(), serial);
    }
    let published = site.signer.publish(&source(7), None, site.now_secs).unwrap();
    assert!(is_newer(published.serial(), serial) && !next.exists());
    // The machine crashes between the state and the new name of the copy.
    std::fs::rename(site.directory.join("signed.zone"), &next).unwrap();
    site.restart();
    let kept = site.signer.kept_version(site.now_secs).unwrap();
    assert!(kept.serial() == published.serial() && !next.exists());
}

#[test]
fn signatures_that_end_soon_are_renewed_without_a_copy_on_the_disk() {
    let mut site = Site::settled("ends");
    let end_secs = site.signer.expires_at_secs.unwrap();
    site.restart();
    site.signer.kept_version(site.now_secs).unwrap();
    assert_eq!(site.signer.expires_at_secs, Some(end_secs), "as the signatures say");
    block(&site.directory.join("signed.zone.next"));
    let refresh_secs = u64::from(site.config.policy.refresh_secs);
    for (before_secs, is_published) in [(refresh_secs - 1, false), (refresh_secs / 2, true)] {
        let result = site.signer.publish(&site.source, None, end_secs - before_secs);
        assert_eq!(result.is_ok(), is_published, "{result:?}");
    }
    assert!(site.signer.expires_at_secs.unwrap() > end_secs);
}

#[test]
fn a_roll_over_follows_a_parent_that_goes_back_and_reports_it() {
    let mut site = Site::settled("back");
    site.signer.roll(KeyRole::Csk).unwrap();
    site.run_until(&["active", "submitted"]);
    let (old, new) = (site.ds(0), site.ds(1));
    for wrong in [vec![old.clone()], vec![old.clone(), new.clone()]] {
        site.parent = vec![new.clone()];
        site.run_until(&["active", "confirmed"]);
        assert_eq!(site.fault(), None);
        site.parent = wrong;
        site.run(3 * DAY);
        assert_eq!(site.states(), ["active", "submitted"]);
        let fault = site.fault().unwrap();
        assert!(fault.contains("changed it back") && fault.contains("no other"), "{fault}");
    }
    // The reason survives a restart.
    site.restart();
    site.run(DAY);
    assert!(site.fault().is_some_and(|fault| fault.contains("changed it back")));
    site.parent = vec![new.clone()];
    site.run_until(&["active", "confirmed"]);
    assert_eq!(site.fault(), None);
    site.run(3 * DAY);
    assert_eq!((site.states(), site.ds(0), site.fault()), (vec!["active"], new, None));
}

#[test]
fn the_parent_is_looked_up_hourly_in_a_roll_over_and_just_before_each_removal() {
    let mut site = Site::settled("hourly");
    site.signer.roll(KeyRole::Csk).unwrap();
    site.run_until(&["active", "submitted"]);
    site.parent = vec![site.ds(1)];
    site.run_until(&["active", "confirmed"]);
    site.looks.clear();
    site.run_until(&["retired", "active"]);
    let last = site.looks.last().copied();
    assert_eq!(last, Some(site.now_secs - TICK_SECS));
    assert!(site.looks.windows(2).all(|two| two[1] - two[0] <= 3_600), "{:?}", site.looks);
    assert!(site.looks.len() >= 25, "{:?}", site.looks);
    site.run_until(&["active"]);
    assert_eq!(site.looks.last().copied(), Some(site.now_secs - TICK_SECS));
}

#[test]
fn a_look_up_that_is_not_answered_in_time_removes_no_key() {
    let mut site = Site::settled("late");
    site.signer.roll(KeyRole::Csk).unwrap();
    site.run_until(&["active", "submitted"]);
    site.parent = vec![site.ds(1)];
    site.run_until(&["active", "confirmed"]);
    for _ in 0..150 {
        // The answer arrives twenty minutes late.
        site.signer.note_parent(&site.parent.clone(), 86_400, site.now_secs - TICK_SECS);
        site.signer.note(site.now_secs).unwrap();
        site.publish();
        site.now_secs += TICK_SECS;
    }
    assert_eq!(site.states(), ["active", "confirmed"]);
    site.run(DAY);
    assert_eq!(site.states(), ["active"]);
}

#[test]
fn a_settled_zone_is_looked_up_daily_and_a_wrong_parent_is_reported() {
    let mut site = Site::settled("daily");
    let own = site.ds(0);
    site.run(2 * DAY);
    site.looks.clear();
    site.run(9 * DAY);
    assert!((8..=9).contains(&site.looks.len()), "{:?}", site.looks);
    assert_eq!(site.fault(), None);
    let mut other = own.clone();
    *other.last_mut().unwrap() ^= 1;
    for (parent, expected) in
        [(vec![other.clone()], "match no key"), (vec![], "no longer has a DS record")]
    {
        site.parent = parent;
        site.run(2 * DAY);
        let fault = site.fault();
        assert!(fault.as_ref().is_some_and(|fault| fault.contains(expected)), "{fault:?}");
    }
    site.parent = vec![own, other];
    site.run(2 * DAY);
    assert_eq!((site.states(), site.fault()), (vec!["active"], None));
}

#[test]
fn a_zone_that_the_parent_never_knew_has_no_fault() {
    let mut site = Site::new("unknown");
    site.run(2 * DAY);
    assert_eq!((site.states(), site.fault()), (vec!["submitted"], None));
}

#[test]
fn a_zone_whose_signed_copy_is_damaged_gets_new_signatures() {
    let mut site = Site::new("damaged-copy");
    site.publish();
    let path = site.directory.join("signed.zone");
    let whole = std::fs::read(&path).unwrap();
    let serial = site.signer.last.as_ref().unwrap().serial();
    let content = whole.len() - b"; CRC-32 01234567\n".len();
    // Earlier versions of Avocet wrote no checksum.
    for (copy, step) in [(&whole[..], 13), (&whole[..content], 29)] {
        for at in (0..copy.len()).step_by(step) {
            let mut damaged = copy.to_vec();
            damaged[at] ^= 1 << (at % 7);
            std::fs::write(&path, &damaged).unwrap();
            site.restart();
            let zone = site.signer.publish(&site.source, None, site.now_secs).unwrap();
            let state = site.signer.state.as_ref().unwrap();
            let signers = site.signer.signers(&state.timeline.key_use());
            review(&zone, &signers, &site.signer.times(site.now_secs)).unwrap();
            assert!(zone.serial() == serial || is_newer(zone.serial(), serial), "{at}");
        }
    }
    // An undamaged copy is kept.
    std::fs::write(&path, &whole).unwrap();
    site.restart();
    site.signer.read_files().unwrap();
    assert_eq!(site.signer.last.as_ref().map(|last| last.serial()), Some(serial));
}
