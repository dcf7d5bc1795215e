//! DNS stamps (draft-denis-dns-stamps). A stamp is one line of text with the protocol, address and
//! name of a DNS server. Apps such as dnscrypt-proxy read this line to connect to the server.

use std::net::{IpAddr, SocketAddr};

use avocet_config::Protocol;
use data_encoding::BASE64URL_NOPAD;

use super::{DeviceConnection, Endpoint, Promises};

/// The protocols of stamps.
const PLAIN: u8 = 0x00;
const DOH: u8 = 0x02;
const DOT: u8 = 0x03;
const DOQ: u8 = 0x04;

/// Returns the stamp of a protocol.
pub fn stamp(connection: &DeviceConnection, endpoint: &Endpoint) -> String {
    let mut out = vec![match endpoint.protocol {
        Protocol::Https | Protocol::H3 => DOH,
        Protocol::Quic => DOQ,
        Protocol::Tls | Protocol::Plain => DOT,
    }];
    out.extend(properties(connection.promises));
    let address = endpoint.addresses.first().map(|ip| with_port(*ip, endpoint.port));
    counted(&mut out, address.unwrap_or_default().as_bytes());
    // No hashes: the certificate is verified by its name.
    out.push(0);
    // Programs disagree about the usual port of DoT and DoQ.
    counted(&mut out, format!("{}:{}", endpoint.host, endpoint.port).as_bytes());
    if out[0] == DOH {
        counted(&mut out, connection.path().as_bytes());
    }
    written(&out)
}

/// Returns the stamp of an unencrypted address, over which a device sends no word.
pub fn plain(connection: &DeviceConnection) -> Option<String> {
    let plain = connection.plain.as_ref().filter(|_| connection.word.is_none())?;
    let mut out = vec![PLAIN];
    out.extend(properties(connection.promises));
    counted(&mut out, with_port(*plain.addresses.first()?, plain.port).as_bytes());
    Some(written(&out))
}

fn written(octets: &[u8]) -> String {
    format!("sdns://{}", BASE64URL_NOPAD.encode(octets))
}

fn properties(promises: Promises) -> [u8; 8] {
    let Promises { validates, keeps_no_log, filters_nothing } = promises;
    let bits = [validates, keeps_no_log, filters_nothing];
    let places = bits.into_iter().enumerate();
    places.map(|(place, bit)| u64::from(bit) << place).sum::<u64>().to_le_bytes()
}

fn with_port(ip: IpAddr, port: u16) -> String {
    SocketAddr::new(ip, port).to_string()
}

/// Appends the length of a text in one octet, and then the text. Host names and words have at most
/// 255 octets.
fn counted(out: &mut Vec<u8>, text: &[u8]) {
    let text = &text[..text.len().min(usize::from(u8::MAX))];
    out.push(text.len() as u8);
    out.extend_from_slice(text);
}
