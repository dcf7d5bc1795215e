//! Tests whether an entry of the query log matches the filter of a client, both for new entries and
//! for entries in the files.

use std::net::{IpAddr, SocketAddr};

use avocet_config::name::typed_name;
use avocet_control::ControlError;
use avocet_control::limits::UserLimits;
use avocet_control::log::{LogEntry, LogFilter, SharedEntry};
use avocet_control::log_fault::LogFault;
use avocet_querylog::column::{Set, Text};
use avocet_querylog::{ClientNetwork, Condition, Filter};
use avocet_wire::{FoldedNameBuf, Rtype, rdata};
use ipnet::IpNet;

use avocet_worker::resolver_report::LOGGED_ENCRYPTED;

/// A filter with its names in the form of entries.
pub(crate) struct EntryFilter {
    filter: LogFilter,
    name: Option<String>,
    under: Option<String>,
    contains: Option<String>,
    client: Option<WantedClient>,
    within: Option<UserLimits>,
}

/// The clients that a filter selects.
#[derive(PartialEq, Debug)]
enum WantedClient {
    /// The client has this address.
    Address(String),
    /// The client is in this network.
    Network(ClientNetwork),
    /// The client has this name.
    Name(String),
}

impl WantedClient {
    /// Reads the client of a filter: an address, a network or a name.
    ///
    /// # Errors
    /// A network has bits after the prefix, so the addresses that it selects are ambiguous.
    fn read(text: &str) -> Result<Self, ControlError> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::Address(address.to_string()));
        }
        let Ok(network) = text.parse::<IpNet>() else { return Ok(Self::Name(text.to_owned())) };
        let (ip, prefix) = (network.network(), network.prefix_len());
        match ClientNetwork::new(ip, prefix).filter(|_| ip == network.addr()) {
            Some(network) => Ok(Self::Network(network)),
            None => Err(LogFault::HostBits(ip, prefix).into()),
        }
    }

    fn takes(&self, entry: &LogEntry) -> bool {
        match self {
            Self::Address(address) => entry.client.as_ref() == Some(address),
            Self::Network(network) => {
                entry.client.as_ref().is_some_and(|client| network.includes(client))
            }
            Self::Name(name) => {
                let is = |found: &Option<String>| {
                    found.as_ref().is_some_and(|found| found.eq_ignore_ascii_case(name))
                };
                is(&entry.client) || is(&entry.client_name)
            }
        }
    }

    fn condition(self) -> Condition {
        match self {
            Self::Address(address) => Condition::Is(Text::Client, vec![address]),
            Self::Network(network) => Condition::Within(network),
            Self::Name(name) => Condition::Is(Text::Device, vec![name]),
        }
    }
}

impl EntryFilter {
    /// Reads a filter.
    ///
    /// # Errors
    /// A name or network is malformed, or a text is empty.
    pub(crate) fn read(filter: LogFilter) -> Result<Self, ControlError> {
        refuse_empty(&filter)?;
        let name = |text: &Option<String>| text.as_deref().map(shown_name).transpose();
        let client = filter.client.as_deref().map(WantedClient::read).transpose()?;
        let (name, under) = (name(&filter.name)?, name(&filter.under)?);
        let contains = filter.contains.as_deref().map(shown_part).transpose()?;
        let within = filter.within.clone();
        Ok(Self { name, under, contains, client, within, filter })
    }

    /// Returns an entry as far as the user of the filter may see it.
    pub(crate) fn trimmed(&self, entry: &SharedEntry) -> SharedEntry {
        let Some(limits) = &self.within else { return entry.clone() };
        let mut trimmed = (**entry).clone();
        limits.trim_entry(&mut trimmed);
        if trimmed == **entry { entry.clone() } else { trimmed.into() }
    }

