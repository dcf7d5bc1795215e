//! Trust anchors of the running server in addition to its configuration: timers, and requests of
//! control clients.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use avocet_config::Config;
use avocet_config::recurse::Mode;
use avocet_control::ControlError;
use avocet_control::trust::{
    AnchorState, AnchorStatus, AnchorsReport, NegativeAdded, NegativeAnchorStatus, NegativeAnchors,
    NegativeRemoved,
};
use avocet_dnssec::anchor::Anchors;
use avocet_dnssec::negative::NegativeAnchor;
use avocet_dnssec::rollover::KeyState;
use avocet_nameserver::clock::wall_secs;
use avocet_nameserver::flush::FlushExtent;
use avocet_nameserver::query::miss::Miss;
use avocet_nameserver::trust::LearntTrust;
use avocet_wire::query::QuestionKey;
use avocet_wire::{Class, FoldedName, FoldedNameBuf, QuestionBuf, Rtype};

use crate::running::Running;
use crate::trust::anchors::{Asker, KeyStatus, Now, Settings, TrustAnchors, less_trusted};
use crate::trust::negative::{MAX_LIFETIME_SECS, NegativeList};
use avocet_worker::mailbox::Letter;
use avocet_worker::state::Shared;

/// Followed keys and negative anchors.
pub(crate) struct KeptTrust {
    anchors: Mutex<TrustAnchors>,
    negative: Mutex<NegativeList>,
}

impl KeptTrust {
    /// Returns the state in the data directory.
    pub(crate) fn load(directory: &Path, shared: &Shared) -> Self {
        let configured = shared.snapshot().config.dnssec.anchors();
        Self {
            anchors: Mutex::new(TrustAnchors::load(directory, &configured, now(shared))),
            negative: Mutex::new(NegativeList::load(directory, wall_secs())),
        }
    }

    /// Returns the trust anchors that apply in addition to the configuration.
    pub(crate) fn learnt(&self) -> LearntTrust {
        let followed = self.anchors().followed();
        LearntTrust { followed, negative: self.negative().anchors().to_vec() }
    }

    fn anchors(&self) -> MutexGuard<'_, TrustAnchors> {
        self.anchors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn negative(&self) -> MutexGuard<'_, NegativeList> {
        self.negative.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Asker for Shared {
    fn ask_anew(&self, name: &FoldedNameBuf, rtype: Rtype) {
        self.name_server.flush_rrsets(&[name.view()], FlushExtent::Name);
        self.tell(name, rtype);
    }

    fn tell(&self, name: &FoldedNameBuf, rtype: Rtype) {
        let question = QuestionBuf::new(name.view(), rtype, Class::IN);
        let question = question.view();
        let hash = QuestionKey::new(question.octets(), &self.name_server.key, 0).hash;
        let miss = Miss {
            question: question.into(),
            hash,
            dnssec_ok: true,
            checking_disabled: true,
            subnet: None,
            stale_available: false,
            waiter: None,
        };
        let owner = avocet_worker::owner_of(hash, self.mailboxes.len());
        // If the mailbox is full, the query is sent again later, because no answer arrives.
        let _ = self.mailboxes[owner].send(Letter::Miss(Box::new(miss)));
    }
}

fn now(shared: &Shared) -> Now {
    Now { secs: shared.name_server.clock.now().secs(), wall_secs: wall_secs() }
}

fn validates(config: &Config) -> bool {
    config.dnssec.validate && config.resolver.mode == Mode::Recurse
}

impl Running {
    /// Puts the saved state in force before the caches are filled from disk, because the final
    /// answers in the caches depend on it. Returns the negative anchors that ended while no server
    /// ran.
    pub(crate) fn begin_trust(&self) -> Vec<FoldedNameBuf> {
        let ended = self.trust.negative().expire(wall_secs());
        let followed = self.trust.anchors().followed();
        let negative = self.trust.negative().anchors().to_vec();
        self.reloader
            .change_trust(|trust| (trust.followed, trust.negative) = (followed, negative), &[]);
        ended
    }

    /// Drops data from the caches that was not validated because of negative anchors that have
    /// ended.
    pub(crate) fn drop_below(&self, names: &[FoldedNameBuf]) {
        if names.is_empty() {
            return;
        }
        let names: Vec<_> = names.iter().map(FoldedNameBuf::view).collect();
        self.shared.name_server.flush_rrsets(&names, FlushExtent::Tree);
        self.shared.name_server.flush_failures(&names);
        // Final answers for other names may contain these names behind an alias.
        self.shared.name_server.packets.flush(FoldedName::ROOT);
    }

    /// Removes negative anchors that have ended, and queries the keys of zones when that is due.
    pub(crate) fn tick_trust(&self) {
        let ended = self.trust.negative().expire(wall_secs());
        for name in &ended {
            tracing::info!(%name, "negative trust anchor expired");
        }
        if !ended.is_empty() {
            self.put_negative_in_force(&ended);
        }
        let config = &self.shared.snapshot().config;
        if !validates(config) || !config.dnssec.trust_anchor_updates {
            return;
        }
        let anchors = config.dnssec.anchors();
        let signals = config.dnssec.key_tag_signal;
        let settings = Settings { anchors: &anchors, policy: config.dnssec.policy(), signals };
        let mut kept = self.trust.anchors();
        let before = kept.followed();
        if !kept.tick(&settings, now(&self.shared), &self.shared.name_server.rrsets, &*self.shared)
        {
            return;
        }
        let followed = kept.followed();
        drop(kept);
        // If a zone has lost trusted keys, the data that they validated is validated again.
        let lost = less_trusted(&before, &followed);
        self.reloader.change_trust(|trust| trust.followed = followed, &lost);
    }

