//! One log-in by a provider: the browser goes from this server to the provider and comes back.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use avocet_control::access::{AccessFault, Role, Secret};
use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::BASE64URL_NOPAD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::provider::{Ask, CodeExchange, Providers};
use super::token::Expected;
use super::{OidcFault, OidcSettings};
use crate::access::{is_equal, is_name, network_of, random, random_text};

/// The path to which the provider sends browsers back.
pub(super) const CALLBACK: &str = "/api/v1/session/oidc/callback";
/// Seconds for which a log-in may take.
pub(crate) const FLOW_SECS: u64 = 600;
/// Maximum number of octets of a code.
const MAX_CODE: usize = 4096;
/// Maximum number of kept states of log-ins that came back within [`FLOW_SECS`]. If there are more,
/// the states of the oldest log-ins are forgotten: otherwise, many addresses that begin log-ins
/// without an end could keep users from logging in. Even a forgotten state is of use only with the
/// cookie of its browser and a new code of the provider.
const MAX_RETURNED: usize = 4096;
/// Maximum number of kept states of log-ins from one IPv4 address or IPv6 /64. If there are more,
/// the states of its oldest log-ins are forgotten, and not those of others.
const MAX_RETURNED_OF_NETWORK: usize = 128;
/// Maximum number of kept states of log-ins from one IPv6 /48.
const MAX_RETURNED_OF_SITE: usize = 1024;
/// The purpose of the sealed text, which is the additional data of the seal.
const PURPOSE: &[u8] = b"avocet oidc 1";

/// The log-ins that have begun and not ended. The server keeps only the key that seals their
/// cookies, and the states that came back, so that each is valid once.
pub(crate) struct Flow {
    key: Option<RandomizedNonceKey>,
    providers: Providers,
    returned: Mutex<HashMap<String, Returned>>,
}

/// A log-in that came back.
struct Returned {
    /// The Unix second at which the log-in expires.
    until: u64,
    /// The IPv4 address or IPv6 /64 from which it came back.
    network: IpAddr,
    /// The upper bits of the IPv6 /48.
    site: Option<u64>,
}

/// A log-in that began.
pub(crate) struct BegunFlow {
    /// The address to which the browser is redirected.
    pub(crate) location: String,
    /// The content of the cookie.
    pub(crate) cookie: Secret,
}

/// The values with which the OpenID Connect provider sends the browser back to this server.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct FlowReturn {
    /// The authorization code: a text that the server exchanges for data about the user.
    pub(crate) code: Option<Secret>,
    /// The value of `state` that the server chose at the begin of the log-in.
    pub(crate) state: Option<String>,
    /// The identifier of the provider (issuer, RFC 9207).
    pub(crate) iss: Option<String>,
    /// The code of the error, if the provider refused the log-in.
    pub(crate) error: Option<String>,
}

/// A user of the provider.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OidcLogin {
    /// The name, which differs from the names of all users of this server.
    pub(crate) name: String,
    pub(crate) role: Role,
}

/// The contents of the cookie.
#[derive(Serialize, Deserialize)]
struct Sealed {
    issuer: String,
    state: String,
    nonce: String,
    verifier: String,
    until: u64,
}

impl Flow {
    /// Creates the key of the seal. Log-ins that are in progress end with the server.
    pub(crate) fn new() -> Self {
        let key = random::<32>().ok();
        let key = key.and_then(|octets| RandomizedNonceKey::new(&AES_256_GCM, &octets).ok());
        Self { key, providers: Providers::default(), returned: Mutex::default() }
    }

    /// Begins a log-in.
    ///
    /// # Errors
    /// The provider cannot be used.
    pub(crate) fn begin(
        &self,
        settings: &OidcSettings,
        now: u64,
        ask: Ask<'_>,
    ) -> Result<BegunFlow, OidcFault> {
        let endpoints = self.providers.endpoints(settings, now, ask)?;
        let text = || random_text().map_err(|fault: AccessFault| unsealed(&fault));
        let sealed = Sealed {
            issuer: settings.issuer.clone(),
            state: text()?,
            nonce: text()?,
            verifier: text()?,
            until: now.saturating_add(FLOW_SECS),
        };
        let challenge = digest(&SHA256, sealed.verifier.as_bytes());
        let scope = std::iter::once("openid").chain(settings.scopes.iter().map(String::as_str));
        let query = form_urlencoded::Serializer::new(String::new())
            .append_pair("response_type", "code")
            .append_pair("client_id", &settings.client_id)
            .append_pair("redirect_uri", &settings.redirect_uri())
            .append_pair("scope", &scope.collect::<Vec<_>>().join(" "))
            .append_pair("state", &sealed.state)
            .append_pair("nonce", &sealed.nonce)
            .append_pair("code_challenge", &BASE64URL_NOPAD.encode(challenge.as_ref()))
            .append_pair("code_challenge_method", "S256")
            .finish();
        let location = with_query(&endpoints.authorization_endpoint, &query);
        Ok(BegunFlow { location, cookie: self.seal(&sealed)? })
    }

