//! The start with lists that test too many properties of clients.
//!
//! Clients with different properties have different profiles, of which there are at most 65,535. A
//! list of another server must not keep this server from starting, so the start leaves out lists
//! that do not fit.

use std::cmp::Reverse;
use std::io::{Cursor, Read};
use std::sync::Arc;

use avocet_config::Config;
use avocet_config::policy::{ListConfig, PolicyConfig};
use avocet_nameserver::StateError;
use avocet_nameserver::policy::{Lists, Parts, Policy, load};
use avocet_nameserver::snapshot::{Snapshot, Unconfigured};

use super::source::Failure;
use super::store::Store;

/// Builds the first snapshot, without the lists that do not fit.
///
/// # Errors
/// A part cannot be built, even without lists.
pub(crate) fn first_snapshot(
    config: Config,
    secrets: &Unconfigured,
    (parts, secret): (Parts, [u8; 32]),
    store: &Store,
) -> Result<Snapshot, StateError> {
    let refusal = match Snapshot::first(config.clone(), secrets, parts.clone()) {
        Ok(snapshot) => return Ok(snapshot),
        Err(refusal) if parts.lists.is_some() && is_about_clients(&refusal) => refusal,
        Err(error) => return Err(error),
    };
    let first = |lists| Snapshot::first(config.clone(), secrets, Parts { lists, ..parts.clone() });
    let without_lists = first(None)?;
    let some =
        without((&config.policy, secret), store, |_| true, |lists| first(Some(Arc::new(lists))));
    let (snapshot, left_out) = some.unwrap_or_else(|| {
        (without_lists, config.policy.lists.iter().map(|list| list.name.clone()).collect())
    });
    tracing::error!("{}", reason(&left_out, &refusal));
    Ok(snapshot)
}

/// Compiles the lists without some of those that `may_leave_out` accepts, until `put_in_force`
/// accepts them. Returns its result, and the lists that are left out. Lists of other servers are
/// left out before files, and those with the most tests of clients first.
pub(crate) fn without<T>(
    (config, secret): (&PolicyConfig, [u8; 32]),
    store: &Store,
    may_leave_out: impl Fn(&str) -> bool,
    put_in_force: impl Fn(Lists) -> Result<T, StateError>,
) -> Option<(T, Vec<String>)> {
    let mut left_out: Vec<String> = Vec::new();
    for name in by_tests(config, secret, store) {
        if !may_leave_out(&name) {
            continue;
        }
        left_out.push(name);
        let fits = |name: &str| left_out.iter().all(|one| one != name);
        if let Ok(lists) = store.compile_some(config, secret, fits)
            && let Ok(done) = put_in_force(lists)
        {
            return Some((done, left_out));
        }
    }
    None
}

/// Returns the sentence about lists that are left out.
pub(crate) fn reason(left_out: &[String], refusal: &StateError) -> String {
    format!(
        "these lists are not in force, because with them, clients would have too many different \
         properties: {} ({refusal})",
        left_out.join(", ")
    )
}

/// Checks whether a new text of a list fits together with the configuration and the other lists in
/// force, so that the text does not replace a good copy otherwise.
///
/// # Errors
/// The text tests too many properties of clients.
pub(crate) fn judge(
    state: &Snapshot,
    store: &Store,
    (list, text): (&ListConfig, &[u8]),
) -> Result<(), Failure> {
    if !may_test_clients(text) {
        return Ok(());
    }
    let config = &state.config.policy;
    let in_force = state.parts.lists.as_ref().map_or(&[][..], |lists| &lists.making().lists);
    let is_in_force = |one: &ListConfig| {
        in_force.iter().any(|compiled| compiled.name == one.name && compiled.stamp.is_some())
    };
    let made = load::from_texts(config, [0; 32], |one| {
        let new: Box<dyn Read> = Box::new(text);
        if one.name == list.name {
            return Ok(Some(new));
        }
        // Only lists with lines that test clients add profiles, so other lists are left out.
        let copy =
            store.known(one).filter(|copy| is_in_force(one) && may_test_clients(copy.as_ref()));
        Ok(copy.map(|copy| -> Box<dyn Read> { Box::new(Cursor::new(copy)) }))
    });
    // Other errors are not reported here, because the later compilation of all lists reports them.
    let Ok(Some(lists)) = made else { return Ok(()) };
    let compiled = lists.making().lists.iter().find(|one| one.name == list.name);
    if compiled.is_some_and(|one| one.entries == 0 && one.beyond_limits > 0) {
        let why = "with the other lists, it would exceed the limit of triggers or patterns";
        return Err(Failure::Unfit(why.to_owned()));
    }
    let parts = Parts { lists: Some(Arc::new(lists)), ..state.parts.clone() };
    match Policy::build(config, &state.config.server.entrances(), &parts, None) {
        Err(error) if is_about_clients(&error) => Err(Failure::Unfit(format!(
            "its tests of clients would give clients too many different properties: {error}"
        ))),
        _ => Ok(()),
    }
}

/// Returns whether a text may have entries that test clients.
fn may_test_clients(text: &[u8]) -> bool {
    const TESTS: [&[u8]; 3] = [b"client=", b"ctag=", b"-client-ip"];
    let may_test =
        |test: &[u8]| text.windows(test.len()).any(|part| part.eq_ignore_ascii_case(test));
    TESTS.into_iter().any(may_test)
}

/// Returns whether lists may be the reason for the error, because they test too many properties of
/// clients.
pub(crate) fn is_about_clients(error: &StateError) -> bool {
    matches!(error, StateError::Client(_))
}

