//! The texts of `avocet anchors` and `avocet nta`.

use avocet_control::trust::{
    AnchorState, AnchorStatus, AnchorsReport, NegativeAdded, NegativeAnchorStatus, NegativeAnchors,
    NegativeRemoved, RootZoneStatus,
};

use crate::span::{ago, left};

/// Returns a line for each key.
pub(crate) fn anchors_text(report: &AnchorsReport) -> String {
    let mut lines: Vec<String> = report.anchors.iter().map(anchor_text).collect();
    lines.extend(report.root_zone.as_ref().map(root_zone_text));
    match (report.validates, report.followed) {
        (false, _) => lines.push("; nothing is validated".to_owned()),
        (true, false) => {
            lines.push("; rollovers are not followed: trust-anchor-updates is false".to_owned())
        }
        (true, true) => {}
    }
    lines.join("\n")
}

fn anchor_text(key: &AnchorStatus) -> String {
    let mut line = format!("{} {} {}", key.zone, key.tag, key.state);
    if key.since.is_some() {
        line += &format!(", since {}, last seen {}", ago(key.since), ago(key.observed));
    }
    match (key.state, key.until.unwrap_or(0)) {
        (AnchorState::AddPending, until) => line += &format!(", trusted in {}", left(until)),
        (AnchorState::Revoked, until) => line += &format!(", removed in {}", left(until)),
        (AnchorState::Configured | AnchorState::Valid | AnchorState::Missing, _) => {}
    }
    if let Some(fault) = &key.fault {
        line += &format!("; {fault}");
    }
    line
}

/// Returns the text about the copy of the root zone, with its last failure.
fn root_zone_text(zone: &RootZoneStatus) -> String {
    let fault = zone.fault.as_ref().map(|fault| format!("; {fault}")).unwrap_or_default();
    let Some(serial) = zone.serial else { return format!("root zone: no copy in use{fault}") };
    let from = zone.from.as_deref().unwrap_or_default();
    let (checked, expires) = (ago(zone.checked), left(zone.expires.unwrap_or(0)));
    format!("root zone {serial} from {from}, last checked {checked}, expires in {expires}{fault}")
}

/// Returns a line for each negative trust anchor.
pub(crate) fn negative_text(reply: &NegativeAnchors) -> String {
    let line = |anchor: &NegativeAnchorStatus| match anchor.until {
        None => format!("{} as configured", anchor.name),
        Some(until) => format!("{} for {}", anchor.name, left(until)),
    };
    let lines: Vec<String> = reply.anchors.iter().map(line).collect();
    if lines.is_empty() { "; everything is validated".to_owned() } else { lines.join("\n") }
}

/// Returns the text of `avocet nta add`.
pub(crate) fn added_text(reply: &NegativeAdded) -> String {
    format!("validation of {} is off for {}", reply.name, left(reply.until))
}

/// Returns the text of `avocet nta remove`.
pub(crate) fn removed_text(reply: &NegativeRemoved) -> String {
    format!("validation of {} is on again", reply.name)
}
