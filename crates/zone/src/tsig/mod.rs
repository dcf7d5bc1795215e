//! Transaction signatures (TSIG, RFC 8945): messages that are signed and verified with a shared
//! secret.
//!
//! ```text
//! server:  TsigRecord::find -> find the key -> verify_request -> bare message -> reply
//!          reply -> TsigSigner::sign, once for each message of the reply
//! client:  TsigSigner::of_request -> query -> TsigVerifier::take, once for each message
//! ```
//! The time is an argument of functions. A message is not trusted before its MAC was compared.

mod key;
mod record;

use std::sync::Arc;

use aws_lc_rs::{constant_time, hmac};

pub use key::{MAX_TSIG_SECRET, MIN_TSIG_SECRET, TsigAlgorithm, TsigKey};
pub use record::{MAX_TSIG, TsigError, TsigMalformed, TsigRecord};
use record::{TsigNames, TsigValues, append};

/// Maximum difference of the clocks in seconds (the fudge of RFC 8945 §10).
const FUDGE_SECS: u16 = 300;
/// Maximum number of consecutive messages of a transfer that are not signed (RFC 8945 §5.3.1).
const MAX_UNSIGNED: usize = 99;

/// The reason why a signed request is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TsigFault {
    /// The MAC has more octets than the digest, or too few. The reply is FORMERR (RFC 8945
    /// §5.2.2.1).
    Malformed,
    /// The reply is NOTAUTH with this error in its TSIG record.
    NotAuth(TsigError),
}

/// The reason why a reply is not trusted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum UntrustedReply {
    /// The TSIG record is malformed.
    #[error("the TSIG record is malformed")]
    Malformed,
    /// The reply is not signed, although the query was.
    #[error("the reply is not signed")]
    Unsigned,
    /// The reply is signed with another key.
    #[error("the reply is signed with another key or algorithm")]
    OtherKey,
    /// The MAC does not match.
    #[error("the signature of the reply is wrong")]
    BadSig,
    /// The time of signing differs too much from the clock of this server.
    #[error("the reply was signed at another time: compare the clocks of both servers")]
    BadTime,
    /// The server reports an error in its TSIG record.
    #[error("the server refuses the signature of the query: {}", .0.name())]
    Reported(TsigError),
}

/// Verifies a request, and returns the signer of the reply.
///
/// # Errors
/// The key is not known, the MAC has an invalid length, the MAC does not match, the time differs
/// too much, or the MAC is truncated. They are checked in this order (RFC 8945 §5.2).
pub fn verify_request(
    message: &[u8],
    record: &TsigRecord<'_>,
    key: Option<&Arc<TsigKey>>,
    now_secs: u64,
) -> Result<TsigSigner, TsigFault> {
    let key = key.filter(|key| key.algorithm().wire() == record.algorithm.view().wire());
    let Some(key) = key else { return Err(TsigFault::NotAuth(TsigError::BadKey)) };
    check_mac(message, record, key, &[])?;
    if now_secs.abs_diff(record.signed_at_secs) > u64::from(record.fudge_secs) {
        return Err(TsigFault::NotAuth(TsigError::BadTime));
    }
    if record.mac.len() < key.algorithm().mac_len() {
        return Err(TsigFault::NotAuth(TsigError::BadTrunc));
    }
    Ok(TsigSigner::replying(key, record))
}

fn check_mac(
    message: &[u8],
    record: &TsigRecord<'_>,
    key: &TsigKey,
    prior: &[u8],
) -> Result<(), TsigFault> {
    let algorithm = key.algorithm();
    if !(algorithm.min_mac_len()..=algorithm.mac_len()).contains(&record.mac.len()) {
        return Err(TsigFault::Malformed);
    }
    let mut context = begin(key, prior);
    context.update(&record.bare(message));
    update_variables(&mut context, TsigNames::of(key), &variables(record), record.other);
    match is_same(context, record.mac) {
        true => Ok(()),
        false => Err(TsigFault::NotAuth(TsigError::BadSig)),
    }
}

fn variables(record: &TsigRecord<'_>) -> TsigValues {
    let TsigRecord { signed_at_secs, fudge_secs, error, .. } = *record;
    TsigValues { signed_at_secs, fudge_secs, error, other: None }
}

/// Begins to compute a MAC, which starts with the previous MAC (RFC 8945 §4.3.1).
fn begin(key: &TsigKey, prior: &[u8]) -> hmac::Context {
    let mut context = hmac::Context::with_key(&key.hmac);
    if !prior.is_empty() {
        context.update(&(prior.len() as u16).to_be_bytes());
        context.update(prior);
    }
    context
}

/// Adds the TSIG variables to a MAC (RFC 8945 §4.3.3).
fn update_variables(
    context: &mut hmac::Context,
    names: TsigNames<'_>,
    values: &TsigValues,
    other: &[u8],
) {
    context.update(names.key);
    context.update(&[0, 255, 0, 0, 0, 0]);
    context.update(names.algorithm);
    context.update(&TsigValues::timers(values.signed_at_secs, values.fudge_secs));
    context.update(&values.error.code().to_be_bytes());
    context.update(&(other.len() as u16).to_be_bytes());
    context.update(other);
}

/// Compares a MAC, which may be truncated, in constant time.
fn is_same(context: hmac::Context, mac: &[u8]) -> bool {
    let whole = context.sign();
    whole.as_ref().get(..mac.len()).is_some_and(|computed| {
        !mac.is_empty() && constant_time::verify_slices_are_equal(computed, mac).is_ok()
    })
}

