//! A small pool of keys for all zones. Zones share the key material under different owners.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::zone::{KeySet, Signing};
use crate::bench::output;

/// The numbers of the algorithms, their names in `dnssec-keygen`, and the key size if one is
/// required.
const ALGORITHMS: &[(u8, &str, Option<&str>)] = &[
    (5, "RSASHA1", Some("1024")),
    (7, "NSEC3RSASHA1", Some("1024")),
    (8, "RSASHA256", Some("2048")),
    (10, "RSASHA512", Some("1024")),
    (13, "ECDSAP256SHA256", None),
    (14, "ECDSAP384SHA384", None),
    (15, "ED25519", None),
    (16, "ED448", None),
];

/// The role of a key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    KeySigning,
    ZoneSigning,
}

/// A key without an owner.
struct Key {
    algorithm: u8,
    role: Role,
    tag: u16,
    /// The RDATA of the DNSKEY record.
    rdata: String,
    private: String,
    is_revoked: bool,
}

/// A pool with two keys of each algorithm and role, and a revoked key.
pub(super) struct Pool {
    keys: Vec<Key>,
}

/// The paths of a zone's keys, without their extensions.
#[derive(Default)]
pub(super) struct ZoneKeys {
    pub(super) key_signing: Vec<PathBuf>,
    pub(super) zone_signing: Vec<PathBuf>,
    /// The path of a key-signing key that is not in the zone.
    pub(super) absent: Option<PathBuf>,
    /// The DNSKEY records of the zone.
    pub(super) records: String,
}

impl Pool {
    /// Generates the keys of the pool in a directory.
    pub(super) fn generate(directory: &Path) -> Result<Self, String> {
        let mut keys = Vec::new();
        for (algorithm, name, bits) in ALGORITHMS {
            for role in [Role::KeySigning, Role::KeySigning, Role::ZoneSigning, Role::ZoneSigning] {
                let mut command = Command::new("dnssec-keygen");
                command.args(["-q", "-a", name, "-K"]).arg(directory);
                command.args(bits.map(|bits| ["-b", bits]).into_iter().flatten());
                command.args(
                    (role == Role::KeySigning).then_some(["-f", "KSK"]).into_iter().flatten(),
                );
                command.arg("pool.");
                let file = output(command)?;
                keys.push(read(directory, file.trim(), *algorithm, role)?);
            }
        }
        let revoked = keys.iter().find(|key| key.algorithm == 13 && key.role == Role::KeySigning);
        let revoked = revoked.map(|key| format!("Kpool.+013+{:05}", key.tag)).unwrap_or_default();
        let mut command = Command::new("dnssec-revoke");
        command.arg("-K").arg(directory).arg(revoked);
        let file = output(command)?;
        // `dnssec-revoke` prints the path, but `dnssec-keygen` prints only the name.
        let name = file.trim().rsplit('/').next().unwrap_or_default();
        let mut key = read(directory, name, 13, Role::KeySigning)?;
        key.is_revoked = true;
        keys.push(key);
        Ok(Self { keys })
    }

    /// Writes the keys of a zone into its directory.
    pub(super) fn write(
        &self,
        zone: &str,
        signing: Signing,
        directory: &Path,
    ) -> Result<ZoneKeys, String> {
        let mut of_zone = ZoneKeys::default();
        for algorithm in signing.algorithms {
            let [first, second] = self.pair(*algorithm, Role::KeySigning)?;
            let [data, next] = self.pair(*algorithm, Role::ZoneSigning)?;
            let revoked = self.keys.iter().find(|key| key.is_revoked).unwrap_or(first);
            let (key_signing, zone_signing, shown) = match signing.keys {
                KeySet::Usual => (vec![first], vec![data], None),
                KeySet::Single => (vec![first], vec![], None),
                KeySet::TwoKeySigning => (vec![first, second], vec![data], None),
                KeySet::TwoZoneSigning => (vec![first], vec![data, next], None),
                KeySet::Prepublished => (vec![first], vec![data], Some(next)),
                KeySet::Revoked => (vec![revoked], vec![data], None),
            };
            for key in key_signing.iter().chain(&zone_signing).copied().chain(shown) {
                of_zone.records.push_str(&key.record(zone));
            }
            let write = |key: &&Key| key.write(zone, directory);
            of_zone
                .key_signing
                .extend(key_signing.iter().map(write).collect::<Result<Vec<_>, _>>()?);
            of_zone
                .zone_signing
                .extend(zone_signing.iter().map(write).collect::<Result<Vec<_>, _>>()?);
            of_zone.absent = Some(second.write(zone, directory)?);
        }
        Ok(of_zone)
    }

    fn pair(&self, algorithm: u8, role: Role) -> Result<[&Key; 2], String> {
        let mut found =
            self.keys.iter().filter(|key| key.algorithm == algorithm && key.role == role);
        match (found.next(), found.next()) {
            (Some(first), Some(second)) => Ok([first, second]),
            _ => Err(format!("no keys of algorithm {algorithm}")),
        }
    }
}

impl Key {
    fn record(&self, zone: &str) -> String {
        format!("{zone} IN DNSKEY {}\n", self.rdata)
    }

    fn write(&self, zone: &str, directory: &Path) -> Result<PathBuf, String> {
        let path = directory.join(format!("K{zone}+{:03}+{:05}", self.algorithm, self.tag));
        let with = |ending: &str| PathBuf::from(format!("{}.{ending}", path.display()));
        let written = fs::write(with("key"), self.record(zone))
            .and_then(|()| fs::write(with("private"), &self.private));
        written.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path)
    }
}

fn read(directory: &Path, file: &str, algorithm: u8, role: Role) -> Result<Key, String> {
    let text = |ending: &str| {
        let path = directory.join(format!("{file}.{ending}"));
        fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let public = text("key")?;
    let rdata = public.lines().find_map(|line| line.split_once(" DNSKEY "));
    let tag = file.rsplit('+').next().and_then(|tag| tag.parse().ok());
    let (Some((_, rdata)), Some(tag)) = (rdata, tag) else {
        return Err(format!("{file} is no key:\n{public}"));
    };
    Ok(Key {
        algorithm,
        role,
        tag,
        rdata: rdata.to_owned(),
        private: text("private")?,
        is_revoked: false,
    })
}
