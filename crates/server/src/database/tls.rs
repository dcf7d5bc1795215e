//! TLS to a database: connects rustls to the crate of the PostgreSQL protocol.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;

use super::socket::BoundedSocket;

/// The server name and the checks of the certificate; `None` for a connection without TLS.
pub(super) struct DatabaseTls(pub(super) Option<(Arc<ClientConfig>, ServerName<'static>)>);

impl TlsConnect<BoundedSocket> for DatabaseTls {
    type Stream = TlsSocket;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<TlsSocket>> + Send>>;

    fn connect(self, socket: BoundedSocket) -> Self::Future {
        Box::pin(async move {
            let Some((config, name)) = self.0 else {
                return Err(io::Error::from(io::ErrorKind::Unsupported));
            };
            TlsConnector::from(config).connect(name, socket).await.map(TlsSocket)
        })
    }
}

/// A socket within TLS.
pub(crate) struct TlsSocket(tokio_rustls::client::TlsStream<BoundedSocket>);

impl TlsStream for TlsSocket {
    /// Returns no channel binding. The certificate of the server is verified with its name, which
    /// rules out another peer of this TLS session.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for TlsSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for TlsSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, octets)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