    /// Moves the ends of negative anchors to an earlier wall time, because the clock was set back.
    pub(crate) fn end_negative_earlier(&self, back_secs: u64) {
        if self.trust.negative().end_earlier(back_secs, wall_secs()) {
            self.put_negative_in_force(&[]);
        }
    }

    /// Tries again to save changes that could not be written to disk. Returns the remaining faults.
    pub(crate) fn save_trust_again(&self) -> Vec<String> {
        let mut negative = self.trust.negative();
        negative.save_again(wall_secs());
        let anchors = self.trust.anchors();
        [negative.unsaved(), anchors.unsaved()].into_iter().flatten().map(str::to_owned).collect()
    }

    fn put_negative_in_force(&self, judged_anew: &[FoldedNameBuf]) {
        let negative = self.trust.negative().anchors().to_vec();
        self.reloader.change_trust(|trust| trust.negative = negative, judged_anew);
    }

    /// Returns the trust anchors for a configuration, with followed keys in place of configured
    /// ones.
    pub(crate) fn anchors_in_force(&self, config: &Config) -> Anchors {
        let mut anchors = config.dnssec.anchors();
        if validates(config) && config.dnssec.trust_anchor_updates {
            let followed = self.trust.anchors().followed();
            LearntTrust { followed, negative: Vec::new() }.apply(&mut anchors);
        }
        anchors
    }

    /// Returns the state of each trust anchor.
    pub(crate) fn show_anchors(&self) -> AnchorsReport {
        let config = &self.shared.snapshot().config;
        AnchorsReport {
            validates: validates(config),
            followed: validates(config) && config.dnssec.trust_anchor_updates,
            anchors: self.trust.anchors().status().into_iter().map(anchor_status).collect(),
            root_zone: self.root.show(),
        }
    }

    /// Adds a negative anchor for a number of seconds.
    ///
    /// # Errors
    /// The number is out of bounds, or there are too many anchors.
    pub(crate) fn add_negative(
        &self,
        name: &FoldedNameBuf,
        lifetime_secs: u64,
    ) -> Result<NegativeAdded, ControlError> {
        if !(1..=MAX_LIFETIME_SECS).contains(&lifetime_secs) {
            return Err(ControlError::LifetimeOutOfBounds { most_secs: MAX_LIFETIME_SECS });
        }
        let mut list = self.trust.negative();
        let until = list.add(name, lifetime_secs, wall_secs())?;
        let unsaved = list.unsaved().map(str::to_owned);
        drop(list);
        self.put_negative_in_force(&[*name]);
        tracing::warn!(%name, lifetime_secs, "negative trust anchor added; validation is off \
                                              there");
        Ok(NegativeAdded { name: name.to_string(), until, unsaved })
    }

    /// Removes a negative anchor.
    ///
    /// # Errors
    /// The name has no negative anchor.
    pub(crate) fn remove_negative(
        &self,
        name: &FoldedNameBuf,
    ) -> Result<NegativeRemoved, ControlError> {
        let mut list = self.trust.negative();
        if !list.remove(name, wall_secs()) {
            return Err(ControlError::NoNegativeAnchor(name.to_string()));
        }
        let unsaved = list.unsaved().map(str::to_owned);
        drop(list);
        self.put_negative_in_force(&[*name]);
        tracing::info!(%name, "negative trust anchor removed");
        Ok(NegativeRemoved { name: name.to_string(), unsaved })
    }

    /// Returns all negative anchors, those of the configuration first.
    pub(crate) fn show_negative(&self) -> NegativeAnchors {
        let configured = self.shared.snapshot().config.dnssec.negative_anchors.clone();
        let configured = configured.iter().filter_map(|name| FoldedNameBuf::from_wire(name).ok());
        let configured = configured.map(|name| NegativeAnchor { name, expires_at_secs: None });
        let anchors = configured.chain(self.trust.negative().anchors().to_vec());
        let shown = |anchor: NegativeAnchor| NegativeAnchorStatus {
            name: anchor.name.to_string(),
            until: anchor.expires_at_secs,
        };
        NegativeAnchors { now: wall_secs(), anchors: anchors.map(shown).collect() }
    }
}

fn anchor_status(key: KeyStatus) -> AnchorStatus {
    AnchorStatus {
        zone: key.zone.to_string(),
        tag: key.tag,
        state: match key.state {
            None => AnchorState::Configured,
            Some(KeyState::AddPending) => AnchorState::AddPending,
            Some(KeyState::Valid) => AnchorState::Valid,
            Some(KeyState::Missing) => AnchorState::Missing,
            Some(KeyState::Revoked) => AnchorState::Revoked,
        },
        since: key.since_secs,
        until: key.until_secs,
        observed: key.observed_at_secs,
        fault: key.fault,
    }
}
