//! Queries over TLS, HTTP/2, QUIC and HTTP/3: the listeners of the servers, their certificate, and
//! the runs of `avocet load`, the only generator here that speaks all of them.
//!
//! Each server listens on one encrypted port and on one without encryption. The bench checks over
//! the latter whether the server is ready and answers correctly.

use std::path::Path;
use std::process::Command;

use super::load::{Load, Pace, output_of_check, parse_avocet, words_of};
use super::peer::Peer;
use super::process::{LOAD_CORE, find, pinned};
use super::setup::Setup;
use super::workload::Workload;

/// Number of clients, each with its own connection.
const CLIENTS: &str = "10";

/// The transport of encrypted queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Session {
    /// TLS (RFC 7858).
    Tls,
    /// HTTP/2 (RFC 8484).
    Https,
    /// QUIC (RFC 9250).
    Quic,
    /// HTTP/3.
    Http3,
}

macro_rules! template {
    ($file:literal) => {
        include_str!(concat!("../../../bench/peers/", $file))
    };
}

impl Session {
    /// Returns whether the bench measures a server over this transport.
    pub(super) fn is_spoken_by(self, peer: Peer) -> bool {
        !self.listener(peer).is_empty()
    }

    /// Returns the lines for `%ENCRYPTED%` in the configuration of a server. They are empty if the
    /// server does not support the transport.
    pub(super) fn listener(self, peer: Peer) -> &'static str {
        match (peer, self) {
            (Peer::Avocet | Peer::Earlier | Peer::Logged, Self::Tls) => {
                template!("avocet/tls.conf")
            }
            (Peer::Avocet | Peer::Earlier | Peer::Logged, Self::Quic) => {
                template!("avocet/quic.conf")
            }
            (Peer::Avocet | Peer::Earlier | Peer::Logged, Self::Https | Self::Http3) => {
                template!("avocet/https.conf")
            }
            (Peer::Dnsdist, Self::Tls) => template!("dnsdist/tls.conf"),
            (Peer::Dnsdist, Self::Https) => template!("dnsdist/https.conf"),
            (Peer::Unbound, Self::Tls) => template!("unbound/tls.conf"),
            (Peer::Unbound, Self::Https) => template!("unbound/https.conf"),
            (Peer::CoreDns, Self::Tls) => template!("coredns/tls.conf"),
            (Peer::CoreDns, Self::Https) => template!("coredns/https.conf"),
            (Peer::CoreDns, Self::Quic) => template!("coredns/quic.conf"),
            (Peer::Dnsproxy, Self::Tls) => template!("dnsproxy/tls.conf"),
            (Peer::Dnsproxy, Self::Https) => template!("dnsproxy/https.conf"),
            (Peer::Dnsproxy, Self::Quic) => template!("dnsproxy/quic.conf"),
            (Peer::Dnsproxy, Self::Http3) => template!("dnsproxy/http3.conf"),
            _ => "",
        }
    }

    fn scheme(self) -> &'static str {
        match self {
            Self::Tls => "tls",
            Self::Https => "https",
            Self::Quic => "quic",
            Self::Http3 => "h3",
        }
    }
}

/// Writes the certificate of all servers and its key into a directory.
///
/// # Errors
///
/// OpenSSL is missing or fails.
pub(super) fn write_certificate(directory: &Path) -> Result<(), String> {
    let openssl = find("openssl").ok_or("openssl is needed and not installed")?;
    let mut command = Command::new(openssl);
    let words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 \
                 -keyout key.pem -out cert.pem -subj /CN=dns.test -addext \
                 subjectAltName=DNS:dns.test";
    command.args(words.split_whitespace()).current_dir(directory);
    super::load::output(command).map(drop)
}

/// Runs the queries of a workload on the load core.
///
/// # Errors
///
/// Nothing could be measured.
pub(super) fn ask(
    setup: &Setup,
    workload: Workload,
    session: Session,
    pace: Pace,
) -> Result<Load, String> {
    // In each workload, the connections stay open while the names are put into the cache.
    let connections = match (workload, pace) {
        (_, Pace::Count { .. }) => "kept",
        (Workload::DotNew, _) => "new",
        (Workload::DotResumed, _) => "resumed",
        _ => "kept",
    };
    let (address, scheme) = (setup.target(workload).ip(), session.scheme());
    let server = format!("{scheme}://dns.test@{address}:{}", setup.encrypted_port);
    let mut command = pinned(LOAD_CORE);
    command.arg(&setup.avocet).args(["load", &server, "--insecure", "--scenario", "replay"]);
    command.arg("--names").arg(setup.queries(workload));
    command.args(["--connections", connections, "--clients", CLIENTS]);
    if connections == "kept" {
        command.args(words_of(pace).split(' '));
    } else if let Pace::Window { secs } = pace {
        command.args(["--duration", &format!("{secs}s")]);
    }
    command.args(["--quiet", "--json", "-", "--i-own-this-server", "--max-loss", "100%"]);
    command.args(["--allow", "truncated,empty,trailing,long,duplicate"]);
    let text = output_of_check(command)?;
    parse_avocet(&text).ok_or_else(|| format!("avocet load said: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_session_is_compared_with_another_server() {
        for session in [Session::Tls, Session::Https, Session::Quic, Session::Http3] {
            let speakers = Peer::ALL.iter().filter(|peer| session.is_spoken_by(**peer));
            assert!(speakers.clone().any(|peer| *peer == Peer::Avocet), "{session:?}");
            assert!(speakers.clone().any(|peer| *peer == Peer::Dnsproxy), "{session:?}");
        }
        assert!(!Session::Quic.is_spoken_by(Peer::Dnsdist));
        assert!(!Session::Tls.is_spoken_by(Peer::Nsd));
    }
}
