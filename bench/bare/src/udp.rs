//! Responders on one UDP socket.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

use crate::message::answer_in_place;
use crate::sys::{self, Batch, Peers, Wait};

/// Answers each query by one `recvfrom` and one `sendto`, until killed.
pub(crate) fn answer_singly(address: SocketAddr) -> io::Result<()> {
    let socket = bind(address)?;
    let descriptor = socket.as_raw_fd();
    let (mut buffer, mut from) = ([0; sys::DATAGRAM], sys::NO_ADDRESS);
    loop {
        let length = sys::receive_from(descriptor, &mut buffer, &mut from)?;
        if let Some(length) = answer_in_place(&mut buffer, length) {
            // A full send buffer loses the answer, as it does for any server.
            let _ = sys::send_to(descriptor, &buffer[..length], &from);
        }
    }
}

/// Answers queries in the batches in which they come, until killed.
pub(crate) fn answer_in_batches(address: SocketAddr) -> io::Result<()> {
    let socket = bind(address)?;
    let mut batch = Batch::new();
    loop {
        let received = batch.receive(socket.as_raw_fd(), Wait::ForOne, Peers::Many)?;
        for index in 0..received {
            let (buffer, length, _) = batch.datagram(index);
            // What is no query goes back as it came: nothing sends such here.
            *length = answer_in_place(buffer, *length).unwrap_or(*length);
        }
        batch.send_all(socket.as_raw_fd(), received, Peers::Many);
    }
}

/// Binds a socket with wide buffers.
pub(crate) fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(address)?;
    sys::widen_buffers(&socket)?;
    Ok(socket)
}
