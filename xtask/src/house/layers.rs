//! The layers of a crate: its top folders in an order in which each imports only earlier ones.

use super::modules::{Imports, imports};
use super::source::{Crate, File};

/// The crates with ordered folders, and the order: each folder imports only earlier ones.
const LAYERS: &[(&str, &[&str])] = &[
    (
        "server",
        &[
            "connect",
            "clients",
            "error",
            "port_in_use",
            "pools_file",
            "switches_file",
            "turns",
            "log",
            "trust",
            "backup",
            "transfer_stream",
            "transfer_room",
            "transfer",
            "secret_file",
            "lists",
            "root",
            "trace",
            "database",
            "query_log",
            "tap",
            "otlp",
            "running",
            "dry_run",
            "explain",
            "keepers",
            "http",
            "control",
            "operate",
            "serve",
        ],
    ),
    (
        "worker",
        &[
            "home_ca",
            "certificates",
            "alternative",
            "upstream_tls",
            "connections",
            "mailbox",
            "resolver_report",
            "load_report",
            "logged_upstreams",
            "state",
            "setup",
            "allowance",
            "fault",
            "token",
            "load",
            "busy",
            "values",
            "outbox",
            "resolution",
            "frames",
            "intake",
            "faulty",
            "worker",
            "threads",
        ],
    ),
];

/// Returns a fault for each import from a later folder, and for each folder that has no place in
/// the order.
pub(super) fn upward(krate: &Crate) -> Vec<String> {
    let Some((_, order)) = LAYERS.iter().find(|(name, _)| *name == krate.name) else {
        return Vec::new();
    };
    let layer = |file: &File| {
        let folder = file.module.first()?;
        Some(order.iter().position(|name| name == folder).ok_or_else(|| folder.clone()))
    };
    let mut faults = Vec::new();
    let imports: Imports = imports(krate);
    for (from, file) in krate.files.iter().enumerate() {
        let here = match layer(file) {
            None => continue,
            Some(Ok(here)) => here,
            Some(Err(folder)) => {
                faults.push(format!("layers: {}: {folder} has no place in LAYERS", file.path));
                continue;
            }
        };
        for (to, names) in &imports[from] {
            let target = &krate.files[*to];
            if layer(target).is_some_and(|there| there.is_ok_and(|there| there > here)) {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                faults.push(format!(
                    "layers: {}: imports {} from {}, which is a layer above",
                    file.path,
                    names.join(", "),
                    target.path
                ));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(module: &[&str], text: &str) -> File {
        File {
            path: module.join("/"),
            module: module.iter().map(|part| (*part).to_owned()).collect(),
            lines: Vec::new(),
            items: syn::parse_file(text).unwrap().items,
        }
    }

    #[track_caller]
    fn check(trust: &str, lists: &str, expected: &[&str]) {
        let root = file(&[], "mod trust; mod lists;");
        let files = vec![root, file(&["trust"], trust), file(&["lists"], lists)];
        assert_eq!(upward(&Crate { name: "server".to_owned(), files }), expected);
    }

    #[test]
    fn a_folder_imports_only_folders_before_it() {
        check("pub(crate) struct Anchors;", "use crate::trust::Anchors;", &[]);
        check(
            "use crate::lists::Lists;",
            "pub(crate) struct Lists;",
            &["layers: trust: imports Lists from lists, which is a layer above"],
        );
    }

    #[test]
    fn a_folder_without_a_place_is_a_fault() {
        let krate = Crate { name: "server".to_owned(), files: vec![file(&["attic"], "")] };
        assert_eq!(upward(&krate), ["layers: attic: attic has no place in LAYERS"]);
    }
}
