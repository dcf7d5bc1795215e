//! Obtains a certificate: creates the account and the order, and proves the control of the names
//! (RFC 8555 §7.4).

use std::time::Duration;

use data_encoding::BASE64URL_NOPAD;
use serde::de::DeserializeOwned;
use serde_json::json;
use zeroize::Zeroizing;

use crate::error::AcmeError;
use crate::key::{AccountKey, CertificateKey};
use crate::message::{Authorization, MAX_ITEMS, Order, Problem, ProgressState};
use crate::proof::{ChallengeKind, Proof};
use crate::requests::{Authority, Received, Signer};
use crate::world::World;

/// Bounds of the wait between two requests for the state of an order, in seconds. The authority may
/// state a wait within these bounds.
const POLL_SECS: (u64, u64) = (2, 30);
/// Maximum number of seconds for which the state of one resource is requested.
const MOST_STEP_SECS: u64 = 300;

/// The certificate that is requested from the authority.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The host names, all of them in one certificate.
    pub names: &'a [String],
    /// The kind of challenge that proves the control of the names.
    pub challenge: ChallengeKind,
    /// The mail address of the operator, which the authority gets.
    pub email: Option<&'a str>,
    /// The identifier of the certificate that the new certificate replaces (RFC 9773 §5).
    pub replaces: Option<&'a str>,
}

/// An account at an authority.
#[derive(Debug)]
pub struct Account {
    /// The key of the account.
    pub key: AccountKey,
    /// The URL of the account; `None` before the authority knows it.
    pub url: Option<String>,
}

/// A certificate that the authority has issued.
pub struct Issued {
    /// The certificate and those of its issuers, in PEM form.
    pub chain: String,
    /// The key of the certificate, in PEM form.
    pub key: Zeroizing<String>,
}

/// Obtains a certificate. If the authority does not know the account, creates it, agrees to the
/// terms of the authority, and sets the URL of the account.
///
/// # Errors
/// The authority refuses a step or does not respond, a proof cannot be presented, or [`World`]
/// stops the attempt. All proofs are withdrawn, also after an error.
pub fn obtain<W: World>(
    authority: &mut Authority<'_, W>,
    account: &mut Account,
    wanted: &Wanted<'_>,
) -> Result<Issued, AcmeError> {
    let result = match account.url {
        Some(_) => ordered(authority, account, wanted),
        None => {
            register(authority, account, wanted).and_then(|()| ordered(authority, account, wanted))
        }
    };
    let result = match result {
        // The authority no longer knows the account: the authority was reset, or the account was
        // removed.
        Err(AcmeError::Refused { problem, .. }) if problem.kind == "accountDoesNotExist" => {
            account.url = None;
            register(authority, account, wanted).and_then(|()| ordered(authority, account, wanted))
        }
        result => result,
    };
    authority.world.withdraw();
    result
}

/// Creates the account, or finds the account that has this key (RFC 8555 §7.3).
fn register<W: World>(
    authority: &mut Authority<'_, W>,
    account: &mut Account,
    wanted: &Wanted<'_>,
) -> Result<(), AcmeError> {
    let step = "the account";
    let mut facts = json!({ "termsOfServiceAgreed": true });
    if let Some(email) = wanted.email {
        facts["contact"] = json!([format!("mailto:{email}")]);
    }
    let url = authority.directory.new_account.clone();
    let signer = Signer { key: &account.key, url: None };
    let received: Received<serde_json::Value> = authority.read(step, &url, signer, Some(&facts))?;
    let invalid = || AcmeError::Invalid { step, what: "it has no URL".to_owned() };
    account.url = Some(received.location.ok_or_else(invalid)?);
    Ok(())
}

fn ordered<W: World>(
    authority: &mut Authority<'_, W>,
    account: &Account,
    wanted: &Wanted<'_>,
) -> Result<Issued, AcmeError> {
    let signer = Signer { key: &account.key, url: account.url.as_deref() };
    let received = begin(authority, signer, wanted)?;
    let invalid = |what: &str| AcmeError::Invalid { step: "the order", what: what.to_owned() };
    let order_url = received.location.ok_or_else(|| invalid("it has no URL"))?;
    let order = received.value;
    if order.authorizations.len() > MAX_ITEMS {
        return Err(invalid("it has too many authorizations"));
    }
    if order.status == ProgressState::Pending {
        prove(authority, signer, &order.authorizations, wanted.challenge)?;
    }
    let mut order = until(authority, "the order", &order_url, signer, |order: &Order| {
        order.status != ProgressState::Pending
    })?;
    let key = CertificateKey::draw()?;
    if order.status == ProgressState::Ready {
        let request = BASE64URL_NOPAD.encode(&key.request(wanted.names)?);
        let body = json!({ "csr": request });
        authority.post("the request for the certificate", &order.finalize, signer, Some(&body))?;
        order = until(authority, "the certificate", &order_url, signer, |order: &Order| {
            !matches!(order.status, ProgressState::Processing | ProgressState::Ready)
        })?;
    }
    if order.status != ProgressState::Valid {
        let problem = order.error.unwrap_or_default();
        return Err(AcmeError::Order(problem.shown(0, None)));
    }
    let url = order.certificate.ok_or_else(|| invalid("it has no certificate"))?;
    let chain = authority.post("the request for the chain", &url, signer, None)?.body;
    let chain = String::from_utf8(chain).map_err(|_| invalid("the certificate is no text"))?;
    Ok(Issued { chain, key: key.to_pem()? })
}

