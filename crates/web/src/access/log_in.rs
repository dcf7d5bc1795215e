//! Log-in, log-out, set-up and the second factor.

use std::net::IpAddr;
use std::sync::PoisonError;

use avocet_control::access::{AccessFault, Role, Secret, UserReport};
use avocet_control::limits::UserLimits;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::file::StoredUser;
use super::password::PasswordHash;
use super::secrets::{digest_of, is_equal};
use super::session::{GivenRole, SessionUser};
use super::throttle::{FlowKind, GuessSource};
use super::totp::{self, CodeCheck, SecondFactor};
use super::{Access, AccessState, BegunSession, Principal, Proof, check_name, find, insert};

/// A request to log in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Login {
    /// The name of the user.
    pub name: String,
    /// The password of the user.
    pub password: Secret,
    /// A code of the second factor, or a recovery code; required if the user has a second factor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Secret>,
}

/// A new second factor. It comes into force when the user confirms it with a code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecondFactorBegun {
    /// The secret of the second factor in base32, to type into an authenticator application.
    pub secret: Secret,
    /// The secret as a URI, which authenticator applications can read from a QR code.
    pub uri: Secret,
}

/// The reason why a log-in failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoginFault {
    /// There were too many failures. Holds the number of seconds until the next attempt.
    Throttled(u64),
    /// The name, the password or the code is wrong. The error does not say which.
    Wrong,
    /// The password is right, and the code of the second factor is missing.
    CodeNeeded,
    /// The set-up link is wrong, was used, or has expired.
    SetupOver,
    /// There is no second factor to confirm.
    NothingToConfirm,
    /// A value is invalid, or the disk refuses the change.
    Access(AccessFault),
}

impl From<AccessFault> for LoginFault {
    fn from(fault: AccessFault) -> Self {
        Self::Access(fault)
    }
}

/// A password that was right when it was checked.
pub(super) struct CheckedPassword {
    /// The stored form that the password was compared with.
    hash: PasswordHash,
    /// Whether the user had a second factor.
    has_factor: bool,
}

impl Access {
    /// Begins a session for a user who knows the password and, if there is one, has the second
    /// factor. Attempts are checked one after another, so parallel guesses have no advantage.
    ///
    /// # Errors
    /// See [`LoginFault`].
    pub fn log_in(&self, login: &Login, from: IpAddr) -> Result<BegunSession, LoginFault> {
        let _one = self.hashing.lock().unwrap_or_else(PoisonError::into_inner);
        let sources = [GuessSource::of_address(from), GuessSource::User(login.name.clone())];
        self.admit(&sources)?;
        // No user can have such a name, so counting its failures would only take room.
        if check_name(&login.name).is_err() {
            return Err(self.refuse(&sources[..1]));
        }
        let Some(checked) = self.check_password(&login.name, &login.password) else {
            return Err(self.refuse(&sources));
        };
        if checked.has_factor {
            match &login.code {
                None => return Err(LoginFault::CodeNeeded),
                Some(code) if self.use_code(&login.name, code)? == CodeCheck::Accepted => {}
                Some(_) => return Err(self.refuse(&sources)),
            }
        }
        let begun = self.begin_with(&login.name, &checked, from)?;
        self.state().throttle.succeeded(&sources);
        Ok(begun)
    }

    /// Begins a session if the user still exists and has the password that was checked. The user
    /// may have been removed or changed while the password was hashed.
    pub(super) fn begin_with(
        &self,
        name: &str,
        checked: &CheckedPassword,
        from: IpAddr,
    ) -> Result<BegunSession, LoginFault> {
        let now = self.now();
        let mut state = self.state();
        if !state.stored.users.iter().any(|user| user.name == name && user.password == checked.hash)
        {
            return Err(LoginFault::Wrong);
        }
        Ok(state.sessions.begin(&SessionUser::of(name, None, from), now)?)
    }

    /// Begins a session for a user of a provider.
    ///
    /// # Errors
    /// The system has no random octets.
    pub(crate) fn log_in_by_provider(
        &self,
        name: &str,
        given: GivenRole,
        from: IpAddr,
    ) -> Result<BegunSession, LoginFault> {
        let now = self.now();
        Ok(self.state().sessions.begin(&SessionUser::of(name, Some(given), from), now)?)
    }

    /// Refuses an address from which too many answers of a provider were wrong.
    pub(crate) fn admit_from(&self, from: IpAddr, kind: FlowKind) -> Result<(), LoginFault> {
        self.admit(&[GuessSource::of_provider(from, kind)])
    }

