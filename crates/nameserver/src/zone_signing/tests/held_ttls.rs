//! Steps of keys after a TTL was lowered: they wait for the TTL that caches may still hold.

use super::*;

impl Site {
    /// Changes the configuration as a reload does.
    fn reload(&mut self, change: impl FnOnce(&mut ZoneSigning)) {
        change(&mut self.config);
        self.signer.follow(&self.config, None);
        self.publish();
    }

    /// Returns the seconds until the states of the keys are no longer these.
    fn secs_in(&mut self, states: &[&str]) -> u64 {
        let since = self.now_secs;
        while self.states() == states {
            self.run(TICK_SECS);
            assert!(self.now_secs - since < 30 * DAY, "{states:?}");
        }
        self.now_secs - since
    }

    /// Returns a site with an active KSK and ZSK. The TTL of their DNSKEY RRset was just lowered
    /// from a day to a minute.
    fn with_lowered_key_ttl(name: &str) -> Self {
        let mut site = Self::new(name);
        site.reload(|config| {
            config.policy.keys.scheme = KeyScheme::Split;
            config.policy.keys.dnskey_ttl_secs = 86_400;
        });
        site.run_until(&["submitted", "active"]);
        site.parent = vec![site.ds(0)];
        site.run_until(&["active", "active"]);
        site.reload(|config| config.policy.keys.dnskey_ttl_secs = 60);
        site
    }

    /// Signs the zone after a version with a TTL of a day was published without signatures.
    fn sign_again(&mut self) {
        self.signer.follow_unsigned(Some(HeldTtl { secs: 86_400, ..HeldTtl::default() }));
        self.reload(|config| config.policy.validity_secs += 86_400);
    }

    /// Replaces the ZSK. Returns how long the new one is published before it signs.
    fn secs_until_a_new_zsk_signs(&mut self) -> u64 {
        self.signer.roll(KeyRole::Zsk).unwrap();
        self.publish();
        self.secs_in(&["active", "active", "published"])
    }
}

#[test]
fn a_lowered_ttl_of_the_keys_does_not_shorten_the_next_roll_over() {
    for restarts in [false, true] {
        let name = if restarts { "key-ttl-restart" } else { "key-ttl" };
        let mut site = Site::with_lowered_key_ttl(name);
        if restarts {
            site.restart();
            site.publish();
        }
        let waited = site.secs_until_a_new_zsk_signs();
        assert!((DAY..DAY + 3 * TICK_SECS).contains(&waited), "{waited} {restarts}");
        // Later, no cache has the keys with the old TTL.
        site.run_until(&["active", "active"]);
        site.run(DAY);
        let waited = site.secs_until_a_new_zsk_signs();
        assert!(waited <= 3 * TICK_SECS, "{waited} {restarts}");
    }
}

#[test]
fn the_ttl_of_the_old_record_at_the_parent_is_waited_for() {
    for restarts in [false, true] {
        let mut site = Site::settled(if restarts { "ds-ttl-restart" } else { "ds-ttl" });
        site.ds_ttl_secs = 4 * 86_400;
        site.signer.roll(KeyRole::Csk).unwrap();
        site.run_until(&["active", "submitted"]);
        site.run(DAY);
        if restarts {
            site.restart();
            site.publish();
        }
        (site.parent, site.ds_ttl_secs) = (vec![site.ds(1)], 60);
        site.run_until(&["active", "confirmed"]);
        let waited = site.secs_in(&["active", "confirmed"]);
        assert!(waited >= 4 * DAY, "{waited} {restarts}");
    }
}

