//! House: figures of the code's structure, printed by `cargo xtask house`.
//!
//! [`source`] reads the crates of the product as the compiler does, without tests. [`modules`]
//! finds out which file takes what from which; [`cycles`] finds the circles in that. [`items`]
//! measures functions and types. The report names what is worst of each, so that the next move can
//! be chosen from it.

mod cycles;
mod items;
mod layers;
mod modules;
mod report;
mod source;

use std::path::Path;

/// Prints the figures of the tree below `root`; with `--cycles`, each file of each cycle and what
/// ties it.
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

/// Most files of a crate that may lead to one another in a circle.
const MAX_CYCLE: usize = 5;

/// Finds what `cargo xtask tidy` refuses: large cycles of files, imports from a layer above, and
/// parameters whose values have no names.
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
    for function in items::of(&crates).functions {
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

#[cfg(test)]
mod tests {
    #[test]
    fn the_house_is_in_order() {
        let faults = super::faults(&crate::root()).expect("the tree can be read");
        assert!(faults.is_empty(), "\n{}\nsee `cargo xtask house`", faults.join("\n"));
    }
}
