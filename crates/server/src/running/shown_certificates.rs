//! The certificates that clients are shown: their names, addresses and expiry.

use std::sync::PoisonError;

use avocet_acme::schedule::Life;
use avocet_config::certificate::{CertificateConfig, CertificateSource};
use avocet_config::certificate_files::CertificateFiles;
use avocet_config::{Config, OpenAddress, Protocol};
use avocet_control::certificates::{
    AuthorityStatus, CertificatePurpose, CertificateStatus, RenewalStatus,
};
use avocet_nameserver::clock::wall_secs;
use avocet_session::certificate::Certificate;
use avocet_session::validity::Validity;

use crate::running::Running;
use crate::running::certificate::ShownWebCertificate;
use crate::running::conditions::Condition;
use crate::running::renewals::ShownRenewal;
use avocet_worker::home_ca::ShownAuthority;

const DAY_SECS: u64 = 86_400;
/// Maximum time before the end of its validity at which a certificate counts as expiring. Programs
/// that renew certificates have already tried for weeks at this time.
const MOST_NOTICE_SECS: u64 = 14 * DAY_SECS;
/// The divisor of the life of a short-lived certificate: in the last such part of its life, the
/// certificate counts as expiring.
const NOTICE_PART: u64 = 6;

/// Returns the certificates in force. The certificates for DNS come first, in the order of the
/// configuration, followed by the certificate of HTTPS for browsers.
pub(crate) fn of(running: &Running) -> Vec<CertificateStatus> {
    let snapshot = running.shared.snapshot();
    let config = &snapshot.config;
    let shown = running.shared.tls.shown();
    let of_dns = config.certificates.iter().zip(&shown.certificates).map(|(one, certificate)| {
        let validity = certificate.as_ref().and_then(Certificate::validity);
        let mut status = status(CertificatePurpose::Dns, &one.files, validity);
        let own = certificate.as_ref().map(Certificate::names);
        status.names = own.unwrap_or(&one.names).to_vec();
        if one.source == CertificateSource::Acme {
            status.renewal = running.acme.shown().map(renewal);
        }
        if one.source == CertificateSource::HomeCa {
            status.authority = running.home_ca.shown().map(authority);
        }
        status.addresses = addresses(config, one);
        status.error.clone_from(&shown.fault);
        status
    });
    of_dns.chain(of_web(running, config)).collect()
}

/// Returns the authority of a certificate for the status.
fn authority(shown: ShownAuthority) -> AuthorityStatus {
    AuthorityStatus {
        file: shown.file.display().to_string(),
        pem: shown.pem,
        sha256: shown.sha256,
        not_after: shown.not_after,
    }
}

/// Returns the renewals of a certificate for the status.
fn renewal(shown: ShownRenewal) -> RenewalStatus {
    RenewalStatus {
        directory: shown.directory,
        next_attempt: shown.next_attempt,
        last_attempt: shown.last_attempt,
        last_success: shown.last_success,
        failures: shown.failures,
        error: shown.error,
    }
}

fn of_web(running: &Running, config: &Config) -> Option<CertificateStatus> {
    let https = config.web.https.as_ref().filter(|https| https.certificate.files().is_some())?;
    let ShownWebCertificate { certificate, fault } = shown_web(running);
    let certificate = certificate?;
    let mut status = status(CertificatePurpose::Web, &certificate.files, certificate.validity);
    status.names.clone_from(&certificate.names);
    status.addresses = vec![format!("https://{}", https.address)];
    status.error = fault;
    Some(status)
}

