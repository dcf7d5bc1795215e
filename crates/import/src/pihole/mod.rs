//! Pi-hole: its archive of version 5 or 6, its database, its settings, or the directory that
//! contains them.
//!
//! ```text
//! archive or directory --> members --+-- pihole.toml, setupVars.conf, ...  --> settings, former
//!                                    +-- gravity.db or *.json  --> tables --> gravity
//! ```

mod database;
mod former;
mod gravity;
mod settings;
mod tables;

use crate::archive::{self, GZIP, Member, ZIP};
use crate::draft::Draft;
use crate::source::{self, Error, Files, MAX_ARCHIVE, MAX_TEXT, MAX_UNPACKED, malformed};
use crate::{dnsmasq, hosts};
use tables::Tables;

const DATABASE: &str = "gravity.db";
const SETTINGS: &str = "pihole.toml";
const FORMER_SETTINGS: &str = "setupVars.conf";
const FORMER_RESOLVER: &str = "pihole-FTL.conf";
const HOSTS: &str = "custom.list";
/// Files that Pi-hole generates from its settings. The import reads the settings instead.
const GENERATED: &[&str] = &["01-pihole.conf", "02-pihole-dhcp.conf", "06-rfc6761.conf"];
const STATIC_LEASES: &str = "04-pihole-static-dhcp.conf";

/// Reads the source at `path`.
pub(crate) fn read(path: &str, files: &dyn Files, draft: &mut Draft) -> Result<(), Error> {
    let members = members(path, files)?;
    if members.is_empty() {
        return Err(malformed(path, "no Pi-hole data found"));
    }
    let has_settings = members.iter().any(|(name, _)| name == SETTINGS);
    let mut tables = Tables::default();
    for (name, octets) in &members {
        match name.as_str() {
            DATABASE => database::read(octets, &mut tables)?,
            SETTINGS => settings::read(&source::text(name, octets)?, files, draft)?,
            // Version 6 has converted these files to its own settings, so they are not read again.
            FORMER_SETTINGS | FORMER_RESOLVER if has_settings => {}
            FORMER_SETTINGS => former::settings(&source::text(name, octets)?, draft)?,
            FORMER_RESOLVER => former::resolver(&source::text(name, octets)?, draft),
            HOSTS => local_names(&source::text(name, octets)?, draft),
            STATIC_LEASES => draft.note(name, "addresses are not assigned here (DHCP)"),
            name if name.ends_with(".json") => tables.read_json(name, octets)?,
            name => {
                let text = source::text(name, octets)?;
                draft.note_lines_left_out(name, &text);
                dnsmasq::apply(&dnsmasq::statements(name, &text), files, draft);
            }
        }
    }
    if !tables.is_empty() {
        gravity::carry(tables, draft);
    }
    if !draft.forwards.contains_key(".") {
        draft.note(
            "upstream servers",
            "no server could be converted: names are resolved from the root",
        );
    }
    Ok(())
}

/// Returns the files that the import needs, by their base names.
fn members(path: &str, files: &dyn Files) -> Result<Vec<Member>, Error> {
    if let Some(names) = files.list(path) {
        let mut members = Vec::new();
        for name in names.iter().filter(|name| is_wanted(name)) {
            let most = if name == DATABASE { MAX_UNPACKED } else { MAX_TEXT };
            members.push((name.clone(), source::octets(files, &format!("{path}/{name}"), most)?));
        }
        return Ok(members);
    }
    let octets = source::octets(files, path, MAX_UNPACKED)?;
    let is_archive = octets.starts_with(ZIP) || octets.starts_with(GZIP);
    if is_archive && octets.len() as u64 > MAX_ARCHIVE {
        let limit = format!("{} MiB", MAX_ARCHIVE >> 20);
        return Err(Error::TooLarge { path: path.to_owned(), limit });
    }
    let members = if octets.starts_with(ZIP) {
        archive::zip(path, &octets, is_wanted)?
    } else if octets.starts_with(GZIP) {
        archive::tar_gz(path, &octets, is_wanted)?
    } else if database::is_one(&octets) {
        vec![(DATABASE.to_owned(), octets)]
    } else if last(path).ends_with(".toml") {
        vec![(SETTINGS.to_owned(), octets)]
    } else if is_wanted(path) {
        vec![(path.to_owned(), octets)]
    } else {
        return Err(malformed(
            path,
            "expected an archive, gravity.db, pihole.toml or setupVars.conf",
        ));
    };
    Ok(members.into_iter().map(|(name, octets)| (last(&name).to_owned(), octets)).collect())
}

fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Reports whether the import needs the file.
fn is_wanted(path: &str) -> bool {
    let name = last(path);
    let is_known = [DATABASE, SETTINGS, FORMER_SETTINGS, FORMER_RESOLVER, HOSTS].contains(&name);
    let is_dnsmasq = path.contains("dnsmasq.d/") || name == "05-pihole-custom-cname.conf";
    is_known
        || tables::table_of(name).is_some()
        || (is_dnsmasq && name.ends_with(".conf") && !GENERATED.contains(&name))
}

/// Reads `custom.list` or equivalent lines: local names in the form of a hosts file.
fn local_names(text: &str, draft: &mut Draft) {
    let (found, wrong) = hosts::hosts(text);
    found.iter().for_each(|host| draft.host(host, None, HOSTS));
    wrong
        .iter()
        .for_each(|line| draft.note(format!("{HOSTS}:{line}"), "expected an address and a name"));
}
