//! What lists may ask of clients: `$client` by address or by the name of a `[[client]]`, `$ctag` by the name of a group.
//!
//! Their names and tags are the operator's. What a list says of others is about nobody here, so however many it makes
//! up, profiles do not become more.

use avocet_policy::client::{ClientTest, Clients, Profile};
use avocet_policy::list::{ClientTest as Asked, Modifiers};

use super::Lists;
use crate::config::policy::PolicyConfig;

/// What must be known of clients to look a name up in these lists.
pub(super) fn tests(config: &PolicyConfig, lists: &Lists) -> Vec<ClientTest> {
    let mut tests = Vec::new();
    for modifiers in lists.modifiers() {
        let of_clients = modifiers.clients.iter().filter_map(|subject| match subject.inner() {
            Asked::Network(network) => Some(ClientTest::Within(*network)),
            Asked::Name(name) => known_client(config, name),
        });
        let of_tags = modifiers.tags.iter().filter_map(|tag| known_group(config, tag.inner()));
        for test in of_clients.chain(of_tags) {
            if !tests.contains(&test) {
                tests.push(test);
            }
        }
    }
    tests
}

fn known_client(config: &PolicyConfig, name: &str) -> Option<ClientTest> {
    let client = config.clients.iter().find(|client| client.name.eq_ignore_ascii_case(name))?;
    Some(ClientTest::Is(client.name.clone()))
}

fn known_group(config: &PolicyConfig, name: &str) -> Option<ClientTest> {
    let groups = config.vocabulary().groups;
    groups.into_iter().find(|group| group.eq_ignore_ascii_case(name)).map(ClientTest::Group)
}

/// The names and tags of a profile, as far as lists ask about them.
#[derive(Default)]
pub(super) struct Known {
    pub(super) names: Vec<Box<str>>,
    pub(super) tags: Vec<Box<str>>,
}

/// Those of all profiles, in their order; none where no list asks about any.
pub(super) fn known(lists: Option<&Lists>, clients: &Clients) -> Vec<Known> {
    let asks = |modifiers: &Modifiers| {
        let by_name = |subject: &_| matches!(avocet_policy::list::Subject::inner(subject), Asked::Name(_));
        !modifiers.tags.is_empty() || modifiers.clients.iter().any(by_name)
    };
    if !lists.is_some_and(|lists| lists.modifiers().iter().any(asks)) {
        return Vec::new();
    }
    let of = |profile: u16| {
        let mut known = Known::default();
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
