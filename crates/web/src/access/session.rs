//! Sessions of users in browsers. They are in memory only: a restart ends them.

use std::collections::HashMap;
use std::net::IpAddr;

use avocet_control::access::{AccessFault, Role, Secret};
use avocet_control::session::UserSession;
use data_encoding::HEXLOWER;

use super::secrets::{Digest, digest_of, is_equal, random_text};

/// Maximum number of sessions. A new session replaces the one that was unused for longest.
const MAX_SESSIONS: usize = 1024;
/// Maximum number of sessions of one user. A new session replaces the one that was unused for
/// longest.
const MAX_SESSIONS_PER_USER: usize = 20;
/// Seconds without a request after which a session ends.
const IDLE_SECS: u64 = 3600;
/// Longest duration of a session in seconds.
const LIFETIME_SECS: u64 = 12 * 3600;

/// Number of octets of a digest in the public identifier of a session.
const ID_OCTETS: usize = 8;

/// A session.
pub(crate) struct Session {
    pub(crate) user: String,
    /// The address of the log-in.
    from: IpAddr,
    /// The role, if a provider gave it. In this case, the user is not in the file.
    pub(crate) given: Option<GivenRole>,
    /// The CSRF token, which each change must repeat in `X-CSRF-Token`.
    csrf: Secret,
    began: u64,
    used: u64,
    /// A second factor that the user has not confirmed yet.
    pub(crate) pending_factor: Option<Secret>,
}

/// A role that a provider gave.
#[derive(Debug, Clone)]
pub(crate) struct GivenRole {
    pub(crate) role: Role,
    /// The settings of the provider.
    pub(crate) provider: String,
}

/// The user of a session that begins.
pub(crate) struct SessionUser<'a> {
    name: &'a str,
    given: Option<GivenRole>,
    from: IpAddr,
}

impl<'a> SessionUser<'a> {
    /// Creates the user of a session from a name, the role that a provider gave, and the address of
    /// the log-in.
    pub(crate) const fn of(name: &'a str, given: Option<GivenRole>, from: IpAddr) -> Self {
        Self { name, given, from }
    }
}

/// The data that a browser gets after a log-in.
pub struct BegunSession {
    /// The identifier, for the cookie.
    pub id: Secret,
    /// The value for `X-CSRF-Token`.
    pub csrf: Secret,
    /// Longest duration of the session in seconds.
    pub lifetime_secs: u64,
}

/// All sessions, by the digest of their identifier.
#[derive(Default)]
pub(crate) struct Sessions(HashMap<Digest, Session>);

impl Sessions {
    /// Begins a session. The identifier is always a new random value. The server never uses an
    /// identifier that a client sends, so an attacker cannot fix it in advance.
    ///
    /// # Errors
    /// The system has no random octets.
    pub(crate) fn begin(
        &mut self,
        user: &SessionUser<'_>,
        now: u64,
    ) -> Result<BegunSession, AccessFault> {
        self.0.retain(|_, session| session.is_alive(now));
        let of_user = |session: &Session| session.user == user.name;
        while self.0.values().filter(|session| of_user(session)).count() >= MAX_SESSIONS_PER_USER {
            self.end_oldest(of_user);
        }
        while self.0.len() >= MAX_SESSIONS {
            self.end_oldest(|_| true);
        }
        let (id, csrf) = (Secret::new(random_text()?), Secret::new(random_text()?));
        let session = Session {
            user: user.name.to_owned(),
            given: user.given.clone(),
            from: user.from,
            csrf: csrf.clone(),
            began: now,
            used: now,
            pending_factor: None,
        };
        self.0.insert(digest_of(id.reveal()), session);
        Ok(BegunSession { id, csrf, lifetime_secs: LIFETIME_SECS })
    }

    fn end_oldest(&mut self, fits: impl Fn(&Session) -> bool) {
        let candidates = self.0.iter().filter(|(_, session)| fits(session));
        let oldest = candidates.min_by_key(|(_, session)| session.used).map(|(digest, _)| *digest);
        if let Some(oldest) = oldest {
            self.0.remove(&oldest);
        }
    }

    /// Returns a session that has not ended, and counts the use.
    pub(crate) fn of(&mut self, id: &str, now: u64) -> Option<&mut Session> {
        let digest = digest_of(id);
        if !self.0.get(&digest)?.is_alive(now) {
            self.0.remove(&digest);
            return None;
        }
        let session = self.0.get_mut(&digest)?;
        session.used = now;
        Some(session)
    }

    /// Returns a session that has not ended. This does not count as a use.
    pub(crate) fn peek(&self, id: &str, now: u64) -> Option<&Session> {
        self.0.get(&digest_of(id)).filter(|session| session.is_alive(now))
    }