fn shown_web(running: &Running) -> ShownWebCertificate {
    running.web_certificate.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn status(
    purpose: CertificatePurpose,
    files: &CertificateFiles,
    validity: Option<Validity>,
) -> CertificateStatus {
    CertificateStatus {
        purpose,
        names: Vec::new(),
        file: files.chain.display().to_string(),
        key_file: files.key.display().to_string(),
        not_before: validity.map(|of| of.not_before),
        not_after: validity.map(|of| of.not_after),
        addresses: Vec::new(),
        renewal: None,
        authority: None,
        error: None,
    }
}

/// Returns the addresses whose clients may be shown a certificate.
fn addresses(config: &Config, certificate: &CertificateConfig) -> Vec<String> {
    let is_shown_at = |one: &OpenAddress| {
        let name = one.listener.as_ref();
        let listener = config.server.listeners.iter().find(|other| Some(&other.name) == name);
        let chosen = listener.and_then(|listener| listener.certificate.as_ref());
        one.protocol != Protocol::Plain && chosen.is_none_or(|name| certificate.has_name(name))
    };
    let open = config.server.open_addresses();
    let shared = config.web.https.as_ref().filter(|one| one.certificate.files().is_none());
    let shared = shared.map(|https| format!("https://{}", https.address));
    open.iter().filter(|one| is_shown_at(one)).map(ToString::to_string).chain(shared).collect()
}

/// Updates the warning that a certificate cannot be used, for HTTPS or for encrypted DNS.
pub(crate) fn note_faults(running: &Running) {
    let shared = running.shared.tls.shown().fault;
    let shared = shared.map(|fault| format!("{fault}; the certificates before stay in use"));
    let faults: Vec<String> = shown_web(running).fault.into_iter().chain(shared).collect();
    let text = (!faults.is_empty()).then(|| faults.join("; "));
    running.conditions.set(Condition::Certificate, text);
}

/// Updates the warnings that a certificate cannot be used, expires soon, or is not valid yet.
pub(crate) fn look(running: &Running) {
    note_faults(running);
    let now_secs = wall_secs();
    let all = of(running);
    let texts: Vec<_> = all.iter().filter_map(|one| notice(one, now_secs)).collect();
    let text = (!texts.is_empty()).then(|| texts.join("; "));
    running.conditions.set(Condition::Expiry, text);
}

/// Returns the text that a certificate expires soon, has expired, or is not valid yet; `None` if it
/// is valid for longer.
fn notice(one: &CertificateStatus, now_secs: u64) -> Option<String> {
    let (not_before, not_after) = (one.not_before?, one.not_after?);
    if now_secs < not_before {
        let (file, life) = (&one.file, Life { not_before, not_after });
        return Some(format!(
            "the certificate in {file} is valid {life}: check the clock of this host, or replace \
             the file"
        ));
    }
    let life = not_after.saturating_sub(not_before);
    let left = not_after.saturating_sub(now_secs);
    if left >= MOST_NOTICE_SECS.min(life / NOTICE_PART) {
        return None;
    }
    let file = &one.file;
    Some(match left {
        0 => format!("the certificate in {file} has expired: replace the file"),
        left if left < DAY_SECS => {
            format!("the certificate in {file} expires within a day: renew it")
        }
        left => format!("the certificate in {file} expires in {} days: renew it", left / DAY_SECS),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(life_days: u64, left_secs: u64, expected: Option<&str>) {
        let now_secs = 1_000 * DAY_SECS;
        let not_after = now_secs + left_secs;
        let files = CertificateFiles { chain: "dns.pem".into(), key: "dns.key".into() };
        let not_before = not_after - life_days * DAY_SECS;
        let validity = Validity { not_before, not_after };
        let status = status(CertificatePurpose::Dns, &files, Some(validity));
        let text = notice(&status, now_secs);
        let expected = expected.map(|text| format!("the certificate in dns.pem {text}"));
        assert_eq!(text, expected, "{life_days} days, {left_secs} s left");
    }

    #[test]
    fn a_certificate_expires_soon_in_its_last_days() {
        check(365, 14 * DAY_SECS, None);
        check(365, 14 * DAY_SECS - 1, Some("expires in 13 days: renew it"));
        check(90, DAY_SECS - 1, Some("expires within a day: renew it"));
        check(90, 0, Some("has expired: replace the file"));
    }

    #[test]
    fn a_certificate_with_a_later_begin_is_not_valid_yet() {
        let life = "is valid from 1972-09-28T00:00:00Z to 1972-12-27T00:00:00Z";
        let text = format!("{life}: check the clock of this host, or replace the file");
        check(90, 91 * DAY_SECS, Some(&text));
    }

    #[test]
    fn one_of_a_few_days_expires_soon_in_a_sixth_of_its_life() {
        check(6, DAY_SECS, None);
        check(6, DAY_SECS - 1, Some("expires within a day: renew it"));
    }
}
