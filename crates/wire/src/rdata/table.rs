//! The RR types of the IANA registry and the fields of their data.
//!
//! Each type has one row: mnemonic, code and fields. A row without fields means opaque data, whose
//! only text form is `\#` (RFC 3597 §5).

/// A field of record data. "Last" means that the field extends to the end of the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Field {
    U8,
    U16,
    U32,
    U48,
    U64,
    /// Seconds, which text may give with units, as in `1h30m`.
    Ttl,
    /// Seconds since 1970 modulo 2^32, written as YYYYMMDDHHmmSS (RFC 4034 §3.2).
    Timestamp,
    /// An RR type as a mnemonic.
    Rtype,
    /// A DNSSEC algorithm, parsed as a mnemonic or number and written as a number.
    Algorithm,
    /// Like [`Field::Algorithm`], but written as a mnemonic if there is one (RFC 4398 §2.2).
    CertAlgorithm,
    CertType,
    /// The error field of TSIG and TKEY, written as a mnemonic if there is one.
    TsigError,
    DsyncScheme,
    Ipv4,
    Ipv6,
    /// An uncompressed name.
    Name,
    /// Any number of names.
    Names,
    CharString,
    /// Last: a character-string or nothing (the subaddress of ISDN).
    OptionalCharString,
    /// Last: one or more character-strings.
    CharStrings,
    /// The property tag of CAA: a character-string of letters and digits, never quoted.
    CaaTag,
    /// Last: any octets as one quoted string, which may be longer than 255.
    Text,
    /// Like [`Field::Text`], but not empty.
    NonEmptyText,
    /// Last: at least one octet in base64, with optional white space.
    Base64,
    /// Last: base64 or nothing.
    OptionalBase64,
    /// Last: base64, or `-` if empty.
    Base64OrDash,
    /// A 16-bit length, written out, and that many octets in base64.
    CountedBase64,
    /// Last: at least one octet in hexadecimal, with optional white space.
    Hex,
    /// Last: like [`Field::Hex`], with at least twelve octets (RFC 8976 §2.2.4).
    ZonemdDigest,
    /// The salt of NSEC3: an 8-bit length, which the text omits, and that many octets in
    /// hexadecimal. The text of an empty salt is `-`.
    Salt,
    /// The hash of NSEC3: an 8-bit length, which the text omits, and that many octets in unpadded
    /// base32hex.
    Hash,
    /// Last: a bit map of the types that exist at a name (RFC 4034 §4.1.2).
    TypeBitmap,
    /// Last: the type bit map of NXT (RFC 2535 §5.2).
    NxtBitmap,
    /// Last: the protocol and the port bit map of WKS (RFC 1035 §3.4.2).
    Services,
    SvcParams,
    AddressPrefixes,
    Location,
    /// Last: octets in hexadecimal after `0x` (RFC 1706).
    Nsap,
    Eui48,
    Eui64,
    /// Four groups of four hexadecimal digits (RFC 6742).
    Locator64,
    /// Gateway type, algorithm and gateway of IPSECKEY (RFC 4025 §2).
    IpsecGateway,
    /// Discovery bit, relay type and relay of AMTRELAY (RFC 8777 §4).
    AmtRelay,
    /// All fields of A6 (RFC 2874 §3).
    A6,
    /// Algorithm, HIT and public key of HIP (RFC 8005 §5).
    HostIdentity,
}

