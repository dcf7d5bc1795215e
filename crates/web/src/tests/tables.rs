//! The entries of the configuration, one by one.

use avocet_config::entry::EntryTable;
use avocet_control::access::AccessScope;
use serde_json::{Value, json};

use super::site::{Received, Sent, Site};

const TEXT: &str = "# top\n[[rule]] # first\nname = \"bedtime\" # kids\nwhen = \"true\"\n\
                    action = \"block\"\nenabled = true # always\n\n[[record]]\nname = \"nas.lan\"\n\
                    type = \"A\"\nvalues = [\"10.0.0.1\"]\n";

struct Tables {
    site: Site,
    token: String,
}

impl Tables {
    fn new(text: &str) -> Self {
        let site = Site::new();
        *site.server.texts.lock().unwrap() = vec![text.to_owned()];
        let token = site.token(&[AccessScope::ConfigRead, AccessScope::ConfigWrite]);
        Self { site, token }
    }

    fn send(&self, method: &str, path: &str, fields: &Value) -> Received {
        let sent = Sent::new(method, &format!("/api/v1{path}")).token(&self.token);
        self.site.send(if fields.is_null() { sent } else { sent.json(fields) })
    }

    fn text(&self) -> String {
        self.site.server.texts.lock().unwrap().last().unwrap().clone()
    }
}

#[test]
fn a_changed_entry_keeps_its_comments_and_gets_no_defaults() {
    let tables = Tables::new(TEXT);
    let read = tables.send("GET", "/rules", &Value::Null);
    let entry = &read.json()["entries"][0];
    assert_eq!(entry["id"], "bedtime");
    assert_eq!(entry["settings"]["priority"], 0, "defaults are shown");
    let mut settings = entry["settings"].clone();
    settings["when"] = json!("false");
    let fields = json!({"id": "bedtime", "settings": settings});
    assert_eq!(tables.send("PUT", "/rules", &fields).status, 200);
    assert_eq!(tables.text(), TEXT.replace("\"true\"", "\"false\""));

    // The entry gets another name.
    settings["name"] = json!("night");
    let fields = json!({"id": "bedtime", "settings": settings, "comment": "why"});
    let test = tables.send("POST", "/rules/test", &json!({"id": "bedtime", "settings": settings}));
    assert!(test.json()["text"].as_str().unwrap().contains("\"night\" # kids"), "{test:?}");
    assert_eq!(tables.send("PUT", "/rules", &fields).status, 200);
    let renamed = TEXT.replace("\"true\"", "\"false\"").replace("bedtime", "night");
    assert_eq!(tables.text(), renamed);

    let gone = tables.send("DELETE", "/rules?id=bedtime", &Value::Null);
    gone.check(404, "not-found");
    assert_eq!(tables.send("DELETE", "/rules?id=night", &Value::Null).status, 200);
    assert_eq!(EntryTable::Rule.entries(&tables.text()).unwrap(), []);
    assert_eq!(EntryTable::Record.entries(&tables.text()).unwrap().len(), 1);
}

#[test]
fn an_entry_is_added_once_and_read_by_its_id() {
    let tables = Tables::new(TEXT);
    let add =
        |path: &str, settings: Value| tables.send("POST", path, &json!({ "settings": settings }));
    let record = json!({"name": "nas.lan", "type": "AAAA", "values": ["fd00::1"], "ttl-secs": 300});
    assert_eq!(add("/records", record.clone()).status, 200);
    add("/records", record).check(409, "exists");
    add("/records", json!({"type": "A"})).check(400, "malformed");
    add("/records", json!({"name": 1})).check(400, "malformed");
    let mut huge = json!({"name": "x"});
    huge["max-secs"] = json!(u64::MAX);
    add("/rules", huge).check(422, "invalid-value");
    let one = tables.send("GET", "/records?id=nas.lan%20AAAA", &Value::Null).json();
    let expected = json!({"name": "nas.lan", "type": "AAAA", "values": ["fd00::1"],
                          "ttl-secs": 300, "ptr": true});
    assert_eq!(one["entries"], json!([{"id": "nas.lan AAAA", "settings": expected}]));
    tables.send("GET", "/records?id=x", &Value::Null).check(404, "not-found");
    assert!(!tables.text().contains("ttl-secs"), "{}", tables.text());

    // Both parts of the name change.
    let moved = json!({"name": "box.lan", "type": "A", "values": ["10.0.0.2"]});
    let fields = json!({"id": "nas.lan AAAA", "settings": moved});
    assert_eq!(tables.send("PUT", "/records", &fields).status, 200);
    let ids: Vec<_> = EntryTable::Record.entries(&tables.text()).unwrap();
    assert_eq!(ids.iter().map(|one| &*one.id).collect::<Vec<_>>(), ["nas.lan A", "box.lan A"]);
    // The name belongs to another entry.
    let taken = json!({"id": "box.lan A", "settings": {"name": "nas.lan", "type": "A"}});
    tables.send("PUT", "/records", &taken).check(409, "exists");
}

