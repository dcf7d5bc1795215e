//! House: figures of the code's structure, printed by `cargo xtask house`.
//!
//! [`source`] reads the crates of the product as the compiler does, without tests. [`modules`] finds out which file
//! takes what from which; [`cycles`] finds the circles in that. [`items`] measures functions and types. The report
//! names what is worst of each, so that the next move can be chosen from it.

mod cycles;
mod items;
mod modules;
mod report;
mod source;

use std::path::Path;

/// Prints the figures of the tree below `root`; with `--cycles`, each file of each cycle and what ties it.
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

/// Finds the cycles of files that are too large; `cargo xtask tidy` refuses them.
pub(crate) fn large_cycles(root: &Path) -> Result<Vec<String>, String> {
    let mut faults = Vec::new();
    for krate in source::read(root)? {
        let found = cycles::cycles(&modules::imports(&krate));
        for cycle in found.iter().filter(|cycle| cycle.len() > MAX_CYCLE) {
            let paths: Vec<&str> = cycle.iter().map(|at| krate.files[*at].path.as_str()).collect();
            let paths = paths.join(", ");
            faults.push(format!("cycles: {}: these files depend on one another in a circle: {paths}", krate.name));
        }
    }
    Ok(faults)
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_large_circle_of_files_depends_on_itself() {
        let faults = super::large_cycles(&crate::root()).expect("the tree can be read");
        assert!(faults.is_empty(), "\n{}\nsee `cargo xtask house --cycles`", faults.join("\n"));
    }
}