impl Field {
    /// Returns the expected content of the field, for error messages.
    pub(super) const fn describe(self) -> &'static str {
        match self {
            Self::U8 => "8-bit number",
            Self::U16 => "16-bit number",
            Self::U32 => "32-bit number",
            Self::U48 => "48-bit number",
            Self::U64 => "64-bit number",
            Self::Ttl => "time in seconds",
            Self::Timestamp => "date and time",
            Self::Rtype => "RR type",
            Self::Algorithm | Self::CertAlgorithm => "DNSSEC algorithm",
            Self::CertType => "certificate type",
            Self::TsigError => "TSIG error",
            Self::DsyncScheme => "DSYNC scheme",
            Self::Ipv4 => "IPv4 address",
            Self::Ipv6 => "IPv6 address",
            Self::Name => "domain name",
            Self::Names => "domain names",
            Self::CharString | Self::OptionalCharString => "character-string",
            Self::CharStrings => "character-strings",
            Self::CaaTag => "property tag",
            Self::Text | Self::NonEmptyText => "quoted text",
            Self::Base64 | Self::OptionalBase64 | Self::Base64OrDash => "base64 data",
            Self::CountedBase64 => "length and base64 data",
            Self::Hex => "hexadecimal data",
            Self::ZonemdDigest => "hexadecimal digest of 12 octets or more",
            Self::Salt => "hexadecimal salt or '-'",
            Self::Hash => "base32hex hash",
            Self::TypeBitmap | Self::NxtBitmap => "list of RR types",
            Self::Services => "protocol and ports",
            Self::SvcParams => "service parameters",
            Self::AddressPrefixes => "address prefixes",
            Self::Location => "location",
            Self::Nsap => "NSAP address",
            Self::Eui48 => "EUI-48 address",
            Self::Eui64 => "EUI-64 address",
            Self::Locator64 => "64-bit identifier",
            Self::IpsecGateway => "gateway",
            Self::AmtRelay => "relay",
            Self::A6 => "IPv6 address suffix and prefix name",
            Self::HostIdentity => "host identity",
        }
    }

    /// Returns the width in octets of a field that has a fixed width.
    pub(super) const fn width(self) -> Option<u8> {
        match self {
            Self::U8 | Self::Algorithm | Self::CertAlgorithm | Self::DsyncScheme => Some(1),
            Self::U16 | Self::Rtype | Self::CertType | Self::TsigError => Some(2),
            Self::U32 | Self::Ttl | Self::Timestamp | Self::Ipv4 => Some(4),
            Self::U48 | Self::Eui48 => Some(6),
            Self::U64 | Self::Eui64 | Self::Locator64 => Some(8),
            Self::Ipv6 => Some(16),
            _ => None,
        }
    }
}

/// In which messages the names in the data of a type may be compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Compression {
    /// Never: a pointer is an error.
    Never,
    /// Only in received messages (RFC 3597 §4).
    Received,
    /// In received and in sent messages, as for the types of RFC 1035.
    Both,
}

/// The location of the names in the data of a type: they are consecutive and follow a fixed number
/// of octets.
///
/// No further name follows them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NameLayout {
    /// Number of octets before the names. Character-strings are counted separately.
    pub prefix: u8,
    /// Number of character-strings between the prefix and the names (NAPTR has three). Always 0 in
    /// the result of [`compressible_names`](super::compressible_names).
    pub(super) strings: u8,
    /// The number of names.
    pub names: u8,
}

impl NameLayout {
    /// Data without names, or with names that must stay unchanged.
    pub const NONE: Self = Self { prefix: 0, strings: 0, names: 0 };

    /// Returns the layout of data with these fields.
    pub(super) const fn of(fields: &[Field]) -> Self {
        let mut layout = Self::NONE;
        let mut at = 0;
        while at < fields.len() {
            match (fields[at], fields[at].width()) {
                (Name, _) => layout.names += 1,
                _ if layout.names > 0 => return layout,
                (CharString, _) => layout.strings += 1,
                (_, Some(width)) => layout.prefix += width,
                (_, None) => return Self::NONE,
            }
            at += 1;
        }
        if layout.names > 0 { layout } else { Self::NONE }
    }
}

/// A row of the table.
pub(super) struct RecordType {
    pub(super) number: u16,
    pub(super) mnemonic: &'static str,
    /// The fields, empty for opaque data.
    pub(super) fields: &'static [Field],
    pub(super) compression: Compression,
    /// Whether the canonical form writes the names in lower case (RFC 4034 §6.2 with RFC 6840 §5.1,
    /// which exempts NSEC).
    pub(super) folded: bool,
    /// The location of the names.
    pub(super) names: NameLayout,
}

impl RecordType {
    /// Marks the names as compressed in both directions and written in lower case in the canonical
    /// form, as in the types of RFC 1035.
    const fn basic(mut self) -> Self {
        self.compression = Compression::Both;
        self.folded = true;
        self
    }

    /// Marks the names as compressed only in received messages, because old servers compressed
    /// them, and written in lower case in the canonical form.
    const fn received(mut self) -> Self {
        self.compression = Compression::Received;
        self.folded = true;
        self
    }

    /// Marks the names as written in lower case in the canonical form, but never compressed.
    const fn folded(mut self) -> Self {
        self.folded = true;
        self
    }
}

