//! Tests of the table of commands and the requests that they send. The table must match the
//! commands of the binary, the requests of the control socket, and the routes of the API.

use std::collections::BTreeSet;

use avocet_control::schema::InterfaceSchema;
use avocet_web::local::LocalCall;
use avocet_web::route::{Does, OwnCall, ROUTES};
use clap::CommandFactory as _;

use crate::args::Cli;

mod table;

use table::Work::{AnyRequest, Requests};
use table::{BY_CALL, COMMANDS};

fn names(command: &clap::Command, above: &str, found: &mut BTreeSet<String>) {
    for one in command.get_subcommands().filter(|one| one.get_name() != "help") {
        let name = format!("{above}{}", one.get_name());
        names(one, &format!("{name} "), found);
        let is_group = one.has_subcommands() && one.is_subcommand_required_set();
        if !is_group {
            found.insert(name);
        }
    }
}

fn requests() -> BTreeSet<String> {
    let schema = serde_json::to_value(InterfaceSchema::of_all()).unwrap();
    schema["commands"].as_object().unwrap().keys().cloned().collect()
}

#[test]
fn the_table_has_every_command() {
    let mut found = BTreeSet::new();
    names(&Cli::command(), "", &mut found);
    let table: BTreeSet<String> = COMMANDS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(table.len(), COMMANDS.len());
    assert_eq!(table, found);
}

#[test]
fn the_command_line_can_send_every_request_of_the_server() {
    let mut sent: BTreeSet<&str> = BY_CALL.iter().copied().collect();
    for (name, work) in COMMANDS {
        let Requests(of_command) = work else { continue };
        for request in *of_command {
            assert!(!BY_CALL.contains(request), "{name} sends {request}");
            sent.insert(*request);
        }
    }
    let requests = requests();
    assert_eq!(sent, requests.iter().map(String::as_str).collect());
    assert!(COMMANDS.iter().any(|(_, work)| matches!(work, AnyRequest)));
    // `avocet call` sends these requests by their routes.
    for request in BY_CALL {
        let is_route = |does| matches!(does, Does::Call(command, _) if command == *request);
        let route = ROUTES.iter().find(|route| is_route(route.does)).unwrap();
        let call =
            LocalCall::read(route.verb.method().as_str(), route.path, serde_json::Map::new());
        let is_possible = call.is_ok_and(|call| matches!(call, LocalCall::Request(_)));
        assert!(is_possible || ["connect-document", "log-show"].contains(request), "{request}");
    }
}

#[test]
fn the_api_can_do_what_the_command_line_can() {
    let served: BTreeSet<&str> = ROUTES.iter().filter_map(|route| route.command()).collect();
    for (name, work) in COMMANDS {
        let Requests(of_command) = work else { continue };
        for request in *of_command {
            assert!(served.contains(request), "{name}: no route leads to {request}");
        }
    }
    // The other routes of the API are for browsers, except for the audit log, which is a file.
    for route in ROUTES.iter().filter(|route| route.command().is_none()) {
        let is_own = matches!(route.does, Does::Own(own) if own != OwnCall::SessionList);
        assert!(is_own, "{}", route.path);
    }
}
