//! The provider: its announced endpoints (OpenID Connect Discovery 1.0) and keys.

use std::sync::{Mutex, MutexGuard, TryLockError};

use avocet_control::access::Secret;
use data_encoding::BASE64;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::token::{Expected, KeySet, TokenFault, verify};
use super::{Claims, OidcFault, OidcSettings, ProviderRequest, ProviderResponse, ProviderSilence};

/// Seconds for which endpoints and keys are kept.
const KEPT_SECS: u64 = 3600;
/// Minimum number of seconds between two fetches of keys, and before a fetch after a failure.
const PAUSE_SECS: u64 = 30;

/// Sends a request to the provider.
pub(crate) type Ask<'a> = &'a dyn Fn(&ProviderRequest) -> Result<ProviderResponse, ProviderSilence>;

/// The endpoints of a provider.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Endpoints {
    issuer: String,
    pub(super) authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    userinfo_endpoint: Option<String>,
    /// The endpoint to end a session (OpenID Connect RP-Initiated Logout 1.0 §2.1).
    pub(super) end_session_endpoint: Option<String>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
}

/// The cached metadata and keys of the provider.
#[derive(Default)]
pub(crate) struct Providers(Mutex<Known>);

#[derive(Default)]
struct Known {
    endpoints: Option<(u64, Endpoints)>,
    keys: Option<(u64, KeySet)>,
    /// The last failure: issuer, time and reason.
    failed: Option<(String, u64, String)>,
}

/// The reply of the token endpoint.
#[derive(Deserialize)]
struct Tokens {
    id_token: String,
    access_token: Option<String>,
}

/// The refusal of the token endpoint.
#[derive(Deserialize)]
struct Refusal {
    error: String,
}

/// The inputs for the exchange of a code.
pub(super) struct CodeExchange<'a> {
    pub(super) code: &'a str,
    pub(super) verifier: &'a Secret,
    pub(super) expected: Expected<'a>,
}

impl Providers {
    /// Returns the endpoints. Only one request at a time uses the provider; other requests fail
    /// instead of waiting.
    pub(super) fn endpoints(
        &self,
        settings: &OidcSettings,
        now: u64,
        ask: Ask<'_>,
    ) -> Result<Endpoints, OidcFault> {
        self.known()?.endpoints(settings, now, ask)
    }

    fn known(&self) -> Result<MutexGuard<'_, Known>, OidcFault> {
        match self.0.try_lock() {
            Ok(known) => Ok(known),
            Err(TryLockError::Poisoned(known)) => Ok(known.into_inner()),
            Err(TryLockError::WouldBlock) => Err(OidcFault::Busy),
        }
    }

    /// Exchanges a code for the claims of the user who logged in.
    pub(super) fn exchange(
        &self,
        exchange: &CodeExchange<'_>,
        ask: Ask<'_>,
    ) -> Result<Claims, OidcFault> {
        let Expected { settings, now, .. } = exchange.expected;
        let endpoints = self.endpoints(settings, now, ask)?;
        let tokens = redeem(&endpoints, exchange, ask)?;
        let mut claims = self.verified(&tokens.id_token, &endpoints, exchange, ask)?;
        let lacks = |name: &String| !claims.contains_key(name);
        if lacks(&settings.name_claim) || lacks(&settings.role_claim) {
            add_userinfo(&mut claims, &endpoints, tokens.access_token, ask)?;
        }
        Ok(claims)
    }

    /// Verifies a token. If no key fits, the keys are fetched again.
    fn verified(
        &self,
        token: &str,
        endpoints: &Endpoints,
        exchange: &CodeExchange<'_>,
        ask: Ask<'_>,
    ) -> Result<Claims, OidcFault> {
        let (expected, now) = (&exchange.expected, exchange.expected.now);
        let mut known = self.known()?;
        let keys = known.keys(endpoints, (now, KEPT_SECS), ask)?;
        match verify(token, &keys, expected) {
            Err(TokenFault::NoKey) => {
                let keys = known.keys(endpoints, (now, PAUSE_SECS), ask)?;
                Ok(verify(token, &keys, expected)?)
            }
            verified => Ok(verified?),
        }
    }
}

impl Known {
    fn endpoints(
        &mut self,
        settings: &OidcSettings,
        now: u64,
        ask: Ask<'_>,
    ) -> Result<Endpoints, OidcFault> {
        let issuer = &settings.issuer;
        let is_fresh = |at: u64, secs: u64| now.saturating_sub(at) < secs;
        match &self.endpoints {
            Some((at, known)) if known.issuer == *issuer && is_fresh(*at, KEPT_SECS) => {
                return Ok(known.clone());
            }
            _ => {}
        }
        if let Some((of, at, reason)) = &self.failed
            && of == issuer
            && is_fresh(*at, PAUSE_SECS)
        {
            return Err(OidcFault::Provider(reason.clone()));
        }
        let found = discover(issuer, ask).inspect_err(|fault| {
            if let OidcFault::Provider(reason) = fault {
                self.failed = Some((issuer.clone(), now, reason.clone()));
            }
        })?;
        // Keys belong to the issuer.
        if self.endpoints.as_ref().is_none_or(|(_, known)| known.issuer != found.issuer) {
            self.keys = None;
        }
        self.endpoints = Some((now, found.clone()));
        Ok(found)
    }

