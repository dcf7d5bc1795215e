//! Authentication for the interface: users, sessions, API tokens and the set-up link.
//!
//! ```text
//!   set-up link ──> first user ┐
//!   avocet user, POST /users ──┴─> users ──log_in──> session ──┐
//!   avocet token, POST /tokens ──> tokens ─────────────────────┴─> Principal: name and scopes
//! ```
//! The store is shared by the control socket (`avocet user`, `avocet token`) and the HTTP
//! interface. The server passes the function that returns the time.

mod file;
mod log_in;
mod password;
mod secrets;
mod session;
mod throttle;
mod totp;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use avocet_control::access::{
    AccessFault, AccessScope, Role, Secret, TokenCreate, TokenCreated, TokenRevoked, TokensReport,
    UserAdd, UserChange, UserRemoved, UserReport, UsersReport,
};
use avocet_control::limits::UserLimits;
use avocet_control::session::{SessionEnded, SessionsReport, UserSession};
use data_encoding::HEXLOWER;

pub use file::check;
use file::{AccessFile, StoredAccess, StoredToken, StoredUser};
pub use log_in::{Login, LoginFault, SecondFactorBegun};
use password::PasswordHash;
use secrets::{Digest, digest_of};
pub(crate) use secrets::{is_equal, random, random_text};
pub use session::BegunSession;
use session::Sessions;
pub(crate) use session::{GivenRole, public_id_of};
pub(crate) use throttle::FlowKind;
use throttle::Throttle;
pub use throttle::network_of;
#[cfg(test)]
pub(crate) use totp::code_at;

/// Maximum number of users.
const MAX_USERS: usize = 1000;
/// Maximum number of API tokens.
const MAX_TOKENS: usize = 1000;
/// Longest lifetime of a token in seconds.
const MAX_TOKEN_SECS: u64 = 5 * 366 * 24 * 3600;
/// The beginning of each token, by which secret scanners recognise it.
const TOKEN_PREFIX: &str = "avocet_";
/// Seconds for which the set-up link is valid.
const SETUP_SECS: u64 = 24 * 3600;
/// Maximum number of octets of a name.
const MAX_NAME_OCTETS: usize = 64;

/// A function that returns the present time in Unix seconds.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// The author of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// The name of the user or token.
    pub name: String,
    /// The permissions of the author.
    pub scopes: Vec<AccessScope>,
    /// The groups and zones to which the author is limited.
    pub limits: UserLimits,
    /// The method by which the author proved its identity.
    pub proof: Proof,
}

impl Principal {
    fn of_token(token: &StoredToken) -> Self {
        Self {
            name: token.name.clone(),
            scopes: token.scopes.clone(),
            limits: UserLimits::default(),
            proof: Proof::Token(token.id.clone()),
        }
    }
}

/// The method by which the author of a request proved its identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    /// A session, with the CSRF token that a change needs.
    Session(Secret),
    /// An API token. Holds its identifier.
    Token(String),
}

/// Users, sessions and tokens.
pub struct Access {
    clock: Clock,
    file: AccessFile,
    state: Mutex<AccessState>,
    /// Held while a password is hashed: one hash at a time bounds memory and CPU time.
    hashing: Mutex<()>,
}

struct AccessState {
    stored: StoredAccess,
    sessions: Sessions,
    throttle: Throttle,
    setup: Option<SetupLink>,
    /// The reason why the file does not have the users and tokens in force.
    unsaved: Option<String>,
}

/// The link for the first user.
struct SetupLink {
    digest: Digest,
    until: u64,
}

