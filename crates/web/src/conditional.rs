//! Protection against writes that overwrite others or are repeated: entity tags with `If-Match`
//! (RFC 9110 §13), and idempotency keys.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use aws_lc_rs::digest::{Context, SHA256};
use data_encoding::HEXLOWER;
use serde_json::Value;
use zeroize::Zeroizing;

/// Fields that change without a write.
///
/// A revision changes with every edit, also of other parts of the configuration.
const VOLATILE: [&str; 5] = ["now", "left-secs", "held", "answers", "revision"];
/// Maximum number of replies that are kept for repetitions.
const MAX_KEPT: usize = 256;
/// Largest reply that is kept, in octets.
const MAX_REPLY: usize = 64 << 10;
/// Seconds for which a reply is kept.
const KEPT_SECS: u64 = 600;
/// Longest key in octets.
pub(crate) const MAX_KEY: usize = 128;

/// Returns the entity tag of a resource.
pub(crate) fn tag(resource: &Value) -> String {
    let mut steady = resource.clone();
    drop_volatile(&mut steady);
    format!("\"{}\"", &fingerprint(&[steady.to_string().as_bytes()])[..32])
}

fn drop_volatile(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !VOLATILE.contains(&name.as_str()));
            fields.values_mut().for_each(drop_volatile);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_volatile),
        _ => {}
    }
}

/// Returns whether a list of entity tags in a header contains the given tag.
pub(crate) fn matches(header: &str, tag: &str) -> bool {
    header.split(',').any(|one| one.trim() == "*" || one.trim() == tag)
}

/// Returns a digest of some octet strings in hexadecimal.
pub(crate) fn fingerprint(parts: &[&[u8]]) -> String {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    HEXLOWER.encode(context.finish().as_ref())
}

/// A reply that is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct KeptReply {
    pub(crate) status: u16,
    /// The body, which is erased from memory because it may contain a token.
    pub(crate) body: Zeroizing<Vec<u8>>,
}

struct KeptRequest {
    fingerprint: String,
    began: u64,
    reply: Option<KeptReply>,
}

/// The treatment of a request with an idempotency key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum KeyUse {
    /// The request is the first with the key: serve it, then call [`IdempotencyKeys::finish`].
    First,
    /// The request is a repetition of an earlier one, which had this reply.
    Repeated(KeptReply),
    /// The first request with the key is in progress.
    InProgress,
    /// The key belongs to another request.
    OtherRequest,
    /// All places are taken by requests in progress.
    Full,
}

/// The keys of the last minutes, with their replies.
#[derive(Default)]
pub(crate) struct IdempotencyKeys(Mutex<HashMap<String, KeptRequest>>);

impl IdempotencyKeys {
    /// Begins a request. `key` includes the author of the request, so that no author gets the reply
    /// to another author.
    pub(crate) fn begin(&self, key: &str, fingerprint: &str, now: u64) -> KeyUse {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|_, one| one.reply.is_none() || now.saturating_sub(one.began) < KEPT_SECS);
        match kept.get(key) {
            Some(one) if one.fingerprint != fingerprint => KeyUse::OtherRequest,
            Some(KeptRequest { reply: None, .. }) => KeyUse::InProgress,
            Some(KeptRequest { reply: Some(reply), .. }) => KeyUse::Repeated(reply.clone()),
            None => {
                if kept.len() >= MAX_KEPT {
                    let done = kept.iter().filter(|(_, one)| one.reply.is_some());
                    let oldest = done.min_by_key(|(_, one)| one.began).map(|(key, _)| key.clone());
                    let Some(oldest) = oldest else { return KeyUse::Full };
                    kept.remove(&oldest);
                }
                let fingerprint = fingerprint.to_owned();
                kept.insert(key.to_owned(), KeptRequest { fingerprint, began: now, reply: None });
                KeyUse::First
            }
        }
    }

    /// Ends a request. If it failed because of the server, its key is free again.
    pub(crate) fn finish(&self, key: &str, reply: KeptReply) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if reply.status >= 500 || reply.body.len() > MAX_REPLY {
            kept.remove(key);
        } else if let Some(one) = kept.get_mut(key) {
            one.reply = Some(reply);
        }
    }

    /// Frees the key of a request that ended without a reply.
    pub(crate) fn abandon(&self, key: &str) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.get(key).is_some_and(|one| one.reply.is_none()) {
            kept.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reply(status: u16) -> KeptReply {
        KeptReply { status, body: Zeroizing::new(b"{}".to_vec()) }
    }

    #[test]
    fn a_tag_follows_the_content_and_not_the_clock() {
        let one = json!({"now": 1, "anchors": [{"name": "a.", "until": 5}]});
        let later = json!({"now": 2, "anchors": [{"name": "a.", "until": 5}]});
        let other = json!({"now": 2, "anchors": []});
        assert_eq!(tag(&one), tag(&later));
        assert_ne!(tag(&one), tag(&other));
        let tag = tag(&one);
        assert!(
            matches(&tag, &tag) && matches("*", &tag) && matches(&format!("\"x\", {tag}"), &tag)
        );
        assert!(!matches("\"x\"", &tag) && !matches("", &tag));
    }

    #[test]
    fn a_repetition_gets_the_first_reply_for_ten_minutes() {
        let keys = IdempotencyKeys::default();
        assert_eq!(keys.begin("k", "f", 0), KeyUse::First);
        assert_eq!(keys.begin("k", "f", 0), KeyUse::InProgress);
        keys.finish("k", reply(200));
        assert_eq!(keys.begin("k", "f", 599), KeyUse::Repeated(reply(200)));
        assert_eq!(keys.begin("k", "g", 599), KeyUse::OtherRequest);
        assert_eq!(keys.begin("k", "g", 600), KeyUse::First);
        keys.finish("k", reply(503));
        assert_eq!(keys.begin("k", "g", 600), KeyUse::First);
        keys.abandon("k");
        assert_eq!(keys.begin("k", "h", 600), KeyUse::First);
    }

    #[test]
    fn keys_are_bounded() {
        let keys = IdempotencyKeys::default();
        for number in 0..MAX_KEPT {
            assert_eq!(keys.begin(&number.to_string(), "f", 0), KeyUse::First);
        }
        assert_eq!(keys.begin("one more", "f", 0), KeyUse::Full);
        keys.finish("7", reply(200));
        assert_eq!(keys.begin("one more", "f", 0), KeyUse::First);
        assert_eq!(keys.begin("7", "f", 0), KeyUse::Full);
    }
}