    /// Returns keys that are not older than some seconds.
    fn keys(
        &mut self,
        endpoints: &Endpoints,
        (now, secs): (u64, u64),
        ask: Ask<'_>,
    ) -> Result<KeySet, OidcFault> {
        match &self.keys {
            Some((at, keys)) if now.saturating_sub(*at) < secs => Ok(keys.clone()),
            _ => {
                let keys: KeySet = get(&endpoints.jwks_uri, None, ask)?;
                self.keys = Some((now, keys.clone()));
                Ok(keys)
            }
        }
    }
}

fn discover(issuer: &str, ask: Ask<'_>) -> Result<Endpoints, OidcFault> {
    let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
    let mut found: Endpoints = get(&url, None, ask)?;
    if found.issuer != issuer {
        return Err(OidcFault::Provider(format!("it calls itself {:?}", found.issuer)));
    }
    let urls = [&found.authorization_endpoint, &found.token_endpoint, &found.jwks_uri];
    let is_downgrade = |url: &String| match issuer.starts_with("https://") {
        true => !url.starts_with("https://"),
        false => !url.starts_with("http://") && !url.starts_with("https://"),
    };
    if urls.into_iter().chain(&found.userinfo_endpoint).any(is_downgrade) {
        return Err(OidcFault::Provider("an endpoint is not https".to_owned()));
    }
    // Log-in does not need this endpoint. Without it, a session ends only on this server.
    found.end_session_endpoint = found.end_session_endpoint.filter(|url| !is_downgrade(url));
    Ok(found)
}

/// Exchanges the code for tokens.
fn redeem(
    endpoints: &Endpoints,
    exchange: &CodeExchange<'_>,
    ask: Ask<'_>,
) -> Result<Tokens, OidcFault> {
    let settings = exchange.expected.settings;
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.append_pair("grant_type", "authorization_code")
        .append_pair("code", exchange.code)
        .append_pair("redirect_uri", &settings.redirect_uri())
        .append_pair("code_verifier", exchange.verifier.reveal());
    let methods = endpoints.token_endpoint_auth_methods_supported.as_ref();
    let is_basic =
        methods.is_none_or(|methods| methods.iter().any(|method| method == "client_secret_basic"));
    let authorization = match &settings.client_secret {
        Some(secret) if is_basic => Some(basic(&settings.client_id, secret)),
        Some(secret) => {
            form.append_pair("client_id", &settings.client_id);
            form.append_pair("client_secret", secret.reveal());
            None
        }
        None => {
            form.append_pair("client_id", &settings.client_id);
            None
        }
    };
    let form = Some(Secret::new(form.finish()));
    let url = endpoints.token_endpoint.clone();
    let response = ask(&ProviderRequest { url, authorization, form }).map_err(silent)?;
    match response.status {
        200 => read(&response.body),
        400..500 => {
            let refusal: Option<Refusal> = serde_json::from_slice(&response.body).ok();
            Err(OidcFault::Denied(refusal.map_or_else(String::new, |refusal| refusal.error)))
        }
        status => Err(OidcFault::Provider(format!("status {status}"))),
    }
}

/// Returns the credentials of a client (RFC 6749 §2.3.1).
fn basic(client: &str, secret: &Secret) -> Secret {
    let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let pair = format!("{}:{}", encoded(client), encoded(secret.reveal()));
    Secret::new(format!("Basic {}", BASE64.encode(pair.as_bytes())))
}

/// Adds claims of the userinfo endpoint. Claims of the token take precedence.
fn add_userinfo(
    claims: &mut Claims,
    endpoints: &Endpoints,
    access_token: Option<String>,
    ask: Ask<'_>,
) -> Result<(), OidcFault> {
    let (Some(url), Some(token)) = (&endpoints.userinfo_endpoint, access_token) else {
        return Ok(());
    };
    let found: Claims = get(url, Some(Secret::new(format!("Bearer {token}"))), ask)?;
    // OpenID Connect Core 1.0 §5.3.2.
    if found.get("sub") != claims.get("sub") {
        return Err(OidcFault::Token("userinfo is about another subject"));
    }
    for (name, value) in found {
        claims.entry(name).or_insert(value);
    }
    Ok(())
}

fn get<T: DeserializeOwned>(
    url: &str,
    authorization: Option<Secret>,
    ask: Ask<'_>,
) -> Result<T, OidcFault> {
    let request = ProviderRequest { url: url.to_owned(), authorization, form: None };
    let response = ask(&request).map_err(silent)?;
    match response.status {
        200 => read(&response.body),
        status => Err(OidcFault::Provider(format!("{url}: status {status}"))),
    }
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, OidcFault> {
    serde_json::from_slice(body)
        .map_err(|error| OidcFault::Provider(format!("its reply is malformed: {error}")))
}

fn silent(ProviderSilence(reason): ProviderSilence) -> OidcFault {
    OidcFault::Provider(reason)
}
