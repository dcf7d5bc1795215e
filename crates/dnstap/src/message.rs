//! The messages of dnstap: a query or response with its addresses and times.
//!
//! The field numbers are those of `dnstap.proto`. Most fields are optional: a writer leaves out
//! unknown values, and a reader ignores fields that it does not know.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use avocet_protobuf::{FieldValue, Fields, ProtoField, put_fixed32, put_octets, put_uint};

use crate::TapError;

/// Fields of `Dnstap`.
const IDENTITY: u32 = 1;
const VERSION: u32 = 2;
const MESSAGE: u32 = 14;
const TYPE: u32 = 15;
/// The value of `Dnstap.type` for a message. There is no other value.
const TYPE_MESSAGE: u64 = 1;

/// Fields of `Message`.
const KIND: u32 = 1;
const FAMILY: u32 = 2;
const PROTOCOL: u32 = 3;
const QUERY_ADDRESS: u32 = 4;
const RESPONSE_ADDRESS: u32 = 5;
const QUERY_PORT: u32 = 6;
const RESPONSE_PORT: u32 = 7;
const QUERY_SECS: u32 = 8;
const QUERY_NANOS: u32 = 9;
const QUERY_MESSAGE: u32 = 10;
const RESPONSE_SECS: u32 = 12;
const RESPONSE_NANOS: u32 = 13;
const RESPONSE_MESSAGE: u32 = 14;

/// The kind of a message: who sent it, and whether it is a query or a response.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MessageKind {
    /// A query that an authoritative server received.
    AuthQuery = 1,
    /// A response to [`Self::AuthQuery`].
    AuthResponse = 2,
    /// A query that a resolver sent to an authoritative server.
    ResolverQuery = 3,
    /// A response to [`Self::ResolverQuery`].
    ResolverResponse = 4,
    /// A query that a resolver received from a client.
    ClientQuery = 5,
    /// A response to [`Self::ClientQuery`].
    ClientResponse = 6,
    /// A query that a forwarder sent to a resolver.
    ForwarderQuery = 7,
    /// A response to [`Self::ForwarderQuery`].
    ForwarderResponse = 8,
    /// A query of a stub resolver.
    StubQuery = 9,
    /// A response to [`Self::StubQuery`].
    StubResponse = 10,
    /// A query of a tool.
    ToolQuery = 11,
    /// A response to [`Self::ToolQuery`].
    ToolResponse = 12,
    /// A dynamic update.
    UpdateQuery = 13,
    /// A response to [`Self::UpdateQuery`].
    UpdateResponse = 14,
}

impl MessageKind {
    const ALL: [Self; 14] = [
        Self::AuthQuery,
        Self::AuthResponse,
        Self::ResolverQuery,
        Self::ResolverResponse,
        Self::ClientQuery,
        Self::ClientResponse,
        Self::ForwarderQuery,
        Self::ForwarderResponse,
        Self::StubQuery,
        Self::StubResponse,
        Self::ToolQuery,
        Self::ToolResponse,
        Self::UpdateQuery,
        Self::UpdateResponse,
    ];

    fn of(number: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u64 == number)
    }

    /// Reports whether the message is a query that a server received from a client.
    #[must_use]
    pub fn is_received_query(self) -> bool {
        matches!(self, Self::ClientQuery | Self::AuthQuery)
    }

    /// Reports whether the message is a response that a server sent to a client.
    #[must_use]
    pub fn is_sent_response(self) -> bool {
        matches!(self, Self::ClientResponse | Self::AuthResponse)
    }
}

/// A transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TapTransport {
    /// UDP.
    Udp = 1,
    /// TCP.
    Tcp = 2,
    /// TLS.
    Tls = 3,
    /// HTTPS.
    Https = 4,
    /// QUIC.
    Quic = 7,
}

/// A time on the wall clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct TapTime {
    /// Unix seconds.
    pub secs: u64,
    /// Nanoseconds of the second.
    pub nanos: u32,
}

impl TapTime {
    /// Returns a time in Unix microseconds.
    #[must_use]
    pub fn of_micros(micros: u64) -> Self {
        Self { secs: micros / 1_000_000, nanos: (micros % 1_000_000) as u32 * 1_000 }
    }
}

/// A message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TapMessage<'a> {
    /// The kind of the message.
    pub kind: MessageKind,
    /// The name of the server; empty if unknown.
    pub identity: &'a [u8],
    /// The name and version of the server's software; empty if unknown.
    pub version: &'a [u8],
    /// The transport.
    pub transport: Option<TapTransport>,
    /// The address that sent the query.
    pub query_address: Option<IpAddr>,
    /// The port that sent the query.
    pub query_port: Option<u16>,
    /// The address to which the query was sent.
    pub response_address: Option<IpAddr>,
    /// The port to which the query was sent.
    pub response_port: Option<u16>,
    /// The time of the query.
    pub query_time: Option<TapTime>,
    /// The time of the response.
    pub response_time: Option<TapTime>,
    /// The query in wire format.
    pub query_message: Option<&'a [u8]>,
    /// The response in wire format.
    pub response_message: Option<&'a [u8]>,
}