    /// Returns the address at which a browser ends the session at the provider, if the provider has
    /// one (OpenID Connect RP-Initiated Logout 1.0). Tokens are not kept, so the provider may ask
    /// the user for confirmation.
    ///
    /// # Errors
    /// The provider cannot be used.
    pub(crate) fn log_out(
        &self,
        settings: &OidcSettings,
        now: u64,
        ask: Ask<'_>,
    ) -> Result<Option<String>, OidcFault> {
        let endpoint = self.providers.endpoints(settings, now, ask)?.end_session_endpoint;
        let query = form_urlencoded::Serializer::new(String::new())
            .append_pair("client_id", &settings.client_id)
            .append_pair("post_logout_redirect_uri", &format!("{}/", settings.public_url))
            .finish();
        Ok(endpoint.map(|endpoint| with_query(&endpoint, &query)))
    }

    /// Returns whether the browser that returns from a log-in has also begun it, and returns for
    /// the first time.
    pub(crate) fn has_begun(
        &self,
        settings: &OidcSettings,
        came_back: (Option<&Secret>, &FlowReturn),
        now: u64,
    ) -> bool {
        self.begun(settings, came_back, now).is_some()
    }

    fn begun(
        &self,
        settings: &OidcSettings,
        (cookie, back): (Option<&Secret>, &FlowReturn),
        now: u64,
    ) -> Option<Sealed> {
        let sealed = self.open(cookie?)?;
        let state = back.state.as_deref().unwrap_or_default();
        let is_ours = is_equal(sealed.state.as_bytes(), state.as_bytes())
            && sealed.issuer == settings.issuer
            && sealed.until > now
            && !self.returned().contains_key(&sealed.state);
        is_ours.then_some(sealed)
    }

    /// Uses up the state of a log-in (RFC 9700 §4.7.1). Each state is kept until its log-in has
    /// expired.
    fn use_up(&self, sealed: &Sealed, from: IpAddr, now: u64) -> Result<(), OidcFault> {
        let mut returned = self.returned();
        returned.retain(|_, one| one.until > now);
        if returned.contains_key(&sealed.state) {
            return Err(OidcFault::NotBegun);
        }
        let new = Returned { until: sealed.until, network: network_of(from), site: site_of(from) };
        make_room(&mut returned, MAX_RETURNED_OF_NETWORK, |one| one.network == new.network);
        if new.site.is_some() {
            make_room(&mut returned, MAX_RETURNED_OF_SITE, |one| one.site == new.site);
        }
        make_room(&mut returned, MAX_RETURNED, |_| true);
        returned.insert(sealed.state.clone(), new);
        Ok(())
    }

    fn returned(&self) -> MutexGuard<'_, HashMap<String, Returned>> {
        self.returned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends a log-in, and returns the user.
    ///
    /// # Errors
    /// See [`OidcFault`].
    pub(crate) fn finish(
        &self,
        settings: &OidcSettings,
        (cookie, back): (Option<&Secret>, &FlowReturn),
        (from, now): (IpAddr, u64),
        ask: Ask<'_>,
    ) -> Result<OidcLogin, OidcFault> {
        let sealed = self.begun(settings, (cookie, back), now).ok_or(OidcFault::NotBegun)?;
        self.use_up(&sealed, from, now)?;
        if back.iss.as_ref().is_some_and(|iss| *iss != settings.issuer) {
            return Err(OidcFault::Token("it is of another issuer"));
        }
        if let Some(error) = &back.error {
            return Err(OidcFault::Denied(error.chars().take(100).collect()));
        }
        let code = back.code.as_ref().filter(|code| code.reveal().len() <= MAX_CODE);
        let code = code.ok_or_else(|| OidcFault::Denied("there is no code".to_owned()))?;
        let exchange = CodeExchange {
            code: code.reveal(),
            verifier: &Secret::new(sealed.verifier),
            expected: Expected { settings, nonce: &sealed.nonce, now },
        };
        let claims = self.providers.exchange(&exchange, ask)?;
        let role = settings.role(&claims).ok_or(OidcFault::NoRole)?;
        let name = claims.get(&settings.name_claim).and_then(Value::as_str).unwrap_or_default();
        match is_name(name) {
            // No user of this server has a colon in its name.
            true => Ok(OidcLogin { name: format!("oidc:{name}"), role }),
            false => Err(OidcFault::Name(settings.name_claim.clone())),
        }
    }

