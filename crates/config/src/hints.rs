//! The root servers: the well-known ones, or those in a file (RFC 8109 §2).
//!
//! The errors show no text of the file. A user with the right to check a change, but not to apply
//! it, can name any file in the change.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use avocet_resolver::RootServer;
use avocet_wire::{Rtype, rdata};

use super::error::{HintFault, SettingError};
use super::name::{Name, ROOT};
use super::named_file;
use super::setting::FromText;

/// Maximum number of servers in a file.
const MAX_SERVERS: usize = 64;

/// The letters of the names under root-servers.net., with the addresses of the servers, as of June
/// 2025.
const BUILT_IN: [(u8, Ipv4Addr, Ipv6Addr); 13] = [
    (b'a', Ipv4Addr::new(198, 41, 0, 4), Ipv6Addr::new(0x2001, 0x503, 0xba3e, 0, 0, 0, 2, 0x30)),
    (b'b', Ipv4Addr::new(170, 247, 170, 2), Ipv6Addr::new(0x2801, 0x1b8, 0x10, 0, 0, 0, 0, 0xb)),
    (b'c', Ipv4Addr::new(192, 33, 4, 12), Ipv6Addr::new(0x2001, 0x500, 2, 0, 0, 0, 0, 0xc)),
    (b'd', Ipv4Addr::new(199, 7, 91, 13), Ipv6Addr::new(0x2001, 0x500, 0x2d, 0, 0, 0, 0, 0xd)),
    (b'e', Ipv4Addr::new(192, 203, 230, 10), Ipv6Addr::new(0x2001, 0x500, 0xa8, 0, 0, 0, 0, 0xe)),
    (b'f', Ipv4Addr::new(192, 5, 5, 241), Ipv6Addr::new(0x2001, 0x500, 0x2f, 0, 0, 0, 0, 0xf)),
    (b'g', Ipv4Addr::new(192, 112, 36, 4), Ipv6Addr::new(0x2001, 0x500, 0x12, 0, 0, 0, 0, 0xd0d)),
    (b'h', Ipv4Addr::new(198, 97, 190, 53), Ipv6Addr::new(0x2001, 0x500, 1, 0, 0, 0, 0, 0x53)),
    (b'i', Ipv4Addr::new(192, 36, 148, 17), Ipv6Addr::new(0x2001, 0x7fe, 0, 0, 0, 0, 0, 0x53)),
    (b'j', Ipv4Addr::new(192, 58, 128, 30), Ipv6Addr::new(0x2001, 0x503, 0xc27, 0, 0, 0, 2, 0x30)),
    (b'k', Ipv4Addr::new(193, 0, 14, 129), Ipv6Addr::new(0x2001, 0x7fd, 0, 0, 0, 0, 0, 1)),
    (b'l', Ipv4Addr::new(199, 7, 83, 42), Ipv6Addr::new(0x2001, 0x500, 0x9f, 0, 0, 0, 0, 0x42)),
    (b'm', Ipv4Addr::new(202, 12, 27, 33), Ipv6Addr::new(0x2001, 0xdc3, 0, 0, 0, 0, 0, 0x35)),
];

/// Returns the well-known root servers.
pub(super) fn built_in() -> Vec<RootServer> {
    let server = |&(letter, v4, v6): &(u8, Ipv4Addr, Ipv6Addr)| RootServer {
        name: [b"\x01", &[letter][..], b"\x0croot-servers\x03net\x00"].concat().into(),
        addresses: vec![v4.into(), v6.into()],
    };
    BUILT_IN.iter().map(server).collect()
}

/// Reads the servers from a master file: NS records of the root, and A and AAAA records.
///
/// # Errors
///
/// The fault in the file with its line.
pub(super) fn from_file(path: &Path) -> Result<Vec<RootServer>, SettingError> {
    let text = named_file::read(path)?;
    from_zone(&text).map_err(|(line, fault)| SettingError::RootHints {
        path: path.to_owned(),
        line,
        source: Box::new(fault),
    })
}

