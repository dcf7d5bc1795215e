//! Probes over TCP: a connection, a TLS handshake, an HTTP request.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;

use avocet_config::pool_probe::{ProbeRequest, ProbeTls, Verification};
use avocet_io::file::read_regular;
use avocet_io::poll::Interest;
use avocet_nameserver::clock::wall_secs;
use avocet_session::trust::{Trust, authorities, client_showing};
use avocet_session::validity::Validity;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use super::attempt::{AttemptStep, step_of_error};
use super::http::{HttpResponse, request_octets};
use crate::running::pool_watch::ProbeResult;
use avocet_worker::certificates::MAX_PEM;

/// The protocol that the client offers (RFC 7301).
const ALPN_HTTP: &[u8] = b"http/1.1";
/// Number of octets that are read at once.
const ROOM: usize = 4 << 10;
/// Maximum number of reads per event, so that an endless response delays no other probe.
const MAX_READINGS: usize = 4;
/// Seconds of a day.
const DAY_SECS: u64 = 86_400;

/// The TLS configurations that verify certificates, by the settings of probes. They are kept until
/// the next reload.
#[derive(Default)]
pub(super) struct TlsConfigs {
    configs: BTreeMap<(Option<std::path::PathBuf>, Verification), Arc<ClientConfig>>,
}

impl TlsConfigs {
    /// Drops all configurations, so that the files are read again.
    pub(super) fn forget(&mut self) {
        self.configs.clear();
    }

    /// Returns the configuration for the TLS settings of a probe.
    pub(super) fn get(&mut self, tls: &ProbeTls) -> Result<Arc<ClientConfig>, NoAuthorities> {
        let key = (tls.ca_file.clone(), tls.verify);
        if let Some(config) = self.configs.get(&key) {
            return Ok(config.clone());
        }
        let trust = match (tls.verify, &tls.ca_file) {
            (Verification::Dates, _) => Trust::Nobody,
            (Verification::Full, Some(file)) => Trust::Authorities(of_file(file)?),
            (Verification::Full, None) => Trust::Authorities(of_system()?),
        };
        let config = client_showing(trust, None, &[ALPN_HTTP])
            .map_err(|error| NoAuthorities(error.to_string()))?;
        self.configs.insert(key, config.clone());
        Ok(config)
    }
}

/// The reason why certificates cannot be verified.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct NoAuthorities(String);

fn of_file(file: &Path) -> Result<RootCertStore, NoAuthorities> {
    let unreadable = |error: io::Error| NoAuthorities(format!("{}: {error}", file.display()));
    let text = read_regular(file, MAX_PEM).map_err(unreadable)?;
    authorities(&text).map_err(unreadable)
}

fn of_system() -> Result<RootCertStore, NoAuthorities> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let missing = || NoAuthorities("the system trusts no certificate authority".to_owned());
    if roots.is_empty() { Err(missing()) } else { Ok(roots) }
}

/// A probe over one connection.
pub(super) struct StreamAttempt {
    socket: TcpStream,
    is_connected: bool,
    tls: Option<Box<TlsPart>>,
    /// The octets still to send.
    to_send: Vec<u8>,
    response: Option<HttpResponse>,
}

struct TlsPart {
    connection: ClientConnection,
    /// Days for which the certificate must still be valid.
    days: u32,
    is_checked: bool,
}

impl StreamAttempt {
    /// Opens a connection.
    pub(super) fn connect(at: SocketAddr) -> io::Result<Self> {
        let socket = avocet_io::tcp::connect(at, None)?;
        Ok(Self { socket, is_connected: false, tls: None, to_send: Vec::new(), response: None })
    }

    /// Opens a connection with TLS.
    pub(super) fn with_tls(
        at: SocketAddr,
        (wanted, config): (&ProbeTls, Arc<ClientConfig>),
    ) -> io::Result<Self> {
        let name = ServerName::try_from(wanted.host.clone()).map_err(io::Error::other)?;
        let connection = ClientConnection::new(config, name).map_err(io::Error::other)?;
        let part = TlsPart { connection, days: wanted.days, is_checked: false };
        Ok(Self { tls: Some(Box::new(part)), ..Self::connect(at)? })
    }

    /// Adds a request, which is sent once the connection is established.
    pub(super) fn with_request(self, request: &ProbeRequest) -> Self {
        let response = Some(HttpResponse::new(request));
        Self { to_send: request_octets(request), response, ..self }
    }

    /// Advances the connection after an event.
    pub(super) fn advance(&mut self) -> AttemptStep {
        if !self.is_connected {
            match self.socket.take_error() {
                Ok(None) => self.is_connected = true,
                Ok(Some(error)) | Err(error) => {
                    return AttemptStep::Done(ProbeResult::of_error(&error));
                }
            }
            if self.tls.is_none() && self.response.is_none() {
                return AttemptStep::Done(ProbeResult::Success("connected".to_owned()));
            }
        }
        let done = match &mut self.tls {
            Some(_) => self.advance_tls(),
            None => self.advance_plain(),
        };
        match done {
            Ok(Some(result)) => AttemptStep::Done(result),
            Ok(None) => AttemptStep::Wait(self.interest()),
            Err(error) => step_of_error(&error, self.interest()),
        }
    }

