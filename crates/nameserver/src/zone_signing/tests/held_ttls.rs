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
}

#[test]
fn a_lowered_ttl_of_the_keys_does_not_shorten_the_next_roll_over() {
    for restarts in [false, true] {
        let mut site = Site::new(if restarts { "key-ttl-restart" } else { "key-ttl" });
        site.reload(|config| {
            config.policy.keys.scheme = KeyScheme::Split;
            config.policy.keys.dnskey_ttl_secs = 86_400;
        });
        site.run_until(&["submitted", "active"]);
        site.parent = vec![site.ds(0)];
        site.run_until(&["active", "active"]);
        site.reload(|config| config.policy.keys.dnskey_ttl_secs = 60);
        if restarts {
            site.restart();
            site.publish();
        }
        site.signer.roll(KeyRole::Zsk).unwrap();
        site.publish();
        let waited = site.secs_in(&["active", "active", "published"]);
        assert!((DAY..DAY + 3 * TICK_SECS).contains(&waited), "{waited} {restarts}");
        // Later, no cache has the keys with the old TTL.
        site.run_until(&["active", "active"]);
        site.run(DAY);
        site.signer.roll(KeyRole::Zsk).unwrap();
        site.publish();
        let waited = site.secs_in(&["active", "active", "published"]);
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