impl Access {
    /// Reads the users and tokens of a data directory.
    pub fn open(directory: &Path, clock: Clock) -> Self {
        let (file, stored) = AccessFile::load(directory);
        let state = AccessState {
            stored,
            sessions: Sessions::default(),
            throttle: Throttle::default(),
            setup: None,
            unsaved: None,
        };
        Self { clock, file, state: Mutex::new(state), hashing: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, AccessState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the reason why the file of users and tokens could not be read at the start. In this
    /// case, no user can log in.
    pub fn fault(&self) -> Option<&str> {
        self.file.fault()
    }

    /// Returns the present time in Unix seconds.
    pub(crate) fn now(&self) -> u64 {
        (self.clock)()
    }

    /// Changes users and tokens: on disk first, then in memory.
    fn change<T>(
        &self,
        change: impl FnOnce(&mut StoredAccess) -> Result<T, AccessFault>,
    ) -> Result<T, AccessFault> {
        let mut state = self.state();
        let mut changed = state.stored.clone();
        let outcome = change(&mut changed)?;
        self.file.save(&changed)?;
        (state.stored, state.unsaved) = (changed, None);
        Ok(outcome)
    }

    /// Changes users and tokens at once, in memory even if the disk refuses the change: a client
    /// that takes rights away needs this change to apply now. Also returns the reason why the
    /// change is not saved.
    fn change_at_once<T>(
        &self,
        change: impl FnOnce(&mut StoredAccess) -> Result<T, AccessFault>,
    ) -> Result<(T, Option<String>), AccessFault> {
        let mut state = self.state();
        let mut changed = state.stored.clone();
        let outcome = change(&mut changed)?;
        state.stored = changed;
        Ok((outcome, self.save(&mut state)))
    }

    fn save(&self, state: &mut AccessState) -> Option<String> {
        let fault = self.file.save(&state.stored).err().map(|fault| fault.to_string());
        state.unsaved.clone_from(&fault);
        fault
    }

    /// Tries again to save a change that the disk refused.
    pub fn save_again(&self) -> Option<String> {
        let mut state = self.state();
        state.unsaved.as_ref()?;
        self.save(&mut state)
    }

    /// Creates the text of a set-up link if there are no users. An earlier link is not valid
    /// afterwards.
    ///
    /// # Errors
    /// The system has no random octets.
    pub fn draw_setup(&self) -> Result<Option<Secret>, AccessFault> {
        let mut state = self.state();
        if !state.stored.users.is_empty() || self.file.fault().is_some() {
            return Ok(None);
        }
        let text = Secret::new(random_text()?);
        let until = self.now().saturating_add(SETUP_SECS);
        state.setup = Some(SetupLink { digest: digest_of(text.reveal()), until });
        Ok(Some(text))
    }

    /// Returns all users.
    pub fn user_list(&self) -> UsersReport {
        UsersReport { users: self.state().stored.users.iter().map(StoredUser::report).collect() }
    }

    /// Adds a user.
    ///
    /// # Errors
    /// The name exists or is invalid, the password is too short or too long, the limits are invalid
    /// or for an admin, there are too many users, the system has no memory or random octets, or the
    /// disk refuses the change.
    pub fn user_add(&self, request: UserAdd) -> Result<UserReport, AccessFault> {
        let UserAdd { name, role, password, limits } = request;
        check_name(&name)?;
        check_limits(role, limits.as_ref())?;
        let limits = limits.unwrap_or_default();
        let hash = self.hash(&password)?;
        let created_at = self.now();
        let user =
            StoredUser { name, role, limits, created_at, password: hash, second_factor: None };
        let report = user.report();
        self.change(|stored| insert(stored, user))?;
        self.state().setup = None;
        Ok(report)
    }

    /// Changes a user and ends its sessions.
    ///
    /// # Errors
    /// The user does not exist or is the last admin, the password is too short or too long, the
    /// limits are invalid or for an admin, or the system has no memory or random octets.
    pub fn user_change(&self, request: UserChange) -> Result<UserReport, AccessFault> {
        let UserChange { name, role, limits, remove_limits, password, remove_second_factor } =
            request;
        let hash = password.as_ref().map(|password| self.hash(password)).transpose()?;
        let (mut report, unsaved) = self.change_at_once(|stored| {
            if role.is_some_and(|role| role != Role::Admin) {
                keep_an_admin(stored, &name)?;
            }
            let user = find(stored, &name)?;
            user.role = role.unwrap_or(user.role);
            check_limits(user.role, limits.as_ref())?;
            if remove_limits {
                user.limits = UserLimits::default();
            }
            user.limits = limits.unwrap_or_else(|| user.limits.clone());
            if user.role == Role::Admin && !user.limits.is_empty() {
                return Err(AccessFault::LimitedAdmin);
            }
            if let Some(hash) = hash {
                user.password = hash;
            }
            if remove_second_factor {
                user.second_factor = None;
            }
            Ok(user.report())
        })?;
        report.unsaved = unsaved;
        self.state().sessions.end_all_of(&name);
        Ok(report)
    }

    /// Removes a user and ends its sessions.
    ///
    /// # Errors
    /// The user does not exist or is the last admin.
    pub fn user_remove(&self, name: &str) -> Result<UserRemoved, AccessFault> {
        let ((), unsaved) = self.change_at_once(|stored| {
            keep_an_admin(stored, name)?;
            stored.users.retain(|user| user.name != name);
            Ok(())
        })?;
        self.state().sessions.end_all_of(name);
        Ok(UserRemoved { name: name.to_owned(), unsaved })
    }

    /// Returns the number of sessions that have not ended, for the metrics.
    pub fn session_count(&self) -> usize {
        let now = self.now();
        self.state().sessions.count(now)
    }

    /// Returns all sessions that have not ended.
    pub fn session_list(&self) -> SessionsReport {
        let now = self.now();
        SessionsReport { sessions: self.state().sessions.report(now) }
    }

    /// Ends a session by its public identifier.
    ///
    /// # Errors
    /// There is no such session.
    pub fn session_end(&self, id: &str) -> Result<SessionEnded, AccessFault> {
        let mut state = self.state();
        let sessions = state.sessions.report(self.now());
        let found = sessions.into_iter().find(|session| session.id == id);
        let UserSession { id, user, .. } =
            found.ok_or_else(|| AccessFault::UnknownSession(id.to_owned()))?;
        state.sessions.end_public(&id);
        Ok(SessionEnded { id, user })
    }

    /// Returns all tokens that have not expired.
    pub fn token_list(&self) -> TokensReport {
        let (state, now) = (self.state(), self.now());
        let alive = state.stored.tokens.iter().filter(|token| token.expires_at > now);
        let mut tokens: Vec<_> = alive.map(StoredToken::report).collect();
        tokens.sort_by_key(|token| token.expires_at);
        TokensReport { tokens }
    }

    /// Creates a token. Tokens that have expired are removed.
    ///
    /// # Errors
    /// A value is invalid, there are too many tokens, or the disk refuses the change.
    pub fn token_create(&self, request: TokenCreate) -> Result<TokenCreated, AccessFault> {
        let TokenCreate { name, mut scopes, secs } = request;
        check_name(&name)?;
        scopes.sort_unstable();
        scopes.dedup();
        if scopes.is_empty() {
            return Err(AccessFault::NoScopes);
        }
        if !(1..=MAX_TOKEN_SECS).contains(&secs) {
            return Err(AccessFault::Lifetime(MAX_TOKEN_SECS));
        }
        let text = Secret::new(format!("{TOKEN_PREFIX}{}", random_text()?));
        let now = self.now();
        let token = StoredToken {
            id: HEXLOWER.encode(&random::<6>()?),
            name,
            scopes,
            created_at: now,
            expires_at: now.saturating_add(secs),
            digest: HEXLOWER.encode(&digest_of(text.reveal())),
        };
        let report = token.report();
        self.change(|stored| {
            stored.tokens.retain(|token| token.expires_at > now);
            if stored.tokens.len() >= MAX_TOKENS {
                return Err(AccessFault::TooMany(MAX_TOKENS));
            }
            stored.tokens.push(token);
            Ok(())
        })?;
        Ok(TokenCreated { token: text, report })
    }

    /// Revokes a token.
    ///
    /// # Errors
    /// There is no such token.
    pub fn token_revoke(&self, id: &str) -> Result<TokenRevoked, AccessFault> {
        let ((), unsaved) = self.change_at_once(|stored| {
            let before = stored.tokens.len();
            stored.tokens.retain(|token| token.id != id);
            match stored.tokens.len() < before {
                true => Ok(()),
                false => Err(AccessFault::UnknownToken(id.to_owned())),
            }
        })?;
        Ok(TokenRevoked { id: id.to_owned(), unsaved })
    }

    /// Returns the owner of a token that has not expired. Tokens are found by their digests, so the
    /// time of the search reveals nothing about them.
    pub fn of_token(&self, text: &str) -> Option<Principal> {
        let digest = HEXLOWER.encode(&digest_of(text.strip_prefix(TOKEN_PREFIX).and(Some(text))?));
        let (state, now) = (self.state(), self.now());
        let token = state.stored.tokens.iter().find(|token| token.digest == digest)?;
        (token.expires_at > now).then(|| Principal::of_token(token))
    }

    /// Hashes a password while no other password is hashed.
    fn hash(&self, password: &Secret) -> Result<PasswordHash, AccessFault> {
        let _one = self.hashing.lock().unwrap_or_else(PoisonError::into_inner);
        PasswordHash::of(password)
    }
}

/// Adds a user in the order of the names.
fn insert(stored: &mut StoredAccess, user: StoredUser) -> Result<(), AccessFault> {
    if stored.users.len() >= MAX_USERS {
        return Err(AccessFault::TooMany(MAX_USERS));
    }
    match stored.users.binary_search_by(|other| other.name.cmp(&user.name)) {
        Ok(_) => Err(AccessFault::UserExists(user.name)),
        Err(place) => {
            stored.users.insert(place, user);
            Ok(())
        }
    }
}

fn find<'s>(stored: &'s mut StoredAccess, name: &str) -> Result<&'s mut StoredUser, AccessFault> {
    let mut users = stored.users.iter_mut();
    users.find(|user| user.name == name).ok_or_else(|| AccessFault::UnknownUser(name.to_owned()))
}