#[test]
fn a_replaced_key_stays_until_caches_have_forgotten_the_answers_of_pools() {
    let mut site = Site::settled("pool-ttl");
    site.reload(|config| {
        config.pools = vec![(*b"\x04pool\x07example\0").into()];
        config.pools_ttl_secs = 5 * 86_400;
    });
    site.signer.roll(KeyRole::Csk).unwrap();
    site.run_until(&["active", "submitted"]);
    site.parent = vec![site.ds(1)];
    site.run_until(&["retired", "active"]);
    site.reload(|config| config.pools_ttl_secs = 30);
    let waited = site.secs_in(&["retired", "active"]);
    assert!(waited >= 5 * DAY - TICK_SECS, "{waited}");
}

#[test]
fn the_time_since_a_ttl_was_lowered_counts_while_no_key_is_replaced() {
    let mut site = Site::with_lowered_key_ttl("settled-ttl");
    site.run(DAY / 2);
    site.restart();
    site.publish();
    site.run(DAY / 2 + 2 * TICK_SECS);
    let waited = site.secs_until_a_new_zsk_signs();
    assert!(waited <= 3 * TICK_SECS, "{waited}");
}

#[test]
fn a_ttl_of_years_delays_a_roll_over_by_a_week() {
    const YEARS_SECS: u32 = 300_000_000;
    for is_lowered in [false, true] {
        let mut site = Site::settled(if is_lowered { "years-once" } else { "years" });
        let sources = [source_with_ttl(2, YEARS_SECS), source_with_ttl(3, 300)];
        for source in sources.into_iter().take(1 + usize::from(is_lowered)) {
            site.source = source;
            site.reload(|config| config.policy.validity_secs += 86_400);
        }
        site.signer.roll(KeyRole::Csk).unwrap();
        site.run_until(&["active", "submitted"]);
        site.parent = vec![site.ds(1)];
        site.ds_ttl_secs = YEARS_SECS;
        site.run_until(&["active", "confirmed"]);
        let waited = site.secs_in(&["active", "confirmed"]);
        assert!((7 * DAY..8 * DAY).contains(&waited), "{waited} {is_lowered}");
        let waited = site.secs_in(&["retired", "active"]);
        assert!(waited < 8 * DAY, "{waited} {is_lowered}");
        assert_eq!(site.states(), ["active"]);
    }
}

#[test]
fn a_first_key_waits_for_the_ttls_that_the_zone_had_without_signatures() {
    for restarts in [false, true] {
        let mut site = Site::new(if restarts { "unsigned-restart" } else { "unsigned" });
        let since_secs = START - DAY / 2;
        let ttl = HeldTtl { secs: 300, before_secs: 86_400, since_secs };
        site.signer.follow_unsigned(Some(ttl));
        site.publish();
        if restarts {
            site.restart();
            site.publish();
        }
        let waited = site.secs_in(&["published"]);
        assert!((DAY / 2..DAY / 2 + 3 * TICK_SECS).contains(&waited), "{waited} {restarts}");
        assert_eq!(site.signer.report(site.now_secs).ds.len(), 1);
    }
}

#[test]
fn a_zone_that_is_signed_again_requests_its_ds_record_as_a_new_zone_does() {
    let mut site = Site::settled("again");
    let own = vec![site.ds(0)];
    site.parent.clear();
    site.run(2 * DAY);
    site.sign_again();
    assert_eq!(site.states(), ["published"]);
    assert!(site.signer.report(site.now_secs).ds.is_empty());
    site.restart();
    site.publish();
    let waited = site.secs_in(&["published"]);
    assert!((DAY..DAY + 3 * TICK_SECS).contains(&waited), "{waited}");
    assert_eq!((site.states(), site.signer.report(site.now_secs).ds.len()), (vec!["submitted"], 1));
    site.parent = own;
    site.run_until(&["active"]);
    assert_eq!(site.fault(), None);
}

