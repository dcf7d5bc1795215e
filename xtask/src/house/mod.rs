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
