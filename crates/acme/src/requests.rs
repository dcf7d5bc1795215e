//! Signed requests to an authority, each with a new nonce (RFC 8555 §6).

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::error::AcmeError;
use crate::key::AccountKey;
use crate::message::{Directory, Problem};
use crate::world::{AuthorityRequest, AuthorityResponse, World};

/// Maximum number of octets of a response body: a chain of certificates has less than 20 KiB.
pub const MAX_AUTHORITY_BODY: usize = 256 << 10;
/// Maximum number of times that a request is repeated with a new nonce (RFC 8555 §6.5).
const MAX_NONCES: usize = 5;
/// Maximum number of octets of a nonce or URL.
const MAX_FIELD: usize = 2_048;

/// A client of an authority: its directory, and the nonce for the next request.
pub struct Authority<'w, W> {
    pub(crate) world: &'w mut W,
    pub(crate) directory: Directory,
    nonce: Option<String>,
}

/// The account that signs a request, and how the request identifies it (RFC 8555 §6.2).
#[derive(Clone, Copy)]
pub(crate) struct Signer<'a> {
    pub(crate) key: &'a AccountKey,
    /// The URL of the account; `None` for the request that creates it.
    pub(crate) url: Option<&'a str>,
}

impl<'w, W: World> Authority<'w, W> {
    /// Reads the directory of an authority (RFC 8555 §7.1.1).
    ///
    /// # Errors
    /// There is no directory at the URL.
    pub fn open(world: &'w mut W, url: &str) -> Result<Self, AcmeError> {
        let request = AuthorityRequest { url: url.to_owned(), body: None };
        let response = accepted("the request for its directory", world.exchange(&request)?)?;
        let directory = parsed("the request for its directory", &response)?;
        Ok(Self { world, directory, nonce: None })
    }

    /// Sends a request without signature, and returns its body.
    pub(crate) fn get<T: DeserializeOwned>(
        &mut self,
        step: &'static str,
        url: String,
    ) -> Result<Received<T>, AcmeError> {
        let response = accepted(step, self.world.exchange(&AuthorityRequest { url, body: None })?)?;
        Received::of(step, response)
    }

    /// Sends a signed request. Without a payload, the request reads a resource (RFC 8555 §6.3).
    ///
    /// # Errors
    /// The authority refuses the request, or does not respond.
    pub(crate) fn post(
        &mut self,
        step: &'static str,
        url: &str,
        signer: Signer<'_>,
        payload: Option<&Value>,
    ) -> Result<AuthorityResponse, AcmeError> {
        let payload = payload.map_or_else(Vec::new, |payload| payload.to_string().into_bytes());
        let mut tries = 0;
        loop {
            let mut header = json!({ "alg": "ES256", "nonce": self.take_nonce()?, "url": url });
            match signer.url {
                Some(account) => header["kid"] = account.into(),
                None => header["jwk"] = signer.key.public(),
            }
            let body = Some(signer.key.signed(&header, &payload)?);
            let response = self.world.exchange(&AuthorityRequest { url: url.to_owned(), body })?;
            self.nonce = response.nonce.clone().filter(|nonce| is_field(nonce));
            tries += 1;
            match accepted(step, response) {
                Err(AcmeError::Refused { problem, .. })
                    if problem.kind == "badNonce" && tries < MAX_NONCES => {}
                result => return result,
            }
        }
    }

    /// Sends a request like [`Self::post`] and reads the response as JSON.
    pub(crate) fn read<T: DeserializeOwned>(
        &mut self,
        step: &'static str,
        url: &str,
        signer: Signer<'_>,
        payload: Option<&Value>,
    ) -> Result<Received<T>, AcmeError> {
        Received::of(step, self.post(step, url, signer, payload)?)
    }

    fn take_nonce(&mut self) -> Result<String, AcmeError> {
        if let Some(nonce) = self.nonce.take() {
            return Ok(nonce);
        }
        let step = "the request for a nonce";
        let request = AuthorityRequest { url: self.directory.new_nonce.clone(), body: None };
        let response = accepted(step, self.world.exchange(&request)?)?;
        let nonce = response.nonce.filter(|nonce| is_field(nonce));
        nonce.ok_or_else(|| AcmeError::Invalid { step, what: "it has no nonce".to_owned() })
    }
}

/// A response in JSON.
pub(crate) struct Received<T> {
    pub(crate) value: T,
    pub(crate) location: Option<String>,
    pub(crate) retry_after_secs: Option<u64>,
}

impl<T: DeserializeOwned> Received<T> {
    fn of(step: &'static str, response: AuthorityResponse) -> Result<Self, AcmeError> {
        let value = parsed(step, &response)?;
        let location = response.location.filter(|location| is_field(location));
        Ok(Self { value, location, retry_after_secs: response.retry_after_secs })
    }
}

/// Returns whether a field of a response, such as a nonce, is safe to use in a request.
fn is_field(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= MAX_FIELD
        && text.bytes().all(|octet| octet.is_ascii_graphic())
}

fn accepted(
    step: &'static str,
    response: AuthorityResponse,
) -> Result<AuthorityResponse, AcmeError> {
    match response.status {
        200..=299 if response.body.len() <= MAX_AUTHORITY_BODY => Ok(response),
        200..=299 => Err(AcmeError::Invalid { step, what: "it is too long".to_owned() }),
        status => {
            let problem: Problem = serde_json::from_slice(&response.body).unwrap_or_default();
            Err(AcmeError::Refused {
                step,
                problem: problem.shown(status, response.retry_after_secs),
            })
        }
    }
}

fn parsed<T: DeserializeOwned>(
    step: &'static str,
    response: &AuthorityResponse,
) -> Result<T, AcmeError> {
    serde_json::from_slice(&response.body)
        .map_err(|error| AcmeError::Invalid { step, what: error.to_string() })
}
