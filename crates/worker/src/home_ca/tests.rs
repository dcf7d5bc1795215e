use std::fs;
use std::sync::Arc;
use std::time::Duration;

use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{ServerName, UnixTime};

use super::*;

const NOW: u64 = 1_795_000_000;

/// A directory that one test uses, and that is removed at the end of the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let directory =
            std::env::temp_dir().join(format!("avocet-home-ca-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        Self(directory)
    }

    fn config(&self) -> HomeCaConfig {
        HomeCaConfig {
            names: vec!["avocet.home.arpa".to_owned(), "*.avocet.home.arpa".to_owned()],
            addresses: vec!["192.168.1.2".parse().unwrap(), "fd00::2".parse().unwrap()],
            storage: self.0.join("ca"),
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns whether a client that has installed the authority accepts the certificate for a name.
fn is_accepted(config: &HomeCaConfig, name: &'static str, at_secs: u64) -> bool {
    let root = CertificateDer::from_pem_file(config.authority()).unwrap();
    let own = CertificateDer::from_pem_file(config.certificate()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(root).unwrap();
    let provider = Arc::new(default_provider());
    let verifier =
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
    let time = UnixTime::since_unix_epoch(Duration::from_secs(at_secs));
    let name = ServerName::try_from(name).unwrap();
    verifier.verify_server_cert(&own, &[], &name, &[], time).is_ok()
}

#[test]
fn a_device_with_the_authority_accepts_the_names_and_addresses() {
    let scratch = Scratch::new("names");
    let config = scratch.config();
    let shown = keep(&config, NOW).unwrap();
    for name in ["avocet.home.arpa", "tablet.avocet.home.arpa", "192.168.1.2", "fd00::2"] {
        assert!(is_accepted(&config, name, NOW), "{name}");
    }
    for name in ["home.arpa", "avocet.example", "192.168.1.3", "a.b.avocet.home.arpa"] {
        assert!(!is_accepted(&config, name, NOW), "{name}");
    }
    assert!(!is_accepted(&config, "avocet.home.arpa", NOW + CERTIFICATE_SECS + 1));
    assert_eq!(shown.not_after, NOW + AUTHORITY_SECS);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&config.storage), 0o700);
    for file in [config.authority(), config.authority_key(), config.certificate()] {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

#[test]
fn the_authority_stays_and_certificates_are_renewed_in_time() {
    let scratch = Scratch::new("renewal");
    let config = scratch.config();
    let first = keep(&config, NOW).unwrap();
    let certificate = || fs::read(config.certificate()).unwrap();
    let issued = certificate();
    assert_eq!(keep(&config, NOW + CERTIFICATE_SECS / 2).unwrap(), first);
    assert_eq!(certificate(), issued, "not due");
    assert_eq!(keep(&config, NOW + CERTIFICATE_SECS / 4 * 3).unwrap(), first);
    assert_ne!(certificate(), issued, "after two thirds");
    let issued = certificate();
    keep(&config, NOW).unwrap();
    assert_ne!(certificate(), issued, "the clock was set back");
    let issued = certificate();
    let other = HomeCaConfig { names: vec!["dns.home.arpa".to_owned()], ..scratch.config() };
    assert_eq!(keep(&other, NOW).unwrap(), first);
    assert_ne!(certificate(), issued, "other names");
    assert!(is_accepted(&other, "dns.home.arpa", NOW));
    // No certificate is valid for longer than the authority.
    let late = NOW + AUTHORITY_SECS - CERTIFICATE_SECS / 2;
    keep(&config, late).unwrap();
    assert!(is_accepted(&config, "avocet.home.arpa", late));
    assert!(!is_accepted(&config, "avocet.home.arpa", NOW + AUTHORITY_SECS + 1));
}

#[test]
fn a_damaged_certificate_is_issued_again_and_a_damaged_authority_stops_all() {
    let scratch = Scratch::new("damage");
    let config = scratch.config();
    let first = keep(&config, NOW).unwrap();
    for text in ["", "-----BEGIN CERTIFICATE-----\n", "\n\n"] {
        fs::write(config.certificate(), text).unwrap();
        assert_eq!(keep(&config, NOW).unwrap(), first);
        assert!(is_accepted(&config, "avocet.home.arpa", NOW));
    }
    let (own, key) = (config.authority(), config.authority_key());
    let (own_text, key_text) = (fs::read(&own).unwrap(), fs::read(&key).unwrap());
    fs::write(&own, "x").unwrap();
    assert!(matches!(keep(&config, NOW), Err(HomeCaFault::Refused { path, .. }) if path == own));
    fs::write(&own, &own_text).unwrap();
    fs::write(&key, "x").unwrap();
    assert!(matches!(keep(&config, NOW), Err(HomeCaFault::Refused { path, .. }) if path == key));
    let stranger = CertificateKey::draw().unwrap().to_pem().unwrap();
    fs::write(&key, stranger.as_bytes()).unwrap();
    assert!(matches!(keep(&config, NOW), Err(HomeCaFault::Refused { .. })), "another key");
    fs::remove_file(&key).unwrap();
    assert!(matches!(keep(&config, NOW), Err(HomeCaFault::Half { missing, .. }) if missing == key));
    fs::write(&key, &key_text).unwrap();
    assert_eq!(keep(&config, NOW).unwrap(), first);
}

#[test]
fn the_key_alone_makes_an_authority_that_devices_know() {
    let scratch = Scratch::new("key");
    let config = scratch.config();
    keep(&config, NOW).unwrap();
    let known = fs::read(config.authority()).unwrap();
    fs::remove_file(config.authority()).unwrap();
    keep(&config, NOW + DAY_SECS).unwrap();
    assert_ne!(fs::read(config.authority()).unwrap(), known);
    fs::write(config.authority(), known).unwrap();
    assert!(is_accepted(&config, "avocet.home.arpa", NOW + DAY_SECS));
}

#[test]
fn a_wrong_clock_issues_nothing() {
    let scratch = Scratch::new("clock");
    assert!(matches!(keep(&scratch.config(), 1_000), Err(HomeCaFault::Clock)));
    let home_ca = HomeCa::default();
    let config = scratch.config();
    assert!(home_ca.look(Some(&config), 1_000).is_some_and(|fault| fault.contains("clock")));
    assert!(home_ca.look(Some(&config), NOW).is_none());
    assert!(home_ca.shown().is_some());
    assert!(home_ca.look(None, NOW).is_none() && home_ca.shown().is_none());
    let late = NOW + AUTHORITY_SECS - DAY_SECS;
    assert!(home_ca.look(Some(&config), late).is_some_and(|fault| fault.contains("expire")));
}

/// Returns the first and the last second in which the certificate of the server is valid.
fn life(config: &HomeCaConfig) -> [u64; 2] {
    let text = fs::read(config.certificate()).unwrap();
    let validity = Certificate::read(&text, &text, &[]).unwrap().validity().unwrap();
    [validity.not_before, validity.not_after]
}

#[test]
fn an_authority_of_a_clock_ahead_still_issues_valid_certificates_with_a_warning() {
    let scratch = Scratch::new("ahead");
    let (config, home_ca) = (scratch.config(), HomeCa::default());
    let ahead = NOW + 3 * 365 * DAY_SECS;
    assert_eq!(home_ca.look(Some(&config), ahead), None);
    let early = home_ca.look(Some(&config), NOW).unwrap();
    assert!(early.contains("is valid from 2029-"), "{early}");
    assert_eq!(life(&config), [NOW - EARLY_SECS, NOW + CERTIFICATE_SECS]);
    let issued = fs::read(config.certificate()).unwrap();
    assert_eq!(home_ca.look(Some(&config), NOW + 2 * LOOK_SECS), Some(early));
    assert_eq!(fs::read(config.certificate()).unwrap(), issued);
    // The remedy of the warning.
    fs::remove_file(config.authority()).unwrap();
    assert_eq!(home_ca.look(Some(&config), NOW + 4 * LOOK_SECS), None);
    assert!(is_accepted(&config, "avocet.home.arpa", NOW + 4 * LOOK_SECS));
}

#[test]
fn an_expired_authority_issues_nothing() {
    let scratch = Scratch::new("expired");
    let config = scratch.config();
    keep(&config, NOW).unwrap();
    let issued = fs::read(config.certificate()).unwrap();
    keep(&config, NOW + AUTHORITY_SECS + 2 * DAY_SECS).unwrap();
    assert_eq!(fs::read(config.certificate()).unwrap(), issued);
}
