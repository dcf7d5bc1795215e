//! A server over TLS: what the generator needs for each connection to it.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use avocet_session::certificate::ALPN_DOT;
use avocet_session::frame::{ReadBuffer, ReadState};
use avocet_session::session::ClientSession;
use avocet_session::trust::{Trust, authorities, client};
use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;

use crate::args::LoadArgs;
use crate::drive::Connections;
use crate::error::{LoadError, Needed};

/// The settings of all connections to a server over TLS.
#[derive(Clone, Debug)]
pub(crate) struct TlsTarget {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl TlsTarget {
    /// Reads the settings of the command line for a server with this name in its certificate.
    pub(crate) fn new(args: &LoadArgs, name: &str) -> Result<Self, LoadError> {
        let trust = match &args.ca {
            _ if args.insecure => Trust::Nobody,
            Some(path) => {
                let roots = std::fs::read(path).and_then(|text| authorities(&text));
                Trust::Authorities(roots.map_err(LoadError::in_file(path))?)
            }
            None => return Err(LoadError::Missing(Needed::Trust)),
        };
        let mut config = client(trust, &[ALPN_DOT]).map_err(io::Error::other)?;
        if args.connections != Connections::Resumed {
            Arc::make_mut(&mut config).resumption = Resumption::disabled();
        }
        let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
        Ok(Self { config, name })
    }

    /// Returns the session of a connection that begins.
    pub(crate) fn session(&self) -> io::Result<ClientSession> {
        ClientSession::connect(&self.config, self.name.clone()).map_err(io::Error::other)
    }

    /// Completes one handshake, so that a certificate that is not accepted is reported before the
    /// run.
    pub(crate) fn verify(&self, server: SocketAddr, timeout: Duration) -> io::Result<()> {
        let mut stream = TcpStream::connect_timeout(&server, timeout)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        let (mut session, mut buffer) = (self.session()?, ReadBuffer::new());
        session.begin()?;
        loop {
            session.write(&mut stream)?;
            if !session.is_handshaking() {
                session.close(&mut stream);
                return Ok(());
            }
            let state =
                session.read(&mut stream, &mut buffer, &mut |_, _| ControlFlow::Continue(()))?;
            if state == ReadState::Closed {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}
