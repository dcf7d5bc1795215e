//! Figures of the code's structure, printed by `cargo xtask house`.
//!
//! [`source`] reads the crates of the product as the compiler does, without tests. [`modules`]
//! finds the imports between files, and [`cycles`] the cycles among them. [`items`] measures
//! functions and types. The report names the worst ones of each kind, which shows what to change
//! next.

mod cycles;
mod items;
mod layers;
mod modules;
mod report;
mod source;

use std::collections::BTreeMap;
use std::path::Path;

/// Prints the figures of the tree below `root`; with `--cycles`, also the files and imports of each
/// cycle.
pub(crate) fn run(root: &Path, options: &[&str]) -> Result<(), String> {
    let details = match options {
        [] => report::Details::Figures,
        ["--cycles"] => report::Details::Cycles,
        _ => return Err("cargo xtask house [--cycles]".to_owned()),
    };
    let crates = source::read(root)?;
    print!("{}", report::of(&crates, details));
    Ok(())
}

/// Maximum number of files of a crate that may form a cycle.
const MAX_CYCLE: usize = 5;

/// Maximum number of types of the product that may share a name. Readers cannot distinguish more of
/// them.
const MAX_NAMESAKES: usize = 3;

/// Finds large cycles of files, imports from a higher layer, parameters whose values have no names,
/// and names that too many types share.
pub(crate) fn faults(root: &Path) -> Result<Vec<String>, String> {
    let crates = source::read(root)?;
    let mut faults = Vec::new();
    for krate in &crates {
        faults.extend(layers::upward(krate));
        let found = cycles::cycles(&modules::imports(krate));
        for cycle in found.iter().filter(|cycle| cycle.len() > MAX_CYCLE) {
            let paths: Vec<&str> = cycle.iter().map(|at| krate.files[*at].path.as_str()).collect();
            let paths = paths.join(", ");
            faults.push(format!(
                "cycles: {}: these files depend on one another in a circle: {paths}",
                krate.name
            ));
        }
    }
    let items = items::of(&crates);
    faults.extend(namesakes(items.types));
    for function in items.functions {
        if function.takes_tuple {
            faults.push(format!(
                "parameters: {}: a tuple of three values or more; name them in a struct",
                function.place
            ));
        }
        if function.takes_bool {
            faults.push(format!(
                "parameters: {}: a bool; name the alternatives in an enum",
                function.place
            ));
        }
    }
    Ok(faults)
}

/// Finds names that more than [`MAX_NAMESAKES`] types share, in a list of names with places.
fn namesakes(types: Vec<(String, String)>) -> impl Iterator<Item = String> {
    let mut by_name: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, place) in types {
        by_name.entry(name).or_default().push(place);
    }
    by_name.into_iter().filter(|(_, places)| places.len() > MAX_NAMESAKES).map(|(name, places)| {
        format!(
            "names: {} types are called {name}: {}; say in the name which one it is",
            places.len(),
            places.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_fourth_type_of_a_name_is_refused() {
        let types = |count: usize| {
            let places = 0..count;
            places.map(|number| ("Line".to_owned(), format!("io/{number}.rs"))).collect()
        };
        assert_eq!(super::namesakes(types(3)).count(), 0);
        assert_eq!(super::namesakes(types(4)).count(), 1);
    }

    #[test]
    fn the_house_is_in_order() {
        let faults = super::faults(&crate::root()).expect("the tree can be read");
        assert!(faults.is_empty(), "\n{}\nsee `cargo xtask house`", faults.join("\n"));
    }
}
