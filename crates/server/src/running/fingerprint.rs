//! Fingerprints of the parts of a configuration on which answers depend.

use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};

use avocet_config::Config;
use avocet_config::zone::ZoneConfig;
use avocet_nameserver::policy::{NOTE_PLACES, Parts};
use avocet_nameserver::snapshot::{Inputs, Snapshot};
use avocet_resolver::Introduction;
use siphasher::sip::SipHasher13;

/// Returns a value that is equal for configurations with the same final answers. It includes the
/// version, because another release of the server may build answers in another way.
pub(crate) fn answers_fingerprint(config: &Config) -> u64 {
    // No cache has data of hosted zones, but a cached answer may be for a name that is now in a
    // hosted zone.
    let zones: BTreeSet<_> = config.zones.iter().map(ZoneConfig::id).collect();
    of_text(&format!("{:?}", (env!("CARGO_PKG_VERSION"), Inputs::of(config), zones)))
}

/// Returns a value that is equal if two snapshots of one configuration have the same policy for
/// each profile, which is a number for all properties of a client that the policy tests. The value
/// covers lists, countries, pauses, grants, and the meaning of the numbers of profiles and notes.
pub(crate) fn policy_fingerprint(state: &Snapshot) -> u64 {
    with_places(state, &NOTE_PLACES)
}

/// Returns the fingerprint of the policy with these places of notes.
fn with_places(state: &Snapshot, places: &[usize]) -> u64 {
    let Parts { lists, countries, switches, .. } = &state.parts;
    // The digest of the compiled lists does not cover policy zones. The description of how the
    // lists were compiled does, because it has a stamp of each text.
    let lists = lists.as_ref().map(|lists| (lists.digest(), &lists.making().lists));
    let countries = countries.as_ref().map(|database| database.digest());
    let profiles = state.policy.as_ref().map(|policy| policy.meanings());
    of_text(&format!("{:?}", (lists, countries, switches, profiles, places)))
}

/// Returns a value that is equal for configurations that resolve each name with the same kind of
/// servers and trust the data for the same reasons. If a reload changes this value, it also drops
/// cached records.
pub(crate) fn sources_fingerprint(config: &Config) -> u64 {
    let forwards = config.forwards.iter().map(|forward| {
        let kind = if forward.exception { "exception" } else { "servers" };
        let answers = match forward.introduction {
            Introduction::None => "for all",
            Introduction::ProxyHeader(_) => "for one client",
        };
        (&forward.zone, [kind, answers])
    });
    let forwards: BTreeSet<_> = forwards.collect();
    let stubs: BTreeSet<_> = config.stubs.iter().map(|stub| format!("{stub:?}")).collect();
    of_text(&format!("{:?}", (config.resolver.mode, &config.dnssec, forwards, stubs)))
}

fn of_text(text: &str) -> u64 {
    let mut hasher = SipHasher13::new();
    text.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use avocet_nameserver::query::cookie::CookieSecrets;
    use avocet_nameserver::snapshot::Unconfigured;

    use super::*;

    #[test]
    fn answers_of_a_build_with_other_places_of_notes_are_not_used() {
        let config = Config::from_text(None, "", &BTreeMap::new()).unwrap();
        let cookies = CookieSecrets { current: [6; 16], previous: None };
        let secrets = Unconfigured::new([9; 32], cookies);
        let state = Snapshot::first(config, &secrets, Parts::new([8; 32])).unwrap();
        let shifted = NOTE_PLACES.map(|place| place + 1);
        assert_ne!(policy_fingerprint(&state), with_places(&state, &shifted));
        assert_eq!(policy_fingerprint(&state), with_places(&state, &NOTE_PLACES));
    }

    #[test]
    fn rules_and_stubs_change_the_sources_and_their_order_does_not() {
        let with = |text: &str| {
            let config = Config::from_text(None, text, &BTreeMap::new()).unwrap();
            sources_fingerprint(&config)
        };
        let forward =
            |zone: &str| format!("[[forward]]\nzone = \"{zone}\"\nupstreams = [\"192.0.2.1\"]\n");
        let (root, own) = (forward("."), forward("example"));
        assert_eq!(with(&format!("{root}{own}")), with(&format!("{own}{root}")));
        assert_ne!(with(&root), with(&format!("{root}{own}")));
        assert_ne!(with(""), with(&root));
        let stub = "[[stub]]\nzone = \"example\"\nservers = [\"192.0.2.1\"]\n";
        assert_ne!(with(""), with(stub));
        assert_eq!(with(&own), with(&own.replace("192.0.2.1", "192.0.2.2")));
        let proxied = format!("{own}proxy-protocol = true\n[resolver]\nmode = \"forward\"\n");
        let unproxied = proxied.replace("true", "false");
        assert_ne!(with(&proxied), with(&unproxied));
        assert_ne!(with(""), with("[dnssec]\nnegative-anchors = [\"example\"]\n"));
    }

    #[test]
    fn answers_about_names_of_a_new_hosted_zone_are_not_kept() {
        let with = |text: &str| {
            answers_fingerprint(&Config::from_text(None, text, &BTreeMap::new()).unwrap())
        };
        let zone = "[[zone]]\nname = \"example\"\nfile = \"example.zone\"\n";
        assert_ne!(with(""), with(zone));
        assert_eq!(with(zone), with(&zone.replace("example.zone", "other.zone")));
        let viewed = format!("{zone}view = [\"10.0.0.0/8\", \"10.1.0.0/16\"]\n");
        let narrower = format!("{zone}view = [\"10.0.0.0/8\"]\n");
        assert_ne!(with(zone), with(&viewed));
        assert_ne!(with(&narrower), with(&viewed));
    }

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
