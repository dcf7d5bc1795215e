//! Zones and keys for tests of signing.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use avocet_dnssec::signing::{ENTRY_KEY, PrivateKey, SigningAlgorithm, SigningKey, ZONE_KEY};
use avocet_dnssec::zonemd::DigestHash;
use avocet_wire::{FoldedName, rdata};
use avocet_zone::HostedZone;
use avocet_zone::sign::{SignatureTimes, SignedDenial, SignedZone, Signing, ZoneSigners};

/// A zone with everything that the rules of signing mention.
pub(crate) const HAND_MADE: &str = "$TTL 300
@ SOA ns1 host 1 2h 3m 4w 60
@ NS ns1
@ NS ns2.sub
@ MX 10 mail
ns1 A 192.0.2.1
mail A 192.0.2.2
sub NS ns2.sub
sub NS ns1
ns2.sub A 192.0.2.3
deep.sub A 192.0.2.9
secure NS ns1
secure DS 1 13 2 0000000000000000000000000000000000000000000000000000000000000001
secure A 192.0.2.8
a.b.c TXT ent
* TXT wild
*.w A 192.0.2.4
x.w TXT beside
*.ent.w2 A 192.0.2.5
www CNAME mail
dn DNAME b.c
_s._tcp SRV 1 2 3 Mail
b.insecure NS ns1
multi A 192.0.2.6
multi A 192.0.2.7
multi AAAA 2001:db8::6
multi CAA 0 issue \"ca\"
multi TYPE65280 \\# 2 0001
h HTTPS 1 . alpn=h2
UPPER MX 5 Mail.Example.
";

pub(crate) const NOW: u64 = 1_800_000_000;

pub(crate) fn load(text: &str) -> HostedZone {
    let apex = FoldedName::new(b"\x07example\0").unwrap();
    let mut open = |_: &Path, _: u64| Ok(text.as_bytes().to_vec());
    let (zone, faults) = avocet_zone::load(apex, Path::new("z"), NOW, &mut open);
    zone.unwrap_or_else(|| panic!("{:?}", faults.list()))
}

/// Returns a zone as a master file.
pub(crate) fn text(zone: &HostedZone) -> String {
    let mut text = String::new();
    for node in zone.iter() {
        for record in node.sets().flat_map(|set| set.iter().chain(set.signatures())) {
            let data = rdata::display(record.rtype.0, record.rdata);
            let owner = node.name().to_buf();
            writeln!(text, "{owner} {} IN {} {data}", record.ttl_secs, record.rtype).unwrap();
        }
    }
    text
}

pub(crate) struct Keys {
    pub(crate) signers: ZoneSigners,
}

fn key(algorithm: SigningAlgorithm, flags: u16) -> Arc<SigningKey> {
    Arc::new(SigningKey::new(PrivateKey::generate(algorithm).unwrap(), flags))
}

impl Keys {
    /// One key for everything.
    pub(crate) fn csk(algorithm: SigningAlgorithm) -> Self {
        let all = vec![key(algorithm, ENTRY_KEY)];
        let signers = ZoneSigners {
            published: all.clone(),
            entry: all.clone(),
            zone: all.clone(),
            parent: all,
        };
        Self { signers }
    }

    /// Two keys.
    pub(crate) fn split(algorithm: SigningAlgorithm) -> Self {
        let (entry, zone) = (key(algorithm, ENTRY_KEY), key(algorithm, ZONE_KEY));
        let signers = ZoneSigners {
            published: vec![entry.clone(), zone.clone()],
            entry: vec![entry.clone()],
            zone: vec![zone],
            parent: vec![entry],
        };
        Self { signers }
    }
}

pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

pub(crate) fn times(now_secs: u64) -> SignatureTimes {
    let (validity_secs, refresh_secs) = (14 * 86_400, 7 * 86_400);
    SignatureTimes { now_secs, validity_secs, refresh_secs, dnskey_ttl_secs: 3_600 }
}

pub(crate) fn signing<'s>(
    keys: &'s Keys,
    denial: SignedDenial,
    last: Option<&'s HostedZone>,
) -> Signing<'s> {
    Signing {
        signers: &keys.signers,
        denial,
        digest: Some(DigestHash::Sha384),
        times: times(NOW),
        last,
        last_serial: None,
        seed: 7,
        threads: 2,
        begin: || {},
    }
}

pub(crate) fn sign(
    source: &HostedZone,
    keys: &Keys,
    denial: SignedDenial,
    last: Option<&HostedZone>,
) -> SignedZone {
    signing(keys, denial, last).sign(source).unwrap()
}
