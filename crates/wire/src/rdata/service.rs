//! The service in an SVCB or HTTPS record, for a client that connects to it (RFC 9460, RFC 9461).
//!
//! Only the keys in `KNOWN` are used. A client must not use a record that makes another key
//! mandatory (RFC 9460 §8).

use std::net::IpAddr;

use super::reader::Reader;
use super::svcb::{
    ALPN, DOHPATH, IPV4HINT, IPV6HINT, MANDATORY, NO_DEFAULT_ALPN, PORT, ids, read_param,
};
use super::{RdataError, check};
use crate::code::Rtype;
use crate::name::{self, NameBuf};

/// The keys that [`ServiceBinding`] reads.
const KNOWN: [u16; 6] = [ALPN, NO_DEFAULT_ALPN, PORT, IPV4HINT, IPV6HINT, DOHPATH];

/// The data of an SVCB or HTTPS record.
///
/// ```
/// use avocet_wire::rdata::{self, ServiceBinding};
///
/// let mut data = Vec::new();
/// rdata::parse(64, "1 dns.example. alpn=dot port=8853 ipv4hint=192.0.2.1", &[0], &mut data)?;
/// let service = ServiceBinding::read(&data)?;
/// assert_eq!((service.priority, service.port()), (1, Some(8853)));
/// assert_eq!(service.alpn().collect::<Vec<_>>(), [b"dot"]);
/// # Ok::<(), rdata::RdataError>(())
/// ```
#[derive(Debug)]
pub struct ServiceBinding<'a> {
    /// The priority; the lowest is used first, and 0 means an alias.
    pub priority: u16,
    /// The target.
    pub target: NameBuf,
    params: &'a [u8],
}

impl<'a> ServiceBinding<'a> {
    /// Reads uncompressed record data.
    ///
    /// # Errors
    /// The first malformed field.
    pub fn read(rdata: &'a [u8]) -> Result<Self, RdataError> {
        check(Rtype::SVCB.0, rdata)?;
        let (priority, rest) = rdata.split_first_chunk().unwrap_or((&[0; 2], &[]));
        let len = name::wire_len(rest).unwrap_or(rest.len());
        let (target, params) = rest.split_at(len);
        let target = NameBuf::from_wire(target).map_err(|error| RdataError::whole(error.into()))?;
        Ok(Self { priority: u16::from_be_bytes(*priority), target, params })
    }

    /// Returns whether this crate uses all keys that the record makes mandatory.
    #[must_use]
    pub fn is_understood(&self) -> bool {
        let keys = self.value(MANDATORY).unwrap_or_default().as_chunks().0;
        keys.iter().all(|key| KNOWN.contains(&u16::from_be_bytes(*key)))
    }

    /// Returns the protocols of the service.
    pub fn alpn(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        ids(self.value(ALPN).unwrap_or_default()).map_while(Result::ok)
    }

    /// Returns the port, if the record states it.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        Some(u16::from_be_bytes(self.value(PORT)?.try_into().ok()?))
    }

    /// Returns the addresses that a client may use until it knows those of the target.
    pub fn hints(&self) -> impl Iterator<Item = IpAddr> + use<'a> {
        let v4 = self.value(IPV4HINT).unwrap_or_default().as_chunks::<4>().0;
        let v6 = self.value(IPV6HINT).unwrap_or_default().as_chunks::<16>().0;
        v4.iter().map(|ip| IpAddr::from(*ip)).chain(v6.iter().map(|ip| IpAddr::from(*ip)))
    }

    /// Returns the relative URI template of DNS over HTTPS, if the record has one.
    #[must_use]
    pub fn doh_path(&self) -> Option<&'a str> {
        str::from_utf8(self.value(DOHPATH)?).ok()
    }

    fn value(&self, wanted: u16) -> Option<&'a [u8]> {
        let mut reader = Reader::new(self.params);
        let mut params = std::iter::from_fn(|| read_param(&mut reader).ok());
        params.find(|(key, _)| *key == wanted).map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::parse;

    fn data(text: &str) -> Vec<u8> {
        let mut out = Vec::new();
        parse(Rtype::SVCB.0, text, &[0], &mut out)
            .unwrap_or_else(|error| panic!("{text}: {error}"));
        out
    }

    #[test]
    fn each_parameter_of_a_service_is_read() {
        let text = "16 dns.example. mandatory=alpn,port alpn=h2,h3 port=8443 \
                    ipv4hint=192.0.2.1,192.0.2.2 ipv6hint=2001:db8::1 dohpath=/q{?dns} key999=x";
        let data = data(text);
        let service = ServiceBinding::read(&data).unwrap();
        assert_eq!((service.priority, service.port()), (16, Some(8_443)));
        assert_eq!(service.target.to_string(), "dns.example.");
        assert_eq!(service.alpn().collect::<Vec<_>>(), [b"h2", b"h3"]);
        let hints: Vec<_> = service.hints().map(|ip| ip.to_string()).collect();
        assert_eq!(hints, ["192.0.2.1", "192.0.2.2", "2001:db8::1"]);
        assert_eq!(service.doh_path(), Some("/q{?dns}"));
        assert!(service.is_understood());
    }

    #[test]
    fn a_record_with_an_unknown_mandatory_key_is_not_understood() {
        for (text, expected) in [
            ("1 a. alpn=dot", true),
            ("1 a. mandatory=alpn alpn=dot", true),
            ("1 a. mandatory=key999 alpn=dot key999=x", false),
            ("1 a. mandatory=ech alpn=dot ech=AAAA", false),
        ] {
            let data = data(text);
            assert_eq!(ServiceBinding::read(&data).unwrap().is_understood(), expected, "{text}");
        }
        let alias = data("0 b.");
        let alias = ServiceBinding::read(&alias).unwrap();
        assert_eq!((alias.priority, alias.alpn().count(), alias.port()), (0, 0, None));
    }

    #[test]
    fn cut_and_changed_octets_are_refused_or_read_without_a_panic() {
        let whole =
            data("1 dns.example. alpn=dot,doq port=853 ipv4hint=192.0.2.1 dohpath=/q{?dns}");
        for len in 0..whole.len() {
            let _ = ServiceBinding::read(&whole[..len]).map(|one| one.hints().count());
        }
        for at in 0..whole.len() {
            for value in 0..=255 {
                let mut octets = whole.clone();
                octets[at] = value;
                if let Ok(service) = ServiceBinding::read(&octets) {
                    let count = service.alpn().count() + service.hints().count();
                    assert!(count < octets.len(), "{octets:?}");
                }
            }
        }
    }
}
