//! Fingerprints of what in a configuration decides about answers.

use std::fmt;
use std::hash::{Hash, Hasher};

use avocet_config::{Config, ServerConfig};
use avocet_nameserver::policy::Parts;
use avocet_nameserver::snapshot::Snapshot;
use siphasher::sip::SipHasher13;

/// Equal for configurations under which the same final answers hold. Another release of the server
/// may build answers in another way, so its version counts too.
///
/// Every field is named, so that one that is added must be put on one side or the other.
pub(crate) fn answers_fingerprint(config: &Config) -> u64 {
    let Config {
        // What it says is in the others.
        is_bare: _,
        server,
        resolver,
        stubs,
        dnssec,
        dns64,
        forwards,
        cache,
        records,
        policy,
        // Decided for each query or reply; the packet cache holds answers from before that.
        rate_limit: _,
        log: _,
        data: _,
    } = config;
    let decides = (
        (env!("CARGO_PKG_VERSION"), answers_of_server(server)),
        (forwards, records, cache),
        (resolver, stubs, dnssec, dns64),
        policy,
    );
    of_text(&format!("{decides:?}"))
}

/// The keys of `[server]` that decide about what the packet cache holds.
fn answers_of_server(server: &ServerConfig) -> impl fmt::Debug {
    let ServerConfig {
        local_names,
        local_zones,
        max_udp_size,
        minimal_responses,
        // Who is served, where, and by how many threads.
        listen: _,
        // Their names are in the policy, and another address needs a restart.
        listeners: _,
        workers: _,
        pin_workers: _,
        http: _,
        http_names: _,
        allow: _,
        user: _,
        control_group: _,
        tcp: _,
        // Answers of class CH are not kept, and OPT is appended to each reply.
        version: _,
        id_server: _,
        nsid: _,
        cookies: _,
        cookie_secret: _,
    } = server;
    (*local_names, local_zones, *max_udp_size, *minimal_responses)
}

/// Equal for snapshots of one configuration whose policies say the same to the same profile: lists,
/// countries, what is switched off, and what the numbers of profiles stand for.
pub(crate) fn policy_fingerprint(state: &Snapshot) -> u64 {
    let Parts { lists, countries, switches, .. } = &state.parts;
    // Policy zones are in no image: only the stamps of their texts tell of them.
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