    /// Returns whether the filter selects an entry.
    pub(crate) fn takes(&self, entry: &LogEntry) -> bool {
        let Self { filter, name, under, contains, client, within } = self;
        let LogFilter { device, group, rtype, rcode, outcome, kind, .. } = filter;
        let LogFilter { rule, list, upstream, from, to, .. } = filter;
        let is = |wanted: &Option<String>, found: Option<&str>| {
            let Some(wanted) = wanted else { return true };
            found.is_some_and(|found| found.eq_ignore_ascii_case(wanted))
        };
        let time = entry.time_us / 1_000_000;
        within.as_ref().is_none_or(|limits| is_within(limits, entry))
            && is(name, entry.name.as_deref())
            && under
                .as_ref()
                .is_none_or(|zone| entry.name.as_ref().is_some_and(|name| is_under(name, zone)))
            && contains
                .as_ref()
                .is_none_or(|part| entry.name.as_ref().is_some_and(|name| name.contains(part)))
            && client.as_ref().is_none_or(|wanted| wanted.takes(entry))
            && is(device, entry.client_name.as_deref())
            && group.as_ref().is_none_or(|wanted| entry.groups.contains(wanted))
            && is(rtype, Some(&entry.rtype))
            && is(rcode, entry.rcode.as_deref())
            && outcome.is_none_or(|wanted| wanted == entry.outcome)
            && kind.is_none_or(|wanted| wanted == entry.kind)
            && is(rule, entry.rule.as_deref())
            && list.as_ref().is_none_or(|wanted| entry.lists.contains(wanted))
            && upstream.is_none_or(|wanted| {
                entry.upstream.as_ref().is_some_and(|one| logged(wanted).contains(one))
            })
            && from.is_none_or(|from| time >= from)
            && to.is_none_or(|to| time < to)
    }
}

/// Returns whether a user with these limits may see an entry.
pub(crate) fn is_within(limits: &UserLimits, entry: &LogEntry) -> bool {
    let groups = entry.groups.iter().map(String::as_str);
    limits.takes(groups, entry.name.as_deref().unwrap_or_default())
}

/// Returns the condition that selects the entries that a user with these limits may see.
///
/// # Errors
/// A zone of the limits is malformed.
pub(crate) fn within(limits: &UserLimits) -> Result<Condition, ControlError> {
    let groups = limits.groups.iter().cloned().map(|group| Ok(Condition::Has(Set::Groups, group)));
    let zones = limits.zones.iter().map(|zone| shown_name(zone).map(Condition::Under));
    groups.chain(zones).collect::<Result<_, _>>().map(Condition::Any)
}

/// Returns the texts by which the log may refer to an upstream.
fn logged(upstream: SocketAddr) -> Vec<String> {
    let schemes = [""].into_iter().chain(LOGGED_ENCRYPTED);
    schemes.map(|scheme| format!("{scheme}{upstream}")).collect()
}

/// Returns the filter of a search in the files. An address selects the client with this address, a
/// network all clients in it, and any other text the client with this name.
///
/// # Errors
/// A name, network or type is malformed, a text is empty, or the period ends before it begins.
pub fn stored_filter(filter: &LogFilter) -> Result<Filter, ControlError> {
    refuse_empty(filter)?;
    let LogFilter { name, under, contains, client, device, group, rtype, rcode, .. } = filter;
    let LogFilter { outcome, kind, rule, list, upstream, from, to, .. } = filter;
    let name_of = |text: &Option<String>| text.as_deref().map(shown_name).transpose();
    let is = |column, text: Option<String>| text.map(|text| Condition::Is(column, vec![text]));
    let qtype = rtype.as_deref().map(|word| {
        let known = rdata::from_mnemonic(word).map(Rtype);
        known.ok_or_else(|| ControlError::UnknownType(word.to_owned()))
    });
    let limits = filter.within.as_ref().map(within).transpose()?;
    let client = client.as_deref().map(WantedClient::read).transpose()?;
    let conditions = [
        limits,
        is(Text::Qname, name_of(name)?),
        name_of(under)?.map(Condition::Under),
        contains.as_deref().map(shown_part).transpose()?.map(Condition::Contains),
        client.map(WantedClient::condition),
        is(Text::Device, device.clone()),
        group.clone().map(|group| Condition::Has(Set::Groups, group)),
        is(Text::Qtype, qtype.transpose()?.map(|qtype| qtype.to_string())),
        is(Text::Rcode, rcode.as_ref().map(|rcode| rcode.to_ascii_uppercase())),
        is(Text::Stage, outcome.map(|stage| stage.text().to_owned())),
        is(Text::Outcome, kind.map(|kind| kind.text().to_owned())),
        is(Text::Rule, rule.clone()),
        list.clone().map(|list| Condition::Has(Set::Lists, list)),
        upstream.map(|upstream| Condition::Is(Text::Upstream, logged(upstream).to_vec())),
    ];
    let micros = |secs: u64| secs.saturating_mul(1_000_000);
    let time_us = from.map_or(0, micros)..to.map_or(u64::MAX, micros);
    if time_us.is_empty() {
        return Err(LogFault::EmptyTime.into());
    }
    Ok(Filter { time_us, conditions: conditions.into_iter().flatten().collect() })
}

