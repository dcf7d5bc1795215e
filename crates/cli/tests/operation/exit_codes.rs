//! Exit codes of commands that need no running server.

use std::process::Command;

use crate::upstream::Upstream;

/// The exit code of a command that finds no configuration file.
fn exit_code(arguments: &[&str]) -> Option<i32> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_avocet"));
    command.args(arguments).env("AVOCET_CONFIG", "").output().unwrap().status.code()
}

#[test]
fn a_query_and_a_check_say_by_their_exit_code_what_went_wrong() {
    let upstream = Upstream::start();
    let server = format!("@{}", upstream.addr);
    assert_eq!(exit_code(&["query", &server, "www.example"]), Some(0), "an answer");
    assert_eq!(exit_code(&["query", &server, "www.example", "NOTYPE"]), Some(2), "no such type");
    // Nothing listens on the port of a socket that was bound and closed.
    let closed = crate::server::udp_socket().local_addr().unwrap();
    assert_eq!(exit_code(&["query", &format!("@{closed}"), "www.example"]), Some(1), "no answer");
    assert_eq!(exit_code(&["check"]), Some(2), "no file to check");
}