impl<'a> TapMessage<'a> {
    /// Returns a message of this kind in which all other fields are unknown.
    #[must_use]
    pub fn of(kind: MessageKind) -> Self {
        Self {
            kind,
            identity: &[],
            version: &[],
            transport: None,
            query_address: None,
            query_port: None,
            response_address: None,
            response_port: None,
            query_time: None,
            response_time: None,
            query_message: None,
            response_message: None,
        }
    }

    /// Replaces the content of `out` with the message.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut inner = Vec::with_capacity(
            128 + self.query_message.map_or(0, <[u8]>::len)
                + self.response_message.map_or(0, <[u8]>::len),
        );
        self.write_inner(&mut inner);
        out.clear();
        for (field, octets) in [(IDENTITY, self.identity), (VERSION, self.version)] {
            if !octets.is_empty() {
                put_octets(out, field, octets);
            }
        }
        put_octets(out, MESSAGE, &inner);
        put_uint(out, TYPE, TYPE_MESSAGE);
    }

    fn write_inner(&self, out: &mut Vec<u8>) {
        put_uint(out, KIND, self.kind as u64);
        if let Some(address) = self.query_address.or(self.response_address) {
            put_uint(out, FAMILY, if address.is_ipv4() { 1 } else { 2 });
        }
        if let Some(transport) = self.transport {
            put_uint(out, PROTOCOL, transport as u64);
        }
        let addresses =
            [(QUERY_ADDRESS, self.query_address), (RESPONSE_ADDRESS, self.response_address)];
        for (field, address) in addresses {
            match address {
                Some(IpAddr::V4(address)) => put_octets(out, field, &address.octets()),
                Some(IpAddr::V6(address)) => put_octets(out, field, &address.octets()),
                None => {}
            }
        }
        for (field, port) in [(QUERY_PORT, self.query_port), (RESPONSE_PORT, self.response_port)] {
            if let Some(port) = port {
                put_uint(out, field, port.into());
            }
        }
        if let Some(time) = self.query_time {
            put_uint(out, QUERY_SECS, time.secs);
            put_fixed32(out, QUERY_NANOS, time.nanos);
        }
        if let Some(message) = self.query_message {
            put_octets(out, QUERY_MESSAGE, message);
        }
        if let Some(time) = self.response_time {
            put_uint(out, RESPONSE_SECS, time.secs);
            put_fixed32(out, RESPONSE_NANOS, time.nanos);
        }
        if let Some(message) = self.response_message {
            put_octets(out, RESPONSE_MESSAGE, message);
        }
    }

    /// Reads a message. Returns `None` for a message of an unknown kind.
    ///
    /// # Errors
    /// The octets are not a message of dnstap.
    pub fn read(octets: &'a [u8]) -> Result<Option<Self>, TapError> {
        let (mut identity, mut version, mut inner): (&[u8], &[u8], _) = (&[], &[], None);
        let mut fields = Fields(octets);
        while let Some(ProtoField { number, value }) = fields.read_field()? {
            match (number as u32, value) {
                _ if number > u64::from(u32::MAX) => {}
                (IDENTITY, FieldValue::Octets(octets)) => identity = octets,
                (VERSION, FieldValue::Octets(octets)) => version = octets,
                (MESSAGE, FieldValue::Octets(octets)) => inner = Some(octets),
                _ => {}
            }
        }
        let Some(inner) = inner else { return Ok(None) };
        let found = Self::read_inner(inner)?;
        Ok(found.map(|message| Self { identity, version, ..message }))
    }

    fn read_inner(octets: &'a [u8]) -> Result<Option<Self>, TapError> {
        let (mut kind, mut found) = (None, Self::of(MessageKind::ToolQuery));
        let mut fields = Fields(octets);
        while let Some(ProtoField { number, value }) = fields.read_field()? {
            match value {
                _ if number > u64::from(u32::MAX) => {}
                FieldValue::Uint(value) if number == u64::from(KIND) => {
                    kind = MessageKind::of(value)
                }
                FieldValue::Uint(value) => found.take_uint(number as u32, value),
                FieldValue::Fixed32(value) => found.take_fixed32(number as u32, value),
                FieldValue::Octets(value) => found.take_octets(number as u32, value),
                FieldValue::Fixed64(_) => {}
            }
        }
        Ok(kind.map(|kind| Self { kind, ..found }))
    }

    fn take_uint(&mut self, field: u32, value: u64) {
        let time =
            |time: Option<TapTime>| Some(TapTime { secs: value, ..time.unwrap_or_default() });
        match field {
            PROTOCOL => {
                self.transport = match value {
                    1 => Some(TapTransport::Udp),
                    2 => Some(TapTransport::Tcp),
                    3 => Some(TapTransport::Tls),
                    4 => Some(TapTransport::Https),
                    7 => Some(TapTransport::Quic),
                    _ => None,
                }
            }
            QUERY_PORT => self.query_port = u16::try_from(value).ok(),
            RESPONSE_PORT => self.response_port = u16::try_from(value).ok(),
            QUERY_SECS => self.query_time = time(self.query_time),
            RESPONSE_SECS => self.response_time = time(self.response_time),
            _ => {}
        }
    }

    fn take_fixed32(&mut self, field: u32, value: u32) {
        let nanos = value.min(999_999_999);
        let time = |time: Option<TapTime>| Some(TapTime { nanos, ..time.unwrap_or_default() });
        match field {
            QUERY_NANOS => self.query_time = time(self.query_time),
            RESPONSE_NANOS => self.response_time = time(self.response_time),
            _ => {}
        }
    }

    fn take_octets(&mut self, field: u32, value: &'a [u8]) {
        match field {
            QUERY_ADDRESS => self.query_address = address(value),
            RESPONSE_ADDRESS => self.response_address = address(value),
            QUERY_MESSAGE => self.query_message = Some(value),
            RESPONSE_MESSAGE => self.response_message = Some(value),
            _ => {}
        }
    }
}

