//! The entries of the configuration over the HTTP API: what they change, and what they keep.

use std::fs;

use serde_json::{Value, json};

use crate::server::Site;
use crate::upstream::Upstream;

/// A client of the API.
pub(crate) struct Api<'s> {
    site: &'s Site,
    token: String,
}

impl<'s> Api<'s> {
    pub(crate) fn new(site: &'s Site, scopes: &[&str]) -> Self {
        let scopes = scopes.iter().flat_map(|scope| ["--scope", scope]);
        let create: Vec<_> = ["token", "create", "test"].into_iter().chain(scopes).collect();
        Self { site, token: site.avocet_text(&create).trim_end().to_owned() }
    }

    /// Sends a request, with a body unless `fields` is null.
    pub(crate) fn send(&self, request: &str, fields: &Value) -> (u16, Value) {
        let (method, path) = request.split_once(' ').unwrap();
        let body = if fields.is_null() { String::new() } else { fields.to_string() };
        let (status, body) = self.site.http(&format!(
            "{method} /api/v1{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: \
             application/json\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\n\r\n{body}",
            self.token,
            body.len()
        ));
        (status, serde_json::from_str(&body).unwrap_or_default())
    }
}

#[test]
fn an_entry_of_each_table_is_in_force_at_once_and_a_revision() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "# of the server", "[config]\nprobation-secs = 600");
    let _server = site.start();
    let api = Api::new(&site, &["config:read", "config:write"]);
    let list = site.directory.join("list.txt");
    fs::write(&list, "ads.example\n").unwrap();
    let added = [
        ("/groups", json!({"name": "kids", "clients": ["10.0.0.9"]})),
        ("/clients", json!({"name": "tv", "ids": ["10.0.0.8"], "groups": ["kids"]})),
        ("/lists", json!({"name": "ads", "file": list.to_str().unwrap()})),
        ("/rules", json!({"name": "r", "when": "qname == \"bad.example\"", "action": "block"})),
        ("/records", json!({"name": "nas.lan", "type": "A", "values": ["10.0.0.7"]})),
        ("/forwarders", json!({"zone": "f.example", "upstreams": ["udp://192.0.2.1"]})),
    ];
    for (number, (path, settings)) in added.iter().enumerate() {
        let fields = json!({"settings": settings, "comment": path});
        let checked = api.send(&format!("POST {path}/test"), &fields);
        assert_eq!(checked.0, 400, "a check has no comment: {checked:?}");
        let checked = api.send(&format!("POST {path}/test"), &json!({"settings": settings}));
        assert!(checked.1["text"].to_string().contains("+[["), "{path}: {checked:?}");
        let (status, accepted) = api.send(&format!("POST {path}"), &fields);
        assert_eq!(status, 200, "{path}: {accepted}");
        assert_eq!(accepted["revision"], number + 2, "{accepted}");
        assert_eq!(accepted["probation"]["revision"], number + 2, "{accepted}");
    }
    assert_eq!(site.ask("bad.example").0, [0, 0, 0, 0]);
    assert_eq!(site.ask("nas.lan").0, [10, 0, 0, 7]);
    let history = site.avocet_text(&["config", "history"]);
    assert!(history.contains("/forwarders"), "{history}");

    let (status, problem) = api.send("DELETE /groups?id=kids", &Value::Null);
    assert_eq!((status, &problem["code"]), (422, &json!("configuration-refused")), "{problem}");
    let bad = json!({"settings": {"name": "x", "when": "qname ==", "action": "block"}});
    assert_eq!(api.send("POST /rules", &bad).0, 422);
    let off = json!({"id": "r", "settings": {"name": "r", "when": "false", "action": "block"}});
    assert_eq!(api.send("PUT /rules", &off).0, 200);
    for path in ["/clients?id=tv", "/groups?id=kids", "/lists?id=ads", "/records?id=nas.lan%20A"] {
        let (status, reply) = api.send(&format!("DELETE {path}"), &Value::Null);
        assert_eq!(status, 200, "{path}: {reply}");
    }
    let text = fs::read_to_string(site.file()).unwrap();
    assert!(text.contains("# of the server") && text.contains("f.example"), "{text}");
    assert!(!text.contains("kids") && !text.contains("nas.lan"), "{text}");
    let (_, rules) = api.send("GET /rules", &Value::Null);
    assert_eq!(rules["entries"][0]["settings"]["when"], "false");
}