fn from_zone(text: &str) -> Result<Vec<RootServer>, (usize, HintFault)> {
    let mut servers: Vec<RootServer> = Vec::new();
    let mut owner: Option<Name> = None;
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.split(';').next().unwrap_or_default();
        let mut fields = text.split_ascii_whitespace().peekable();
        if !text.starts_with([' ', '\t'])
            && let Some(written) = fields.next()
        {
            owner = Some(Name::from_text(written).map_err(|_| (line, HintFault::NotAName))?);
        }
        let is_filler = |field: &&str| {
            field.eq_ignore_ascii_case("IN") || field.bytes().all(|b| b.is_ascii_digit())
        };
        while fields.next_if(is_filler).is_some() {}
        let Some(rtype) = fields.next() else { continue };
        let rtype = rdata::from_mnemonic(rtype).ok_or((line, HintFault::UnknownType))?;
        let owner = owner.as_ref().ok_or((line, HintFault::NoOwner))?;
        let mut data = Vec::new();
        let shown: Vec<&str> = fields.collect();
        rdata::parse(rtype, &shown.join(" "), ROOT, &mut data)
            .map_err(|_| (line, HintFault::Data))?;
        take(&mut servers, owner, Rtype(rtype), &data).map_err(|fault| (line, fault))?;
    }
    servers.retain(|server| !server.addresses.is_empty());
    Ok(servers)
}

fn take(
    servers: &mut Vec<RootServer>,
    owner: &Name,
    rtype: Rtype,
    data: &[u8],
) -> Result<(), HintFault> {
    let name: Name =
        if rtype == Rtype::NS { data.to_ascii_lowercase().into() } else { owner.clone() };
    let address: Option<IpAddr> =
        match (rtype, <[u8; 4]>::try_from(data), <[u8; 16]>::try_from(data)) {
            (Rtype::NS, ..) if **owner == *ROOT => None,
            (Rtype::A, Ok(octets), _) => Some(octets.into()),
            (Rtype::AAAA, _, Ok(octets)) => Some(octets.into()),
            _ => return Err(HintFault::OtherRecord),
        };
    let at = servers.iter().position(|server| server.name == name).unwrap_or_else(|| {
        servers.push(RootServer { name, addresses: Vec::new() });
        servers.len() - 1
    });
    if servers.len() > MAX_SERVERS {
        return Err(HintFault::TooManyServers);
    }
    servers[at].addresses.extend(address);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_zone_syntax_gives_names_and_addresses() {
        let text = "; the root\n.\t3600000 IN NS A.Root.Test.\n  3600000 NS b.root.test.\n\
            a.root.test. 3600000 A 192.0.2.1\na.root.test. AAAA 2001:db8::1 ; both\nb.root.test. IN A 192.0.2.2\n";
        let servers = from_zone(text).unwrap();
        assert_eq!(servers.len(), 2);
        assert_eq!(&*servers[0].name, b"\x01a\x04root\x04test\x00");
        assert_eq!(servers[0].addresses.len(), 2);
    }

    #[test]
    fn faults_name_their_line() {
        let check = |text: &str, expected: &str| {
            let (line, message) = from_zone(text).unwrap_err();
            assert_eq!(format!("{line}: {message}"), expected);
        };
        check(". NS a.\na. X 1\n", "2: there is no such record type");
        check(". NS a.\nsecret@a..b A 192.0.2.1\n", "2: the owner is not a name");
        check("a. A secret\n", "1: the data does not fit the record type");
        check(". TXT x\n", "1: expected NS records of the root, A and AAAA records");
        check("example. NS a.\n", "1: expected NS records of the root, A and AAAA records");
    }

    #[test]
    fn thirteen_servers_are_known() {
        let servers = built_in();
        assert_eq!(servers.len(), 13);
        assert!(servers.iter().all(|server| server.addresses.len() == 2));
    }
}
