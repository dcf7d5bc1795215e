//! The entries of the configuration, one by one: lists, rules, groups, clients, local records,
//! forwarders and stub zones.
//!
//! All tables share one mechanism. A change becomes an edit of the configuration file, as one of
//! `POST /config/changes`: comments stay, a revision is made, and probation applies. The edit is
//! based on the revision that was read, so that it fails if another change was made in between.

use std::collections::BTreeMap;

use avocet_config::edit::EditError;
use avocet_config::entry::{EntryTable, FileEntry, inline, schemas, toml_text};
use avocet_control::Control;
use avocet_control::revisions::{
    ConfigChange, ConfigCheck, ConfigEdit, ConfigText, RevisionText, Submitter,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::problem::{
    EXISTS, INVALID_VALUE, MALFORMED, NOT_FOUND, NOT_POSSIBLE, Problem, UNAVAILABLE,
};

/// The action of a route on the entries of a configuration table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryCall {
    /// The table.
    pub table: EntryTable,
    /// The action on the entries.
    pub action: EntryAction,
}

/// The actions on entries of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryAction {
    /// Shows all entries, or one.
    Read,
    /// Adds an entry.
    Create,
    /// Replaces the settings of an entry.
    Change,
    /// Removes an entry.
    Remove,
    /// Checks an addition or a change, and shows the difference.
    Test,
}

