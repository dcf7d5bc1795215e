//! The properties of clients that lists may test: `$client` by address or by the name of a
//! `[[client]]`, `$ctag` by the name of a group.
//!
//! The operator defines names and tags. Tests for other names match no client, so that a list
//! cannot increase the number of profiles.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use avocet_config::policy::PolicyConfig;
use avocet_policy::client::{ClientTest, Clients, Profile};
use avocet_policy::list::{ClientTest as Asked, Modifiers};

use super::Lists;

/// Maximum number of client and group names in the tests of all lists. Further names match no
/// client.
const MAX_NAMED: usize = 1_024;

/// Returns the tests that profiles must distinguish for these lists, without duplicates.
pub(super) fn tests(config: &PolicyConfig, lists: &Lists) -> Vec<ClientTest> {
    let lower = |name: &str| name.to_ascii_lowercase();
    let clients = by_lower(config.clients.iter().map(|client| client.name.clone()));
    let groups = by_lower(config.vocabulary().groups);
    let (mut networks, mut named) = (HashSet::new(), HashSet::new());
    let mut tests = Vec::new();
    for modifiers in lists.modifiers() {
        for subject in &modifiers.clients {
            match subject.inner() {
                Asked::Network(network) if networks.insert(*network) => {
                    tests.push(ClientTest::Within(*network))
                }
                Asked::Network(_) => {}
                Asked::Name(name) => {
                    let known = clients
                        .get(&lower(name))
                        .filter(|_| is_new(&mut named, ("client", lower(name))));
                    tests.extend(known.into_iter().flatten().cloned().map(ClientTest::Is));
                }
            }
        }
        for tag in &modifiers.tags {
            let known = groups
                .get(&lower(tag.inner()))
                .filter(|_| is_new(&mut named, ("group", lower(tag.inner()))));
            tests.extend(known.into_iter().flatten().cloned().map(ClientTest::Group));
        }
    }
    if named.len() == MAX_NAMED {
        tracing::warn!(
            "lists name more than {MAX_NAMED} clients and groups; further ones have no effect"
        );
    }
    tests
}

/// Returns names by their lower-case form, in which lists compare them. Several names may have the
/// same form.
fn by_lower(names: impl IntoIterator<Item = String>) -> HashMap<String, Vec<String>> {
    let mut by_lower: HashMap<String, Vec<String>> = HashMap::new();
    for name in names {
        by_lower.entry(name.to_ascii_lowercase()).or_default().push(name);
    }
    by_lower
}

fn is_new<T: Eq + Hash>(named: &mut HashSet<T>, name: T) -> bool {
    named.len() < MAX_NAMED && named.insert(name)
}

/// The names and tags of a profile that lists test.
#[derive(Default)]
pub(super) struct ProfileLabels {
    pub(super) names: Vec<Box<str>>,
    pub(super) tags: Vec<Box<str>>,
}

/// Returns the labels of all profiles in order; empty if no list has such tests.
pub(super) fn known(lists: Option<&Lists>, clients: &Clients) -> Vec<ProfileLabels> {
    let asks = |modifiers: &Modifiers| {
        let by_name =
            |subject: &_| matches!(avocet_policy::list::Subject::inner(subject), Asked::Name(_));
        !modifiers.tags.is_empty() || modifiers.clients.iter().any(by_name)
    };
    if !lists.is_some_and(|lists| lists.modifiers().iter().any(asks)) {
        return Vec::new();
    }
    let of = |profile: u16| {
        let mut known = ProfileLabels::default();
        for (place, test) in clients.tests().iter().enumerate() {
            let into = match test {
                ClientTest::Is(name) => Some((&mut known.names, name)),
                ClientTest::Group(name) => Some((&mut known.tags, name)),
                _ => None,
            };
            if let Some((names, name)) = into.filter(|_| clients.holds(Profile(profile), place)) {
                names.push(name.as_str().into());
            }
        }
        known
    };
    (0..clients.profiles()).map(|profile| of(profile as u16)).collect()
}
