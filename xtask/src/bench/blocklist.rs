//! The block list: 500,000 names, in the format of each server.

use std::io;
use std::path::{Path, PathBuf};

use super::material;

/// Number of names on the list. The zone has none of them, so only the list can cause a refusal.
pub(super) const NAMES: u32 = 500_000;

const FIRST_LABELS: &[&str] = &["ads", "track", "px", "metrics", "cdn", "t"];
const TOP_LABELS: &[&str] = &["com", "net", "org", "io", "info", "xyz"];
/// Number of registrable domains that the names share, as the names of trackers do.
const DOMAINS: u32 = 200_000;

/// The format in which a server reads its list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The file has one name per line.
    Names,
    /// The file has lines of a hosts file with the null address.
    Hosts,
    /// The file has `local-zone` statements of Unbound.
    LocalZones,
    /// The file has `address` statements of dnsmasq.
    Addresses,
    /// The file is a response policy zone. Each entry matches only the name itself, not its
    /// subdomains.
    Policy,
}

/// Returns the name with this index, without its final dot.
pub(super) fn name(index: u32) -> String {
    // An odd factor permutes the 32-bit numbers, so that adjacent names on the list have different
    // domains.
    let mixed = index.wrapping_mul(2_654_435_761);
    let pick = |labels: &[&'static str], from: u32| labels[from as usize % labels.len()];
    let (first, top) = (pick(FIRST_LABELS, mixed >> 24), pick(TOP_LABELS, mixed >> 16));
    format!("{first}{index}.adhost{}.{top}", mixed % DOMAINS)
}

impl Form {
    /// Writes the list into a directory if it does not exist. Returns the path of the list.
    pub(super) fn write(self, directory: &Path) -> io::Result<PathBuf> {
        let path = directory.join(format!("blocklist.{self:?}").to_lowercase());
        if !path.exists() {
            let head = (self == Self::Policy).then(|| POLICY_HEAD.to_owned());
            let names = (0..NAMES).map(|index| self.line(&name(index)));
            material::write_lines(&path, head.into_iter().chain(names))?;
        }
        Ok(path)
    }

    fn line(self, name: &str) -> String {
        match self {
            Self::Names => name.to_owned(),
            Self::Hosts => format!("0.0.0.0 {name}"),
            Self::LocalZones => format!("local-zone: \"{name}.\" always_nxdomain"),
            Self::Addresses => format!("address=/{name}/"),
            Self::Policy => format!("{name} CNAME ."),
        }
    }
}

/// The records that every policy zone needs.
const POLICY_HEAD: &str = "$TTL 3600\n$ORIGIN rpz.test.\n@ SOA ns.rpz.test. admin.rpz.test. 1 \
                           3600 600 86400 300\n@ NS localhost.";

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_repeatable() {
        let names: HashSet<String> = (0..NAMES).map(name).collect();
        assert_eq!(names.len(), NAMES as usize);
        assert_eq!(name(0), "ads0.adhost0.com");
        assert_eq!(name(1), name(1));
    }

    #[test]
    fn each_form_names_the_whole_name() {
        let lines = [Form::Names, Form::Hosts, Form::LocalZones, Form::Addresses, Form::Policy]
            .map(|f| f.line("a.b"));
        let expected = [
            "a.b",
            "0.0.0.0 a.b",
            "local-zone: \"a.b.\" always_nxdomain",
            "address=/a.b/",
            "a.b CNAME .",
        ];
        assert_eq!(lines, expected);
    }
}
