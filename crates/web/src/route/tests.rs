//! Comparisons of the routes with the command line and with each other.

use std::collections::BTreeSet;

use avocet_control::schema;
use schemars::generate::SchemaSettings;

use AccessScope::Explain;
use Verb::Get;

use super::*;

#[test]
fn whatever_the_command_line_can_do_the_interface_can_do() {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let commands: BTreeSet<String> =
        schema::all_in(&mut generator).into_iter().map(|one| one.command).collect();
    let called: BTreeSet<String> =
        ROUTES.iter().filter_map(|route| route.command().map(str::to_owned)).collect();
    assert_eq!(called, commands);
}

#[test]
fn no_two_routes_are_equal_and_guards_name_what_can_be_read() {
    let routes: BTreeSet<_> = ROUTES.iter().map(|route| (route.path, route.verb)).collect();
    assert_eq!(routes.len(), ROUTES.len());
    for route in ROUTES {
        assert!(route.path.starts_with('/') && !route.summary.ends_with('.'));
        if let Some(guarded) = route.guards {
            assert_ne!(route.verb, Get);
            assert!(routes.contains(&(guarded, Get)), "{guarded}");
        }
    }
}

#[test]
fn each_change_needs_a_scope_for_changes_and_each_read_one_for_reads() {
    for route in ROUTES {
        match route.needs {
            // A trace changes nothing, but sends queries.
            Needs::Scope(Explain) => {}
            Needs::Scope(scope) => {
                // A check changes nothing, but its fields need a body.
                let checks = ["/config/check", "/policy/dry-run"];
                let is_check = checks.contains(&route.path) || route.path.ends_with("/test");
                let is_change = route.verb != Get && !is_check;
                assert_eq!(scope.is_write(), is_change, "{}", route.path);
            }
            Needs::Session => assert!(route.path.starts_with("/session")),
            Needs::Nothing => {
                let open = ["/setup", "/session", "/session/ways", "/openapi.json"];
                assert!(open.contains(&route.path) || route.path.starts_with("/session/oidc"));
            }
        }
    }
}
