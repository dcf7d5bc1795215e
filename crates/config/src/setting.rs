//! One value of the configuration file: its position, and the value or its faults.
//!
//! A [`Setting`] never fails to deserialise: it records faults with their positions, so that all
//! faults of a file are reported at once. Types that may occur in the file implement [`Value`].

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use avocet_policy::rule::WrittenAddress;
use ipnet::IpNet;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use toml::Spanned;

use super::error::SettingError;
use super::upstream::interface_index;

/// A fault, with its position in the [`ConfigSource`](super::source::ConfigSource).
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SettingFault {
    /// The byte range of the value.
    pub(super) span: Range<usize>,
    /// The fault, and valid values.
    pub(super) message: String,
}

impl SettingFault {
    /// Locates an error at `span`.
    pub(super) fn new(span: Range<usize>, error: &SettingError) -> Self {
        Self { span, message: error.to_string() }
    }
}

/// A key of the file with a value of type `T`; `None` if the key is missing.
#[derive(Debug)]
pub(super) struct Setting<T>(pub(super) Option<Written<T>>);

impl<T> Default for Setting<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Setting<T> {
    /// Returns the position of the value; `None` if the key is missing.
    pub(super) fn span(&self) -> Option<Range<usize>> {
        self.0.as_ref().map(|written| written.span.clone())
    }

    /// Returns the value; `None` if the key is missing or the value is not valid.
    pub(super) fn valid(&self) -> Option<&T> {
        self.0.as_ref().and_then(|written| written.value.as_ref().ok())
    }
}

/// A configured value of type `T`.
#[derive(Debug)]
pub(super) struct Written<T> {
    /// The position of the value.
    pub(super) span: Range<usize>,
    /// The value, or its faults.
    pub(super) value: Result<T, Vec<SettingFault>>,
}

impl<'de, T: Value> Deserialize<'de> for Setting<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Spanned::<Raw>::deserialize(deserializer)?;
        Ok(Self(Some(Written { span: raw.span(), value: T::read(&raw) })))
    }
}

impl<T: JsonSchema> JsonSchema for Setting<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

