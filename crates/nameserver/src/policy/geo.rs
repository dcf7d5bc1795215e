//! The file that says which country an address is in: `[policy] geo-database`.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use avocet_config::policy::PolicyConfig;
use avocet_policy::geo::{About, Countries, MAX_DATABASE_OCTETS};
use avocet_policy::rule::Country;

use crate::file_watch::FileFingerprint;
use crate::{StateError, disk};

/// A database that was read. Reading one of countries takes some tenths of a second: no worker does
/// it.
pub struct GeoDatabase {
    path: PathBuf,
    /// The file when it was read.
    fingerprint: Option<FileFingerprint>,
    countries: Countries,
}

impl GeoDatabase {
    /// The one that a configuration names; none where it names none, or where nothing is filtered.
    ///
    /// # Errors
    /// The file cannot be read, or is no database of countries. Without it rules on countries would
    /// hold for nothing, and those on all other countries for everything: so there is no going on.
    pub fn of(config: &PolicyConfig) -> Result<Option<Arc<Self>>, StateError> {
        config.geo_file().map(|path| Self::read(path).map(Arc::new)).transpose()
    }

    /// Reads a file.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub fn read(path: &Path) -> Result<Self, StateError> {
        let unreadable = |source| StateError::GeoFile { path: path.to_owned(), source };
        // Before it is read: what is written while it is read makes another one.
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

    /// The country of an address. No allocation.
    #[inline]
    pub fn country(&self, address: IpAddr) -> Option<Country> {
        self.countries.country(address)
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file when it was read.
    pub fn fingerprint(&self) -> Option<FileFingerprint> {
        self.fingerprint
    }

    /// Equal for those that say the same.
    pub fn digest(&self) -> u64 {
        self.countries.digest()
    }

    /// What it says of itself.
    pub fn about(&self) -> &About {
        self.countries.about()
    }

    /// Its octets in memory.
    pub fn octets(&self) -> usize {
        self.countries.octets()
    }
}

/// Two letters, as they are shown.
pub(super) fn letters(country: Country) -> String {
    country.iter().copied().map(char::from).collect()
}
