//! Built-in rule sets: names of services, and strict variants of search engines.
//!
//! The data is in `data/*.toml`, and tests validate it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::LazyLock;

use avocet_wire::hash::HashKey;
use serde::Deserialize;

use super::action::{Target, name};

const SERVICES: &str = include_str!("../../data/services.toml");
const SAFE_SEARCH: &str = include_str!("../../data/safe-search.toml");

type ServiceNames = Vec<Box<[u8]>>;

static SERVICE_NAMES: LazyLock<Vec<(String, ServiceNames)>> = LazyLock::new(read_services);
static SAFE_NAMES: LazyLock<HashMap<Box<[u8]>, SafeName, HashKey>> =
    LazyLock::new(read_safe_search);

/// The strict variant of a name of a search engine or a video site.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SafeName {
    /// The provider, such as `google`.
    pub provider: String,
    /// The strict variant.
    pub target: Target,
}

/// Returns the names of all services, sorted.
pub fn service_names() -> impl Iterator<Item = &'static str> {
    SERVICE_NAMES.iter().map(|(service, _)| service.as_str())
}

/// Returns the domain names of a service. Names below them belong to it as well.
pub(super) fn service(service: &str) -> Option<&'static [Box<[u8]>]> {
    SERVICE_NAMES.iter().find(|(name, _)| name == service).map(|(_, names)| names.as_slice())
}

/// Returns the strict variant of a folded name, if it has one.
#[must_use]
pub fn safe_name(qname: &[u8]) -> Option<&'static SafeName> {
    SAFE_NAMES.get(qname)
}

/// Returns all names that have a strict variant.
pub(super) fn safe_names() -> impl Iterator<Item = &'static Box<[u8]>> {
    SAFE_NAMES.keys()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Services {
    service: Vec<Service>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Service {
    name: String,
    names: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct SafeSearch {
    provider: Vec<Provider>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Provider {
    name: String,
    to: Vec<String>,
    names: Vec<String>,
    /// Endings that are appended to each name, such as `de` to `www.google`.
    #[serde(default)]
    endings: Vec<String>,
}

fn read_services() -> Vec<(String, ServiceNames)> {
    let file: Services = toml::from_str(SERVICES).unwrap_or(Services { service: Vec::new() });
    let read = |service: Service| {
        let names = service.names.iter().filter_map(|text| name(text).ok()).collect();
        (service.name, names)
    };
    file.service.into_iter().map(read).collect()
}

fn read_safe_search() -> HashMap<Box<[u8]>, SafeName, HashKey> {
    let file: SafeSearch =
        toml::from_str(SAFE_SEARCH).unwrap_or(SafeSearch { provider: Vec::new() });
    let mut found = HashMap::with_hasher(HashKey::default());
    for provider in file.provider {
        let Some(target) = target(&provider.to) else { continue };
        for text in provider.names.iter().flat_map(|text| with_endings(text, &provider.endings)) {
            if let Ok(name) = name(&text) {
                found.insert(
                    name,
                    SafeName { provider: provider.name.clone(), target: target.clone() },
                );
            }
        }
    }
    found
}

fn with_endings(text: &str, endings: &[String]) -> Vec<String> {
    match endings.is_empty() {
        true => vec![text.to_owned()],
        false => endings.iter().map(|ending| format!("{text}.{ending}")).collect(),
    }
}

fn target(to: &[String]) -> Option<Target> {
    let addresses: Result<Vec<IpAddr>, _> = to.iter().map(|text| text.parse()).collect();
    match (addresses, to) {
        (Ok(addresses), [_, ..]) => Some(Target::Addresses(addresses)),
        (Err(_), [one]) => name(one).ok().map(Target::Name),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_the_files_say_is_read() {
        let services: Services = toml::from_str(SERVICES).unwrap();
        assert_eq!(services.service.len(), SERVICE_NAMES.len());
        for (written, (service, names)) in services.service.iter().zip(SERVICE_NAMES.iter()) {
            assert_eq!(written.names.len(), names.len(), "{service}");
            assert!(
                names.iter().all(|name| avocet_wire::name::labels(name).count() >= 2),
                "{service}"
            );
        }
        assert!(SERVICE_NAMES.is_sorted_by(|a, b| a.0 < b.0));
        let engines: SafeSearch = toml::from_str(SAFE_SEARCH).unwrap();
        for provider in &engines.provider {
            assert!(target(&provider.to).is_some(), "{}", provider.name);
        }
        let written = engines
            .provider
            .iter()
            .map(|provider| provider.names.len() * provider.endings.len().max(1));
        assert_eq!(written.sum::<usize>(), SAFE_NAMES.len());
    }

    #[test]
    fn strict_forms_are_found_by_name() {
        let to = |text: &str| safe_name(&name(text).unwrap()).map(|safe| safe.target.clone());
        let named = |text: &str| Some(Target::Name(name(text).unwrap()));
        assert_eq!(to("www.google.com"), named("forcesafesearch.google.com"));
        assert_eq!(to("www.google.co.uk"), named("forcesafesearch.google.com"));
        assert_eq!(to("www.bing.com"), named("strict.bing.com"));
        for name in ["duckduckgo.com", "html.duckduckgo.com", "lite.duckduckgo.com", "duck.com"] {
            assert_eq!(to(name), named("safe.duckduckgo.com"), "{name}");
        }
        for name in ["m.bing.com", "www2.bing.com"] {
            assert_eq!(to(name), named("strict.bing.com"), "{name}");
        }
        assert_eq!(to("ecosia.org"), named("strict-safe-search.ecosia.org"));
        assert_eq!(to("www.youtube.com"), named("restrict.youtube.com"));
        assert_eq!(to("mail.google.com"), None);
    }
}
