//! Applies the limits of a user to requests and replies. Only this module decides what a limited
//! user may do.

use std::net::IpAddr;

use avocet_policy::rule::Scope;
use serde_json::Value;

use crate::access_request::{RequestGrant, RequestList, RequestRefuse};
use crate::call::Request;
use crate::clients::LogClients;
use crate::dry_run::PolicyDryRun;
use crate::limits::UserLimits;
use crate::log::{LogCount, LogEntry, LogSearch, LogShow, LogTail};
use crate::pools::PoolControl;
use crate::request::{Flush, FlushTree, Grant, Lookup, NtaAdd, NtaRemove, Pause, Trace};
use crate::statistics::{LogSeries, LogStatistics};
use crate::zone_edit::{EditAction, RecordEdit, ZoneEdit, ZoneHistory};
use crate::zone_keys::{ZoneKeys, ZoneSign};
use crate::zones::{ZoneExport, ZoneRecords, ZoneReload};

/// The type of ALIAS records, as in PowerDNS.
const ALIAS_TYPE: u16 = 65401;

impl UserLimits {
    /// Returns a request as far as the limits permit it. A request for logged queries is narrowed
    /// to the groups and zones of the user. Returns `None` for a request that the user may not
    /// send.
    pub fn admit(&self, mut request: Request) -> Option<Request> {
        let is_within = self.is_empty() || self.narrow(&mut request);
        is_within.then_some(request)
    }

    /// Narrows a request to the limits. Returns false if the request exceeds the limits, or if its
    /// kind is not listed here.
    fn narrow(&self, request: &mut Request) -> bool {
        match request {
            // These requests reveal no query and no client, apart from what `trim` removes from the
            // reply.
            Request::Anchors(_)
            | Request::CertificateList(_)
            | Request::ConfigHistory(_)
            | Request::Connect(_)
            | Request::ConnectDocument(_)
            | Request::ListsCheck(_)
            | Request::ListsStatus(_)
            | Request::Load(_)
            | Request::NtaList(_)
            | Request::PoolsStatus(_)
            | Request::PoolsWhatIf(_)
            | Request::SessionEnd(_)
            | Request::SessionList(_)
            | Request::Stats(_)
            | Request::Status(_)
            | Request::Switches(_)
            | Request::Why(_)
            | Request::ZonesStatus(_) => true,
            // These requests are about all clients and names, about the whole configuration, or
            // about users.
            Request::Backup(_)
            | Request::CertificateRenew(_)
            | Request::ConfigChange(_)
            | Request::ConfigCheck(_)
            | Request::ConfigConfirm(_)
            | Request::ConfigDiff(_)
            | Request::ConfigRollback(_)
            | Request::ConfigShow(_)
            | Request::ConfigText(_)
            | Request::Dump(_)
            | Request::ListsRefresh(_)
            // A device may be in several groups, and a deletion would remove its entries from all
            // of them.
            | Request::LogPrune(_)
            | Request::Reload(_)
            | Request::Restore(_)
            | Request::RestoreCancel(_)
            | Request::TokenCreate(_)
            | Request::TokenList(_)
            | Request::TokenRevoke(_)
            | Request::UserAdd(_)
            | Request::UserChange(_)
            | Request::UserList(_)
            | Request::UserRemove(_) => false,
            request => self.narrow_to_groups(request) || self.is_in_zone(request),
        }
    }

    /// Narrows a request about clients.
    fn narrow_to_groups(&self, request: &mut Request) -> bool {
        let asks = |group: &Option<String>| group.as_ref().is_some_and(|one| self.has_group(one));
        let within = match request {
            Request::LogTail(LogTail { filter })
            | Request::LogSearch(LogSearch { filter, .. })
            | Request::LogCount(LogCount { filter, .. })
            | Request::PolicyDryRun(PolicyDryRun { filter, .. }) => &mut filter.within,
            Request::LogShow(LogShow { within, .. })
            | Request::LogStatistics(LogStatistics { within, .. })
            | Request::LogSeries(LogSeries { within, .. })
            | Request::LogClients(LogClients { within, .. }) => within,
            Request::Pause(Pause { scope, .. }) | Request::Grant(Grant { scope, .. }) => {
                return self.has_scope(scope);
            }
            Request::RequestList(RequestList { group })
            | Request::RequestGrant(RequestGrant { group, .. })
            | Request::RequestRefuse(RequestRefuse { group, .. }) => return asks(group),
            _ => return false,
        };
        *within = Some(self.clone());
        true
    }

