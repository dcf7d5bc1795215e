//! Countries of addresses, from a file in the MaxMind DB format 2.0 as published by MaxMind, DB-IP
//! and IPinfo.
//!
//! ```text
//! octets -> metadata -> search tree -> each record translated once
//!        -> nodes that separate countries -> Countries
//! ```
//! A file is validated as a whole when it is read, including every value that its tree refers to. A
//! look-up is then a walk of at most 128 steps that cannot fail and allocates nothing. Only the
//! data that separates countries is kept: no city names, and no branch whose leaves are all in one
//! country.
//!
//! The octets are untrusted: nothing recurses, each loop is bounded by the octets or by
//! [`MAX_DATABASE_STEPS`], and no length in the file decides the size of an allocation.

mod error;
mod metadata;
mod record;
mod tree;
mod value;

use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;

use avocet_wire::special_purpose::embedded;
use siphasher::sip::SipHasher13;

pub use error::GeoError;

use crate::rule::Country;
use metadata::Metadata;
use tree::{Cell, Tree};
use value::{DataSection, Steps};

/// Maximum number of octets of a file. Country databases have 5 to 60 MB, city databases up to 150.
pub const MAX_DATABASE_OCTETS: u64 = 256 << 20;
/// Maximum number of values of one file that are examined. A city database takes about 50 million,
/// one second of work.
pub const MAX_DATABASE_STEPS: u64 = 1 << 30;
/// Maximum number of distinct records referenced by the tree, which are remembered while it is
/// read. Country databases have several hundred, city databases up to a million.
pub const MAX_DATABASE_RECORDS: usize = 4 << 20;

/// Number of zero octets between tree and data.
const SEPARATOR: usize = 16;
/// Number of leading bits of an IPv6 address before the IPv4 address that its last 32 bits may
/// contain.
const BITS_BEFORE_V4: u32 = 96;

/// A map from addresses to countries.
pub struct Countries {
    tree: Tree,
    root: Cell,
    /// The cell at which IPv4 addresses start.
    v4_root: Cell,
    about: About,
    digest: u64,
}

/// The description of a country database.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct About {
    /// The type of the database, such as `GeoLite2-Country`.
    pub database_type: String,
    /// The build time of the database, in Unix seconds.
    pub built_at_secs: u64,
    /// Number of nodes of the search tree.
    pub nodes: u32,
    /// Number of distinct countries.
    pub countries: usize,
}

impl Countries {
    /// Reads a database.
    ///
    /// # Errors
    /// The file is not a database, is damaged, exceeds a limit, or contains no country.
    pub fn read(octets: &[u8]) -> Result<Self, GeoError> {
        Self::read_within(octets, &mut Steps::new(MAX_DATABASE_STEPS))
    }

    fn read_within(octets: &[u8], steps: &mut Steps) -> Result<Self, GeoError> {
        if octets.len() as u64 > MAX_DATABASE_OCTETS {
            return Err(GeoError::Limit("octets"));
        }
        let (before, metadata) = Metadata::find(octets, steps)?;
        let tree_len =
            metadata.tree_len().filter(|len| *len <= before.len()).ok_or(GeoError::Tree)?;
        let (tree, rest) = before.split_at(tree_len);
        let (separator, data) = rest.split_at_checked(SEPARATOR).ok_or(GeoError::Tree)?;
        if separator.iter().any(|octet| *octet != 0) {
            return Err(GeoError::Tree);
        }
        let mut countries = BTreeSet::new();
        let tree = Tree::translate((tree, metadata.layout), data.len(), &mut |place| {
            let country = record::country(DataSection(data), place, steps)?;
            countries.extend(country);
            Ok(country)
        })?;
        if countries.is_empty() {
            return Err(GeoError::NoCountries(metadata.database_type));
        }
        let (tree, root) = tree.folded();
        let v4_root = if metadata.is_v6 { tree.walk(root, 0, BITS_BEFORE_V4) } else { root };
        let mut hasher = SipHasher13::new();
        (&tree, root.0, metadata.is_v6, metadata.built_at_secs).hash(&mut hasher);
        let about = About {
            database_type: metadata.database_type,
            built_at_secs: metadata.built_at_secs,
            nodes: metadata.layout.nodes,
            countries: countries.len(),
        };
        // A tree for IPv4 only has no other addresses.
        let root = if metadata.is_v6 { root } else { Cell::NOWHERE };
        Ok(Self { tree, root, v4_root, about, digest: hasher.finish() })
    }

    /// Returns the country of an address, if the database has one. An IPv4 address embedded in an
    /// IPv6 address, as in NAT64 and 6to4, is looked up as IPv4. Allocates nothing and takes at
    /// most 128 steps: about 50 ns for repeated addresses and 500 for random addresses among half a
    /// million networks (`cargo bench -p avocet-policy --bench geo`).
    #[must_use]
    pub fn country(&self, address: IpAddr) -> Option<Country> {
        let v4 = match address {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(address) => embedded(address),
        };
        let end = match (v4, address) {
            (Some(v4), _) => {
                self.tree.walk(self.v4_root, u128::from(u32::from(v4)) << BITS_BEFORE_V4, u32::BITS)
            }
            (None, IpAddr::V6(address)) => self.tree.walk(self.root, address.into(), u128::BITS),
            (None, IpAddr::V4(_)) => Cell::NOWHERE,
        };
        end.country()
    }

    /// Returns the description of the database.
    #[must_use]
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Returns a value that is equal for databases with the same build time and the same countries
    /// for all addresses.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// Returns the memory in use, in octets.
    #[must_use]
    pub fn octets(&self) -> usize {
        self.tree.octets()
    }
}

#[cfg(test)]
mod tests;
