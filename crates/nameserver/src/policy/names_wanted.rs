//! Whether a policy uses the host names or hardware addresses of clients.

use avocet_config::policy::PolicyConfig;
use avocet_policy::client::Id;

/// Returns whether anything in the policy uses the host name of a client.
pub fn are_wanted(policy: &PolicyConfig) -> bool {
    let is_name = |text: &String| matches!(text.parse(), Ok(Id::Name(_)));
    let is_client = |text: &String| policy.clients.iter().any(|client| client.name == *text);
    !policy.is_empty()
        && (policy.rules.iter().any(|rule| rule.enabled && rule.when.contains("client.name"))
            || policy.clients.iter().flat_map(|client| &client.ids).any(is_name)
            || policy
                .groups
                .iter()
                .flat_map(|group| &group.clients)
                .any(|text| is_name(text) && !is_client(text)))
}

/// Returns whether anything in the policy uses the hardware address of a client. Host names of
/// leases are such a use, because a device has the name of its lease at all of its addresses.
pub fn macs_are_wanted(policy: &PolicyConfig) -> bool {
    let is_mac = |text: &String| matches!(text.parse(), Ok(Id::Mac(_)));
    let ids = policy.clients.iter().flat_map(|client| &client.ids);
    let members = policy.groups.iter().flat_map(|group| &group.clients);
    !policy.is_empty()
        && (policy.rules.iter().any(|rule| rule.enabled && rule.when.contains("client.mac"))
            || ids.chain(members).any(is_mac)
            || policy.leases.is_some() && are_wanted(policy))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use avocet_config::Config;

    use super::are_wanted as is_so;

    #[test]
    fn hardware_addresses_are_wanted_where_something_goes_by_them() {
        let are_wanted = |more: &str| {
            let text = format!("[[list]]\nname = \"l\"\nfile = \"x\"\n{more}");
            let config = Config::from_text(None, &text, &BTreeMap::new()).unwrap();
            super::macs_are_wanted(&config.policy)
        };
        assert!(!are_wanted("[[client]]\nname = \"c\"\nids = [\"10.0.0.1\", \"tablet.lan\"]\n"));
        assert!(are_wanted("[[client]]\nname = \"c\"\nids = [\"02:00:00:00:00:01\"]\n"));
        let leases = "[policy]\nleases = \"l\"\n";
        assert!(!are_wanted(leases));
        assert!(are_wanted(&format!("{leases}[[client]]\nname = \"c\"\nids = [\"tablet\"]\n")));
        assert!(are_wanted("[[group]]\nname = \"g\"\nclients = [\"02-00-00-00-00-01\"]\n"));
        let rule = "[[rule]]\nname = \"r\"\nwhen = 'client.mac == \"02:00:00:00:00:01\"'\naction \
                    = \"block\"\n";
        assert!(are_wanted(rule) && !are_wanted(&format!("{rule}enabled = false\n")));
    }

    #[test]
    fn names_are_wanted_where_something_goes_by_them() {
        let are_wanted = |more: &str| {
            let text = format!("[[list]]\nname = \"l\"\nfile = \"x\"\n{more}");
            is_so(&Config::from_text(None, &text, &BTreeMap::new()).unwrap().policy)
        };
        let client = "[[client]]\nname = \"tablet\"\nids = [\"10.0.0.1\"]\n";
        assert!(!are_wanted(""));
        assert!(!are_wanted(client));
        assert!(!are_wanted(&format!(
            "{client}[[group]]\nname = \"g\"\nclients = [\"tablet\", \"10.0.0.9\"]\n"
        )));
        assert!(are_wanted("[[group]]\nname = \"g\"\nclients = [\"tablet.lan\"]\n"));
        assert!(are_wanted(&client.replace("10.0.0.1", "tablet.lan")));
        let rule = "[[rule]]\nname = \"r\"\nwhen = 'client.name.ends_with(\".lan\")'\naction = \
                    \"block\"\n";
        assert!(are_wanted(rule) && !are_wanted(&format!("{rule}enabled = false\n")));
    }
}
