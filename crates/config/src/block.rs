//! How blocked questions are answered, and the page that says so to a browser.

use std::mem;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use avocet_policy::rule::{ActionKind, BlockForm, RuleSpec};

use super::check::Check;
use super::policy::PolicyConfig;
use super::policy_spec::PolicySpec;

/// Most addresses that the block page is served on.
const MAX_PAGES: usize = 16;

/// How blocked questions are answered where no rule says otherwise.
#[derive(Debug, Clone, PartialEq)]
pub struct BlockConfig {
    /// Form.
    pub answer: BlockForm,
    /// With [`BlockForm::Addresses`]; none: those of the page.
    pub addresses: Vec<IpAddr>,
    /// Time to live.
    pub ttl_secs: u32,
    /// Where the page that says what was blocked is served.
    pub page: Vec<SocketAddr>,
}

impl BlockConfig {
    /// What blocked questions get with [`BlockForm::Addresses`]: the addresses as written, or else
    /// those of the page.
    pub fn answered(&self) -> Vec<IpAddr> {
        if !self.addresses.is_empty() {
            return self.addresses.clone();
        }
        let mut addresses: Vec<IpAddr> = Vec::new();
        for ip in self.page.iter().map(SocketAddr::ip) {
            if !ip.is_unspecified() && !addresses.contains(&ip) {
                addresses.push(ip);
            }
        }
        addresses
    }
}

/// Reads how blocked questions are answered.
pub(super) fn block(spec: &mut PolicySpec, check: &mut Check) -> BlockConfig {
    let at = spec.block_answer.span();
    let answer =
        check.take(mem::take(&mut spec.block_answer)).map_or(BlockForm::Zero, |answer| answer.0);
    let addresses =
        check.take(mem::take(&mut spec.block_addresses)).map_or_else(Vec::new, |list| list.0);
    let addresses: Vec<IpAddr> =
        addresses.into_iter().map(|address| address.into_inner().0).collect();
    let page_at = spec.block_page.span();
    let page = check.addresses(mem::take(&mut spec.block_page));
    if page.len() > MAX_PAGES {
        check.fault(page_at.unwrap_or_default(), format!("more than {MAX_PAGES} addresses"));
    }
    let ttl_secs = check.take(mem::take(&mut spec.block_ttl_secs)).map_or(60, |secs| secs.0);
    let block = BlockConfig { answer, addresses, ttl_secs, page };
    if let Some(at) = at.filter(|_| answer == BlockForm::Addresses && block.answered().is_empty()) {
        check.fault(
            at,
            "\"addresses\" needs `block-addresses`, such as [\"192.0.2.1\", \"2001:db8::1\"]",
        );
    }
    block
}

/// Notes it where the page is served and no answer leads to it.
pub(super) fn is_led_to(at: Option<Range<usize>>, config: &PolicyConfig, check: &mut Check) {
    let leads = |rule: &RuleSpec| {
        rule.answer == Some(BlockForm::Addresses) || rule.action == ActionKind::Redirect
    };
    let is_led_to = config.block.answer == BlockForm::Addresses || config.rules.iter().any(leads);
    if let Some(at) = at.filter(|_| !config.block.page.is_empty() && !is_led_to) {
        check.fault(at, "no response leads to the block page; write block-answer = \"addresses\"");
    }
}