    fn interest(&self) -> Interest {
        let is_sending = match &self.tls {
            Some(tls) => tls.connection.wants_write(),
            None => !self.to_send.is_empty(),
        };
        if is_sending { Interest::ReadWrite } else { Interest::Read }
    }

    fn advance_plain(&mut self) -> io::Result<Option<ProbeResult>> {
        while !self.to_send.is_empty() {
            match (&self.socket).write(&self.to_send) {
                Ok(sent) => drop(self.to_send.drain(..sent)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        let Some(response) = &mut self.response else { return Ok(None) };
        let mut room = [0; ROOM];
        for _ in 0..MAX_READINGS {
            let len = match (&self.socket).read(&mut room) {
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            };
            let result = if len == 0 { Some(response.end()) } else { response.take(&room[..len]) };
            if result.is_some() {
                return Ok(result);
            }
        }
        Ok(None)
    }

    fn advance_tls(&mut self) -> io::Result<Option<ProbeResult>> {
        let Self { socket, tls: Some(tls), to_send, response, .. } = self else { return Ok(None) };
        let mut is_ended = false;
        for _ in 0..MAX_READINGS {
            match tls.connection.read_tls(socket) {
                Ok(0) => {
                    is_ended = true;
                    break;
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
            if let Err(error) = tls.connection.process_new_packets() {
                // The server still gets the TLS alert that explains the failure.
                let _ = tls.connection.write_tls(socket);
                return Ok(Some(ProbeResult::Failure(tls_failure(&error.to_string()))));
            }
        }
        if !tls.connection.is_handshaking() {
            if !std::mem::replace(&mut tls.is_checked, true)
                && let Some(fault) = tls.fault_of_dates()
            {
                return Ok(Some(ProbeResult::Failure(fault)));
            }
            let Some(response) = response else {
                return Ok(Some(ProbeResult::Success("TLS handshake".to_owned())));
            };
            if !to_send.is_empty() {
                tls.connection.writer().write_all(&std::mem::take(to_send))?;
            }
            let mut room = [0; ROOM];
            while let Ok(len) = tls.connection.reader().read(&mut room) {
                let result =
                    if len == 0 { Some(response.end()) } else { response.take(&room[..len]) };
                if result.is_some() {
                    return Ok(result);
                }
            }
            if is_ended {
                return Ok(Some(response.end()));
            }
        }
        if is_ended {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        while tls.connection.wants_write() {
            match tls.connection.write_tls(socket) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}

/// Returns the reason of a failed handshake, and the remedy if the reason does not show it.
fn tls_failure(error: &str) -> String {
    // A self-signed certificate of `openssl req -x509` has CA:TRUE.
    let remedy = if error.contains("CaUsedAsEndEntity") {
        ": the host shows the certificate of an authority (CA:TRUE); give it one without, for \
         example by `openssl req -x509 -addext basicConstraints=critical,CA:FALSE`, or set \
         verify = false"
    } else {
        ""
    };
    format!("TLS: {error}{remedy}")
}

impl TlsPart {
    /// Returns the reason why the certificate of the server is not valid for long enough; `None` if
    /// it is.
    fn fault_of_dates(&self) -> Option<String> {
        let certificate = self.connection.peer_certificates()?.first()?;
        match Validity::of(certificate) {
            Some(validity) => fault_of_validity(validity, wall_secs(), self.days),
            None => Some("the dates of the certificate cannot be read".to_owned()),
        }
    }
}

/// Returns the reason why a certificate is not valid from `now_secs` (Unix time) until `days` days
/// later. Returns `None` if it is valid for this time.
fn fault_of_validity(validity: Validity, now_secs: u64, days: u32) -> Option<String> {
    if now_secs < validity.not_before {
        return Some("the certificate is not valid yet".to_owned());
    }
    if validity.not_after <= now_secs {
        return Some("the certificate has expired".to_owned());
    }
    let left = (validity.not_after - now_secs) / DAY_SECS;
    (left < u64::from(days)).then(|| format!("the certificate expires in {left} days"))
}

impl AsFd for StreamAttempt {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_valid_between_its_dates() {
        let validity = Validity { not_before: 1_000, not_after: 1_000 + 10 * DAY_SECS };
        let fault = |now_secs, days| fault_of_validity(validity, now_secs, days);
        assert_eq!(fault(999, 0).as_deref(), Some("the certificate is not valid yet"));
        assert_eq!(fault(1_000, 10), None);
        assert_eq!(fault(1_001, 10).as_deref(), Some("the certificate expires in 9 days"));
        assert_eq!(fault(validity.not_after - 1, 0), None);
        assert_eq!(fault(validity.not_after, 0).as_deref(), Some("the certificate has expired"));
    }

    #[test]
    fn a_certificate_of_an_authority_is_a_failure_with_a_remedy() {
        let error = "invalid peer certificate: Other(OtherError(CaUsedAsEndEntity))";
        let text = tls_failure(error);
        assert!(text.contains(error) && text.contains("CA:FALSE"), "{text}");
        assert!(text.contains("verify = false"), "{text}");
        assert_eq!(tls_failure("no certificate"), "TLS: no certificate");
    }
}
