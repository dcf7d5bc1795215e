//! The steps of a trace as text, for the report of a fault.

use avocet_resolver::{Event, Step, Taken, Trace};

use crate::shown;

/// Returns the steps of a trace, one per line.
pub(super) fn steps(trace: &Trace) -> Vec<String> {
    let line = |event: &Event| {
        let step = match &event.step {
            Step::Seek { name, rtype, .. } => format!("seek {} {rtype}", shown(name)),
            Step::Cut { zone, addresses, .. } => {
                format!("cut {}, {addresses} addresses", shown(zone))
            }
            Step::Sent { server, name, rtype, carrier, .. } => {
                let name = name.as_ref().map(|name| shown(name)).unwrap_or_default();
                format!(
                    "ask {} {name} {rtype}{}",
                    server.ip(),
                    if carrier.is_stream() { " by TCP" } else { "" }
                )
            }
            Step::Replied { server, reaction, .. } => format!("{}: {reaction:?}", server.ip()),
            Step::Taken(Taken::Referral(zone)) => format!("referral to {}", shown(zone)),
            Step::Alias(name) => format!("alias: continuing with {}", shown(name)),
            Step::Judged { name, rtype, verdict, fault, .. } => {
                format!("{} {rtype}: {verdict:?} {fault:?}", shown(name))
            }
            Step::Chain { zone, fault, .. } => format!("keys of {}: {fault:?}", shown(zone)),
            Step::KnownChain { zone, fault } => format!("known keys of {}: {fault:?}", shown(zone)),
            Step::Cached { name, rtype, find, .. } => {
                format!("cached {} {rtype}: {find:?}", shown(name))
            }
            other => format!("{other:?}"),
        };
        format!("{:>5} ms {}{step}", event.at_ms, "  ".repeat(event.depth.into()))
    };
    trace.events().iter().map(line).collect()
}
