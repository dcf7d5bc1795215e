//! Types for the codes of the protocol: RR types, classes, opcodes, RCODEs and EDE codes.
//!
//! A code without a name here is still valid, so the types are newtypes and not enums. Source: the
//! IANA registry "Domain Name System (DNS) Parameters".

use std::fmt;

/// An RR type or QTYPE (RFC 1035 §3.2.2, RFC 6895).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Rtype(pub u16);

#[allow(missing_docs)] // names as in the registry
impl Rtype {
    pub const A: Self = Self(1);
    pub const NS: Self = Self(2);
    pub const CNAME: Self = Self(5);
    pub const SOA: Self = Self(6);
    pub const PTR: Self = Self(12);
    pub const HINFO: Self = Self(13);
    pub const MX: Self = Self(15);
    pub const TXT: Self = Self(16);
    pub const AAAA: Self = Self(28);
    pub const DNAME: Self = Self(39);
    pub const OPT: Self = Self(41);
    pub const DS: Self = Self(43);
    pub const RRSIG: Self = Self(46);
    pub const NSEC: Self = Self(47);
    pub const DNSKEY: Self = Self(48);
    pub const NSEC3: Self = Self(50);
    pub const NSEC3PARAM: Self = Self(51);
    pub const SVCB: Self = Self(64);
    pub const HTTPS: Self = Self(65);
    pub const TKEY: Self = Self(249);
    pub const TSIG: Self = Self(250);
    pub const IXFR: Self = Self(251);
    pub const AXFR: Self = Self(252);
    pub const MAILB: Self = Self(253);
    pub const MAILA: Self = Self(254);
    pub const ANY: Self = Self(255);
    pub const ALIAS: Self = Self(65401);

    /// Reports whether the type can be asked for but never stored: OPT and the range 128-255 (RFC
    /// 6895 §3.1).
    #[must_use]
    pub const fn is_meta(self) -> bool {
        self.0 == 41 || (self.0 >= 128 && self.0 <= 255)
    }

    /// Reports whether records of the type only prove other data (DNSSEC). Such records are served
    /// if DO is set or the type is asked for explicitly.
    #[must_use]
    pub const fn is_dnssec_proof(self) -> bool {
        matches!(self.0, 46 | 47 | 50)
    }
}

/// A class or QCLASS (RFC 1035 §3.2.4).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Class(pub u16);

#[allow(missing_docs)] // names as in the registry
impl Class {
    pub const IN: Self = Self(1);
    pub const CH: Self = Self(3);
    pub const HS: Self = Self(4);
    pub const NONE: Self = Self(254);
    pub const ANY: Self = Self(255);
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            1 => f.write_str("IN"),
            3 => f.write_str("CH"),
            4 => f.write_str("HS"),
            254 => f.write_str("NONE"),
            255 => f.write_str("ANY"),
            other => write!(f, "CLASS{other}"),
        }
    }
}

/// An OPCODE, four bits (RFC 1035 §4.1.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opcode(pub u8);

#[allow(missing_docs)] // names as in the registry
impl Opcode {
    pub const QUERY: Self = Self(0);
    pub const NOTIFY: Self = Self(4);
    pub const UPDATE: Self = Self(5);
}

/// An RCODE of up to twelve bits: four in the header, eight in OPT (RFC 6891 §6.1.3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Rcode(pub u16);

#[allow(missing_docs)] // names as in the registry
impl Rcode {
    pub const NOERROR: Self = Self(0);
    pub const FORMERR: Self = Self(1);
    pub const SERVFAIL: Self = Self(2);
    pub const NXDOMAIN: Self = Self(3);
    pub const NOTIMP: Self = Self(4);
    pub const REFUSED: Self = Self(5);
    pub const YXDOMAIN: Self = Self(6);
    pub const YXRRSET: Self = Self(7);
    pub const NXRRSET: Self = Self(8);
    pub const NOTAUTH: Self = Self(9);
    pub const NOTZONE: Self = Self(10);
    pub const BADVERS: Self = Self(16);
    pub const BADCOOKIE: Self = Self(23);

    /// Returns the four bits that the header carries.
    #[must_use]
    pub const fn low(self) -> u16 {
        self.0 & 0xf
    }

