//! The software of a server: TXT of `version.bind` in class CH, as most servers support it.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use avocet_wire::view::RecordSection;
use avocet_wire::{Builder, Class, MessageView, Rtype};

/// Time to wait for a server that may not answer.
const TIMEOUT: Duration = Duration::from_millis(500);

/// Maximum number of characters of the text that are kept.
const MAX_TEXT: usize = 100;

/// Sends one query. Returns `None` if the server does not answer.
pub(crate) fn ask(server: SocketAddr) -> Option<String> {
    const ID: u16 = 0x7665;
    let mut query = [0; 64];
    let mut message = Builder::new(&mut query, 64, ID, 0).ok()?;
    message.question(b"\x07version\x04bind\0", Rtype::TXT, Class::CH).ok()?;
    let len = message.finish();
    let any: SocketAddr = match server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any).ok()?;
    socket.set_read_timeout(Some(TIMEOUT)).ok()?;
    socket.connect(server).ok()?;
    socket.send(query.get(..len)?).ok()?;
    let mut answer = [0; 512];
    let len = socket.recv(&mut answer).ok()?;
    text(answer.get(..len)?, ID)
}

fn text(answer: &[u8], id: u16) -> Option<String> {
    let message = MessageView::new(answer).ok().filter(|message| message.header().id == id)?;
    let record = message.section(RecordSection::Answer).ok()?.next()?.ok()?;
    let rdata = Some(record).filter(|record| record.rtype == Rtype::TXT)?.rdata();
    let (len, rest) = rdata.split_first()?;
    let text = rest.get(..usize::from(*len))?.iter().take(MAX_TEXT);
    let text: String = text.map(|octet| char::from(*octet)).filter(|c| !c.is_control()).collect();
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_the_first_record_is_taken() {
        let mut answer = vec![0x76, 0x65, 0x84, 0, 0, 0, 0, 1, 0, 0, 0, 0];
        answer.extend(b"\x07version\x04bind\0\0\x10\0\x03\0\0\0\0\0\x06\x05x 1\x1b2");
        assert_eq!(text(&answer, 0x7665).as_deref(), Some("x 12"));
        assert_eq!(text(&answer, 1), None);
        answer.truncate(answer.len() - 2);
        assert_eq!(text(&answer, 0x7665), None);
    }
}
