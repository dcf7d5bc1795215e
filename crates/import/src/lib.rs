//! Conversion of other servers' configurations to Avocet's: octets in, text out.
//!
//! ```text
//! Files --read--> octets --pihole | adguard | blocky | --> Draft --write--> Imported
//!                          dnsmasq | bind | powerdns        |
//!                                                           '-- notes: omitted settings
//!                                                               with reasons
//! ```
//! Each source has its own module, which adds its settings to a common draft. The draft accepts
//! only values that the configuration reader accepts, and turns all others into notes. An import
//! therefore never writes a file that the server refuses.
//!
//! The server provides disk access and the command line. There is no network access: lists are
//! referenced, not fetched.
//!
//! ```
//! use std::io;
//!
//! use avocet_import::{Files, Known, Origin, import};
//!
//! /// The only file of a source.
//! struct OneFile(&'static str);
//!
//! impl Files for OneFile {
//!     fn read(&self, _path: &str, _most: u64) -> io::Result<Vec<u8>> {
//!         Ok(self.0.into())
//!     }
//!
//!     fn list(&self, _path: &str) -> Option<Vec<String>> {
//!         None
//!     }
//! }
//!
//! # fn main() -> Result<(), avocet_import::Error> {
//! let files = OneFile("server=192.0.2.53\naddress=/printer.lan/192.0.2.9\n");
//! let known = Known { services: &[], time_zones: &[] };
//! let imported = import(Origin::Dnsmasq, "dnsmasq.conf", &files, "/etc/avocet", known)?;
//! assert!(imported.config.contains("192.0.2.53") && imported.config.contains("printer.lan"));
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod access;
mod adguard;
mod archive;
mod bind;
mod blocky;
mod dnsmasq;
mod draft;
mod hosted;
mod hosts;
mod local;
mod name;
mod networks;
mod pihole;
mod powerdns;
mod records;
mod reverse;
mod section;
mod server;
mod source;
mod sqlite;
mod types;
mod write;
mod yaml;

pub use hosted::{Secret, ZoneFile};
pub use source::{Error, Files};

use draft::Draft;

/// The product whose configuration is imported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// Pi-hole: a teleporter archive, `gravity.db`, `pihole.toml`, `setupVars.conf`, or a directory
    /// with these files.
    Pihole,
    /// AdGuard Home: `AdGuardHome.yaml`.
    Adguard,
    /// blocky: `config.yml`, or a directory of YAML files.
    Blocky,
    /// dnsmasq: `dnsmasq.conf` and the files it includes.
    Dnsmasq,
    /// BIND: `named.conf` and the files it includes.
    Bind,
    /// PowerDNS: `pdns.conf`, `recursor.conf` or `recursor.yml`.
    Powerdns,
}

impl Origin {
    /// Returns the name of the product in its own spelling.
    #[must_use]
    pub const fn product(self) -> &'static str {
        match self {
            Self::Pihole => "Pi-hole",
            Self::Adguard => "AdGuard Home",
            Self::Blocky => "blocky",
            Self::Dnsmasq => "dnsmasq",
            Self::Bind => "BIND",
            Self::Powerdns => "PowerDNS",
        }
    }
}

/// The names that the server knows. Other names are not written.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// The services that `block-services` accepts.
    pub services: &'a [&'a str],
    /// The time zones that `time-zone` accepts.
    pub time_zones: &'a [&'a str],
}

/// The result of an import.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Imported {
    /// The text of `avocet.toml`.
    pub config: String,
    /// Companion files for the directory given to [`import`]: names and texts.
    pub files: Vec<(String, String)>,
    /// Companion files that only the account of the server may read: names and texts.
    pub secrets: Vec<(String, Secret)>,
    /// The master files of zones that the configuration refers to, in any directory.
    pub zone_files: Vec<ZoneFile>,
    /// The settings that could not be converted, one line each, with the reason.
    pub notes: Vec<String>,
}

/// Imports the configuration at `path`. The result refers to companion files in `directory`.
///
/// # Errors
/// The source cannot be read, is malformed, or exceeds a limit. A setting without a counterpart is
/// a note, not an error.
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
        Origin::Bind => bind::read(path, files, &mut draft)?,
        Origin::Powerdns => powerdns::read(path, files, &mut draft)?,
    }
    write::finish(origin, path, draft)
}

#[cfg(test)]
mod tests;
