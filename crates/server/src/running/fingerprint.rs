//! Fingerprints of what in a configuration decides about answers.

use std::hash::{Hash, Hasher};

use avocet_config::Config;
use avocet_nameserver::policy::Parts;
use avocet_nameserver::snapshot::{Inputs, Snapshot};
use siphasher::sip::SipHasher13;

/// Returns a value that is equal for configurations under which the same final answers hold.
/// Another release of the server may build answers in another way, so the version is included.
pub(crate) fn answers_fingerprint(config: &Config) -> u64 {
    of_text(&format!("{:?}", (env!("CARGO_PKG_VERSION"), Inputs::of(config))))
}

/// Returns a value that is equal for snapshots of one configuration with the same policy for the
/// same profile: lists, countries, pauses, grants, and the meaning of profile numbers.
pub(crate) fn policy_fingerprint(state: &Snapshot) -> u64 {
    let Parts { lists, countries, switches, .. } = &state.parts;
    // The image does not contain the policy zones: the stamps of their texts represent them.
    let lists = lists.as_ref().map(|lists| (lists.digest(), &lists.making().lists));
    let countries = countries.as_ref().map(|database| database.digest());
    let profiles = state.policy.as_ref().map(|policy| policy.meanings());
    of_text(&format!("{:?}", (lists, countries, switches, profiles)))
}

fn of_text(text: &str) -> u64 {
    let mut hasher = SipHasher13::new();
    text.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_decides_about_answers_changes_the_fingerprint() {
        let with = |name: &str, value: &str| {
            Config::load(None, [(name.to_owned(), value.to_owned())])
                .map(|config| answers_fingerprint(&config))
                .unwrap()
        };
        let plain = with("UNRELATED", "1");
        assert_eq!(plain, with("AVOCET_LOG__LEVEL", "debug"));
        assert_eq!(plain, with("AVOCET_SERVER__ALLOW", "127.0.0.0/8"));
        assert_ne!(plain, with("AVOCET_SERVER__MINIMAL_RESPONSES", "false"));
        assert_ne!(plain, with("AVOCET_CACHE__MIN_TTL_SECS", "10"));
        assert_ne!(plain, with("AVOCET_DNSSEC__VALIDATE", "false"));
        let translating = with("AVOCET_DNS64__PREFIX", "64:ff9b::/96");
        assert_ne!(plain, translating);
        assert_ne!(translating, with("AVOCET_DNS64__PREFIX", "2001:db8:64::/96"));
    }
}
