//! One probe in progress.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use avocet_config::pool_probe::{ProbeKind, ProbePort};
use avocet_io::ping::{PING_DATA, PingSocket};
use avocet_io::poll::Interest;
use avocet_io::process::is_shortage;

use super::command::CommandAttempt;
use super::dns::DnsAttempt;
use super::stream::{StreamAttempt, TlsConfigs};
use crate::running::pool_watch::{ProbeResult, TargetKey};

/// A probe in progress.
pub(super) enum Attempt {
    Stream(Box<StreamAttempt>),
    Dns(Box<DnsAttempt>),
    Ping(PingSocket, [u8; PING_DATA]),
    Command(CommandAttempt),
}

/// The step that follows an event.
pub(super) enum AttemptStep {
    /// The probe waits for the next event.
    Wait(Interest),
    /// The probe has ended.
    Done(ProbeResult),
}

/// The state of a probe after its start.
pub(super) enum Begun {
    /// The probe has ended already.
    Ended(ProbeResult),
    /// The probe waits for an event.
    Waits(Attempt, Interest),
}

impl Attempt {
    /// Begins the probe of a target.
    pub(super) fn begin(target: &TargetKey, tls: &mut TlsConfigs) -> Begun {
        let port = match target.probe.kind.port() {
            ProbePort::Known(port) => port,
            ProbePort::Unused | ProbePort::Missing => 0,
        };
        let at = SocketAddr::new(target.address, target.port.unwrap_or(port));
        let begun = match &target.probe.kind {
            ProbeKind::Icmp => ping(target),
            ProbeKind::Tcp { .. } => StreamAttempt::connect(at).map(of_stream),
            ProbeKind::Tls { tls: wanted, .. } => match tls.get(wanted) {
                Ok(config) => StreamAttempt::with_tls(at, (wanted, config)).map(of_stream),
                Err(error) => return Begun::Ended(ProbeResult::NotRun(error.to_string())),
            },
            ProbeKind::Http { tls: None, request, .. } => {
                StreamAttempt::connect(at).map(|stream| of_stream(stream.with_request(request)))
            }
            ProbeKind::Http { tls: Some(wanted), request, .. } => match tls.get(wanted) {
                Ok(config) => StreamAttempt::with_tls(at, (wanted, config))
                    .map(|stream| of_stream(stream.with_request(request))),
                Err(error) => return Begun::Ended(ProbeResult::NotRun(error.to_string())),
            },
            ProbeKind::Dns { query, .. } => {
                DnsAttempt::send(at, query).map(|dns| (Self::Dns(Box::new(dns)), Interest::Read))
            }
            ProbeKind::Command(words) => CommandAttempt::start(words, target.address)
                .map(|command| (Self::Command(command), Interest::Read)),
        };
        match begun {
            Ok((attempt, interest)) => Begun::Waits(attempt, interest),
            Err(error) => Begun::Ended(ProbeResult::of_error(&error)),
        }
    }

    /// Advances the probe after an event.
    pub(super) fn advance(&mut self) -> AttemptStep {
        match self {
            Self::Stream(stream) => stream.advance(),
            Self::Dns(dns) => dns.advance(),
            Self::Ping(socket, data) => match socket.receive(*data) {
                Ok(true) => AttemptStep::Done(ProbeResult::Success("echo reply".to_owned())),
                Ok(false) => AttemptStep::Wait(Interest::Read),
                Err(error) => step_of_error(&error, Interest::Read),
            },
            Self::Command(_) => AttemptStep::Wait(Interest::Read),
        }
    }

    /// Returns the socket; `None` for a command.
    pub(super) fn watched(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Stream(stream) => Some(stream.as_fd()),
            Self::Dns(dns) => Some(dns.as_fd()),
            Self::Ping(socket, _) => Some(socket.as_fd()),
            Self::Command(_) => None,
        }
    }
}

fn of_stream(stream: StreamAttempt) -> (Attempt, Interest) {
    (Attempt::Stream(Box::new(stream)), Interest::Write)
}

fn ping(target: &TargetKey) -> std::io::Result<(Attempt, Interest)> {
    let mut data = [0; PING_DATA];
    getrandom::fill(&mut data).map_err(|error| std::io::Error::other(error.to_string()))?;
    let socket = PingSocket::connect(target.address)?;
    socket.send(data)?;
    Ok((Attempt::Ping(socket, data), Interest::Read))
}

/// Returns the next step after an error of a socket.
pub(super) fn step_of_error(error: &std::io::Error, interest: Interest) -> AttemptStep {
    match error.kind() {
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted => {
            AttemptStep::Wait(interest)
        }
        _ => AttemptStep::Done(ProbeResult::of_error(error)),
    }
}

impl ProbeResult {
    /// Returns the result of a probe that ended with this error. If this host lacks a resource, the
    /// target is not to blame, and the probe was not run.
    pub(super) fn of_error(error: &std::io::Error) -> Self {
        let text = match error.kind() {
            std::io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
            std::io::ErrorKind::ConnectionReset => "connection reset".to_owned(),
            std::io::ErrorKind::HostUnreachable => "host unreachable".to_owned(),
            std::io::ErrorKind::NetworkUnreachable => "network unreachable".to_owned(),
            std::io::ErrorKind::PermissionDenied => "not permitted".to_owned(),
            std::io::ErrorKind::UnexpectedEof => "the connection was closed".to_owned(),
            _ => error.to_string(),
        };
        if is_shortage(error) || error.kind() == std::io::ErrorKind::PermissionDenied {
            Self::NotRun(text)
        } else {
            Self::Failure(text)
        }
    }
}