/// Returns the names of the lists that test clients, in the order in which they are left out.
fn by_tests(config: &PolicyConfig, secret: [u8; 32], store: &Store) -> Vec<String> {
    let mut lists: Vec<_> = config
        .lists
        .iter()
        .filter_map(|list| {
            let alone = store.compile_some(config, secret, |name| name == list.name).ok()?;
            let tests = alone.client_tests(config);
            (tests > 0).then(|| (Reverse((list.source.is_fetched(), tests)), list.name.clone()))
        })
        .collect();
    lists.sort();
    lists.into_iter().map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fmt::Write;

    use avocet_nameserver::query::cookie::CookieSecrets;

    use super::*;

    /// Returns groups and devices of which each gets its own profiles.
    fn devices(count: usize) -> String {
        (0..count).fold(String::new(), |mut text, number| {
            let _ = write!(
                text,
                "[[group]]\nname = \"g{number}\"\nlists = [\"ads\"]\n[[client]]\nname = \
                 \"c{number}\"\nids = [\"id:dev{number}\"]\ngroups = \
                 [\"g{number}\"]\n[[rule]]\nname = \"r{number}\"\nwhen = \
                 'client.group(\"g{number}\") && qname.under(\"zz\")'\naction = \"block\"\n"
            );
            text
        })
    }

    fn triggers(from: usize, count: usize) -> String {
        let head = "$TTL 300\nrpz. SOA ns. h. 1 3600 600 86400 300\nbad.rpz. CNAME .\n";
        (from..from + count).fold(head.to_owned(), |mut text, number| {
            let (low, high) = (number % 250 + 1, number / 250);
            let _ = writeln!(text, "32.{low}.{high}.0.10.rpz-client-ip.rpz. CNAME rpz-passthru.");
            text
        })
    }

    #[test]
    fn a_text_is_judged_together_with_the_other_lists_in_force() {
        let directory = std::env::temp_dir().join(format!("avocet-fit2-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let file = |name: &str, text: &str| {
            let path = directory.join(name);
            std::fs::write(&path, text).unwrap();
            let path = path.display();
            format!("[[list]]\nname = \"{name}\"\nfile = \"{path}\"\nformat = \"rpz\"\n")
        };
        let (one, two) = (file("one", &triggers(0, 2_000)), file("two", &triggers(2_000, 10)));
        for (lists, expected) in [(format!("{one}{two}"), false), (two.clone(), true)] {
            let ads = file("ads", &triggers(0, 0));
            let text = format!("{}{ads}{lists}", devices(16));
            let config = Config::from_text(None, &text, &BTreeMap::new()).unwrap();
            let mut store = Store::new(&directory.join("store"));
            let lists = store.load(&config.policy, [7; 32]).map(Arc::new);
            let cookies = CookieSecrets { current: [6; 16], previous: None };
            let secrets = Unconfigured::new([9; 32], cookies);
            let parts = Parts { lists, ..Parts::new([8; 32]) };
            let snapshot = first_snapshot(config, &secrets, (parts, [7; 32]), &store).unwrap();
            let list = snapshot.config.policy.lists.last().unwrap();
            let small = judge(&snapshot, &store, (list, triggers(2_000, 20).as_bytes()));
            assert!(small.is_ok(), "{small:?}");
            let large = judge(&snapshot, &store, (list, triggers(2_000, 2_050).as_bytes()));
            assert_eq!(large.is_ok(), expected, "{large:?}");
        }
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_start_leaves_out_a_list_that_makes_too_many_profiles() {
        let directory = std::env::temp_dir().join(format!("avocet-fit-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let file = |name: &str, text: &str| {
            let path = directory.join(name);
            std::fs::write(&path, text).unwrap();
            format!("[[list]]\nname = \"{name}\"\nfile = \"{}\"\n", path.display())
        };
        let head = "$TTL 300\nrpz. SOA ns. h. 1 3600 600 86400 300\nbad.rpz. CNAME .\n";
        let triggers: String = (0..4_000)
            .map(|number| {
                let (low, high) = (number % 250 + 1, number / 250);
                format!("32.{low}.{high}.0.10.rpz-client-ip.rpz. CNAME rpz-passthru.\n")
            })
            .collect();
        let rpz = file("rpz", &format!("{head}{triggers}"));
        let text = format!(
            "{}{rpz}format = \"rpz\"\n{}",
            devices(16),
            file("ads", "||ads.example^\n||phone.example^$client=10.0.0.9\n")
        );
        let config = Config::from_text(None, &text, &BTreeMap::new()).unwrap();
        let mut store = Store::new(&directory);
        let lists = store.load(&config.policy, [7; 32]).map(Arc::new);
        let cookies = CookieSecrets { current: [6; 16], previous: None };
        let secrets = Unconfigured::new([9; 32], cookies);
        let parts = Parts { lists, ..Parts::new([8; 32]) };
        let refused = Snapshot::first(config.clone(), &secrets, parts.clone());
        assert!(refused.is_err_and(|error| is_about_clients(&error)));
        let snapshot = first_snapshot(config, &secrets, (parts, [7; 32]), &store).unwrap();
        let made = &snapshot.parts.lists.as_ref().unwrap().making().lists;
        let in_force = made.iter().map(|list| (list.name.as_str(), list.stamp.is_some()));
        assert_eq!(in_force.collect::<Vec<_>>(), [("rpz", false), ("ads", true)]);
        for (list, expected) in snapshot.config.policy.lists.iter().zip([false, true]) {
            let text = std::fs::read(directory.join(&list.name)).unwrap();
            let judged = judge(&snapshot, &store, (list, &text));
            assert_eq!(judged.is_ok(), expected, "{}", list.name);
        }
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