#[test]
fn an_entry_is_the_same_in_any_spelling_of_its_name() {
    let tables = Tables::new(
        "[[record]]\nname = \"NAS.lan\"\ntype = \"A\"\nvalues = [\"10.0.0.5\"]\n\
         [[record]]\nname = \"u.lan\"\ntype = \"A\"\nvalues = [\"10.0.0.6\"]\n\
         [[forward]]\nzone = \"Corp.example.\"\nupstreams = [\"10.0.0.7\"]\n\
         [[stub]]\nzone = \"s.Example\"\nservers = [\"10.0.0.8\"]\n",
    );
    let before = tables.text();
    for (path, settings) in [
        ("/records", json!({"name": "nas.lan.", "type": "a", "values": ["10.0.0.9"]})),
        ("/forwarders", json!({"zone": "corp.example", "upstreams": ["10.0.0.9"]})),
        ("/stubs", json!({"zone": "S.example.", "servers": ["10.0.0.9"]})),
    ] {
        tables.send("POST", path, &json!({ "settings": settings })).check(409, "exists");
    }
    let taken = json!({"id": "u.lan A", "settings": {"name": "nas.lan", "type": "A"}});
    tables.send("PUT", "/records", &taken).check(409, "exists");
    assert_eq!(tables.text(), before);
    let settings = json!({"name": "nas.lan", "type": "A", "values": ["10.0.0.9"]});
    let fields = json!({"id": "nas.LAN a", "settings": settings});
    assert_eq!(tables.send("PUT", "/records", &fields).status, 200);
    assert_eq!(tables.text(), before.replace("NAS.lan", "nas.lan").replace("10.0.0.5", "10.0.0.9"));
    assert_eq!(tables.send("DELETE", "/stubs?id=s.example.", &Value::Null).status, 200);
    assert_eq!(EntryTable::Stub.entries(&tables.text()).unwrap(), []);
}

#[test]
fn names_are_not_taken_for_keys_or_for_toml() {
    let tables = Tables::new(TEXT);
    for name in ["bedtime].enabled", "a]\n[[rule]]", "x\" = 1 }", "policy.block-ttl-secs", ""] {
        let settings = json!({"name": name, "when": "\"}\n[server]\n", "x\"]": 1});
        let fields = json!({ "settings": settings });
        assert_eq!(tables.send("POST", "/rules", &fields).status, 200, "{name}");
        let entries = EntryTable::Rule.entries(&tables.text()).unwrap();
        assert_eq!(entries.len(), 2, "{}", tables.text());
        assert_eq!(Value::Object(entries[1].settings.clone()), settings);
        let path = format!(
            "/rules?id={}",
            form_urlencoded::byte_serialize(name.as_bytes()).collect::<String>()
        );
        assert_eq!(tables.send("DELETE", &path, &Value::Null).status, 200, "{name}");
        assert_eq!(tables.text(), TEXT);
    }
}

#[test]
fn entries_that_changed_meanwhile_are_not_overwritten() {
    let tables = Tables::new(TEXT);
    let tag = tables.send("GET", "/rules", &Value::Null).header("etag").to_owned();
    let other = json!({"settings": {"name": "a.lan", "type": "TXT", "values": ["x"]}});
    assert_eq!(tables.send("POST", "/records", &other).status, 200);
    assert_eq!(tables.send("GET", "/rules", &Value::Null).header("etag"), tag);
    let put = |tag: &str| {
        let fields = json!({"id": "bedtime", "settings": {"name": "bedtime", "when": "false"}});
        let sent = Sent::new("PUT", "/api/v1/rules").token(&tables.token).json(&fields);
        tables.site.send(sent.header("if-match", tag))
    };
    assert_eq!(put(&tag).status, 200, "another table changed");
    put(&tag).check(412, "changed");
}

#[test]
fn entries_with_the_same_id_are_left_to_the_file() {
    let tables = Tables::new("[[rule]]\nname = \"a\"\n[[rule]]\nname = \"a\"\n");
    tables.send("DELETE", "/rules?id=a", &Value::Null).check(409, "not-possible");
}

#[test]
fn a_limited_user_and_the_audit_log_do_not_see_settings() {
    let tables = Tables::new(TEXT);
    let site = &tables.site;
    let admin = site.log_in("ada");
    let add = json!({"name": "kim", "role": "viewer", "password": super::site::PASSWORD,
                     "limits": {"groups": ["kids"]}});
    assert_eq!(site.send(Sent::new("POST", "/api/v1/users").by(&admin).json(&add)).status, 200);
    let kim = site.log_in("kim");
    site.send(Sent::new("GET", "/api/v1/rules").by(&kim)).check(403, "forbidden");
    let settings = json!({"name": "ads", "url": "https://u:pass@lists.example/"});
    let fields = json!({"settings": settings, "comment": "c"});
    let sent = Sent::new("POST", "/api/v1/lists").json(&fields);
    let forged = sent.header("cookie", &admin.cookie);
    site.send(forged).check(403, "forged");
    assert_eq!(site.send(Sent::new("POST", "/api/v1/lists").by(&admin).json(&fields)).status, 200);
    let newest = &site.audit.newest(1).unwrap()[0];
    assert_eq!((&*newest.what, &*newest.result), ("POST /api/v1/lists", "ok"));
    assert_eq!(newest.fields["id"], "ads");
    assert!(!format!("{newest:?}").contains("pass@"), "{newest:?}");
}