/// Returns the address with these octets; `None` unless there are 4 octets (IPv4) or 16 octets
/// (IPv6).
fn address(octets: &[u8]) -> Option<IpAddr> {
    let v4 = || <[u8; 4]>::try_from(octets).ok().map(|octets| Ipv4Addr::from(octets).into());
    let v6 = || <[u8; 16]>::try_from(octets).ok().map(|octets| Ipv6Addr::from(octets).into());
    v4().or_else(v6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_survives_a_round_trip() {
        let check = |message: TapMessage<'_>| {
            let mut out = vec![1, 2, 3];
            message.write(&mut out);
            assert_eq!(TapMessage::read(&out).unwrap(), Some(message));
        };
        for kind in MessageKind::ALL {
            check(TapMessage::of(kind));
        }
        check(TapMessage {
            kind: MessageKind::ClientResponse,
            identity: b"ns1",
            version: b"avocet 0.1.0",
            transport: Some(TapTransport::Tcp),
            query_address: Some([192, 0, 2, 7].into()),
            query_port: Some(4711),
            response_address: Some([192, 0, 2, 53].into()),
            response_port: Some(53),
            query_time: Some(TapTime { secs: 1_795_377_600, nanos: 999_999_999 }),
            response_time: Some(TapTime::of_micros(1_795_377_600_000_001)),
            query_message: Some(&[0; 300]),
            response_message: Some(&[0xff; 20_000]),
        });
        check(TapMessage {
            query_address: Some("2001:db8::1".parse().unwrap()),
            ..TapMessage::of(MessageKind::ClientQuery)
        });
    }

    /// The message of a client query, as other tools encode it.
    #[test]
    fn the_octets_of_a_message_are_those_of_the_schema() {
        let message = TapMessage {
            transport: Some(TapTransport::Udp),
            query_address: Some([192, 0, 2, 1].into()),
            query_time: Some(TapTime { secs: 1, nanos: 2 }),
            query_message: Some(b"q"),
            ..TapMessage::of(MessageKind::ClientQuery)
        };
        let mut out = Vec::new();
        message.write(&mut out);
        let expected = [
            0x72, 22, 0x08, 5, 0x10, 1, 0x18, 1, 0x22, 4, 192, 0, 2, 1, 0x40, 1, 0x4d, 2, 0, 0, 0,
            0x52, 1, b'q', 0x78, 1,
        ];
        assert_eq!(out, expected);
    }

    #[test]
    fn unknown_kinds_and_fields_are_passed_over() {
        let check = |octets: &[u8], expected: Option<MessageKind>| {
            let found = TapMessage::read(octets).unwrap();
            assert_eq!(found.map(|message| message.kind), expected, "{octets:?}");
        };
        check(&[], None);
        check(&[0x72, 0], None);
        check(&[0x72, 2, 0x08, 99], None);
        check(&[0x72, 2, 0x08, 6, 0xa0, 6, 1, 0x7a, 1, 0], Some(MessageKind::ClientResponse));
        // Three octets are not an address.
        check(&[0x72, 7, 0x08, 5, 0x22, 3, 1, 2, 3], Some(MessageKind::ClientQuery));
        assert!(TapMessage::read(&[0x72, 5, 0x08]).is_err());
        assert!(TapMessage::read(&[0x72, 2, 0x22, 9]).is_err());
    }
}
