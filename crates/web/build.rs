//! Embeds the interface for browsers: each file of `ui/dist`, compressed. Without that directory
//! the table of files is empty.

#![forbid(unsafe_code)]

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use flate2::Compression;
use flate2::write::GzEncoder;

/// The built interface, relative to this package. It always exists, so that cargo does not run
/// this script each time.
const BUILT: &str = "../../ui/dist";

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={BUILT}");
    let variable = |name| env::var_os(name).map(PathBuf::from).ok_or(io::ErrorKind::NotFound);
    let (package, out) = (variable("CARGO_MANIFEST_DIR")?, variable("OUT_DIR")?);
    let built = package.join(BUILT);
    let mut names = Vec::new();
    if built.join("index.html").is_file() {
        collect(&built, "", &mut names)?;
    }
    names.sort();
    let mut table = String::from("&[\n");
    for (number, name) in names.iter().enumerate() {
        let packed = out.join(format!("{number}.gz"));
        fs::write(&packed, compressed(&fs::read(built.join(name))?)?)?;
        writeln!(
            table,
            "    EmbeddedFile {{ path: {name:?}, packed: include_bytes!({packed:?}) }},"
        )
        .map_err(io::Error::other)?;
    }
    table.push_str("]\n");
    fs::write(out.join("files.rs"), table)
}

/// Collects the paths of all files that the server may show, with `/` between their parts.
fn collect(directory: &Path, prefix: &str, names: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') {
            continue;
        }
        let path = format!("{prefix}{name}");
        match entry.file_type()?.is_dir() {
            true => collect(&entry.path(), &format!("{path}/"), names)?,
            false => names.push(path),
        }
    }
    Ok(())
}

/// Compresses a text. The result has no time, so that equal texts make equal binaries.
fn compressed(text: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text)?;
    encoder.finish()
}