const fn row(number: u16, mnemonic: &'static str, fields: &'static [Field]) -> RecordType {
    RecordType {
        number,
        mnemonic,
        fields,
        compression: Compression::Never,
        folded: false,
        names: NameLayout::of(fields),
    }
}

use Field::*;

const KEY_FIELDS: &[Field] = &[U16, U8, Algorithm, OptionalBase64];
const DNSKEY_FIELDS: &[Field] = &[U16, U8, Algorithm, Base64];
const DS_FIELDS: &[Field] = &[U16, Algorithm, U8, Hex];
const SIG_FIELDS: &[Field] = &[Rtype, Algorithm, U8, U32, Timestamp, Timestamp, U16, Name, Base64];
const TLSA_FIELDS: &[Field] = &[U8, U8, U8, Hex];
const SVCB_FIELDS: &[Field] = &[U16, Name, SvcParams];
const OPAQUE: &[Field] = &[];

/// The registry, sorted by code.
pub(super) const TYPES: &[RecordType] = &[
    row(1, "A", &[Ipv4]),
    row(2, "NS", &[Name]).basic(),
    row(3, "MD", &[Name]).basic(),
    row(4, "MF", &[Name]).basic(),
    row(5, "CNAME", &[Name]).basic(),
    row(6, "SOA", &[Name, Name, U32, Ttl, Ttl, Ttl, Ttl]).basic(),
    row(7, "MB", &[Name]).basic(),
    row(8, "MG", &[Name]).basic(),
    row(9, "MR", &[Name]).basic(),
    row(10, "NULL", OPAQUE),
    row(11, "WKS", &[Ipv4, Services]),
    row(12, "PTR", &[Name]).basic(),
    row(13, "HINFO", &[CharString, CharString]),
    row(14, "MINFO", &[Name, Name]).basic(),
    row(15, "MX", &[U16, Name]).basic(),
    row(16, "TXT", &[CharStrings]),
    row(17, "RP", &[Name, Name]).received(),
    row(18, "AFSDB", &[U16, Name]).received(),
    row(19, "X25", &[CharString]),
    row(20, "ISDN", &[CharString, OptionalCharString]),
    row(21, "RT", &[U16, Name]).received(),
    row(22, "NSAP", &[Nsap]),
    row(23, "NSAP-PTR", &[Name]),
    row(24, "SIG", SIG_FIELDS).received(),
    row(25, "KEY", KEY_FIELDS),
    row(26, "PX", &[U16, Name, Name]).received(),
    row(27, "GPOS", &[CharString, CharString, CharString]),
    row(28, "AAAA", &[Ipv6]),
    row(29, "LOC", &[Location]),
    row(30, "NXT", &[Name, NxtBitmap]).received(),
    row(31, "EID", &[Hex]),
    row(32, "NIMLOC", &[Hex]),
    row(33, "SRV", &[U16, U16, U16, Name]).received(),
    row(34, "ATMA", OPAQUE),
    row(35, "NAPTR", &[U16, U16, CharString, CharString, CharString, Name]).received(),
    row(36, "KX", &[U16, Name]).folded(),
    row(37, "CERT", &[CertType, U16, CertAlgorithm, Base64]),
    row(38, "A6", &[A6]).folded(),
    row(39, "DNAME", &[Name]).folded(),
    row(40, "SINK", OPAQUE),
    row(41, "OPT", OPAQUE),
    row(42, "APL", &[AddressPrefixes]),
    row(43, "DS", DS_FIELDS),
    row(44, "SSHFP", &[U8, U8, Hex]),
    row(45, "IPSECKEY", &[U8, IpsecGateway, OptionalBase64]),
    row(46, "RRSIG", SIG_FIELDS).folded(),
    row(47, "NSEC", &[Name, TypeBitmap]),
    row(48, "DNSKEY", DNSKEY_FIELDS),
    row(49, "DHCID", &[Base64]),
    row(50, "NSEC3", &[U8, U8, U16, Salt, Hash, TypeBitmap]),
    row(51, "NSEC3PARAM", &[U8, U8, U16, Salt]),
    row(52, "TLSA", TLSA_FIELDS),
    row(53, "SMIMEA", TLSA_FIELDS),
    row(55, "HIP", &[HostIdentity, Names]),
    row(56, "NINFO", &[CharStrings]),
    row(57, "RKEY", KEY_FIELDS),
    row(58, "TALINK", &[Name, Name]),
    row(59, "CDS", DS_FIELDS),
    row(60, "CDNSKEY", DNSKEY_FIELDS),
    row(61, "OPENPGPKEY", &[Base64]),
    row(62, "CSYNC", &[U32, U16, TypeBitmap]),
    row(63, "ZONEMD", &[U32, U8, U8, ZonemdDigest]),
    row(64, "SVCB", SVCB_FIELDS),
    row(65, "HTTPS", SVCB_FIELDS),
    row(66, "DSYNC", &[Rtype, DsyncScheme, U16, Name]),
    row(67, "HHIT", &[Base64]),
    row(68, "BRID", &[Base64]),
    row(99, "SPF", &[CharStrings]),
    row(100, "UINFO", OPAQUE),
    row(101, "UID", OPAQUE),
    row(102, "GID", OPAQUE),
    row(103, "UNSPEC", OPAQUE),
    row(104, "NID", &[U16, Locator64]),
    row(105, "L32", &[U16, Ipv4]),
    row(106, "L64", &[U16, Locator64]),
    row(107, "LP", &[U16, Name]),
    row(108, "EUI48", &[Eui48]),
    row(109, "EUI64", &[Eui64]),
    row(128, "NXNAME", OPAQUE),
    row(249, "TKEY", &[Name, U32, U32, U16, TsigError, CountedBase64, CountedBase64]),
    row(250, "TSIG", &[Name, U48, U16, CountedBase64, U16, TsigError, CountedBase64]),
    row(251, "IXFR", OPAQUE),
    row(252, "AXFR", OPAQUE),
    row(253, "MAILB", OPAQUE),
    row(254, "MAILA", OPAQUE),
    row(255, "ANY", OPAQUE),
    row(256, "URI", &[U16, U16, NonEmptyText]),
    row(257, "CAA", &[U8, CaaTag, Text]),
    row(258, "AVC", &[CharStrings]),
    row(259, "DOA", &[U32, U32, U8, CharString, Base64OrDash]),
    row(260, "AMTRELAY", &[U8, AmtRelay]),
    row(261, "RESINFO", &[CharStrings]),
    row(262, "WALLET", &[CharStrings]),
    row(263, "CLA", &[CharStrings]),
    row(264, "IPN", &[U64]),
    row(32768, "TA", DS_FIELDS),
    row(32769, "DLV", DS_FIELDS),
    // A type in the range for private use, with the code that PowerDNS uses.
    row(65401, "ALIAS", &[Name]),
];

