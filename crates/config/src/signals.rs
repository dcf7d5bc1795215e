//! The rules that the server adds for signals: programs leave DNS to the network if certain names
//! do not exist.
//!
//! They come after all rules of the file, so that `allow` for a group takes precedence.

use avocet_policy::rule::{ActionKind, BlockForm, RuleSpec};
use toml::Spanned;

use super::check::Check;
use super::policy_spec::{ListTable, PolicySpec};

/// The signals that the server sends to programs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Signals {
    /// Firefox does not turn DNS over HTTPS on by itself.
    pub firefox_dns: bool,
    /// Devices of Apple do not use Private Relay.
    pub private_relay: bool,
}

impl Signals {
    /// Reads the settings. By default, Firefox gets the signal if lists filter names, because it
    /// would otherwise bypass them. A user who has turned DNS over HTTPS on keeps it.
    pub(super) fn read(
        policy: &mut PolicySpec,
        lists: &[Spanned<ListTable>],
        check: &mut Check,
    ) -> Self {
        let mut take = |setting: &mut _| check.take(std::mem::take(setting));
        Self {
            firefox_dns: take(&mut policy.block_firefox_dns).unwrap_or(!lists.is_empty()),
            private_relay: take(&mut policy.block_private_relay).unwrap_or(false),
        }
    }

    /// Returns whether no program gets a signal.
    pub(super) fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// Returns the rules of the signals, at most `MAX_ADDED_RULES`. They block with NXDOMAIN: an
    /// answer with addresses would tell the program that the network has no objection.
    pub(super) fn rules(self) -> impl Iterator<Item = RuleSpec> {
        let rule = |name: &str, names: &str| RuleSpec {
            name: name.to_owned(),
            when: format!("qname in [{names}]"),
            action: ActionKind::Block,
            enabled: true,
            priority: i32::MAX,
            time_zone: None,
            log_only: false,
            answer: Some(BlockForm::Nxdomain),
            to: Vec::new(),
            min_secs: None,
            max_secs: None,
            rps: None,
            burst: None,
            per: None,
            over: None,
            tag: None,
        };
        let firefox = || rule("block-firefox-dns", "\"use-application-dns.net\"");
        let relay = || rule("block-private-relay", "\"mask.icloud.com\", \"mask-h2.icloud.com\"");
        let firefox = self.firefox_dns.then(firefox);
        firefox.into_iter().chain(self.private_relay.then(relay))
    }
}
