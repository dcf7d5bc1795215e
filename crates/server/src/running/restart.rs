//! The settings that only a new process can change. A reload keeps their values and reports them.

use std::fmt;
use std::net::SocketAddr;

use avocet_config::web::WebConfig;
use avocet_config::{Config, ServerConfig};

/// The changes of a configuration that only a restart applies.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct PendingRestart {
    /// Keys with new values.
    pub(crate) keys: Vec<&'static str>,
    /// Addresses of the configuration that are not served yet.
    pub(crate) opens: Vec<SocketAddr>,
    /// Addresses that the configuration no longer has and that have open sockets.
    pub(crate) closes: Vec<SocketAddr>,
}

impl PendingRestart {
    /// Returns whether no change waits for a restart.
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

impl fmt::Display for PendingRestart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.keys.join(", "))?;
        for (what, addresses) in [("opens", &self.opens), ("closes", &self.closes)] {
            if !addresses.is_empty() {
                let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
                write!(f, "; it {what} {}", addresses.join(", "))?;
            }
        }
        Ok(())
    }
}

/// Copies the values that cannot change from `old` to `new`, and returns the differences.
pub(super) fn keep_what_needs_a_restart(new: &mut Config, old: &Config) -> PendingRestart {
    let mut pending = PendingRestart::default();
    macro_rules! keep {
        ($($name:literal: $($field:ident).+;)*) => {
            $(if new.$($field).+ != old.$($field).+ {
                new.$($field).+ = old.$($field).+.clone();
                pending.keys.push($name);
            })*
        };
    }
    pending.keys.extend(keep_stale_limit(new, old));
    keep_addresses(&mut new.server, &old.server, &mut pending);
    pending.keys.extend(keep_https(&mut new.web, &old.web));
    keep! {
        "server.workers": server.workers;
        "server.h3": server.h3;
        "server.pin-workers": server.pin_workers;
        "server.http": server.http;
        "server.user": server.user;
        "server.control-group": server.control_group;
        "policy.block-page": policy.block.page;
        "cache.packet-bytes": cache.packet_bytes;
        "cache.rrset-bytes": cache.rrset_bytes;
        "cache.min-ttl-secs": cache.min_ttl_secs;
        "cache.max-ttl-secs": cache.max_ttl_secs;
        "cache.negative-min-ttl-secs": cache.negative_min_ttl_secs;
        "cache.negative-max-ttl-secs": cache.negative_max_ttl_secs;
        "log.format": log.format;
        "data.directory": data.directory;
    }
    pending
}

/// Keeps the address of HTTPS. Changes of its certificate files apply at once.
fn keep_https(new: &mut WebConfig, old: &WebConfig) -> Option<&'static str> {
    let address = |web: &WebConfig| web.https.as_ref().map(|https| https.address);
    if address(new) == address(old) {
        return None;
    }
    new.https.clone_from(&old.https);
    Some("web.https")
}

/// Keeps the time for which entries may be used past their TTL, because the caches are built with
/// it.
fn keep_stale_limit(new: &mut Config, old: &Config) -> Option<&'static str> {
    match (&mut new.cache.serve_stale, &old.cache.serve_stale) {
        (Some(new), Some(old)) if new.max_secs != old.max_secs => {
            new.max_secs = old.max_secs;
            Some("cache.serve-stale-max-secs")
        }
        (Some(_), Some(_)) | (None, None) => None,
        (new, old) => {
            new.clone_from(old);
            Some("cache.serve-stale")
        }
    }
}

