//! Configurations of other servers, written anew for this one: octets in, text out.
//!
//! ```text
//! Files --read--> octets --pihole | adguard | blocky | dnsmasq--> Draft --write--> Imported
//!                                                                   └ notes: what is left behind, and why
//! ```
//! Each source is read by a module of its own, which puts what it finds into one draft. The draft
//! takes only what the configuration reader will take; the rest becomes a note, so an import never
//! writes a file that the server refuses.
//!
//! Not here: disk and command line, which the server has, and the network: lists are named, not
//! fetched.

#![forbid(unsafe_code)]

mod adguard;
mod archive;
mod blocky;
mod dnsmasq;
mod draft;
mod hosts;
mod local;
mod name;
mod pihole;
mod records;
mod reverse;
mod section;
mod server;
mod source;
mod types;
mod write;
mod yaml;

pub use source::{Error, Files};

use draft::Draft;

/// Whose configuration is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// Pi-hole: a teleporter archive, `gravity.db`, `pihole.toml`, `setupVars.conf`, or the
    /// directory with them.
    Pihole,
    /// AdGuard Home: `AdGuardHome.yaml`.
    Adguard,
    /// blocky: `config.yml`, or a directory of such files.
    Blocky,
    /// dnsmasq: `dnsmasq.conf` and what it includes.
    Dnsmasq,
}

impl Origin {
    /// The name of the product, as it writes it itself.
    #[must_use]
    pub const fn product(self) -> &'static str {
        match self {
            Self::Pihole => "Pi-hole",
            Self::Adguard => "AdGuard Home",
            Self::Blocky => "blocky",
            Self::Dnsmasq => "dnsmasq",
        }
    }
}

/// What the server knows by name, so that nothing else is written.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// What `block-services` takes.
    pub services: &'a [&'a str],
    /// What `time-zone` takes.
    pub time_zones: &'a [&'a str],
}

/// What an import gives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Imported {
    /// The text of `avocet.toml`.
    pub config: String,
    /// Files that it names, which belong into the directory given to [`import`]: their names and
    /// texts.
    pub files: Vec<(String, String)>,
    /// What could not be carried over, a line each: what it is, and the reason.
    pub notes: Vec<String>,
}

/// Reads the configuration at `path`; files that go with the result are named in `directory`.
///
/// # Errors
/// The source cannot be read, is not what it should be, or exceeds a limit. What is read but has no
/// counterpart here is a note, not an error.
pub fn import(
    origin: Origin,
    path: &str,
    files: &dyn Files,
    directory: &str,
    known: Known<'_>,
) -> Result<Imported, Error> {
    let mut draft = Draft::within(directory, known);
    match origin {
        Origin::Pihole => pihole::read(path, files, &mut draft)?,
        Origin::Adguard => adguard::read(path, files, &mut draft)?,
        Origin::Blocky => blocky::read(path, files, &mut draft)?,
        Origin::Dnsmasq => dnsmasq::read(path, files, &mut draft)?,
    }
    write::finish(origin, path, draft)
}

#[cfg(test)]
mod tests;
