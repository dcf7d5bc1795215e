//! The permitted imports between crates, and the declarations of dependencies.

use super::manifest::{self, Entry};
use super::{Fault, Tree};

const ROOT: &str = "Cargo.toml";

/// A crate of the workspace, and the workspace crates that it may import.
struct Layer {
    name: &'static str,
    imports: &'static [&'static str],
    /// Whether the crate uses no socket, no runtime and no clock.
    pure: bool,
}

const fn pure(name: &'static str, imports: &'static [&'static str]) -> Layer {
    Layer { name, imports, pure: true }
}

const fn rim(name: &'static str, imports: &'static [&'static str]) -> Layer {
    Layer { name, imports, pure: false }
}

const ALL: &[&str] = &[
    "avocet-wire",
    "avocet-io",
    "avocet-cache",
    "avocet-policy",
    "avocet-config",
    "avocet-revisions",
    "avocet-nameserver",
    "avocet-client",
    "avocet-control",
    "avocet-web",
    "avocet-worker",
    "avocet-server",
    "avocet-dnssec",
    "avocet-resolver",
    "avocet-load",
    "avocet-import",
    "avocet-querylog",
    "avocet-protobuf",
    "avocet-otlp",
    "avocet-dnstap",
    "avocet-acme",
    "avocet-zone",
    "avocet-session",
];

/// Dependencies point downward. A new edge needs a decision record.
const LAYERS: &[Layer] = &[
    pure("avocet-wire", &[]),
    pure("avocet-cache", &["avocet-wire"]),
    pure("avocet-policy", &["avocet-wire"]),
    pure("avocet-dnssec", &["avocet-wire"]),
    pure("avocet-querylog", &["avocet-wire"]),
    pure("avocet-protobuf", &[]),
    pure("avocet-dnstap", &["avocet-protobuf"]),
    pure("avocet-otlp", &["avocet-protobuf"]),
    pure("avocet-acme", &[]),
    pure("avocet-zone", &["avocet-wire", "avocet-dnssec"]),
    pure("avocet-import", &["avocet-wire", "avocet-policy", "avocet-zone"]),
    pure("avocet-resolver", &["avocet-wire", "avocet-cache", "avocet-dnssec"]),
    // The crate has no socket, but uses rustls, whose buffers the caller provides.
    rim("avocet-session", &["avocet-wire"]),
    rim("avocet-io", &["avocet-wire", "avocet-session"]),
    rim("avocet-revisions", &["avocet-io"]),
    rim(
        "avocet-config",
        &[
            "avocet-wire",
            "avocet-dnssec",
            "avocet-policy",
            "avocet-resolver",
            "avocet-io",
            "avocet-zone",
        ],
    ),
    rim(
        "avocet-nameserver",
        &[
            "avocet-wire",
            "avocet-cache",
            "avocet-config",
            "avocet-dnssec",
            "avocet-dnstap",
            "avocet-io",
            "avocet-policy",
            "avocet-querylog",
            "avocet-resolver",
            "avocet-zone",
            TESTKIT,
        ],
    ),
    rim("avocet-load", &["avocet-wire", "avocet-dnstap", "avocet-io", "avocet-session"]),
    rim(
        "avocet-testkit",
        &["avocet-acme", "avocet-wire", "avocet-cache", "avocet-dnssec", "avocet-resolver"],
    ),
    rim("avocet-client", &["avocet-wire", "avocet-config", "avocet-policy", "avocet-session"]),
    rim("avocet-control", &["avocet-policy"]),
    rim("avocet-web", &["avocet-config", "avocet-control", "avocet-io"]),
    rim(
        "avocet-worker",
        &[
            "avocet-acme",
            "avocet-wire",
            "avocet-cache",
            "avocet-client",
            "avocet-config",
            "avocet-control",
            "avocet-dnstap",
            "avocet-io",
            "avocet-nameserver",
            "avocet-policy",
            "avocet-querylog",
            "avocet-resolver",
            "avocet-session",
        ],
    ),
    rim(
        "avocet-server",
        &[
            "avocet-acme",
            "avocet-wire",
            "avocet-cache",
            "avocet-client",
            "avocet-config",
            "avocet-control",
            "avocet-dnssec",
            "avocet-dnstap",
            "avocet-io",
            "avocet-nameserver",
            "avocet-otlp",
            "avocet-policy",
            "avocet-querylog",
            "avocet-resolver",
            "avocet-revisions",
            "avocet-session",
            "avocet-web",
            "avocet-worker",
            "avocet-zone",
            TESTKIT,
        ],
    ),
    rim("avocet", ALL),
    rim("avocet-fuzz", ALL),
    rim("avocet-bench-bare", &[]),
    rim(
        "avocet-bench-micro",
        &[
            "avocet-nameserver",
            "avocet-wire",
            "avocet-cache",
            "avocet-querylog",
            "avocet-resolver",
            TESTKIT,
        ],
    ),
    rim("xtask", &[]),
];

const TESTKIT: &str = "avocet-testkit";

/// Libraries that a pure crate must not depend on.
const RIM_LIBRARIES: &[&str] = &[
    "async-std",
    "h2",
    "h3",
    "hyper",
    "io-uring",
    "libc",
    "mio",
    "nix",
    "quinn",
    "reqwest",
    "rustix",
    "rustls",
    "smol",
    "socket2",
    "tokio",
    "tokio-rustls",
];

/// Checks that crates of the workspace import only crates below them, and the test kit only for
/// tests.
pub(super) fn directions(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (path, entries) in members(tree) {
        let name = manifest::string(&entries, "package", "name").unwrap_or_default();
        let Some(layer) = layer(name) else {
            faults.push(Fault::of(
                path,
                format!("the crate `{name}` has no layer in xtask/src/tidy/crates.rs"),
            ));
            continue;
        };
        for entry in dependencies(&entries).filter(|entry| is_ours(entry.key)) {
            let for_tests = entry.section.ends_with("dev-dependencies") && entry.key == TESTKIT;
            if !for_tests && !layer.imports.contains(&entry.key) {
                faults.push(Fault::at(
                    path,
                    entry.line,
                    format!("`{name}` must not import `{}`", entry.key),
                ));
            }
        }
    }
    faults
}

/// Checks that pure crates depend on no library for sockets, runtimes or clocks.
pub(super) fn pure_dependencies(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (path, entries) in members(tree) {
        let name = manifest::string(&entries, "package", "name").unwrap_or_default();
        if !layer(name).is_some_and(|layer| layer.pure) {
            continue;
        }
        let shipped =
            dependencies(&entries).filter(|entry| !entry.section.ends_with("dev-dependencies"));
        // The caches give the kernel advice on their memory; `unsafe.txt` names the file.
        let permitted = |key: &str| key == "libc" && name == "avocet-cache";
        for entry in
            shipped.filter(|entry| RIM_LIBRARIES.contains(&entry.key) && !permitted(entry.key))
        {
            let message = format!(
                "`{name}` is free of input and output; `{}` belongs to io or server",
                entry.key
            );
            faults.push(Fault::at(path, entry.line, message));
        }
    }
    faults
}

/// Checks that crates take their dependencies from the workspace.
pub(super) fn declared_once(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    // The fuzz crate is a separate workspace, because cargo-fuzz builds it with other flags.
    for (path, entries) in members(tree).filter(|(path, _)| !path.starts_with("fuzz/")) {
        for entry in dependencies(&entries)
            .filter(|entry| !entry.rest.replace(' ', "").contains("workspace=true"))
        {
            let message = format!(
                "declare `{}` in the root Cargo.toml and take it with `.workspace = true`",
                entry.key
            );
            faults.push(Fault::at(path, entry.line, message));
        }
    }
    faults
}

/// Checks that each dependency in the root manifest has a comment with its reason.
pub(super) fn reasons(tree: &Tree) -> Vec<Fault> {
    let entries = manifest::entries(tree.text(ROOT).unwrap_or_default());
    let bare = entries
        .iter()
        .filter(|entry| entry.section == "workspace.dependencies" && !entry.has_comment);
    bare.map(|entry| {
        Fault::at(ROOT, entry.line, format!("say beside `{}` what it is for", entry.key))
    })
    .collect()
}

fn members(tree: &Tree) -> impl Iterator<Item = (&str, Vec<Entry<'_>>)> {
    tree.ending("/Cargo.toml").map(|(path, text)| (path, manifest::entries(text)))
}

fn dependencies<'a, 'b>(entries: &'b [Entry<'a>]) -> impl Iterator<Item = &'b Entry<'a>> {
    entries.iter().filter(|entry| entry.section.ends_with("dependencies"))
}

fn layer(name: &str) -> Option<&'static Layer> {
    LAYERS.iter().find(|layer| layer.name == name)
}

