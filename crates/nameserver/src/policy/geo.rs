//! The geo database, which has the countries of addresses: `[policy] geo-database`.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use avocet_config::policy::PolicyConfig;
use avocet_policy::geo::{About, Countries, MAX_DATABASE_OCTETS};
use avocet_policy::rule::Country;

use crate::file_watch::FileFingerprint;
use crate::{StateError, disk};

/// A geo database in memory. Workers do not read it from disk, because that takes some tenths of a
/// second.
pub struct GeoDatabase {
    path: PathBuf,
    /// The fingerprint of the file before it was read.
    fingerprint: Option<FileFingerprint>,
    countries: Countries,
}

impl GeoDatabase {
    /// Reads the geo database of a configuration; returns `None` if none is configured, or if no
    /// rule and no pool needs it.
    ///
    /// # Errors
    /// The file cannot be read, or has no countries. This error is fatal: without the database, a
    /// rule for some countries would match nothing, and a rule for all countries but some would
    /// match everything.
    pub fn of(config: &PolicyConfig) -> Result<Option<Arc<Self>>, StateError> {
        config.geo_file().map(|path| Self::read(path).map(Arc::new)).transpose()
    }

    /// Reads a database from a file.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub fn read(path: &Path) -> Result<Self, StateError> {
        let unreadable = |source| StateError::GeoFile { path: path.to_owned(), source };
        // The fingerprint is taken before reading. If the file changes in the meantime, its later
        // fingerprint differs.
        let fingerprint = FileFingerprint::of(path);
        let octets = disk::read(path, MAX_DATABASE_OCTETS).map_err(unreadable)?;
        let octets = octets.ok_or_else(|| unreadable(io::ErrorKind::NotFound.into()))?;
        let countries = Countries::read(&octets)
            .map_err(|source| StateError::GeoData { path: path.to_owned(), source })?;
        let About { database_type, nodes, countries: number, .. } = countries.about();
        tracing::info!(
            of = database_type,
            nodes,
            countries = number,
            "loaded the geo database {}",
            path.display()
        );
        Ok(Self { path: path.to_owned(), fingerprint, countries })
    }

    /// Returns the country of an address. Allocates nothing.
    #[inline]
    pub fn country(&self, address: IpAddr) -> Option<Country> {
        self.countries.country(address)
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the fingerprint of the file before it was read.
    pub fn fingerprint(&self) -> Option<FileFingerprint> {
        self.fingerprint
    }

    /// Returns a digest, which is equal for databases with equal contents.
    pub fn digest(&self) -> u64 {
        self.countries.digest()
    }

    /// Returns the metadata of the database.
    pub fn about(&self) -> &About {
        self.countries.about()
    }

    /// Returns the size of the database in memory, in octets.
    pub fn octets(&self) -> usize {
        self.countries.octets()
    }
}

/// Returns the two letters of a country.
pub(super) fn letters(country: Country) -> String {
    country.iter().copied().map(char::from).collect()
}