    fn seal(&self, sealed: &Sealed) -> Result<Secret, OidcFault> {
        let failed = || OidcFault::Provider("the log-in cannot be sealed".to_owned());
        let key = self.key.as_ref().ok_or_else(failed)?;
        let mut text = serde_json::to_vec(sealed).map_err(|_| failed())?;
        let nonce = key.seal_in_place_append_tag(Aad::from(PURPOSE), &mut text);
        let nonce = nonce.map_err(|_| failed())?;
        let whole = [nonce.as_ref().as_slice(), &text].concat();
        Ok(Secret::new(BASE64URL_NOPAD.encode(&whole)))
    }

    fn open(&self, cookie: &Secret) -> Option<Sealed> {
        let whole = BASE64URL_NOPAD.decode(cookie.reveal().as_bytes()).ok()?;
        let (nonce, text) = whole.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut text = text.to_vec();
        let text = self.key.as_ref()?.open_in_place(nonce, Aad::from(PURPOSE), &mut text).ok()?;
        serde_json::from_slice(text).ok()
    }
}

/// Forgets the oldest of certain log-ins if there are `most` of them.
fn make_room(
    returned: &mut HashMap<String, Returned>,
    most: usize,
    is_meant: impl Fn(&Returned) -> bool,
) {
    if returned.len() < most {
        return;
    }
    let meant = || returned.iter().filter(|(_, one)| is_meant(one));
    if meant().count() >= most {
        let oldest = meant().min_by_key(|(_, one)| one.until);
        let oldest = oldest.map(|(state, _)| state.clone());
        oldest.and_then(|oldest| returned.remove(&oldest));
    }
}

/// Returns the upper bits of the /48 of an IPv6 address; `None` for IPv4.
fn site_of(address: IpAddr) -> Option<u64> {
    match address.to_canonical() {
        IpAddr::V6(v6) => Some((v6.to_bits() >> 80) as u64),
        IpAddr::V4(_) => None,
    }
}

fn with_query(endpoint: &str, query: &str) -> String {
    let sign = if endpoint.contains('?') { '&' } else { '?' };
    format!("{endpoint}{sign}{query}")
}

fn unsealed(fault: &AccessFault) -> OidcFault {
    OidcFault::Provider(fault.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(number: usize) -> Sealed {
        Sealed {
            issuer: "https://id.example".to_owned(),
            state: number.to_string(),
            nonce: String::new(),
            verifier: String::new(),
            until: 1_000 + number as u64,
        }
    }

    #[test]
    fn log_ins_without_an_end_keep_nobody_out() {
        let flow = Flow::new();
        let from = |number: usize| IpAddr::from([10, 0, (number / 256) as u8, number as u8]);
        for number in 0..=MAX_RETURNED {
            assert_eq!(flow.use_up(&sealed(number), from(number), 0), Ok(()), "{number}");
        }
        assert_eq!(flow.use_up(&sealed(1), from(1), 0), Err(OidcFault::NotBegun));
        assert_eq!(flow.returned().len(), MAX_RETURNED);
    }

    #[test]
    fn log_ins_from_one_network_do_not_make_the_server_forget_those_of_others() {
        let check = |from: &dyn Fn(u16) -> IpAddr, most: usize| {
            let flow = Flow::new();
            let other = IpAddr::from([192, 0, 2, 1]);
            assert_eq!(flow.use_up(&sealed(0), other, 0), Ok(()));
            for number in 1..=most as u16 + 9 {
                let used = flow.use_up(&sealed(usize::from(number)), from(number), 0);
                assert_eq!(used, Ok(()), "{number}");
            }
            assert_eq!(flow.use_up(&sealed(0), other, 0), Err(OidcFault::NotBegun));
            assert_eq!(flow.returned().len(), most + 1);
        };
        check(&|_| IpAddr::from([192, 0, 2, 2]), MAX_RETURNED_OF_NETWORK);
        let ip = |link, last| IpAddr::from([0x2001, 0xdb8, 1, link, 0, 0, 0, last]);
        check(&|number| ip(1, number), MAX_RETURNED_OF_NETWORK);
        check(&|number| ip(number, 1), MAX_RETURNED_OF_SITE);
    }
}
