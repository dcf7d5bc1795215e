//! The socket of a connection to a database, with a limit on received data.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// Maximum number of octets that a connection reads: three times the size of the largest zone with
/// the protocol's overhead for each row.
const MAX_OCTETS: u64 = 256 << 20;

/// A socket that fails after [`MAX_OCTETS`].
pub(crate) struct BoundedSocket {
    stream: DatabaseStream,
    left: u64,
}

enum DatabaseStream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl BoundedSocket {
    /// Connects to a Unix socket, or to the first address that accepts a connection.
    pub(super) async fn connect(path: Option<&Path>, addresses: &[SocketAddr]) -> io::Result<Self> {
        let stream = match path {
            Some(path) => DatabaseStream::Unix(UnixStream::connect(path).await?),
            None => {
                let stream = TcpStream::connect(addresses).await?;
                stream.set_nodelay(true)?;
                DatabaseStream::Tcp(stream)
            }
        };
        Ok(Self { stream, left: MAX_OCTETS })
    }
}

impl AsyncRead for BoundedSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(match &mut self.stream {
            DatabaseStream::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            DatabaseStream::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
        })?;
        let read = (buffer.filled().len() - before) as u64;
        match self.left.checked_sub(read) {
            Some(left) => {
                self.left = left;
                Poll::Ready(Ok(()))
            }
            None => {
                let message = format!("the database sent more than {MAX_OCTETS} octets");
                Poll::Ready(Err(io::Error::new(io::ErrorKind::FileTooLarge, message)))
            }
        }
    }
}

impl AsyncWrite for BoundedSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            DatabaseStream::Tcp(stream) => Pin::new(stream).poll_write(cx, octets),
            DatabaseStream::Unix(stream) => Pin::new(stream).poll_write(cx, octets),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            DatabaseStream::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            DatabaseStream::Unix(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            DatabaseStream::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            DatabaseStream::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