/// A TOML value before its conversion.
#[derive(Debug)]
pub(super) enum Raw {
    Boolean(bool),
    Integer(i64),
    Fraction(f64),
    Text(String),
    List(Vec<Spanned<Raw>>),
    /// A type that no key accepts, named for messages.
    Other(&'static str),
}

impl Raw {
    /// Returns the value in the form of messages.
    fn shown(&self) -> String {
        match self {
            Self::Boolean(value) => value.to_string(),
            Self::Integer(value) => value.to_string(),
            Self::Fraction(value) => format!("{value:?}"),
            Self::Text(text) => format!("{text:?}"),
            Self::List(_) => "a list".to_owned(),
            Self::Other(kind) => (*kind).to_owned(),
        }
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Raw, E> {
        Ok(Raw::Boolean(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Raw, E> {
        Ok(Raw::Integer(value))
    }

    fn visit_i128<E>(self, _: i128) -> Result<Raw, E> {
        Ok(Raw::Other("a number with too many digits"))
    }

    fn visit_u128<E>(self, _: u128) -> Result<Raw, E> {
        Ok(Raw::Other("a number with too many digits"))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Raw, E> {
        Ok(Raw::Other("a number with too many digits"))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Raw, E> {
        Ok(Raw::Fraction(value))
    }

    fn visit_str<E>(self, text: &str) -> Result<Raw, E> {
        Ok(Raw::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Raw, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Raw::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Raw, A::Error> {
        while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Raw::Other("a table or a date"))
    }
}

/// A type that may occur in the file.
pub(super) trait Value: Sized {
    /// Returns a description of valid values, with an example if it helps.
    fn expected() -> String;

    /// Converts a TOML scalar, or returns its fault.
    fn from_scalar(raw: &Raw) -> Result<Self, SettingError>;

    /// Converts a TOML value, or returns all its faults.
    fn read(raw: &Spanned<Raw>) -> Result<Self, Vec<SettingFault>> {
        Self::from_scalar(raw.get_ref())
            .map_err(|error| vec![SettingFault::new(raw.span(), &error)])
    }

    /// Returns the error for a value of another type.
    fn mismatch(raw: &Raw) -> SettingError {
        SettingError::Mismatch { expected: Self::expected(), found: raw.shown() }
    }
}

/// A list of items with their positions; each invalid item is reported.
#[derive(Debug)]
pub(super) struct List<T>(pub(super) Vec<Spanned<T>>);

impl<T: JsonSchema> JsonSchema for List<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "List".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Vec::<T>::json_schema(generator)
    }
}

impl<T: Value> Value for List<T> {
    fn expected() -> String {
        format!("a list, each item {}", T::expected())
    }

    fn from_scalar(raw: &Raw) -> Result<Self, SettingError> {
        Err(Self::mismatch(raw))
    }

    fn read(raw: &Spanned<Raw>) -> Result<Self, Vec<SettingFault>> {
        let Raw::List(items) = raw.get_ref() else {
            return Err(vec![SettingFault::new(raw.span(), &Self::mismatch(raw.get_ref()))]);
        };
        let mut list = Vec::with_capacity(items.len());
        let mut faults = Vec::new();
        for item in items {
            match T::read(item) {
                Ok(value) => list.push(Spanned::new(item.span(), value)),
                Err(more) => faults.extend(more),
            }
        }
        if faults.is_empty() { Ok(Self(list)) } else { Err(faults) }
    }
}

impl Value for bool {
    fn expected() -> String {
        "true or false".to_owned()
    }

    fn from_scalar(raw: &Raw) -> Result<Self, SettingError> {
        match raw {
            Raw::Boolean(value) => Ok(*value),
            _ => Err(Self::mismatch(raw)),
        }
    }
}

impl Value for String {
    fn expected() -> String {
        "a string in quotes".to_owned()
    }

    fn from_scalar(raw: &Raw) -> Result<Self, SettingError> {
        match raw {
            Raw::Text(text) => Ok(text.clone()),
            _ => Err(Self::mismatch(raw)),
        }
    }
}

/// An integer from `MIN` to `MAX`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Int<const MIN: u32, const MAX: u32>(pub(super) u32);

impl<const MIN: u32, const MAX: u32> Value for Int<MIN, MAX> {
    fn expected() -> String {
        format!("an integer from {MIN} to {MAX}")
    }

    fn from_scalar(raw: &Raw) -> Result<Self, SettingError> {
        match raw {
            Raw::Integer(value) => u32::try_from(*value)
                .ok()
                .filter(|value| (MIN..=MAX).contains(value))
                .map(Self)
                .ok_or_else(|| Self::mismatch(raw)),
            _ => Err(Self::mismatch(raw)),
        }
    }
}

impl<const MIN: u32, const MAX: u32> JsonSchema for Int<MIN, MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Integer".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": MIN, "maximum": MAX })
    }
}

/// A size in memory: an integer of bytes, or a text such as "64MiB".
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ByteSize(pub(super) usize);

/// The smallest cache. The fixed parts of a smaller cache would take most of its memory.
const MIN_BYTES: u64 = 1 << 20;
/// Largest cache, 1 TiB: a larger value is a typing error.
const MAX_BYTES: u64 = 1 << 40;

/// Units of a [`ByteSize`]. Among units with a common ending, the longest comes first.
const UNITS: [(&str, u64); 8] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("B", 1),
];

/// Parses a text such as "64MiB" or "64 MiB" to bytes.
fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let (digits, scale) = UNITS
        .iter()
        .find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, *scale)))
        .unwrap_or((text, 1));
    let digits = digits.trim_end();
    // `u64::from_str` would accept a sign.
    if !digits.bytes().all(|octet| octet.is_ascii_digit()) {
        return None;
    }
    digits.parse::<u64>().ok()?.checked_mul(scale)
}

impl Value for ByteSize {
    fn expected() -> String {
        "a size from 1 MiB to 1 TiB, in bytes or as a string such as \"64MiB\"".to_owned()
    }

