//! The parsed source files of the product, without test code.

use std::fs;
use std::path::{Path, PathBuf};

use syn::{Attribute, Item, Meta};

/// Crates that are not part of the product.
const NOT_PRODUCT: &[&str] = &["testkit"];

/// A crate of the product.
pub(super) struct Crate {
    /// The name of the crate's directory.
    pub(super) name: String,
    pub(super) files: Vec<File>,
}

/// A source file of a crate.
pub(super) struct File {
    /// The path below `src`, such as `query/asked.rs`.
    pub(super) path: String,
    /// The module path from the crate's root, such as `query` and `asked`.
    pub(super) module: Vec<String>,
    /// The lines, without the lines of tests.
    pub(super) lines: Vec<String>,
    /// The items, without the items of tests.
    pub(super) items: Vec<Item>,
}

/// Reads all crates below `crates`.
pub(super) fn read(root: &Path) -> Result<Vec<Crate>, String> {
    let mut directories: Vec<PathBuf> = list(&root.join("crates"))?;
    directories.sort();
    let mut crates = Vec::new();
    for directory in directories.into_iter().filter(|directory| directory.join("src").is_dir()) {
        let name = file_name(&directory);
        if NOT_PRODUCT.contains(&name.as_str()) {
            continue;
        }
        let mut files = Vec::new();
        for top in ["lib.rs", "main.rs"] {
            let path = directory.join("src").join(top);
            if path.is_file() {
                read_module(&path, Vec::new(), &directory.join("src"), &mut files)?;
            }
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files.dedup_by(|a, b| a.path == b.path);
        crates.push(Crate { name, files });
    }
    Ok(crates)
}

/// Reads a file and the modules that it declares.
fn read_module(
    path: &Path,
    module: Vec<String>,
    source: &Path,
    files: &mut Vec<File>,
) -> Result<(), String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let parsed = syn::parse_file(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut is_shipped = vec![true; text.lines().count()];
    let mut items = Vec::new();
    for item in parsed.items {
        if is_test(attributes(&item)) {
            let (first, last) = lines_of(&item);
            is_shipped[first - 1..last].fill(false);
            continue;
        }
        if let Item::Mod(child) = &item
            && child.content.is_none()
        {
            let name = child.ident.to_string();
            let child_path = path_of_child(path, &module, &name)?;
            let child_module = [module.clone(), vec![name]].concat();
            read_module(&child_path, child_module, source, files)?;
        }
        items.push(item);
    }
    let lines = text.lines().zip(is_shipped).filter(|(_, is_shipped)| *is_shipped);
    let lines = lines.map(|(line, _)| line.to_owned()).collect();
    let path = path.strip_prefix(source).unwrap_or(path).to_string_lossy().into_owned();
    files.push(File { path, module, lines, items });
    Ok(())
}

fn path_of_child(path: &Path, module: &[String], name: &str) -> Result<PathBuf, String> {
    let here = path.parent().unwrap_or(path);
    let is_directory_root =
        module.is_empty() || path.file_name().is_some_and(|file| file == "mod.rs");
    let directory = if is_directory_root { here.to_owned() } else { path.with_extension("") };
    let candidates = [directory.join(format!("{name}.rs")), directory.join(name).join("mod.rs")];
    let found = candidates.into_iter().find(|candidate| candidate.is_file());
    found.ok_or_else(|| format!("{}: no file for the module `{name}`", path.display()))
}

fn list(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let entries =
        fs::read_dir(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    Ok(entries.flatten().map(|entry| entry.path()).collect())
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns whether the item is compiled only for tests, benches or model checking.
pub(super) fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string();
            condition.starts_with("test")
                || condition.starts_with("all (test")
                || condition.starts_with("loom")
        }
        meta => meta.path().is_ident("test"),
    })
}

/// Returns the first and the last line of an item with its attributes. Lines are counted from 1.
fn lines_of(item: &Item) -> (usize, usize) {
    use syn::spanned::Spanned;
    let first = attributes(item).iter().map(|attribute| attribute.span().start().line).min();
    let span = item.span();
    (first.unwrap_or(usize::MAX).min(span.start().line), span.end().line)
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}
