//! Whether an entry of the query log is among those that a client asks for.

use avocet_config::name::typed_name;
use avocet_control::ControlError;
use avocet_control::log::{LogEntry, LogFilter};
use avocet_wire::FoldedNameBuf;

/// A filter with its names in the form of entries.
pub(crate) struct EntryFilter {
    filter: LogFilter,
    name: Option<String>,
    under: Option<String>,
}

impl EntryFilter {
    /// Reads a filter.
    ///
    /// # Errors
    /// A name is malformed.
    pub(crate) fn read(filter: LogFilter) -> Result<Self, ControlError> {
        let name = |text: &Option<String>| text.as_deref().map(shown_name).transpose();
        Ok(Self { name: name(&filter.name)?, under: name(&filter.under)?, filter })
    }

    /// Reports whether an entry is meant.
    pub(crate) fn takes(&self, entry: &LogEntry) -> bool {
        let Self { filter, name, under } = self;
        let LogFilter { client, rtype, rcode, outcome, rule, list, upstream, from, to, .. } =
            filter;
        let is = |wanted: &Option<String>, found: Option<&str>| {
            let Some(wanted) = wanted else { return true };
            found.is_some_and(|found| found.eq_ignore_ascii_case(wanted))
        };
        let time = entry.time_us / 1_000_000;
        is(name, entry.name.as_deref())
            && under
                .as_ref()
                .is_none_or(|zone| entry.name.as_ref().is_some_and(|name| is_under(name, zone)))
            && (is(client, entry.client.as_deref()) || is(client, entry.client_name.as_deref()))
            && is(rtype, Some(&entry.rtype))
            && is(rcode, entry.rcode.as_deref())
            && outcome.is_none_or(|wanted| wanted == entry.outcome)
            && is(rule, entry.rule.as_deref())
            && list.as_ref().is_none_or(|wanted| entry.lists.contains(wanted))
            && upstream.is_none_or(|wanted| entry.upstream.as_ref() == Some(&wanted.to_string()))
            && from.is_none_or(|from| time >= from)
            && to.is_none_or(|to| time < to)
    }
}

/// Returns a name as entries show it.
fn shown_name(text: &str) -> Result<String, ControlError> {
    let invalid = |fault: String| ControlError::InvalidName(fault);
    let name = typed_name(text).map_err(|error| invalid(error.to_string()))?;
    let name = FoldedNameBuf::from_wire(&name).map_err(|error| invalid(error.to_string()))?;
    Ok(name.to_string())
}

/// Reports whether a name is a zone or below it; both end with a dot.
fn is_under(name: &str, zone: &str) -> bool {
    let Some(before) = name.strip_suffix(zone) else { return false };
    before.is_empty() || before.ends_with('.') || zone == "."
}