    fn from_scalar(raw: &Raw) -> Result<Self, SettingError> {
        let bytes = match raw {
            Raw::Integer(value) => u64::try_from(*value).ok(),
            Raw::Text(text) => parse_bytes(text),
            _ => None,
        };
        bytes
            .filter(|bytes| (MIN_BYTES..=MAX_BYTES).contains(bytes))
            .and_then(|bytes| usize::try_from(bytes).ok())
            .map(Self)
            .ok_or_else(|| Self::mismatch(raw))
    }
}

impl JsonSchema for ByteSize {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "ByteSize".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                { "type": "integer", "minimum": MIN_BYTES, "maximum": MAX_BYTES },
                { "type": "string", "pattern": "^[0-9]+ ?(B|kB|MB|GB|KiB|MiB|GiB|TiB)?$" },
            ]
        })
    }
}

/// A type that is written as text.
pub(super) trait FromText: Sized {
    /// A description of valid values, with an example if it helps.
    const EXPECTED: &'static str;
    /// All valid texts, if there are only a few.
    const CHOICES: &'static [&'static str] = &[];

    /// Converts a text. The error describes the fault, or is `None` if [`FromText::EXPECTED`]
    /// suffices.
    fn from_text(text: &str) -> Result<Self, Option<SettingError>>;
}

/// A value that is written as text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Text<T>(pub(super) T);

impl<T: FromText> Value for Text<T> {
    fn expected() -> String {
        T::EXPECTED.to_owned()
    }

    fn from_scalar(raw: &Raw) -> Result<Self, SettingError> {
        let Raw::Text(text) = raw else {
            return Err(Self::mismatch(raw));
        };
        T::from_text(text).map(Self).map_err(|reason| reason.unwrap_or_else(|| Self::mismatch(raw)))
    }
}

impl<T: FromText> JsonSchema for Text<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Text".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        if T::CHOICES.is_empty() {
            return json_schema!({ "type": "string" });
        }
        json_schema!({ "type": "string", "enum": T::CHOICES })
    }
}

impl FromText for SocketAddr {
    const EXPECTED: &'static str = "an address with port, such as \"127.0.0.1:53\" or \"[::1]:53\"";

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        address_with_port(text, 53)
    }
}

/// Returns a listening address. An address without a port is a fault, with `usual` in its message.
pub(super) fn address_with_port(
    text: &str,
    usual: u16,
) -> Result<SocketAddr, Option<SettingError>> {
    let WrittenAddress { mut addr, has_port } =
        WrittenAddress::read(text, interface_index).ok_or(None)?;
    if has_port && addr.port() != 0 {
        return Ok(addr);
    }
    addr.set_port(usual);
    if has_port {
        return Err(Some(SettingError::PortZero { text: text.to_owned(), usual: addr }));
    }
    Err(Some(SettingError::NoPort { text: text.to_owned(), usual: addr }))
}

impl FromText for IpAddr {
    const EXPECTED: &'static str = "an address such as \"192.0.2.1\" or \"2001:db8::1\"";

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        text.parse().map_err(|_| None)
    }
}

/// An item of `allow`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Allowed {
    /// Private networks and the networks of the host's own interfaces.
    Local,
    /// A network.
    Network(IpNet),
}

impl FromText for Allowed {
    const EXPECTED: &'static str =
        "\"local\", a network such as \"192.168.0.0/16\", or one address such as \"fd00::1\"";

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        if text == "local" { Ok(Self::Local) } else { IpNet::from_text(text).map(Self::Network) }
    }
}

impl FromText for IpNet {
    const EXPECTED: &'static str =
        "a network such as \"192.168.0.0/16\", or one address such as \"fd00::1\"";

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(address.into());
        }
        let network: Self = text.parse().map_err(|_| None)?;
        if network.addr() != network.network() {
            return Err(Some(SettingError::InsideNetwork { text: text.to_owned(), network }));
        }
        Ok(network)
    }
}
