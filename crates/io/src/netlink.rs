//! Requests to the kernel for a table and its changes (rtnetlink(7)). All kinds of tables share
//! this code.

use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use crate::options;
use crate::syscall::is_idle;

/// Timeout for each part of the kernel's answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Maximum number of octets of a part of an answer. The kernel sends up to 32 KiB at once.
const PART: usize = 64 * 1024;
/// Number of octets of a message header.
const HEADER: usize = 16;
/// Number of octets of an attribute header.
const ATTRIBUTE: usize = 4;
/// Maximum number of parts of changes that one call reads.
const MAX_PARTS: usize = 64;
/// Maximum number of parts that are read of one table.
const MAX_MESSAGES: usize = 1 << 17;

/// A table of the kernel: the codes of its request and its entries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelTable {
    /// Message type of the request.
    pub(crate) request: u16,
    /// Message type of an entry.
    pub(crate) entry: u16,
    /// Number of octets of the fixed part of a request and of an entry.
    pub(crate) fixed: usize,
}

/// Calls `each` with the fixed part and the attributes of each entry of a table, for all address
/// families.
///
/// # Errors
/// The system does not offer the table to this process, or ended its answer early.
pub(crate) fn dump(table: KernelTable, mut each: impl FnMut(&[u8])) -> io::Result<()> {
    let mut socket = open()?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.write_all(&request(table))?;
    let mut part = vec![0; PART];
    let mut left = MAX_MESSAGES;
    loop {
        let len = socket.read(&mut part)?;
        if read_part(&part[..len], table, &mut each)? == Part::Last || left == 0 {
            return Ok(());
        }
        left -= 1;
    }
}

/// A socket that requests single entries of a table.
#[derive(Debug)]
pub(crate) struct Queries {
    socket: Socket,
    part: Box<[u8]>,
}

impl Queries {
    /// Opens the socket.
    pub(crate) fn open() -> io::Result<Self> {
        let socket = open()?;
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { socket, part: vec![0; PART].into() })
    }

    /// Requests the entry for this fixed part and attribute, and calls `each` with the entry. The
    /// kernel answers within the call that sends the request.
    pub(crate) fn find(
        &mut self,
        table: KernelTable,
        fixed: &[u8],
        (kind, value): (u16, &[u8]),
        each: &mut impl FnMut(&[u8]),
    ) -> io::Result<()> {
        debug_assert_eq!(fixed.len(), table.fixed);
        let len = HEADER + fixed.len() + ATTRIBUTE + value.len();
        let mut request = header(table, len, libc::NLM_F_REQUEST);
        request.extend(fixed);
        request.extend(((ATTRIBUTE + value.len()) as u16).to_ne_bytes());
        request.extend(kind.to_ne_bytes());
        request.extend(value);
        self.socket.write_all(&request)?;
        let len = self.socket.read(&mut self.part)?;
        read_part(&self.part[..len], table, each).map(drop)
    }
}

fn open() -> io::Result<Socket> {
    let route = Protocol::from(libc::NETLINK_ROUTE);
    Socket::new(Domain::from(libc::AF_NETLINK), Type::RAW, Some(route))
}

/// A socket that gets the changes of a table.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: Socket,
    part: Box<[u8]>,
}

impl Listener {
    /// Joins multicast groups, and requests the present entries of a table. The request also gives
    /// the socket an address, without which the socket would get no changes.
    pub(crate) fn join(groups: &[libc::c_uint], table: KernelTable) -> io::Result<Self> {
        let mut socket = open()?;
        socket.set_nonblocking(true)?;
        let (level, name) = (libc::SOL_NETLINK, libc::NETLINK_ADD_MEMBERSHIP);
        for &group in groups {
            options::set(&socket, level, name, group as libc::c_int)?;
        }
        socket.write_all(&request(table))?;
        Ok(Self { socket, part: vec![0; PART].into() })
    }

    /// Calls `each` with the changed entries that wait to be read. Reads at most [`MAX_PARTS`]
    /// parts, because hostile hosts in the network can cause many changes.
    pub(crate) fn read(
        &mut self,
        table: KernelTable,
        each: &mut impl FnMut(&[u8]),
    ) -> io::Result<()> {
        for _ in 0..MAX_PARTS {
            let len = match (&self.socket).read(&mut self.part) {
                Ok(len) => len,
                Err(error) if is_idle(&error) => break,
                Err(error) => return Err(error),
            };
            read_part(&self.part[..len], table, each)?;
        }
        Ok(())
    }