/// A signer of a request, or of the messages of a reply in their order.
#[derive(Clone, Debug)]
pub struct TsigSigner {
    key: Arc<TsigKey>,
    /// The previous MAC: at first that of the request, later that of the last signed message.
    prior: Vec<u8>,
    /// Whether the first message of a reply was already signed.
    is_later: bool,
}

impl TsigSigner {
    /// Creates the signer of a request.
    #[must_use]
    pub fn of_request(key: &Arc<TsigKey>) -> Self {
        Self { key: key.clone(), prior: Vec::new(), is_later: false }
    }

    fn replying(key: &Arc<TsigKey>, record: &TsigRecord<'_>) -> Self {
        Self { key: key.clone(), prior: record.mac.to_vec(), is_later: false }
    }

    /// Returns the key of the signer.
    #[must_use]
    pub fn key(&self) -> &Arc<TsigKey> {
        &self.key
    }

    /// Signs a message: appends its TSIG record. The message must have a header.
    pub fn sign(&mut self, message: &mut Vec<u8>, now_secs: u64) {
        let values = TsigValues {
            signed_at_secs: now_secs,
            fudge_secs: FUDGE_SECS,
            error: TsigError::None,
            other: None,
        };
        self.sign_values(message, &values);
    }

    fn sign_values(&mut self, message: &mut Vec<u8>, values: &TsigValues) {
        let mut context = begin(&self.key, &self.prior);
        context.update(message);
        let names = TsigNames::of(&self.key);
        if self.is_later {
            // In later messages of a reply, only the time and the fudge are signed (RFC 8945
            // §5.3.1).
            context.update(&TsigValues::timers(values.signed_at_secs, values.fudge_secs));
        } else {
            update_variables(&mut context, names, values, &values.other());
        }
        let mac = context.sign();
        let mac = &mac.as_ref()[..self.key.algorithm().mac_len()];
        append(message, names, values, mac);
        (self.prior, self.is_later) = (mac.to_vec(), true);
    }

    /// Returns the verifier of the reply. The request must already be signed.
    #[must_use]
    pub fn verifier(&self) -> TsigVerifier {
        let (key, prior) = (self.key.clone(), self.prior.clone());
        TsigVerifier { key, prior, pending: Vec::new(), unsigned: 0, is_later: false }
    }
}

/// Appends a TSIG record with an error to a reply (RFC 8945 §5.3.2). The reply is signed if the MAC
/// of the request was right, which is the case with BADTIME and BADTRUNC, and has no MAC otherwise.
pub fn append_error(
    reply: &mut Vec<u8>,
    record: &TsigRecord<'_>,
    (error, key): (TsigError, Option<&Arc<TsigKey>>),
    now_secs: u64,
) {
    let other = (error == TsigError::BadTime).then_some(now_secs);
    let values = TsigValues { error, other, ..variables(record) };
    let is_signed = matches!(error, TsigError::BadTime | TsigError::BadTrunc);
    match key.filter(|_| is_signed) {
        Some(key) => TsigSigner::replying(key, record).sign_values(reply, &values),
        None => {
            let (name, algorithm) = (record.name.view(), record.algorithm.view());
            let names = TsigNames { key: name.wire(), algorithm: algorithm.wire() };
            append(reply, names, &values, &[]);
        }
    }
}

/// A verifier of the messages of a reply in their order.
#[derive(Debug)]
pub struct TsigVerifier {
    key: Arc<TsigKey>,
    prior: Vec<u8>,
    /// The messages since the last signed one.
    pending: Vec<u8>,
    unsigned: usize,
    is_later: bool,
}

impl TsigVerifier {
    /// Verifies the next message. A message without a signature may only be used after a signed one
    /// has followed. The last message of a reply must be signed; see [`Self::is_complete`].
    ///
    /// # Errors
    /// See [`UntrustedReply`].
    pub fn take(&mut self, message: &[u8], now_secs: u64) -> Result<(), UntrustedReply> {
        let record = TsigRecord::find(message).map_err(|_| UntrustedReply::Malformed)?;
        let Some(record) = record else {
            // The first message must be signed, and then at least every hundredth one (RFC 8945
            // §5.3.1).
            if !self.is_later || self.unsigned == MAX_UNSIGNED {
                return Err(UntrustedReply::Unsigned);
            }
            self.unsigned += 1;
            self.pending.extend_from_slice(message);
            return Ok(());
        };
        let (name, algorithm) = (record.name.view(), record.algorithm.view());
        let names = TsigNames::of(&self.key);
        if (name.wire(), algorithm.wire()) != (names.key, names.algorithm) {
            return Err(UntrustedReply::OtherKey);
        }
        if record.mac.is_empty() && record.error != TsigError::None {
            return Err(UntrustedReply::Reported(record.error));
        }
        if record.mac.len() != self.key.algorithm().mac_len() {
            return Err(UntrustedReply::BadSig);
        }
        let mut context = begin(&self.key, &self.prior);
        context.update(&self.pending);
        context.update(&record.bare(message));
        if self.is_later {
            context.update(&TsigValues::timers(record.signed_at_secs, record.fudge_secs));
        } else {
            update_variables(&mut context, names, &variables(&record), record.other);
        }
        if !is_same(context, record.mac) {
            return Err(UntrustedReply::BadSig);
        }
        if record.error != TsigError::None {
            return Err(UntrustedReply::Reported(record.error));
        }
        if now_secs.abs_diff(record.signed_at_secs) > u64::from(record.fudge_secs) {
            return Err(UntrustedReply::BadTime);
        }
        (self.prior, self.is_later, self.unsigned) = (record.mac.to_vec(), true, 0);
        self.pending.clear();
        Ok(())
    }

    /// Reports whether the last message was signed, so that all messages are verified.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.is_later && self.unsigned == 0
    }
}
