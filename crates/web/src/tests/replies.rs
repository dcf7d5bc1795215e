//! Replies of the test server that remembers requests.

use avocet_control::dry_run::DryRunFound;
use avocet_control::load::ServerLoad;
use avocet_control::revisions::RevisionAccepted;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Creates a reply from its JSON.
pub(super) fn of<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// Returns the counts of a cache.
pub(super) fn counts() -> Value {
    json!({"entries": 1, "bytes": 2, "bytes-limit": 3, "inserts": 4, "evictions": 5, "expired": 6,
           "hits": 7, "misses": 8})
}

/// Returns the load of a server without workers.
pub(super) fn load() -> ServerLoad {
    of(json!({"at": 7, "uptime-secs": 7, "workers": [],
              "memory": {"resident-bytes": null, "list-image-bytes": 0, "zone-bytes": 0,
                         "caches": []},
              "query-log": {"writes": false, "entries": 0, "dropped": 0, "written": 0, "lost": 0,
                            "octets": 0, "stored-octets": 0, "ring-fill": 0.0, "ring-peak": 0.0,
                            "entries-per-sec": 0.0, "work-us": 0, "speed": null}}))
}

/// Returns a change that is in force.
pub(super) fn accepted() -> RevisionAccepted {
    let reloaded = of(json!({"restart-needed-for": [], "opens-at-restart": [],
                             "closes-at-restart": [], "removed": {}, "removed-text": ""}));
    RevisionAccepted { revision: 2, probation: None, reloaded }
}

/// Returns a dry run without changes.
pub(super) fn unchanged() -> DryRunFound {
    let none = json!({"queries": 0, "name-count": 0, "client-count": 0, "unlisted": 0,
                      "names": [], "clients": []});
    of(json!({"revision": 1, "examined": 0, "cut": null, "judged": 0, "left-out": 0,
                 "without-answer": 0, "rules-on-answers": 0, "newly-blocked": none,
                 "newly-answered": none, "otherwise-changed": none,
                 "lists-without-copy": [], "damaged": []}))
}