/// Places the order (RFC 8555 §7.4). If the authority does not accept that the order replaces
/// another certificate, places the order without the field `replaces` (RFC 9773 §5).
fn begin<W: World>(
    authority: &mut Authority<'_, W>,
    signer: Signer<'_>,
    wanted: &Wanted<'_>,
) -> Result<Received<Order>, AcmeError> {
    let names = wanted.names.iter().map(|name| json!({ "type": "dns", "value": name }));
    let mut body = json!({ "identifiers": names.collect::<Vec<_>>() });
    let url = authority.directory.new_order.clone();
    if let Some(replaced) = wanted.replaces.filter(|_| authority.directory.renewal_info.is_some()) {
        let mut replacing = body.clone();
        replacing["replaces"] = replaced.into();
        match authority.read("the order", &url, signer, Some(&replacing)) {
            Err(AcmeError::Refused { problem, .. })
                if matches!(problem.status, 400 | 404 | 409)
                    && !matches!(
                        problem.kind.as_str(),
                        "rateLimited" | "accountDoesNotExist" | "rejectedIdentifier"
                    ) => {}
            result => return result,
        }
    }
    authority.read("the order", &url, signer, Some(&std::mem::take(&mut body)))
}

/// Presents the proofs of all names that need one, and then requests that the authority verify
/// them.
fn prove<W: World>(
    authority: &mut Authority<'_, W>,
    signer: Signer<'_>,
    urls: &[String],
    kind: ChallengeKind,
) -> Result<(), AcmeError> {
    let (step, thumbprint) = ("the proof", signer.key.thumbprint());
    let mut shown = Vec::new();
    for url in urls {
        let one: Authorization = authority.read(step, url, signer, None)?.value;
        if one.status == ProgressState::Valid {
            continue;
        }
        let name = one.identifier.value.to_ascii_lowercase();
        let offered = one.challenges.iter().take(MAX_ITEMS);
        let Some(challenge) = offered.clone().find(|one| one.kind == kind.text()) else {
            let offered: Vec<_> = offered.map(|one| one.kind.as_str()).collect();
            let offered = crate::error::printable(&offered.join(", "));
            return Err(AcmeError::NotOffered { name, kind: kind.text(), offered });
        };
        let proof = Proof::new(kind, &name, &challenge.token, &thumbprint);
        let invalid = || AcmeError::Invalid { step, what: "its token is no word".to_owned() };
        let proof = proof.ok_or_else(invalid)?;
        let presented = authority.world.present(&proof);
        presented.map_err(|source| AcmeError::Present { name: name.clone(), source })?;
        shown.push((url, challenge.url.clone()));
    }
    for (_, challenge) in &shown {
        authority.post(step, challenge, signer, Some(&json!({})))?;
    }
    for (url, _) in &shown {
        let is_done = |one: &Authorization| one.status != ProgressState::Pending;
        let one = until(authority, "the proof of a name", url, signer, is_done)?;
        if one.status != ProgressState::Valid {
            return Err(refused_proof(&one, kind));
        }
    }
    Ok(())
}

fn refused_proof(one: &Authorization, kind: ChallengeKind) -> AcmeError {
    let none = Problem::default();
    let problem = one.challenges.iter().find_map(|one| one.error.as_ref()).unwrap_or(&none);
    AcmeError::Proof {
        name: crate::error::printable(&one.identifier.value),
        kind: kind.text(),
        problem: problem.shown(0, None),
    }
}

/// Requests a resource repeatedly until `is_done` accepts its state, but for at most
/// [`MOST_STEP_SECS`].
fn until<W: World, T: DeserializeOwned>(
    authority: &mut Authority<'_, W>,
    step: &'static str,
    url: &str,
    signer: Signer<'_>,
    is_done: impl Fn(&T) -> bool,
) -> Result<T, AcmeError> {
    let mut waited_secs = 0;
    loop {
        let received: Received<T> = authority.read(step, url, signer, None)?;
        if is_done(&received.value) {
            return Ok(received.value);
        }
        if waited_secs >= MOST_STEP_SECS {
            return Err(AcmeError::TooSlow(step));
        }
        let wait = received.retry_after_secs.unwrap_or(0).clamp(POLL_SECS.0, POLL_SECS.1);
        authority.world.wait(Duration::from_secs(wait))?;
        waited_secs += wait;
    }
}