/// Returns the row of a type, if the registry has one.
pub(super) fn find(rtype: u16) -> Option<&'static RecordType> {
    TYPES.binary_search_by_key(&rtype, |row| row.number).ok().map(|index| &TYPES[index])
}

/// Returns the mnemonic of a type, if the registry has one. Any type may also be written as
/// `TYPE`*number*.
#[must_use]
pub fn mnemonic(rtype: u16) -> Option<&'static str> {
    find(rtype).map(|row| row.mnemonic)
}

/// Parses a mnemonic, `TYPE`*number* (RFC 3597 §5) or `*`, ignoring case.
#[must_use]
pub fn from_mnemonic(text: &str) -> Option<u16> {
    if let Some(row) = TYPES.iter().find(|row| row.mnemonic.eq_ignore_ascii_case(text)) {
        return Some(row.number);
    }
    if text == "*" {
        return Some(255);
    }
    let (prefix, digits) = text.split_at_checked(4)?;
    if !prefix.eq_ignore_ascii_case("TYPE") || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_ascending_order_and_mnemonics_unique() {
        assert!(TYPES.windows(2).all(|pair| pair[0].number < pair[1].number));
        for row in TYPES {
            assert_eq!(from_mnemonic(row.mnemonic), Some(row.number), "{}", row.mnemonic);
            assert_eq!(mnemonic(row.number), Some(row.mnemonic));
        }
    }

    #[test]
    fn generic_mnemonics_are_read_in_any_case() {
        assert_eq!(from_mnemonic("type731"), Some(731));
        assert_eq!(from_mnemonic("TYPE1"), Some(1));
        assert_eq!(from_mnemonic("aaaa"), Some(28));
        assert_eq!(from_mnemonic("*"), Some(255));
        for bad in ["", "TYPE", "TYPE65536", "TYPE+1", "TYPE-1", "TYP1", "BOGUS", "Aé€x"] {
            assert_eq!(from_mnemonic(bad), None, "{bad}");
        }
    }
}