    /// Ends the sessions with a role that was given under other settings of the provider.
    pub(crate) fn end_all_of_others_than(&mut self, provider: Option<&str>) {
        let of_other = |given: &GivenRole| provider != Some(given.provider.as_str());
        self.0.retain(|_, session| !session.given.as_ref().is_some_and(of_other));
    }

    /// Returns the sessions that have not ended, the last used first.
    pub(crate) fn report(&self, now: u64) -> Vec<UserSession> {
        let alive = self.0.iter().filter(|(_, session)| session.is_alive(now));
        let mut all: Vec<_> =
            alive.map(|(digest, session)| session.report(public_id(digest))).collect();
        all.sort_by(|a, b| b.used_at.cmp(&a.used_at).then_with(|| a.id.cmp(&b.id)));
        all
    }

    /// Ends the session with a public identifier.
    pub(crate) fn end_public(&mut self, id: &str) {
        self.0.retain(|digest, _| public_id(digest) != id);
    }

    /// Returns the number of sessions that have not ended.
    pub(crate) fn count(&self, now: u64) -> usize {
        self.0.values().filter(|session| session.is_alive(now)).count()
    }

    /// Ends a session.
    pub(crate) fn end(&mut self, id: &str) {
        self.0.remove(&digest_of(id));
    }

    /// Ends all sessions of a user.
    pub(crate) fn end_all_of(&mut self, user: &str) {
        self.0.retain(|_, session| session.user != user);
    }
}

/// Returns the public identifier of the session with a secret identifier: a part of its digest,
/// from which the secret cannot be derived.
pub(crate) fn public_id_of(id: &str) -> String {
    public_id(&digest_of(id))
}

fn public_id(digest: &Digest) -> String {
    HEXLOWER.encode(digest.get(..ID_OCTETS).unwrap_or_default())
}

impl Session {
    fn report(&self, id: String) -> UserSession {
        let ends_at = (self.used + IDLE_SECS).min(self.began + LIFETIME_SECS);
        UserSession {
            id,
            user: self.user.clone(),
            by_provider: self.given.is_some(),
            from: self.from,
            began_at: self.began,
            used_at: self.used,
            ends_at,
        }
    }

    fn is_alive(&self, now: u64) -> bool {
        now.saturating_sub(self.used) < IDLE_SECS && now.saturating_sub(self.began) < LIFETIME_SECS
    }

    /// Returns whether a value is the CSRF token of the session.
    pub(crate) fn has_csrf(&self, value: &str) -> bool {
        is_equal(self.csrf.reveal().as_bytes(), value.as_bytes())
    }

    /// Returns the CSRF token of the session.
    pub(crate) fn csrf(&self) -> Secret {
        self.csrf.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(sessions: &mut Sessions, user: &str, now: u64) -> BegunSession {
        sessions.begin(&SessionUser::of(user, None, IpAddr::from([127, 0, 0, 1])), now).unwrap()
    }

    #[test]
    fn a_session_ends_without_use_and_after_its_lifetime() {
        let mut sessions = Sessions::default();
        let idle = begin(&mut sessions, "ada", 0).id;
        assert!(sessions.of(idle.reveal(), IDLE_SECS - 1).is_some());
        assert!(sessions.of(idle.reveal(), 2 * IDLE_SECS - 2).is_some());
        assert!(sessions.of(idle.reveal(), 3 * IDLE_SECS).is_none());
        let busy = begin(&mut sessions, "ada", 0).id;
        for at in (0..LIFETIME_SECS).step_by(600) {
            assert!(sessions.of(busy.reveal(), at).is_some());
        }
        assert!(sessions.of(busy.reveal(), LIFETIME_SECS).is_none());
    }

    #[test]
    fn sessions_are_bounded_for_a_user_and_in_all() {
        let mut sessions = Sessions::default();
        let first = begin(&mut sessions, "ada", 0).id;
        for at in 1..=MAX_SESSIONS_PER_USER as u64 {
            begin(&mut sessions, "ada", at);
        }
        assert!(sessions.of(first.reveal(), 30).is_none());
        for number in 0..2 * MAX_SESSIONS {
            begin(&mut sessions, &format!("user{number}"), 100);
        }
        assert!(sessions.0.len() <= MAX_SESSIONS);
    }

    #[test]
    fn the_csrf_value_belongs_to_one_session() {
        let mut sessions = Sessions::default();
        let (one, other) = (begin(&mut sessions, "a", 0), begin(&mut sessions, "a", 0));
        let session = sessions.of(one.id.reveal(), 0).unwrap();
        assert!(session.has_csrf(one.csrf.reveal()));
        assert!(!session.has_csrf(other.csrf.reveal()) && !session.has_csrf(""));
    }
}