    /// Counts a wrong answer of a provider from an address.
    pub(crate) fn failed_from(&self, from: IpAddr, kind: FlowKind) {
        self.state().throttle.failed(&[GuessSource::of_provider(from, kind)], self.now());
    }

    fn admit(&self, sources: &[GuessSource]) -> Result<(), LoginFault> {
        match self.state().throttle.wait_secs(sources, self.now()) {
            0 => Ok(()),
            secs => Err(LoginFault::Throttled(secs)),
        }
    }

    fn refuse(&self, sources: &[GuessSource]) -> LoginFault {
        self.state().throttle.failed(sources, self.now());
        LoginFault::Wrong
    }

    /// Returns `None` if the name or the password is wrong. The state is not locked while the
    /// password is hashed.
    pub(super) fn check_password(&self, name: &str, password: &Secret) -> Option<CheckedPassword> {
        let state = self.state();
        let user = state.stored.users.iter().find(|user| user.name == name);
        let found = user.map(|user| CheckedPassword {
            hash: user.password.clone(),
            has_factor: user.second_factor.is_some(),
        });
        drop(state);
        let Some(found) = found else {
            PasswordHash::waste(password);
            return None;
        };
        found.hash.is_of(password).then_some(found)
    }

    /// Checks a code and saves that it was used.
    fn use_code(&self, name: &str, code: &Secret) -> Result<CodeCheck, AccessFault> {
        let now = self.now();
        self.change(|stored| {
            let factor = find(stored, name)?.second_factor.as_mut();
            Ok(factor.map_or(CodeCheck::Refused, |factor| factor.check(code.reveal(), now)))
        })
    }

    /// Returns the user of a session, and records a use of the session; `None` if the session has
    /// ended.
    pub fn of_session(&self, id: &str) -> Option<Principal> {
        let now = self.now();
        let mut state = self.state();
        // The look-up counts as a use of the session, so it delays the end of the session.
        state.sessions.of(id, now)?;
        of_session(&state, id, now)
    }

    /// Returns the author of an earlier request with the present rights of its token, or of the
    /// user of its session.
    pub(crate) fn present(
        &self,
        author: &Principal,
        session: Option<&Secret>,
    ) -> Option<Principal> {
        let (now, state) = (self.now(), self.state());
        match &author.proof {
            Proof::Token(id) => {
                let token = state.stored.tokens.iter().find(|token| token.id == *id)?;
                (token.expires_at > now).then(|| Principal::of_token(token))
            }
            Proof::Session(_) => of_session(&state, session?.reveal(), now),
        }
    }

    /// Ends the sessions with a role that was given under other settings of the provider.
    pub(crate) fn end_sessions_of_others_than(&self, provider: Option<&str>) {
        self.state().sessions.end_all_of_others_than(provider);
    }

    /// Returns whether a value is the CSRF token of a session.
    pub fn has_csrf(&self, id: &str, value: &str) -> bool {
        let now = self.now();
        self.state().sessions.of(id, now).is_some_and(|session| session.has_csrf(value))
    }

    /// Ends a session.
    pub fn log_out(&self, id: &str) {
        self.state().sessions.end(id);
    }

    /// Adds the first user, as admin, with the text of the set-up link, which is not valid
    /// afterwards.
    ///
    /// # Errors
    /// See [`LoginFault`].
    pub fn set_up(
        &self,
        link: &Secret,
        user: (String, Secret),
        from: IpAddr,
    ) -> Result<UserReport, LoginFault> {
        let sources = [GuessSource::of_address(from)];
        self.admit(&sources)?;
        let (name, password) = user;
        self.check_setup(link).inspect_err(|_| {
            self.state().throttle.failed(&sources, self.now());
        })?;
        check_name(&name)?;
        let hash = self.hash(&password)?;
        let now = self.now();
        let user = StoredUser {
            name,
            role: Role::Admin,
            limits: UserLimits::default(),
            created_at: now,
            password: hash,
            second_factor: None,
        };
        let report = user.report();
        // If another request has used the link meanwhile, `change` finds the user of that request.
        let added = self.change(|stored| {
            Ok(match stored.users.is_empty() {
                true => Some(insert(stored, user)?),
                false => None,
            })
        })?;
        self.state().setup = None;
        added.map(|()| report).ok_or(LoginFault::SetupOver)
    }

