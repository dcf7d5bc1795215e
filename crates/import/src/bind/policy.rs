//! `response-policy`: policy zones become lists of the format `rpz`.

use avocet_policy::list::MAX_LISTS;

use crate::draft::{List, Place, Trust};
use crate::hosted::{ArrayTable, zone_name};

use super::reader::BindReader;
use super::scope::View;
use super::statement::{Item, Statement, last};

impl<'r> BindReader<'r> {
    /// Adds the lists of the policy zones of a view to the draft, and returns the names of the
    /// lists.
    pub(super) fn policy_zones(
        &mut self,
        view: &View<'r>,
        zones: &[&'r Statement],
        known: &mut Vec<(String, String)>,
    ) -> Vec<String> {
        let Some(statement) = view.find("response-policy") else { return Vec::new() };
        let mut names = Vec::new();
        if statement.block().len() > MAX_LISTS {
            self.draft.note(statement, format!("at most {MAX_LISTS} lists are possible"));
        }
        for element in statement.block().iter().take(MAX_LISTS) {
            let Some(name) = element.after("zone").and_then(zone_name) else { continue };
            let defined =
                zones.iter().find(|zone| zone.word(1).and_then(zone_name).as_ref() == Some(&name));
            let Some(zone) = defined.copied() else {
                self.draft.note(element, format!("there is no zone {name}"));
                continue;
            };
            if let Some(action) = element.after("policy").filter(|word| *word != "given") {
                let reason = format!(
                    "the actions of the zone apply, not {action}: write a rule with \
                                      list(\"NAME\") for another one"
                );
                self.draft.note(element, reason);
            }
            self.note_options_of_policy(element);
            let Some(place) = self.place_of_policy(zone) else { continue };
            let key = format!("{name} {place:?}");
            if let Some((_, list)) = known.iter().find(|(other, _)| *other == key) {
                names.push(list.clone());
                continue;
            }
            let origin = element.place();
            let list = List { format: "rpz", trust: Trust::Answers, ..List::at(place, &origin) };
            let list = self.draft.list(&name, list);
            known.push((key, list.clone()));
            names.push(list);
        }
        let behind = statement.items.iter().skip_while(|item| !matches!(item, Item::Block(_)));
        if behind.count() > 1 {
            let words = [
                "break-dnssec",
                "qname-wait-recurse",
                "nsip-wait-recurse",
                "nsdname-wait-recurse",
                "max-policy-ttl",
                "min-update-interval",
                "min-ns-dots",
                "recursive-only",
                "add-soa",
            ];
            self.note_options_of_policy(statement);
            for word in words.into_iter().filter(|word| statement.after(word).is_some()) {
                self.draft.quiet(format!("response-policy: {word}"));
            }
        }
        names
    }

    /// Reports the options of a policy zone that have no equivalent.
    fn note_options_of_policy(&mut self, element: &'r Statement) {
        for word in ["nsip-enable", "nsdname-enable"] {
            if element.after(word).is_some_and(|value| matches!(value, "no" | "false" | "0")) {
                let reason = "the triggers on name servers of the zone have an effect";
                self.draft.note(element, format!("{word}: {reason}"));
            }
        }
        for word in ["add-soa", "ede", "log", "max-policy-ttl", "min-update-interval"] {
            if element.after(word).is_some() {
                self.draft.quiet(format!("response-policy: {word}"));
            }
        }
    }

    /// Returns the source of a policy zone.
    fn place_of_policy(&mut self, zone: &'r Statement) -> Option<Place> {
        let kind = last(zone.block(), "type").and_then(|kind| kind.word(1)).unwrap_or_default();
        match kind.to_ascii_lowercase().as_str() {
            "primary" | "master" => {
                let file = last(zone.block(), "file")?.word(1)?;
                Some(Place::File(self.path(file)))
            }
            "secondary" | "slave" => {
                let name = zone.word(1).and_then(zone_name)?;
                let mut table = ArrayTable::of("zone", zone.place());
                if !self.primaries(zone.block(), &mut table) {
                    self.draft.note(zone, "a policy zone without the address of a primary");
                    return None;
                }
                if table.text("ca").is_some() {
                    self.draft.note(zone, "set `ca` of the list");
                }
                let primaries =
                    table.pairs.iter().find(|(key, _)| *key == "primaries")?.1.as_array()?;
                let primaries =
                    primaries.iter().filter_map(|one| one.as_str().map(str::to_owned)).collect();
                Some(Place::Primaries(name, primaries))
            }
            _ => {
                self.draft.note(zone, "a policy zone has a file or primaries");
                None
            }
        }
    }
}
