//! Log-in by a certified provider of OpenID Connect: oidc-provider of npm, which `npm ci` in
//! `tests/oidc` installs.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::server::Site;
use crate::upstream::Upstream;

#[test]
fn users_of_a_certified_provider_log_in_with_the_roles_of_their_groups() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/oidc");
    if !directory.join("node_modules").exists() {
        assert!(std::env::var_os("CI").is_none(), "oidc-provider is needed: npm ci in tests/oidc");
        return;
    }
    let (site, upstream) = (Site::new(), Upstream::start());
    let public = format!("http://{}", site.http);
    let mut provider = Command::new("node")
        .args(["drive.mjs", &public])
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut users = provider.stdin.take().unwrap();
    let mut lines = BufReader::new(provider.stdout.take().unwrap()).lines();
    let issuer = lines.next().unwrap().unwrap();
    let oidc = format!(
        "[oidc]\nissuer = \"{issuer}\"\nclient-id = \"avocet\"\nclient-secret = \"a secret & \
         more\"\npublic-url = \"{public}\"\nadmins = [\"dns-admins\"]\nviewers = [\"staff\"]"
    );
    site.configure(upstream.addr, "", &oidc);
    let _server = site.start();
    let mut log_in = |user: &str| -> Value {
        writeln!(users, "{public} {user}").unwrap();
        serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap()
    };
    let ada = log_in("ada");
    assert_eq!((&ada["status"], &ada["name"]), (&json!(200), &json!("oidc:ada")), "{ada}");
    assert!(ada["scopes"].to_string().contains("config:write"), "{ada}");
    let left = (&ada["left"], &ada["local"], &ada["asksAgain"]);
    assert_eq!(left, (&json!(format!("{public}/")), &json!(401), &json!(true)), "{ada}");
    let bob = log_in("bob");
    assert_eq!((&bob["status"], &bob["name"]), (&json!(200), &json!("oidc:bob")), "{bob}");
    assert!(!bob["scopes"].to_string().contains(":write"), "{bob}");
    let eve = log_in("eve");
    assert_eq!((&eve["status"], &eve["name"]), (&json!(403), &Value::Null), "{eve}");
    drop(users);
    provider.wait().unwrap();
}