    /// Discards the changes that wait to be read, at most [`MAX_PARTS`] parts.
    pub(crate) fn discard(&mut self) -> io::Result<()> {
        for _ in 0..MAX_PARTS {
            match (&self.socket).read(&mut self.part) {
                Ok(_) => {}
                Err(error) if is_idle(&error) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn request(table: KernelTable) -> Vec<u8> {
    let mut request = header(table, HEADER + table.fixed, libc::NLM_F_REQUEST | libc::NLM_F_DUMP);
    request.resize(HEADER + table.fixed, 0);
    request
}

/// Returns the header of a request whose length is `len` octets in all.
fn header(table: KernelTable, len: usize, flags: libc::c_int) -> Vec<u8> {
    let mut header = (len as u32).to_ne_bytes().to_vec();
    header.extend(table.request.to_ne_bytes());
    header.extend((flags as u16).to_ne_bytes());
    header.resize(HEADER, 0);
    header
}

/// Whether more parts of the answer follow.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Part {
    Last,
    MoreToCome,
}

/// Reads one part of an answer, and calls `each` with its entries.
pub(crate) fn read_part(
    mut octets: &[u8],
    table: KernelTable,
    each: &mut impl FnMut(&[u8]),
) -> io::Result<Part> {
    if octets.is_empty() {
        return Ok(Part::Last);
    }
    while let Some((header, _)) = octets.split_first_chunk::<HEADER>() {
        let len = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) as usize;
        let kind = u16::from_ne_bytes([header[4], header[5]]);
        let Some(body) = octets.get(HEADER..len) else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a netlink message is truncated",
            ));
        };
        match i32::from(kind) {
            libc::NLMSG_DONE => return Ok(Part::Last),
            libc::NLMSG_ERROR => {
                let code = body.first_chunk().map_or(0, |code| i32::from_ne_bytes(*code));
                return Err(io::Error::from_raw_os_error(-code));
            }
            _ if kind == table.entry => each(body),
            _ => {}
        }
        octets = octets.get(aligned(len)..).unwrap_or_default();
    }
    Ok(Part::MoreToCome)
}

/// Rounds up to a multiple of four, the alignment of messages and attributes.
fn aligned(len: usize) -> usize {
    (len + 3) & !3
}

/// Returns the attributes of an entry with their types, up to the first truncated attribute.
pub(crate) fn attributes(mut octets: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (header, _) = octets.split_first_chunk::<ATTRIBUTE>()?;
        let len = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let value = octets.get(ATTRIBUTE..len)?;
        octets = octets.get(aligned(len)..).unwrap_or_default();
        Some((u16::from_ne_bytes([header[2], header[3]]), value))
    })
}

/// Reads an address from an attribute.
pub(crate) fn ip(octets: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(octets).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(octets).map(IpAddr::from)).ok()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns a message as the kernel sends it.
    pub(crate) fn message(kind: u16, fixed: &[u8], attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let mut body = fixed.to_vec();
        for (kind, value) in attributes {
            body.extend(((ATTRIBUTE + value.len()) as u16).to_ne_bytes());
            body.extend(kind.to_ne_bytes());
            body.extend(*value);
            body.resize(aligned(body.len()), 0);
        }
        let mut octets = ((HEADER + body.len()) as u32).to_ne_bytes().to_vec();
        octets.extend(kind.to_ne_bytes());
        octets.extend([0; 10]);
        octets.extend(body);
        octets.resize(aligned(octets.len()), 0);
        octets
    }

    #[test]
    fn an_answer_ends_with_done_or_an_error_and_may_not_be_cut_off() {
        let table = KernelTable { request: 30, entry: 28, fixed: 12 };
        let mut entries = 0;
        let mut read = |octets: &[u8]| read_part(octets, table, &mut |_| entries += 1);
        let part = [message(28, &[0; 12], &[]), message(28, &[0; 12], &[])].concat();
        assert_eq!(read(&part).unwrap(), Part::MoreToCome);
        assert!(read(&part[..20]).is_err());
        assert_eq!(read(&message(libc::NLMSG_DONE as u16, &[0; 4], &[])).unwrap(), Part::Last);
        let refused = message(libc::NLMSG_ERROR as u16, &(-1_i32).to_ne_bytes(), &[]);
        assert_eq!(read(&refused).unwrap_err().raw_os_error(), Some(1));
        assert_eq!(entries, 2);
    }
}
