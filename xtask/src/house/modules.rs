//! The imports between the files of a crate.
//!
//! Paths in `use` and in other code both count as imports. A name that a module re-exports counts
//! as imported from the file that defines it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use syn::visit::{self, Visit};
use syn::{Item, ItemMod, UseTree, Visibility};

use super::source::{Crate, is_test};

/// Maximum number of re-exports that are followed for one name.
const MAX_HOPS: usize = 8;

/// For each file, by its index in [`Crate::files`]: the files that it imports from, with the
/// imported names.
pub(super) type Imports = Vec<BTreeMap<usize, BTreeSet<String>>>;

/// Finds the imports between the files of a crate, except those between a module and its ancestors.
pub(super) fn imports(krate: &Crate) -> Imports {
    let index = Index::of(krate);
    let mut imports = Imports::new();
    for (at, file) in krate.files.iter().enumerate() {
        let mut seen = Seen { module: file.module.clone(), paths: Vec::new() };
        file.items.iter().for_each(|item| seen.visit_item(item));
        let mut taken: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
        for path in seen.paths {
            let Some((to, name)) = index.resolve(path) else { continue };
            if to != at && !are_in_line(&file.module, &krate.files[to].module) {
                taken.entry(to).or_default().insert(name);
            }
        }
        imports.push(taken);
    }
    imports
}

fn are_in_line(one: &[String], other: &[String]) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

/// The modules of a crate and their re-exports.
struct Index {
    modules: HashMap<Vec<String>, usize>,
    passed_on: HashMap<(usize, String), Vec<String>>,
}

impl Index {
    fn of(krate: &Crate) -> Self {
        let modules =
            krate.files.iter().enumerate().map(|(at, file)| (file.module.clone(), at)).collect();
        let mut passed_on = HashMap::new();
        for (at, file) in krate.files.iter().enumerate() {
            for item in &file.items {
                let Item::Use(item) = item else { continue };
                if matches!(item.vis, Visibility::Inherited) {
                    continue;
                }
                let mut leaves = Vec::new();
                flatten(&item.tree, Vec::new(), &mut leaves);
                for (path, name) in leaves {
                    passed_on.insert((at, name), absolute(path, &file.module));
                }
            }
        }
        Self { modules, passed_on }
    }

    /// Returns the file that defines the target of a path from the crate's root, and the name of
    /// the target there.
    fn resolve(&self, mut path: Vec<String>) -> Option<(usize, String)> {
        for _ in 0..MAX_HOPS {
            let length = (0..=path.len())
                .rev()
                .find(|length| self.modules.contains_key(&path[..*length]))?;
            let at = self.modules[&path[..length]];
            let Some(name) = path.get(length) else { return Some((at, "the module".to_owned())) };
            match self.passed_on.get(&(at, name.clone())) {
                Some(target) if *target != path => {
                    path = [&target[..], &path[length + 1..]].concat()
                }
                _ => return Some((at, name.clone())),
            }
        }
        None
    }
}

/// The paths in a file that refer to its own crate, from the crate's root.
struct Seen {
    module: Vec<String>,
    paths: Vec<Vec<String>>,
}

impl Visit<'_> for Seen {
    fn visit_item_use(&mut self, item: &syn::ItemUse) {
        let mut leaves = Vec::new();
        flatten(&item.tree, Vec::new(), &mut leaves);
        let is_own = |path: &Vec<String>| path.first().is_some_and(|first| is_keyword(first));
        let own = leaves.into_iter().map(|(path, _)| path).filter(is_own);
        self.paths.extend(own.map(|path| absolute(path, &self.module)));
    }

    fn visit_path(&mut self, path: &syn::Path) {
        let words: Vec<String> =
            path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if words.len() > 1 && is_keyword(&words[0]) && words[0] != "Self" {
            self.paths.push(absolute(words, &self.module));
        }
        visit::visit_path(self, path);
    }

    fn visit_item_mod(&mut self, item: &ItemMod) {
        if !is_test(&item.attrs) {
            self.module.push(item.ident.to_string());
            visit::visit_item_mod(self, item);
            self.module.pop();
        }
    }
}

fn is_keyword(word: &str) -> bool {
    matches!(word, "crate" | "self" | "super")
}

/// Converts a path as written in a module to a path from the crate's root.
fn absolute(path: Vec<String>, module: &[String]) -> Vec<String> {
    let mut out = match path.first().map(String::as_str) {
        Some("crate") => Vec::new(),
        _ => module.to_vec(),
    };
    for word in path {
        match word.as_str() {
            "crate" | "self" => {}
            "super" => drop(out.pop()),
            _ => out.push(word),
        }
    }
    out
}

/// Collects the paths of a `use`, each with the name that it introduces.
fn flatten(tree: &UseTree, before: Vec<String>, leaves: &mut Vec<(Vec<String>, String)>) {
    match tree {
        UseTree::Path(path) => {
            flatten(&path.tree, [before, vec![path.ident.to_string()]].concat(), leaves)
        }
        UseTree::Name(name) => {
            let name = name.ident.to_string();
            let own_name = if name == "self" {
                before.last().cloned().unwrap_or_default()
            } else {
                name.clone()
            };
            let path = if name == "self" { before } else { [before, vec![name]].concat() };
            leaves.push((path, own_name));
        }
        UseTree::Rename(rename) => {
            leaves.push((
                [before, vec![rename.ident.to_string()]].concat(),
                rename.rename.to_string(),
            ));
        }
        UseTree::Glob(_) => leaves.push((before, "*".to_owned())),
        UseTree::Group(group) => {
            group.items.iter().for_each(|tree| flatten(tree, before.clone(), leaves))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::house::source::File;

    fn file(module: &[&str], text: &str) -> File {
        let module: Vec<String> = module.iter().map(|&word| word.to_owned()).collect();
        let items = syn::parse_file(text).unwrap().items;
        File { path: format!("{}.rs", module.join("/")), module, lines: Vec::new(), items }
    }

    fn taken(files: Vec<File>) -> Vec<(usize, usize, String)> {
        let found = imports(&Crate { name: "planted".to_owned(), files });
        let of_file = |(from, taken): (usize, BTreeMap<usize, BTreeSet<String>>)| {
            let pairs = taken
                .into_iter()
                .flat_map(|(to, names)| names.into_iter().map(move |name| (to, name)));
            pairs.map(|(to, name)| (from, to, name)).collect::<Vec<_>>()
        };
        found.into_iter().enumerate().flat_map(of_file).collect()
    }

    #[test]
    fn names_are_taken_from_the_file_that_defines_them() {
        let files = vec![
            file(&["a"], "pub(crate) use b::Thing; mod b;"),
            file(&["a", "b"], "pub(crate) struct Thing; use super::helper;"),
            file(&["c"], "use crate::a::Thing; fn f() { crate::d::g(); }"),
            file(&["d"], "pub(crate) fn g() {} use std::fmt; use super::c;"),
        ];
        let wanted = [(2, 1, "Thing"), (2, 3, "g"), (3, 2, "the module")];
        assert_eq!(taken(files), wanted.map(|(from, to, name)| (from, to, name.to_owned())));
    }

    #[test]
    fn what_passes_itself_on_is_not_followed_for_ever() {
        let files = vec![
            file(&["a"], "pub use crate::b::Thing;"),
            file(&["b"], "pub use crate::a::Thing;"),
            file(&["c"], "use crate::a::Thing;"),
        ];
        assert!(taken(files).iter().all(|(from, _, _)| *from < 2));
    }
}