fn is_ours(name: &str) -> bool {
    name == "avocet" || name.starts_with("avocet-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(run: fn(&Tree) -> Vec<Fault>, files: &[(&str, &str)], expected: &[&str]) {
        let found: Vec<_> = run(&Tree::planted(files)).iter().map(Fault::to_string).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn an_import_upwards_is_a_fault() {
        let text =
            "[package]\nname = \"avocet-wire\"\n[dependencies]\navocet-cache.workspace = true\n";
        let wanted = "crates/wire/Cargo.toml:4: `avocet-wire` must not import `avocet-cache`";
        check(directions, &[("crates/wire/Cargo.toml", text)], &[wanted]);
    }

    #[test]
    fn the_test_kit_is_for_tests() {
        let head = "[package]\nname = \"avocet\"\n";
        let tests = format!("{head}[dev-dependencies]\navocet-testkit.workspace = true\n");
        let shipped = format!("{head}[dependencies]\navocet-testkit.workspace = true\n");
        check(directions, &[("crates/cli/Cargo.toml", &tests)], &[]);
        let wanted = "crates/cli/Cargo.toml:4: `avocet` must not import `avocet-testkit`";
        check(directions, &[("crates/cli/Cargo.toml", &shipped)], &[wanted]);
    }

    #[test]
    fn an_unknown_crate_is_a_fault() {
        let wanted =
            "crates/x/Cargo.toml: the crate `avocet-x` has no layer in xtask/src/tidy/crates.rs";
        check(
            directions,
            &[("crates/x/Cargo.toml", "[package]\nname = \"avocet-x\"\n")],
            &[wanted],
        );
    }

    #[test]
    fn a_runtime_in_a_pure_crate_is_a_fault() {
        let text = "[package]\nname = \"avocet-resolver\"\n[dependencies]\ntokio.workspace = \
                    true\n[dev-dependencies]\ntokio.workspace = true\n";
        let wanted = "crates/resolver/Cargo.toml:4: `avocet-resolver` is free of input and \
                      output; `tokio` belongs to io or server";
        check(pure_dependencies, &[("crates/resolver/Cargo.toml", text)], &[wanted]);
    }

    #[test]
    fn a_version_outside_the_root_is_a_fault() {
        let text = "[package]\nname = \"avocet-io\"\n[dependencies]\nlibc = \"1\"\nx = { \
                    workspace = true }\n";
        let wanted = "crates/io/Cargo.toml:4: declare `libc` in the root Cargo.toml and take it \
                      with `.workspace = true`";
        check(declared_once, &[("crates/io/Cargo.toml", text)], &[wanted]);
    }

    #[test]
    fn a_dependency_without_reason_is_a_fault() {
        let text = "[workspace.dependencies]\na = \"1\" # for b\nc = \"1\"\n# for d\nd = \"1\"\n";
        check(reasons, &[("Cargo.toml", text)], &["Cargo.toml:3: say beside `c` what it is for"]);
    }
}