    fn check_setup(&self, link: &Secret) -> Result<(), LoginFault> {
        let (state, digest) = (self.state(), digest_of(link.reveal()));
        let is_right = state
            .setup
            .as_ref()
            .is_some_and(|setup| setup.until > self.now() && is_equal(&setup.digest, &digest));
        if is_right { Ok(()) } else { Err(LoginFault::SetupOver) }
    }

    /// Changes the password of the user of a session, and ends all sessions of this user.
    ///
    /// # Errors
    /// See [`LoginFault`].
    pub fn change_password(
        &self,
        user: &str,
        passwords: (&Secret, &Secret),
        from: IpAddr,
    ) -> Result<(), LoginFault> {
        let (present, next) = passwords;
        self.prove(user, present, from)?;
        let hash = self.hash(next)?;
        self.change(|stored| {
            find(stored, user)?.password = hash;
            Ok(())
        })?;
        self.state().sessions.end_all_of(user);
        Ok(())
    }

    /// Checks the password of a user that has a session already.
    fn prove(&self, user: &str, password: &Secret, from: IpAddr) -> Result<(), LoginFault> {
        let _one = self.hashing.lock().unwrap_or_else(PoisonError::into_inner);
        let sources = [GuessSource::of_address(from), GuessSource::User(user.to_owned())];
        self.admit(&sources)?;
        match self.check_password(user, password) {
            Some(_) => Ok(()),
            None => Err(self.refuse(&sources)),
        }
    }

    /// Creates a second factor for the user of a session. It is in force after a code confirms it.
    ///
    /// # Errors
    /// See [`LoginFault`].
    pub fn begin_second_factor(
        &self,
        session: &str,
        password: &Secret,
        from: IpAddr,
    ) -> Result<SecondFactorBegun, LoginFault> {
        let user = self.user_of(session)?;
        self.prove(&user, password, from)?;
        let secret = totp::draw_secret()?;
        let now = self.now();
        match self.state().sessions.of(session, now) {
            Some(session) => session.pending_factor = Some(secret.clone()),
            None => return Err(LoginFault::Wrong),
        }
        Ok(SecondFactorBegun { uri: totp::uri(&user, &secret), secret })
    }

    /// Puts the second factor in force, which replaces an earlier one. Returns the recovery codes.
    ///
    /// # Errors
    /// See [`LoginFault`].
    pub fn confirm_second_factor(
        &self,
        session: &str,
        code: &Secret,
    ) -> Result<Vec<Secret>, LoginFault> {
        let user = self.user_of(session)?;
        let now = self.now();
        let pending =
            self.state().sessions.of(session, now).and_then(|one| one.pending_factor.clone());
        let pending = pending.ok_or(LoginFault::NothingToConfirm)?;
        let begun = SecondFactor::begin(pending, code.reveal(), now)?;
        let (factor, codes) = begun.ok_or(LoginFault::Wrong)?;
        self.change(|stored| {
            find(stored, &user)?.second_factor = Some(factor);
            Ok(())
        })?;
        if let Some(session) = self.state().sessions.of(session, now) {
            session.pending_factor = None;
        }
        Ok(codes)
    }

    /// Removes the second factor of the user of a session.
    ///
    /// # Errors
    /// See [`LoginFault`].
    pub fn remove_second_factor(
        &self,
        session: &str,
        password: &Secret,
        from: IpAddr,
    ) -> Result<(), LoginFault> {
        let user = self.user_of(session)?;
        self.prove(&user, password, from)?;
        self.change(|stored| {
            find(stored, &user)?.second_factor = None;
            Ok(())
        })?;
        Ok(())
    }

    fn user_of(&self, session: &str) -> Result<String, LoginFault> {
        let now = self.now();
        let mut state = self.state();
        Ok(state.sessions.of(session, now).ok_or(LoginFault::Wrong)?.user.clone())
    }
}

/// Returns the user of a session that has not ended.
fn of_session(state: &AccessState, id: &str, now: u64) -> Option<Principal> {
    let session = state.sessions.peek(id, now)?;
    let (name, proof) = (session.user.clone(), Proof::Session(session.csrf()));
    if let Some(given) = &session.given {
        let limits = UserLimits::default();
        return Some(Principal { scopes: given.role.scopes(), limits, name, proof });
    }
    let user = state.stored.users.iter().find(|user| user.name == name)?;
    let (scopes, limits) = (user.role.scopes(), user.limits.clone());
    Some(Principal { scopes, limits, name, proof })
}