/// Keeps the sockets. Names and access lists apply at once, by address.
fn keep_addresses(new: &mut ServerConfig, old: &ServerConfig, pending: &mut PendingRestart) {
    let opens = new.keep_open(old);
    let closes: Vec<_> =
        new.open_addresses().into_iter().filter(|one| one.closing.is_some()).collect();
    let is_of_listener = |is: bool| {
        let mut waiting = opens.iter().chain(&closes);
        waiting.any(|one| one.listener.is_some() == is)
    };
    let keys = [("server.listen", false), ("listener", true)];
    pending.keys.extend(keys.iter().filter(|(_, is)| is_of_listener(*is)).map(|(key, _)| key));
    pending.opens = opens.iter().map(|one| one.address).collect();
    pending.closes = closes.iter().map(|one| one.address).collect();
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use avocet_config::AddressAllow;

    use super::*;

    fn config(text: &str) -> Config {
        Config::from_text(None, text, &BTreeMap::new())
            .unwrap_or_else(|faults| panic!("{text}: {faults}"))
    }

    fn listener(name: &str, listen: &str, rest: &str) -> String {
        format!("[[listener]]\nname = \"{name}\"\nlisten = [\"{listen}\"]\n{rest}\n")
    }

    #[test]
    fn what_needs_a_restart_keeps_its_value_and_is_named() {
        let old = config("[server]\nlisten = [\"127.0.0.1:5300\"]");
        let mut new = config(
            "[server]\nlisten = [\"127.0.0.1:5399\"]\nminimal-responses = false\n\
             [cache]\nrrset-bytes = \"1MiB\"\nserve-stale = false",
        );
        let pending = keep_what_needs_a_restart(&mut new, &old);
        assert_eq!(
            pending.to_string(),
            "cache.serve-stale, server.listen, cache.rrset-bytes; it opens 127.0.0.1:5399; it \
             closes 127.0.0.1:5300"
        );
        assert!(!new.server.minimal_responses);
        assert_eq!(new.server.addresses(), old.server.addresses());
        assert_eq!(new.cache, old.cache);
    }

    #[test]
    fn a_limit_on_expired_data_does_not_keep_the_time_that_clients_wait() {
        let old = config("");
        let mut new = config("[cache]\nserve-stale-max-secs = 7\nstale-client-timeout-ms = 900");
        let pending = keep_what_needs_a_restart(&mut new, &old);
        assert_eq!(pending.keys, ["cache.serve-stale-max-secs"]);
        let (new, old) = (new.cache.serve_stale.unwrap(), old.cache.serve_stale.unwrap());
        assert_eq!((new.max_secs, new.client_timeout.as_millis()), (old.max_secs, 900));
    }

    #[test]
    fn an_address_that_waits_does_not_keep_names_and_access_lists_of_others() {
        let server = "[server]\nlisten = [\"127.0.0.1:1\"]\nallow = [\"10.0.0.0/8\"]\n";
        let old = config(
            &[
                server,
                &listener("guest", "127.0.0.1:2", ""),
                &listener("lab", "127.0.0.1:3", "allow = [\"10.0.0.0/8\"]"),
                &listener("gone", "127.0.0.1:4", ""),
            ]
            .concat(),
        );
        let text = [
            server,
            &listener("visitors", "127.0.0.1:2", ""),
            &listener("lab", "127.0.0.1:5", "allow = [\"10.1.0.0/16\"]"),
        ]
        .concat();
        let mut new = config(&text);
        let pending = keep_what_needs_a_restart(&mut new, &old);
        assert_eq!(
            pending.to_string(),
            "listener; it opens 127.0.0.1:5; it closes 127.0.0.1:3, 127.0.0.1:4"
        );
        assert_eq!(new.server.addresses(), old.server.addresses());
        assert_eq!(new.server.entrances(), ["", "visitors", "lab", ""]);
        let (before, now) =
            (old.server.listeners[1].allow.as_ref(), new.server.listeners[1].allow.as_ref());
        let lab = AddressAllow::Both(before.unwrap(), now.unwrap());
        let common = AddressAllow::Common;
        assert_eq!(new.server.allow_by_address(), [common, common, lab, AddressAllow::Nobody]);

        let mut same = config(&text);
        assert_eq!(keep_what_needs_a_restart(&mut same, &new), pending, "it is still pending");
        assert_eq!(same, new);
        let mut back = old.clone();
        assert!(keep_what_needs_a_restart(&mut back, &new).is_empty());
        assert_eq!(back, old);
    }
}
