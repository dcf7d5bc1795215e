//! The commands on revisions of the configuration.

use std::fs;

use serde_json::Value;

use crate::server::Site;
use crate::upstream::Upstream;

#[test]
fn changes_by_command_and_by_hand_are_in_the_history_and_can_be_undone() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "[policy] # ours\nblock-ttl-secs = 60 # a minute");
    let original = fs::read_to_string(site.file()).unwrap();
    let _server = site.start();

    let set = ["config", "set", "policy.block-answer", "nxdomain", "--comment", "for phones"];
    let text = site.avocet_text(&set);
    assert!(text.starts_with("revision 2\nreloaded"), "{text}");
    let changed = fs::read_to_string(site.file()).unwrap();
    assert!(changed.contains("[policy] # ours\nblock-ttl-secs = 60 # a minute\n"), "{changed}");
    assert!(changed.contains("block-answer = \"nxdomain\"\n"), "{changed}");

    site.write(&changed.replace("= 60", "= 30"));
    site.avocet_text(&["reload"]);
    let diff = site.avocet_text(&["config", "diff", "2"]);
    let lines = "-block-ttl-secs = 60 # a minute\n+block-ttl-secs = 30 # a minute\n";
    assert!(diff.starts_with("--- revision 2\n+++ revision 3\n") && diff.contains(lines), "{diff}");

    assert!(site.avocet_text(&["config", "rollback", "1"]).starts_with("revision 4\n"));
    assert_eq!(fs::read_to_string(site.file()).unwrap(), original);
    let history = site.avocet_text(&["config", "history", "--json"]);
    let history: Value = serde_json::from_str(&history).unwrap();
    let field = |name: &str| -> Vec<&str> {
        let all = history["revisions"].as_array().unwrap().iter();
        all.map(|one| one[name].as_str().unwrap_or_default()).collect()
    };
    assert_eq!(history["in-force"], 4);
    assert_eq!(field("origin"), ["rollback", "file", "edit", "start"]);
    assert_eq!(field("comment"), ["rollback to revision 1", "", "for phones", ""]);

    for arguments in
        [&["config", "rollback", "9"][..], &["config", "set", "x", "1"], &["config", "confirm"]]
    {
        let output = site.avocet(arguments);
        assert!(!output.status.success() && !output.stderr.is_empty(), "{arguments:?}");
    }
}
