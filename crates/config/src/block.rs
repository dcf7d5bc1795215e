//! The response to blocked names, and the block page for browsers.

use std::mem;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use avocet_policy::rule::{ActionKind, BlockForm, RuleSpec};

use super::check::Check;
use super::policy::PolicyConfig;
use super::policy_spec::PolicySpec;

/// Maximum number of addresses on which the block page is served.
const MAX_PAGES: usize = 16;

/// The default response to blocked names; rules may override it.
#[derive(Debug, Clone, PartialEq)]
pub struct BlockConfig {
    /// The form of the response.
    pub answer: BlockForm,
    /// The addresses for [`BlockForm::Addresses`]; empty for the addresses of the page.
    pub addresses: Vec<IpAddr>,
    /// The TTL of the response.
    pub ttl_secs: u32,
    /// The addresses that serve the block page.
    pub page: Vec<SocketAddr>,
}

impl BlockConfig {
    /// Returns the addresses in responses with [`BlockForm::Addresses`]: the configured ones, or
    /// the addresses of the page if none are configured.
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

/// Reads the settings of `[policy]` on blocked names.
pub(super) fn block(spec: &mut PolicySpec, check: &mut Check) -> BlockConfig {
    let (at, addresses_at) = (spec.block_answer.span(), spec.block_addresses.span());
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
    let is_idle = answer != BlockForm::Addresses && !block.addresses.is_empty();
    if let Some(at) = addresses_at.filter(|_| is_idle) {
        check.doubt(at, "`block-addresses` has no effect without `block-answer = \"addresses\"`");
    }
    if let Some(at) = at.filter(|_| answer == BlockForm::Addresses && block.answered().is_empty()) {
        check.fault(
            at,
            "\"addresses\" needs `block-addresses`, such as [\"192.0.2.1\", \"2001:db8::1\"]",
        );
    }
    block
}

/// Reports a fault if the page is served but no response directs clients to it.
pub(super) fn is_led_to(at: Option<Range<usize>>, config: &PolicyConfig, check: &mut Check) {
    let leads = |rule: &RuleSpec| {
        rule.answer == Some(BlockForm::Addresses) || rule.action == ActionKind::Redirect
    };
    let is_led_to = config.block.answer == BlockForm::Addresses || config.rules.iter().any(leads);
    if let Some(at) = at.filter(|_| !config.block.page.is_empty() && !is_led_to) {
        check.fault(at, "no response leads to the block page; write block-answer = \"addresses\"");
    }
}
