//! Tests that run in a network namespace of their own, with all ports free.

use std::process::Command;

use crate::server::is_here;

/// Set in the process that runs a test in a network namespace.
const IN_NAMESPACE: &str = "AVOCET_TEST_IN_NAMESPACE";

/// Runs the test with this path again in a namespace, and `check` there. Uses `unshare` and `ip`,
/// and `commands`.
pub(crate) fn in_namespace(test: &str, commands: &[&str], check: impl FnOnce()) {
    if std::env::var_os(IN_NAMESPACE).is_some() {
        return check();
    }
    let enter = ["--map-root-user", "--net", "sh", "-c", "ip link set lo up && exec \"$0\" \"$@\""];
    let can = Command::new("unshare").args(enter).arg("true").status();
    let is_possible = can.is_ok_and(|status| status.success());
    if !is_possible || !commands.iter().all(|command| is_here(command)) {
        assert!(std::env::var_os("CI").is_none(), "unshare, ip and {commands:?} are needed");
        eprintln!("skipped: no network namespace can be made, or one of {commands:?} is missing");
        return;
    }
    let mut command = Command::new("unshare");
    command.args(enter).arg(std::env::current_exe().unwrap()).args([test, "--exact"]);
    let output = command.env(IN_NAMESPACE, "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}