    /// Returns whether a request is about a name in one of the zones.
    fn is_in_zone(&self, request: &Request) -> bool {
        match request {
            Request::Lookup(Lookup { name, .. })
            | Request::Flush(Flush { name })
            | Request::FlushTree(FlushTree { name })
            | Request::Trace(Trace { name, .. })
            | Request::NtaAdd(NtaAdd { name, .. })
            | Request::NtaRemove(NtaRemove { name })
            | Request::ZoneRecords(ZoneRecords { name, .. })
            | Request::ZoneHistory(ZoneHistory { name, .. })
            | Request::ZoneReload(ZoneReload { name: Some(name), .. })
            | Request::ZoneKeys(ZoneKeys { name, .. })
            | Request::ZoneSign(ZoneSign { name, .. })
            | Request::ZoneExport(ZoneExport { name, .. })
            | Request::PoolControl(PoolControl { name, .. }) => self.has_zone(name),
            Request::ZoneEdit(ZoneEdit { name, edits, .. }) => {
                self.has_zone(name) && !edits.iter().any(writes_alias)
            }
            _ => false,
        }
    }

    /// Returns the reply to an admitted request, without pauses and grants of other groups, and
    /// without the content of the caches. Returns `None` if the reply explains an answer for a
    /// client of other groups.
    pub fn trim(&self, request: &Request, mut reply: Value) -> Option<Value> {
        if self.is_empty() {
            return Some(reply);
        }
        for switches in ["pauses", "grants"] {
            if let Some(all) = reply.get_mut(switches).and_then(Value::as_array_mut) {
                all.retain(|one| self.shows_scope(&one["scope"]));
            }
        }
        match request {
            Request::Why(why) => {
                // The listener and the identity select the view of zones. A user may not try those
                // of other clients, although the address is in one of the groups.
                let is_own =
                    why.listener.is_none() && why.id.is_none() && self.explains_own_client(&reply);
                match (self.has_zone(&why.name), is_own) {
                    (false, false) => return None,
                    (false, true) => Self::trim_sections(&mut reply)?,
                    (true, false) => self.remove_other_records(&mut reply),
                    (true, true) => {}
                }
                Some(reply)
            }
            Request::Trace(_) => {
                if !self.explains_own_client(&reply) {
                    self.remove_other_records(&mut reply);
                }
                Some(reply)
            }
            _ => Some(reply),
        }
    }

    /// Removes the sections of an explanation that its client could not know, and leaves the
    /// decision about the client, and the response. The caches and recent failures show what other
    /// clients query. Returns `None` if there are no sections.
    fn trim_sections(reply: &mut Value) -> Option<()> {
        let sections = reply.get_mut("sections")?.as_array_mut()?;
        sections.retain(|section| section["section"] == "policy" || section["section"] == "answer");
        Some(())
    }

    /// Returns whether an explanation is for a client in one of the groups.
    fn explains_own_client(&self, reply: &Value) -> bool {
        let is_own = |section: &Value| {
            let mut groups = section["client"]["groups"].as_array().into_iter().flatten();
            section["section"] == "policy"
                && groups.any(|group| group.as_str().is_some_and(|group| self.has_group(group)))
        };
        reply["sections"].as_array().into_iter().flatten().any(is_own)
    }

    /// Removes the records of names outside of the zones. A record that the user writes, such as a
    /// CNAME, may lead to a name that only some clients can query.
    fn remove_other_records(&self, value: &mut Value) {
        let is_other = |record: &Value| {
            let is_record = ["type", "ttl", "data"].iter().all(|field| record.get(field).is_some());
            is_record && !record["name"].as_str().is_some_and(|name| self.has_zone(name))
        };
        match value {
            Value::Array(items) => {
                items.retain(|item| !is_other(item));
                items.iter_mut().for_each(|item| self.remove_other_records(item));
            }
            Value::Object(fields) => {
                if let Some(answer) = fields.get_mut("answer").and_then(Value::as_array_mut) {
                    self.cut_answer(answer, Value::as_str);
                }
                fields.values_mut().for_each(|field| self.remove_other_records(field));
            }
            _ => {}
        }
    }

    /// Removes the answer of a logged query from the first alias on that leads out of the zones,
    /// unless its client is in one of the groups. The alias itself stays.
    pub fn trim_entry(&self, entry: &mut LogEntry) {
        if !self.is_empty() && !entry.groups.iter().any(|group| self.has_group(group)) {
            self.cut_answer(&mut entry.answer, |target| Some(target));
        }
    }

