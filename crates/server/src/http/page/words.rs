//! The texts of the block page, in English and German.
//!
//! The language is the one that the browser prefers (`Accept-Language`), or English. Reasons and
//! times are texts of the server, and English in both languages.

use avocet_nameserver::policy::Treatment;
use hyper::HeaderMap;
use hyper::header::ACCEPT_LANGUAGE;

/// Maximum number of languages of a request that are read. Browsers send fewer than ten.
const MAX_LANGUAGES: usize = 32;

/// The texts in one language, with the placeholders `NAME` for the blocked name and `SECS` for a
/// number of seconds.
#[derive(Debug)]
pub(in crate::http) struct Words {
    /// The language, as a tag (RFC 5646).
    pub(super) language: &'static str,
    /// The heading for a blocked name.
    blocked: &'static str,
    /// The heading for a name that is not blocked.
    not_blocked: &'static str,
    /// The heading after a request for access.
    access: &'static str,
    /// The sentence about the server that blocks the name.
    pub(super) by_whom: &'static str,
    /// The label of the line that says how the query was treated.
    pub(super) what: &'static str,
    /// The label of the reason.
    pub(super) why: &'static str,
    /// The label of the time.
    pub(super) when: &'static str,
    /// The words for treatments, except for passing and forwarding, in the order of
    /// [`Words::treatment`].
    treatments: [&'static str; 4],
    /// The advice for a name that is not blocked.
    try_again: &'static str,
    /// The label of the message.
    pub(in crate::http) message: &'static str,
    /// The label of the button.
    pub(in crate::http) ask: &'static str,
    /// The text that replaces the form after the client has sent it.
    pub(super) waiting: &'static str,
    /// The text after a request for access.
    pub(super) sent: &'static str,
    /// The text after a request that is already waiting.
    pub(super) known: &'static str,
    /// The text if too many requests are waiting.
    pub(super) full: &'static str,
    /// The text if requests arrive too fast.
    pub(super) too_fast: &'static str,
}

const ENGLISH: Words = Words {
    language: "en",
    blocked: "NAME is blocked",
    not_blocked: "NAME is not blocked",
    access: "Access to NAME",
    by_whom: "The DNS server of this network blocks this name.",
    what: "What",
    why: "Why",
    when: "When",
    treatments: ["blocked", "rewritten", "dropped", "truncated"],
    try_again: "If it was blocked until now, your device may remember that for up to SECS seconds. \
                Try again after that time.",
    message: "Message to the operator (optional)",
    ask: "Ask for access",
    waiting: "You have asked for access.",
    sent: "Your request was sent to the operator of this network.",
    known: "You have asked for this name already.",
    full: "Too many requests wait. Try again later.",
    too_fast: "Too many requests. Try again in a minute.",
};

const GERMAN: Words = Words {
    language: "de",
    blocked: "NAME ist gesperrt",
    not_blocked: "NAME ist nicht gesperrt",
    access: "Zugang zu NAME",
    by_whom: "Der DNS-Server dieses Netzes sperrt diesen Namen.",
    what: "Was",
    why: "Warum",
    when: "Wann",
    treatments: ["gesperrt", "umgeschrieben", "verworfen", "gekürzt"],
    try_again: "Falls er bis eben gesperrt war, merkt sich Ihr Gerät das bis zu SECS Sekunden \
                lang. Versuchen Sie es danach noch einmal.",
    message: "Nachricht an die Verwaltung des Netzes (freiwillig)",
    ask: "Zugang erbitten",
    waiting: "Sie haben um Zugang gebeten.",
    sent: "Ihre Bitte wurde an die Verwaltung dieses Netzes gesendet.",
    known: "Sie haben für diesen Namen schon um Zugang gebeten.",
    full: "Zu viele Bitten warten. Versuchen Sie es später noch einmal.",
    too_fast: "Zu viele Bitten. Versuchen Sie es in einer Minute noch einmal.",
};

impl Words {
    /// Returns the texts in the language that a browser prefers (RFC 9110 §12.5.4).
    pub(in crate::http) fn of(headers: &HeaderMap) -> &'static Self {
        let accepted = headers.get(ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok());
        let mut preferred = (&ENGLISH, 0.0);
        for range in accepted.unwrap_or_default().split(',').take(MAX_LANGUAGES) {
            let (tag, weight) = range.split_once(';').unwrap_or((range, "q=1"));
            let Some(words) = Self::tagged(tag.trim()) else { continue };
            let weight = weight.trim().strip_prefix("q=").and_then(|text| text.parse().ok());
            let weight: f32 = weight.unwrap_or(0.0);
            if weight > preferred.1 {
                preferred = (words, weight);
            }
        }
        preferred.0
    }