    /// Returns the eight bits that OPT carries.
    #[must_use]
    pub const fn high(self) -> u8 {
        (self.0 >> 4) as u8
    }
}

/// Mnemonics of the RCODEs 0 to 23. Empty strings are unassigned.
const RCODES: [&str; 24] = [
    "NOERROR",
    "FORMERR",
    "SERVFAIL",
    "NXDOMAIN",
    "NOTIMP",
    "REFUSED",
    "YXDOMAIN",
    "YXRRSET",
    "NXRRSET",
    "NOTAUTH",
    "NOTZONE",
    "DSOTYPENI",
    "",
    "",
    "",
    "",
    "BADVERS",
    "BADKEY",
    "BADTIME",
    "BADMODE",
    "BADNAME",
    "BADALG",
    "BADTRUNC",
    "BADCOOKIE",
];

impl fmt::Display for Rcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match RCODES.get(usize::from(self.0)) {
            Some(name) if !name.is_empty() => f.write_str(name),
            _ => write!(f, "RCODE{}", self.0),
        }
    }
}

/// The INFO-CODE of an extended DNS error (RFC 8914 §4 and the IANA registry).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ede(pub u16);

#[allow(missing_docs)] // names as in the registry
impl Ede {
    pub const OTHER: Self = Self(0);
    pub const UNSUPPORTED_DNSKEY_ALGORITHM: Self = Self(1);
    pub const UNSUPPORTED_DS_DIGEST_TYPE: Self = Self(2);
    pub const STALE_ANSWER: Self = Self(3);
    pub const FORGED_ANSWER: Self = Self(4);
    pub const DNSSEC_INDETERMINATE: Self = Self(5);
    pub const DNSSEC_BOGUS: Self = Self(6);
    pub const SIGNATURE_EXPIRED: Self = Self(7);
    pub const SIGNATURE_NOT_YET_VALID: Self = Self(8);
    pub const DNSKEY_MISSING: Self = Self(9);
    pub const RRSIGS_MISSING: Self = Self(10);
    pub const NO_ZONE_KEY_BIT_SET: Self = Self(11);
    pub const NSEC_MISSING: Self = Self(12);
    pub const CACHED_ERROR: Self = Self(13);
    pub const NOT_READY: Self = Self(14);
    pub const BLOCKED: Self = Self(15);
    pub const FILTERED: Self = Self(17);
    pub const PROHIBITED: Self = Self(18);
    pub const STALE_NXDOMAIN: Self = Self(19);
    pub const NOT_AUTHORITATIVE: Self = Self(20);
    pub const NOT_SUPPORTED: Self = Self(21);
    pub const NO_REACHABLE_AUTHORITY: Self = Self(22);
    pub const NETWORK_ERROR: Self = Self(23);
    pub const INVALID_DATA: Self = Self(24);
    pub const SIGNATURE_EXPIRED_BEFORE_VALID: Self = Self(25);
    pub const TOO_EARLY: Self = Self(26);
    pub const UNSUPPORTED_NSEC3_ITERATIONS: Self = Self(27);
    pub const SYNTHESIZED: Self = Self(29);

    /// Returns the registry's purpose text for this code.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        EDE_MEANINGS.get(usize::from(self.0)).copied().unwrap_or("Unassigned")
    }
}

const EDE_MEANINGS: [&str; 31] = [
    "Other",
    "Unsupported DNSKEY Algorithm",
    "Unsupported DS Digest Type",
    "Stale Answer",
    "Forged Answer",
    "DNSSEC Indeterminate",
    "DNSSEC Bogus",
    "Signature Expired",
    "Signature Not Yet Valid",
    "DNSKEY Missing",
    "RRSIGs Missing",
    "No Zone Key Bit Set",
    "NSEC Missing",
    "Cached Error",
    "Not Ready",
    "Blocked",
    "Censored",
    "Filtered",
    "Prohibited",
    "Stale NXDOMAIN Answer",
    "Not Authoritative",
    "Not Supported",
    "No Reachable Authority",
    "Network Error",
    "Invalid Data",
    "Signature Expired before Valid",
    "Too Early",
    "Unsupported NSEC3 Iterations Value",
    "Unable to conform to policy",
    "Synthesized",
    "Invalid Query Type",
];