    /// Removes the targets after the first name outside of the zones. The texts of an answer are
    /// the targets of its aliases in order, and the addresses of the last one.
    fn cut_answer<T>(&self, answer: &mut Vec<T>, text: impl Fn(&T) -> Option<&str>) {
        let leads_out = |target: &T| {
            text(target).is_some_and(|text| text.parse::<IpAddr>().is_err() && !self.has_zone(text))
        };
        if let Some(last) = answer.iter().position(leads_out) {
            answer.truncate(last + 1);
        }
    }

    fn has_scope(&self, scope: &Scope) -> bool {
        matches!(scope, Scope::Group(group) if self.has_group(group))
    }

    /// Returns whether a scope is all clients or one of the groups.
    fn shows_scope(&self, scope: &Value) -> bool {
        let of_group = scope.get("group").and_then(Value::as_str);
        scope == "all" || of_group.is_some_and(|group| self.has_group(group))
    }
}

/// Returns whether an edit adds an ALIAS record. The server resolves the target for anyone, also if
/// it is a name that only this network sees, or leads to one by further aliases.
fn writes_alias(edit: &RecordEdit) -> bool {
    let rtype = edit.rtype.as_deref().unwrap_or_default().to_ascii_uppercase();
    let number = rtype.strip_prefix("TYPE").and_then(|number| number.parse::<u16>().ok());
    edit.action != EditAction::Remove && (rtype == "ALIAS" || number == Some(ALIAS_TYPE))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::request::Switches;

    fn limits(groups: &[&str], zones: &[&str]) -> UserLimits {
        let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        UserLimits { groups: texts(groups), zones: texts(zones) }
    }

    fn admitted(limits: &UserLimits, command: &str, fields: &Value) -> Option<Request> {
        let mut fields = fields.clone();
        fields["command"] = command.into();
        limits.admit(serde_json::from_value(fields).unwrap())
    }

    #[track_caller]
    fn check(limits: &UserLimits, command: &str, fields: &Value, expected: bool) {
        assert_eq!(admitted(limits, command, fields).is_some(), expected, "{command} {fields}");
    }

    #[test]
    fn a_request_stays_within_groups_and_zones() {
        let kids = limits(&["kids"], &[]);
        let pause = |scope: Value| json!({"secs": 60, "scope": scope});
        check(&kids, "pause", &pause(json!({"group": "kids"})), true);
        check(&kids, "pause", &pause(json!({"group": "all"})), false);
        check(&kids, "pause", &pause(json!({"client": "kids"})), false);
        check(&kids, "pause", &pause(json!("all")), false);
        check(&kids, "pause", &json!({"secs": 60}), false);
        let grant = json!({"name": "a.example", "secs": 60, "scope": {"group": "kids"}});
        check(&kids, "grant", &grant, true);
        // A zone gives further rights. It takes none away.
        check(&limits(&["kids"], &["lan"]), "grant", &grant, true);
        check(&limits(&["parents"], &["example"]), "grant", &grant, false);
        check(&kids, "flush", &json!({"name": "a.example"}), false);
        for (command, more) in [
            ("request-list", json!({})),
            ("request-grant", json!({"id": 1, "minutes": 15})),
            ("request-refuse", json!({"id": 1})),
        ] {
            let of = |group: Value| {
                let mut fields = more.clone();
                fields["group"] = group;
                fields
            };
            check(&kids, command, &of(json!("kids")), true);
            check(&kids, command, &of(Value::Null), false);
            check(&kids, command, &of(json!("parents")), false);
            check(&limits(&["kids"], &["lan"]), command, &of(json!("kids")), true);
            check(&limits(&["parents"], &["lan"]), command, &of(json!("kids")), false);
        }
        for command in ["dump", "user-list", "backup"] {
            check(&kids, command, &json!({}), false);
            check(&limits(&[], &[]), command, &json!({}), true);
        }
        check(&kids, "status", &json!({}), true);
        let zone = limits(&[], &["Example.lan."]);
        for name in ["example.lan", "A.b.EXAMPLE.lan.", "*.example.lan"] {
            check(&zone, "flush-tree", &json!({"name": name}), true);
        }
        for name in ["lan", "", ".", "badexample.lan", "a\\.example.lan", "\u{e9}.example.lan"] {
            check(&zone, "flush-tree", &json!({"name": name}), false);
        }
        check(&zone, "zone-reload", &json!({}), false);
        check(&limits(&[], &["."]), "flush", &json!({"name": "a"}), false);
    }

    #[test]
    fn a_user_of_a_zone_writes_no_alias_records() {
        let guests = limits(&[], &["guest.lan"]);
        let edit = |action: &str, rtype: Value| {
            let edit = json!({"action": action, "owner": "x", "type": rtype, "data": ["a."]});
            json!({"name": "guest.lan", "edits": [edit]})
        };
        for rtype in ["ALIAS", "alias", "TYPE65401", "type065401"] {
            for action in ["add", "replace"] {
                check(&guests, "zone-edit", &edit(action, rtype.into()), false);
                check(&limits(&[], &[]), "zone-edit", &edit(action, rtype.into()), true);
            }
            check(&guests, "zone-edit", &edit("remove", rtype.into()), true);
        }
        check(&guests, "zone-edit", &edit("add", "CNAME".into()), true);
        check(&guests, "zone-edit", &edit("remove", Value::Null), true);
    }

    #[test]
    fn requests_for_logged_queries_are_narrowed_whatever_they_ask_for() {
        let kids = limits(&["kids"], &["lan"]);
        let none = limits(&[], &[]);
        for (command, fields) in [
            ("log-tail", json!({"filter": {"group": "parents"}})),
            ("log-search", json!({})),
            ("log-count", json!({"filter": {"under": "example"}})),
            ("policy-dry-run", json!({"filter": {"client": "192.0.2.1"}})),
            ("log-show", json!({"id": 7})),
            ("log-statistics", json!({})),
            ("log-series", json!({})),
            ("log-clients", json!({"client": "192.0.2.1"})),
        ] {
            let within = |limits: &UserLimits| match admitted(limits, command, &fields).unwrap() {
                Request::LogTail(request) => request.filter.within,
                Request::LogSearch(request) => request.filter.within,
                Request::LogCount(request) => request.filter.within,
                Request::PolicyDryRun(request) => request.filter.within,
                Request::LogShow(request) => request.within,
                Request::LogStatistics(request) => request.within,
                Request::LogSeries(request) => request.within,
                Request::LogClients(request) => request.within,
                other => panic!("{other:?}"),
            };
            assert_eq!(within(&kids).as_ref(), Some(&kids), "{command}");
            assert_eq!(within(&none), None, "{command}");
        }
        assert!(kids.takes(["all", "kids"].into_iter(), ""));
        assert!(kids.takes(std::iter::empty(), "a.lan."));
        assert!(!kids.takes(["parents"].into_iter(), "a.example."));
    }

    #[test]
    fn nobody_lifts_the_limits_by_a_field() {
        for command in ["log-statistics", "log-series", "log-clients", "log-search"] {
            let fields = json!({"command": command, "within": null});
            assert!(serde_json::from_value::<Request>(fields).is_err(), "{command}");
        }
    }

    #[test]
    fn a_reply_shows_switches_and_clients_of_own_groups() {
        let kids = limits(&["kids"], &["lan"]);
        let scope = |scope: Value| json!({ "scope": scope });
        let (all, own) = (scope(json!("all")), scope(json!({"group": "kids"})));
        let others = [json!({"group": "staff"}), json!({"client": "tv"})].map(scope);
        let scopes = json!([all, own, others[0], others[1]]);
        let reply = json!({"pauses": scopes.clone(), "grants": scopes});
        let trimmed = kids.trim(&Request::Switches(Switches {}), reply.clone()).unwrap();
        let own = json!([all, own]);
        assert_eq!(trimmed, json!({"pauses": own, "grants": own}));
        assert_eq!(
            limits(&[], &[]).trim(&Request::Switches(Switches {}), reply.clone()),
            Some(reply)
        );
    }

    #[test]
    fn an_explanation_shows_the_caches_only_for_names_in_own_zones() {
        let kids = limits(&["kids"], &["lan"]);
        let shown = |fields: Value, policy: Value| {
            let request = admitted(&kids, "why", &fields).unwrap();
            let mut sections = vec![policy];
            for name in ["past", "failed", "failure-cache", "cache", "resolved"] {
                sections.push(json!({"section": name}));
            }
            sections.push(json!({"section": "answer", "client": "192.0.2.1"}));
            let reply = kids.trim(&request, json!({"sections": sections}))?;
            Some(reply["sections"].as_array().map_or(0, Vec::len))
        };
        let of = |groups: &[&str]| json!({"section": "policy", "client": {"groups": groups}});
        let of_client = |name: &str| json!({"name": name, "client": "192.0.2.1"});
        assert_eq!(shown(of_client("a.example"), of(&["all", "kids"])), Some(2));
        assert_eq!(shown(of_client("a.example"), of(&["parents"])), None);
        assert_eq!(shown(of_client("a.example"), json!({"section": "failed"})), None);
        assert_eq!(shown(json!({"name": "a.example", "id": "id:tv"}), of(&[])), None);
        assert_eq!(shown(json!({"name": "a.example"}), of(&["default"])), None);
        assert_eq!(shown(of_client("a.lan"), of(&["parents"])), Some(7));
        assert_eq!(shown(json!({"name": "a.lan"}), of(&[])), Some(7));
    }

    #[test]
    fn a_logged_answer_ends_with_the_alias_that_leads_out_of_the_zones() {
        let kids = limits(&["kids"], &["lan"]);
        let trimmed = |group: &str, answer: &[&str]| {
            let past = json!({"groups": [group], "answer": answer});
            let mut reply = json!({"sections": [{"section": "past", "query": past}]});
            kids.remove_other_records(&mut reply);
            let mut logged: LogEntry = serde_json::from_value(json!({
                "time-us": 1, "groups": [group], "transport": "udp", "name": "al.lan.", "type": "A",
                "class": "IN", "flags": [], "outcome": "resolved", "kind": "answered",
                "cache": "miss", "validated": "unknown", "lists": [], "revision": 1,
                "query-octets": 1, "reply-octets": 1, "answers": 2, "answer": answer,
            }))
            .unwrap();
            kids.trim_entry(&mut logged);
            (reply["sections"][0]["query"]["answer"].clone(), json!(logged.answer))
        };
        let own = ["x.lan.", "192.0.2.1", "2001:db8::1"];
        assert_eq!(trimmed("parents", &own), (json!(own), json!(own)));
        let other = ["x.lan.", "nas.example.", "nas.lan.", "10.0.0.77"];
        assert_eq!(trimmed("parents", &other), (json!(other[..2]), json!(other[..2])));
        assert_eq!(trimmed("kids", &other).1, json!(other), "the client may ask");
    }

    #[test]
    fn an_explanation_of_a_name_in_an_own_zone_has_no_records_of_other_names() {
        let record = |name: &str| json!({"section": "answer", "name": name, "ttl": 60, "type": "A", "data": "10.0.0.1"});
        let explained = |group: &str| {
            let answer = json!([record("al.lan."), record("secret.example."), record("lan.")]);
            json!({"sections": [
                {"section": "policy", "client": {"groups": [group]}},
                {"section": "answer", "name": "al.lan.", "reply": {"answer": answer}},
            ]})
        };
        let trace = json!({"answer": [record("secret.example.")], "name": "al.lan."});
        let kids = limits(&["kids"], &["lan"]);
        let shown = |command: &str, reply: Value| {
            let request = admitted(&kids, command, &json!({"name": "al.lan"})).unwrap();
            kids.trim(&request, reply).unwrap()
        };
        let trimmed = shown("why", explained("parents"));
        let own = json!([record("al.lan."), record("lan.")]);
        assert_eq!(trimmed["sections"][1]["reply"]["answer"], own);
        assert_eq!(shown("why", explained("kids")), explained("kids"), "the client may ask");
        for field in ["listener", "id"] {
            let ask = |name: &str| {
                let request =
                    admitted(&kids, "why", &json!({"name": name, field: "other"})).unwrap();
                kids.trim(&request, explained("kids"))
            };
            assert_eq!(ask("nas.example"), None, "perhaps of another view");
            assert_eq!(ask("al.lan").unwrap()["sections"][1]["reply"]["answer"], own);
        }
        assert_eq!(shown("trace", trace)["answer"], json!([]));
    }

    #[test]
    fn traces_and_caches_are_for_names_in_own_zones() {
        for limits in [limits(&["kids"], &[]), limits(&["kids"], &["lan"])] {
            for command in ["trace", "lookup"] {
                let fields = |name: &str| json!({"name": name});
                check(&limits, command, &fields("a.example"), false);
                check(&limits, command, &fields("a.lan"), !limits.zones.is_empty());
            }
        }
    }
}