    fn tagged(tag: &str) -> Option<&'static Self> {
        let language = tag.split('-').next().unwrap_or_default();
        [&ENGLISH, &GERMAN].into_iter().find(|words| words.language.eq_ignore_ascii_case(language))
    }

    /// Returns the heading for a blocked name, which is escaped.
    pub(super) fn blocked(&self, name: &str) -> String {
        self.blocked.replace("NAME", name)
    }

    /// Returns the heading for a name that is not blocked. The name is escaped.
    pub(super) fn not_blocked(&self, name: &str) -> String {
        self.not_blocked.replace("NAME", name)
    }

    /// Returns the heading after a request for access. The name is escaped.
    pub(super) fn access(&self, name: &str) -> String {
        self.access.replace("NAME", name)
    }

    /// Returns the advice to try again once devices have forgotten the blocked answer.
    pub(super) fn try_again(&self, ttl_secs: u32) -> String {
        self.try_again.replace("SECS", &ttl_secs.to_string())
    }

    /// Returns the word for a treatment.
    pub(super) const fn treatment(&self, treatment: Treatment) -> &'static str {
        let [block, rewrite, drop, truncate] = self.treatments;
        match treatment {
            Treatment::Block => block,
            Treatment::Rewrite => rewrite,
            Treatment::Drop => drop,
            Treatment::Truncate => truncate,
            // These decisions let the name be resolved, so the page has no word for them.
            Treatment::Pass | Treatment::Forward => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn the_language_that_the_browser_prefers_is_chosen() {
        for (accepted, expected) in [
            ("", "en"),
            ("de", "de"),
            ("DE-at, en;q=0.5", "de"),
            ("fr, de;q=0.4, en;q=0.3", "de"),
            ("en-GB,en;q=0.9,de;q=0.8", "en"),
            ("de;q=0", "en"),
            ("de;q=x, en;q=0.1", "en"),
            ("fr, *;q=0.5", "en"),
            ("de-;;q=1,;=,q", "en"),
            ("german", "en"),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_LANGUAGE, HeaderValue::from_static(accepted));
            assert_eq!(Words::of(&headers).language, expected, "{accepted:?}");
        }
        assert_eq!(Words::of(&HeaderMap::new()).language, "en");
    }

    #[test]
    fn work_for_a_long_list_of_languages_is_bounded() {
        let mut headers = HeaderMap::new();
        let text = "fr,".repeat(MAX_LANGUAGES) + "de";
        headers.insert(ACCEPT_LANGUAGE, HeaderValue::from_str(&text).unwrap());
        assert_eq!(Words::of(&headers).language, "en");
    }

    #[test]
    fn all_texts_with_a_place_for_a_name_have_it() {
        for words in [&ENGLISH, &GERMAN] {
            for text in [words.blocked("a.b"), words.not_blocked("a.b"), words.access("a.b")] {
                assert!(text.contains("a.b") && !text.contains("NAME"), "{text}");
            }
            assert!(words.try_again(60).contains("60"), "{}", words.language);
        }
    }
}