/// Refuses to remove the role of the last admin.
fn keep_an_admin(stored: &mut StoredAccess, name: &str) -> Result<(), AccessFault> {
    find(stored, name)?;
    let is_other_admin = |user: &StoredUser| user.role == Role::Admin && user.name != name;
    let is_admin = |user: &StoredUser| user.role == Role::Admin && user.name == name;
    match stored.users.iter().any(is_admin) && !stored.users.iter().any(is_other_admin) {
        true => Err(AccessFault::LastAdmin),
        false => Ok(()),
    }
}

/// Returns whether a text can be the name of a user.
pub(crate) fn is_name(name: &str) -> bool {
    let is_plain =
        |octet: u8| octet.is_ascii_alphanumeric() || matches!(octet, b'.' | b'-' | b'_' | b'@');
    (1..=MAX_NAME_OCTETS).contains(&name.len()) && name.bytes().all(is_plain)
}

fn check_limits(role: Role, limits: Option<&UserLimits>) -> Result<(), AccessFault> {
    let Some(limits) = limits else { return Ok(()) };
    match limits.fault() {
        Some(fault) => Err(AccessFault::InvalidLimits(fault)),
        None if role == Role::Admin => Err(AccessFault::LimitedAdmin),
        None => Ok(()),
    }
}

fn check_name(name: &str) -> Result<(), AccessFault> {
    match is_name(name) {
        true => Ok(()),
        // The name may be long, so the error contains only its beginning.
        false => Err(AccessFault::InvalidName(name.chars().take(MAX_NAME_OCTETS).collect())),
    }
}

#[cfg(test)]
mod tests;