impl EntryCall {
    /// Returns the request of the control socket to which the call leads, for the limits of users.
    pub(crate) const fn command(self) -> &'static str {
        match self.action {
            EntryAction::Read => "config-text",
            EntryAction::Create | EntryAction::Change | EntryAction::Remove => "config-change",
            EntryAction::Test => "config-check",
        }
    }

    /// Returns the id in the settings of a request, for the audit log.
    pub(crate) fn named(self, fields: &Map<String, Value>) -> Option<String> {
        self.table.id(fields.get("settings")?.as_object()?)
    }

    /// Returns whether the action changes the configuration.
    pub(crate) const fn is_change(self) -> bool {
        matches!(self.action, EntryAction::Create | EntryAction::Change | EntryAction::Remove)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadFields {
    id: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CreateFields {
    settings: Map<String, Value>,
    comment: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChangeFields {
    id: String,
    settings: Map<String, Value>,
    comment: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RemoveFields {
    id: String,
    comment: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TestFields {
    id: Option<String>,
    settings: Map<String, Value>,
}

/// The plan for a request.
pub(crate) enum EntryPlan {
    /// The reply.
    Show(Value),
    /// A check, with the reply.
    Check(ConfigCheck),
    /// A change, with the reply.
    Change(ConfigChange),
}

/// The tables of the configuration as data: schemas and defaults of their settings.
pub(crate) struct Tables {
    schemas: BTreeMap<EntryTable, Value>,
}

impl Tables {
    /// Generates the tables.
    pub(crate) fn generate() -> Self {
        Self { schemas: schemas() }
    }

    /// Returns the definitions of the document: the settings of each table.
    pub(crate) fn definitions(&self) -> impl Iterator<Item = (String, Value)> {
        self.schemas.iter().map(|(table, schema)| (definition(*table), schema.clone()))
    }

    /// Serves a request. `by` is the sender, without the comment.
    ///
    /// # Errors
    /// A field is invalid, there is no such entry, or the configuration does not permit the change.
    pub(crate) fn perform(
        &self,
        call: EntryCall,
        fields: Map<String, Value>,
        (control, by): (&(dyn Control + Send + Sync), Submitter),
    ) -> Result<Value, Problem> {
        let in_force = control.config_text(ConfigText { number: None })?;
        match self.plan(call, fields, (in_force, by))? {
            EntryPlan::Show(reply) => Ok(reply),
            EntryPlan::Check(check) => value(control.config_check(check)?),
            EntryPlan::Change(change) => value(control.config_change(change)?),
        }
    }

    /// Returns the plan for a request with the revision in force.
    ///
    /// # Errors
    /// A field is invalid, or there is no such entry.
    pub(crate) fn plan(
        &self,
        call: EntryCall,
        fields: Map<String, Value>,
        (in_force, by): (RevisionText, Submitter),
    ) -> Result<EntryPlan, Problem> {
        let present = Present::of(call.table, in_force)?;
        let (edits, comment) = match call.action {
            EntryAction::Read => {
                let shown = self.shown(&present, &read::<ReadFields>(fields)?);
                return shown.map(EntryPlan::Show);
            }
            EntryAction::Create => {
                let CreateFields { settings, comment } = read(fields)?;
                (self.created(&present, settings)?, comment)
            }
            EntryAction::Change => {
                let ChangeFields { id, settings, comment } = read(fields)?;
                (self.changed(&present, &id, settings)?, comment)
            }
            EntryAction::Remove => {
                let RemoveFields { id, comment } = read(fields)?;
                present.entry(&id)?;
                (vec![ConfigEdit { key: call.table.key(&id), value: None }], comment)
            }
            EntryAction::Test => {
                let TestFields { id, settings } = read(fields)?;
                let edits = match id {
                    Some(id) => self.changed(&present, &id, settings)?,
                    None => self.created(&present, settings)?,
                };
                return Ok(EntryPlan::Check(ConfigCheck { edits, reach: by.reach }));
            }
        };
        let by = Submitter { comment, ..by };
        let base = Some(present.revision);
        Ok(EntryPlan::Change(ConfigChange { edits, base, by }))
    }

    fn shown(&self, present: &Present, fields: &ReadFields) -> Result<Value, Problem> {
        let one = fields.id.as_deref().map(|id| present.entry(id)).transpose()?;
        let entries: Vec<Value> = match one {
            Some(entry) => vec![self.entry(present.table, entry)],
            None => present.entries.iter().map(|one| self.entry(present.table, one)).collect(),
        };
        Ok(json!({ "revision": present.revision, "entries": entries }))
    }

    /// Returns an entry with the defaults of the keys that the file does not have.
    fn entry(&self, table: EntryTable, entry: &FileEntry) -> Value {
        let mut settings = entry.settings.clone();
        for (key, default) in self.defaults(table) {
            settings.entry(key).or_insert_with(|| default.clone());
        }
        json!({ "id": entry.id, "settings": settings })
    }

    fn defaults(&self, table: EntryTable) -> impl Iterator<Item = (&String, &Value)> {
        let properties = self.schemas[&table]["properties"].as_object();
        properties.into_iter().flatten().filter_map(|(key, one)| Some((key, one.get("default")?)))
    }

    fn created(
        &self,
        present: &Present,
        settings: Map<String, Value>,
    ) -> Result<Vec<ConfigEdit>, Problem> {
        let id = new_id(present.table, &settings)?;
        present.refuse(&id)?;
        let settings = self.written(present.table, settings, &Map::new());
        Ok(vec![ConfigEdit { key: present.table.key(&id), value: Some(toml(&settings)?) }])
    }

    fn changed(
        &self,
        present: &Present,
        id: &str,
        settings: Map<String, Value>,
    ) -> Result<Vec<ConfigEdit>, Problem> {
        let table = present.table;
        let FileEntry { id, settings: old } = present.entry(id)?;
        let (next, mut edits) = (new_id(table, &settings)?, Vec::new());
        if !table.is_same(&next, id) {
            present.refuse(&next)?;
        }
        if next != *id {
            edits.extend(renamed(table, (id, old), &settings));
        }
        let settings = self.written(table, settings, old);
        edits.push(ConfigEdit { key: table.key(&next), value: Some(toml(&settings)?) });
        Ok(edits)
    }

    /// Returns the settings that are written to the file. Defaults are written only for keys that
    /// the file has already.
    fn written(
        &self,
        table: EntryTable,
        mut settings: Map<String, Value>,
        old: &Map<String, Value>,
    ) -> Map<String, Value> {
        for (key, default) in self.defaults(table) {
            if !old.contains_key(key) && settings.get(key) == Some(default) {
                settings.remove(key);
            }
        }
        settings
    }
}

/// Returns the edits that rename an entry and keep its comments.
fn renamed(
    table: EntryTable,
    (id, old): (&str, &Map<String, Value>),
    new: &Map<String, Value>,
) -> Vec<ConfigEdit> {
    let keys = ["name", "zone", "type"];
    let other: Vec<_> = keys.into_iter().filter(|key| old.get(*key) != new.get(*key)).collect();
    let key = table.key(id);
    match other[..] {
        [one] if new.get(one).is_some_and(Value::is_string) => {
            vec![ConfigEdit { key: format!("{key}.{one}"), value: toml_text(&new[one]).ok() }]
        }
        // No single edit can rename this entry, so it is removed and added again.
        _ => vec![ConfigEdit { key, value: None }],
    }
}

/// Returns the name of the definition of the settings of a table.
fn definition(table: EntryTable) -> String {
    let name = table.name();
    format!("{}{}Settings", name[..1].to_ascii_uppercase(), &name[1..])
}

/// Returns the schemas of a request and its reply, with references into the definitions.
pub(crate) fn schemas_of(call: EntryCall) -> (Value, Value) {
    let of = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
    let settings = of(&definition(call.table));
    let id =
        json!({ "type": "string", "description": "The name or zone; of a record, name and type" });
    let comment = json!({ "type": ["string", "null"], "description": "A comment for the history" });
    let request = |properties: Value, required: Value| {
        json!({ "type": "object", "properties": properties, "required": required,
                "additionalProperties": false })
    };
    let accepted = || of("RevisionAccepted");
    match call.action {
        EntryAction::Read => {
            let entry = json!({ "type": "object", "required": ["id", "settings"],
                                "properties": { "id": id, "settings": settings } });
            let reply = json!({
                "type": "object",
                "properties": {
                    "revision": { "type": "integer", "description": "The revision in force" },
                    "entries": { "type": "array", "items": entry },
                },
                "required": ["revision", "entries"],
            });
            (request(json!({ "id": id }), json!([])), reply)
        }
        EntryAction::Create => {
            let properties = json!({ "settings": settings, "comment": comment });
            (request(properties, json!(["settings"])), accepted())
        }
        EntryAction::Change => {
            let properties = json!({ "id": id, "settings": settings, "comment": comment });
            (request(properties, json!(["id", "settings"])), accepted())
        }
        EntryAction::Remove => {
            (request(json!({ "id": id, "comment": comment }), json!(["id"])), accepted())
        }
        EntryAction::Test => {
            let id = json!({ "type": ["string", "null"],
                             "description": "The entry to change; if missing, a new entry" });
            let properties = json!({ "id": id, "settings": settings });
            (request(properties, json!(["settings"])), of("CheckedChange"))
        }
    }
}

/// The entries of a table in the revision in force.
struct Present {
    table: EntryTable,
    revision: u32,
    entries: Vec<FileEntry>,
}

impl Present {
    fn of(table: EntryTable, in_force: RevisionText) -> Result<Self, Problem> {
        let unusable = |error: EditError| UNAVAILABLE.of(error.to_string());
        let entries = table.entries(&in_force.text).map_err(unusable)?;
        Ok(Self { table, revision: in_force.number, entries })
    }

    /// Returns the entry with an id.
    fn entry(&self, id: &str) -> Result<&FileEntry, Problem> {
        let mut found = self.entries.iter().filter(|entry| self.table.is_same(&entry.id, id));
        let Some(entry) = found.next() else {
            return Err(NOT_FOUND.of(format!("no {} has the id {id:?}", self.table.name())));
        };
        if found.next().is_some() {
            let detail = format!("several entries have the id {id:?}");
            return Err(NOT_POSSIBLE.of(detail).then("edit the configuration file"));
        }
        Ok(entry)
    }

    /// Refuses an id that an entry already has.
    fn refuse(&self, id: &str) -> Result<(), Problem> {
        match self.entries.iter().any(|entry| self.table.is_same(&entry.id, id)) {
            false => Ok(()),
            true => Err(EXISTS
                .of(format!("there is a {} {id:?} already", self.table.name()))
                .then("use another name, or change the present one with PUT")),
        }
    }
}

fn new_id(table: EntryTable, settings: &Map<String, Value>) -> Result<String, Problem> {
    let missing = || MALFORMED.of("the settings have no name or zone");
    table.id(settings).ok_or_else(missing)
}

fn toml(settings: &Map<String, Value>) -> Result<String, Problem> {
    inline(settings).map_err(|error| INVALID_VALUE.of(error.to_string()))
}

fn read<T: serde::de::DeserializeOwned>(fields: Map<String, Value>) -> Result<T, Problem> {
    serde_json::from_value(Value::Object(fields)).map_err(|error| MALFORMED.of(error.to_string()))
}

fn value(reply: impl serde::Serialize) -> Result<Value, Problem> {
    Ok(serde_json::to_value(reply).unwrap_or_default())
}
