//! Complete sources of each product, written from its documentation, with the expected results.

mod every_option;
mod hostile;
mod meaning;
mod options;
mod powerdns;
mod precedence;
mod upstreams;
mod whole;
mod zones;

use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::{Error, Files, Imported, Known, Origin, import};

/// Services that the tests treat as known.
const SERVICES: &[&str] = &["tiktok", "x", "youtube"];

/// Time zones that the tests treat as known.
const TIME_ZONES: &[&str] = &["Europe/Berlin"];

/// Files in memory.
#[derive(Default)]
struct Memory(BTreeMap<String, Vec<u8>>);

impl Memory {
    fn with(mut self, path: &str, octets: impl Into<Vec<u8>>) -> Self {
        self.0.insert(path.to_owned(), octets.into());
        self
    }
}

impl Files for Memory {
    fn read(&self, path: &str, most: u64) -> io::Result<Vec<u8>> {
        let octets = self.0.get(path).ok_or_else(|| io::Error::other("no such file"))?;
        if octets.len() as u64 > most {
            return Err(io::Error::other("too large"));
        }
        Ok(octets.clone())
    }

    fn list(&self, path: &str) -> Option<Vec<String>> {
        let start = format!("{path}/");
        let names: Vec<String> =
            self.0.keys().filter_map(|key| key.strip_prefix(&start)).map(str::to_owned).collect();
        (!names.is_empty()).then_some(names)
    }
}

fn run(origin: Origin, path: &str, files: &Memory) -> Result<Imported, Error> {
    import(
        origin,
        path,
        files,
        "/etc/avocet/",
        Known { services: SERVICES, time_zones: TIME_ZONES },
    )
}

/// Imports a single text file.
fn run_text(origin: Origin, path: &str, text: &str) -> Result<Imported, Error> {
    run(origin, path, &Memory::default().with(path, text))
}

/// Returns a zip with these members.
fn zip(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(io::Cursor::new(Vec::new()));
    for (name, octets) in members {
        archive.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        archive.write_all(octets).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

/// Returns a gzip-compressed tar with these members.
fn tar_gz(members: &[(&str, &[u8])]) -> Vec<u8> {
    let gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut archive = tar::Builder::new(gzip);
    for (name, octets) in members {
        let mut header = tar::Header::new_ustar();
        header.set_size(octets.len() as u64);
        header.set_cksum();
        archive.append_data(&mut header, name, *octets).unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap()
}

/// Returns a database created by these statements.
fn database(sql: &str) -> Vec<u8> {
    let mut connection = rusqlite::Connection::open_in_memory().unwrap();
    connection.execute_batch(sql).unwrap();
    connection.serialize("main").unwrap().to_vec()
}