/// Refuses empty texts. An empty variable of a script would otherwise select entries without a
/// value.
fn refuse_empty(filter: &LogFilter) -> Result<(), ControlError> {
    let LogFilter { name, under, contains, client, device, group, rtype, .. } = filter;
    let LogFilter { rcode, rule, list, .. } = filter;
    let texts = [
        ("name", name),
        ("under", under),
        ("contains", contains),
        ("client", client),
        ("device", device),
        ("group", group),
        ("type", rtype),
        ("rcode", rcode),
        ("rule", rule),
        ("list", list),
    ];
    match texts.iter().find(|(_, text)| text.as_deref().is_some_and(|text| text.trim().is_empty()))
    {
        Some((name, _)) => Err(LogFault::EmptyFilter(name).into()),
        None => Ok(()),
    }
}

/// Returns a name in the form of entries.
fn shown_name(text: &str) -> Result<String, ControlError> {
    let invalid = |fault: String| ControlError::InvalidName(fault);
    let name = typed_name(text).map_err(|error| invalid(error.to_string()))?;
    let name = FoldedNameBuf::from_wire(&name).map_err(|error| invalid(error.to_string()))?;
    Ok(name.to_string())
}

/// Returns a part of a name in the form of entries. A part in another alphabet consists of whole
/// labels, because the A-labels in entries do not have its letters.
fn shown_part(text: &str) -> Result<String, ControlError> {
    if text.is_ascii() {
        return Ok(text.trim().to_ascii_lowercase());
    }
    shown_name(text).map(|mut name| {
        name.truncate(name.len() - usize::from(!text.ends_with('.')));
        name
    })
}

/// Returns whether a name is a zone or below it; both end with a dot.
fn is_under(name: &str, zone: &str) -> bool {
    let Some(before) = name.strip_suffix(zone) else { return false };
    before.is_empty() || before.ends_with('.') || zone == "."
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_client(text: &str) -> LogFilter {
        LogFilter { client: Some(text.to_owned()), ..LogFilter::default() }
    }

    #[test]
    fn a_network_or_address_in_any_form_finds_entries() {
        let network = |ip: &str, prefix| {
            WantedClient::Network(ClientNetwork::new(ip.parse().unwrap(), prefix).unwrap())
        };
        for (text, expected) in [
            ("192.0.2.0/24", network("192.0.2.0", 24)),
            ("2001:DB8:0::/56", network("2001:db8::", 56)),
            ("2001:db8:0:0::1", WantedClient::Address("2001:db8::1".to_owned())),
            ("tablet", WantedClient::Name("tablet".to_owned())),
        ] {
            assert_eq!(EntryFilter::read(of_client(text)).unwrap().client, Some(expected));
        }
    }

    #[test]
    fn a_network_with_bits_after_the_prefix_is_refused_with_the_right_one() {
        for (text, network) in
            [("127.0.0.1/8", "`127.0.0.0/8`"), ("2001:db8::1/56", "`2001:db8::/56`")]
        {
            for error in [
                EntryFilter::read(of_client(text)).err().unwrap(),
                stored_filter(&of_client(text)).unwrap_err(),
            ] {
                assert!(error.to_string().contains(network), "{error}");
            }
        }
    }

    #[test]
    fn a_part_of_a_name_has_the_form_of_entries() {
        let check = |text: &str, expected: &str| {
            let filter = LogFilter { contains: Some(text.to_owned()), ..LogFilter::default() };
            let stored = stored_filter(&filter).unwrap().conditions;
            assert_eq!(stored, [Condition::Contains(expected.to_owned())], "{text}");
            assert_eq!(EntryFilter::read(filter).unwrap().contains.as_deref(), Some(expected));
        };
        check("Face", "face");
        check(" w.FACEbook.c ", "w.facebook.c");
        check(".com.", ".com.");
        check("Bücher", "xn--bcher-kva");
        check("bücher.example.", "xn--bcher-kva.example.");
    }

    #[test]
    fn an_empty_text_is_no_filter() {
        let set: [fn(&mut LogFilter); 4] = [
            |filter| filter.contains = Some(" ".to_owned()),
            |filter| filter.client = Some(String::new()),
            |filter| filter.rule = Some(" ".to_owned()),
            |filter| filter.list = Some(String::new()),
        ];
        for set in set {
            let mut filter = LogFilter::default();
            set(&mut filter);
            let error = stored_filter(&filter).unwrap_err().to_string();
            assert!(error.contains("is empty: leave it out"), "{error}");
            assert!(EntryFilter::read(filter).is_err());
        }
        assert!(stored_filter(&LogFilter::default()).is_ok());
    }
}