#[test]
fn a_zone_that_is_signed_again_during_a_wait_or_a_roll_over_requests_no_ds_record() {
    let mut submitted = Site::new("again-submitted");
    submitted.run_until(&["submitted"]);
    let mut rolling = Site::with_lowered_key_ttl("again-rolling");
    rolling.signer.roll(KeyRole::Zsk).unwrap();
    rolling.publish();
    for mut site in [submitted, rolling] {
        site.parent.clear();
        site.sign_again();
        for _ in 0..DAY / TICK_SECS {
            assert_eq!(site.states()[0], "published");
            assert!(site.signer.report(site.now_secs).ds.is_empty());
            site.run(TICK_SECS);
        }
        site.run(3 * TICK_SECS);
        assert_eq!(site.states()[0], "submitted");
    }
}

#[test]
fn a_zone_that_is_signed_again_while_its_key_is_replaced_keeps_the_key_of_the_parent() {
    for (number, states) in
        [(0, ["active", "submitted"]), (1, ["active", "confirmed"]), (1, ["retired", "active"])]
    {
        let mut site = Site::settled(&format!("again-{}", states.concat()));
        site.signer.roll(KeyRole::Csk).unwrap();
        site.run_until(&["active", "submitted"]);
        let tags: Vec<u16> =
            site.signer.report(site.now_secs).keys.iter().map(|key| key.tag).collect();
        site.parent = vec![site.ds(number)];
        site.run_until(&states);
        site.parent.clear();
        site.sign_again();
        let report = site.signer.report(site.now_secs);
        assert_eq!((report.keys.len(), report.keys[0].tag), (1, tags[number]), "{states:?}");
        assert_eq!((report.keys[0].state, report.ds.len()), ("published", 0));
        let waited = site.secs_in(&["published"]);
        assert!((DAY..DAY + 3 * TICK_SECS).contains(&waited), "{waited} {states:?}");
        let kept = std::fs::read_dir(&site.directory).unwrap().map(|entry| entry.unwrap().path());
        let keys = kept.filter(|path| path.extension().is_some_and(|it| it == "pkcs8"));
        assert_eq!(keys.count(), 1, "{states:?}");
    }
}

#[test]
fn a_clock_that_starts_in_the_past_makes_no_key_too_old() {
    let mut site = Site::settled("past");
    site.reload(|config| config.policy.keys.entry_lifetime_secs = 90 * DAY);
    site.run(DAY);
    let now_secs = site.now_secs;
    site.now_secs -= 200 * DAY;
    site.restart();
    site.publish();
    site.now_secs = now_secs;
    site.publish();
    site.run(2 * DAY);
    assert_eq!(site.states(), ["active"]);
    // The age counts from the time before.
    site.run(90 * DAY);
    assert!(site.states().len() > 1, "{:?}", site.states());
}

#[test]
fn a_signer_that_fails_tries_again_after_a_minute_although_the_clock_was_set_back() {
    let mut site = Site::settled("retry");
    let now_secs = site.now_secs - DAY;
    std::fs::remove_dir_all(&site.directory).unwrap();
    std::fs::write(&site.directory, "no directory").unwrap();
    assert!(site.signer.is_due(now_secs));
    assert!(site.signer.publish(&site.source, None, now_secs).is_err());
    assert!(!site.signer.is_due(now_secs + 1) && site.signer.is_due(now_secs + 60));
    std::fs::remove_file(&site.directory).unwrap();
}

#[test]
fn starts_with_a_clock_in_the_past_do_not_stop_a_roll_over() {
    let mut site = Site::settled("starts");
    site.signer.roll(KeyRole::Csk).unwrap();
    site.run_until(&["active", "submitted"]);
    site.parent = vec![site.ds(1)];
    site.run_until(&["active", "confirmed"]);
    // The TTL of the DS record, which is waited for, is a day.
    for start in 0..6 {
        assert!(start > 3 || site.states() == ["active", "confirmed"], "{:?}", site.states());
        let now_secs = site.now_secs;
        site.now_secs -= 3 * DAY;
        site.restart();
        site.publish();
        site.now_secs = now_secs;
        site.publish();
        site.run(DAY / 4);
    }
    assert_ne!(site.states(), ["active", "confirmed"]);
}
