//! Mnemonics of codes in record data, from the IANA registries.

use super::Problem;

/// Pairs of code and name. If a code has two names, both are parsed and the first is written.
pub(super) type Mnemonics = &'static [(u16, &'static str)];

/// DNSSEC algorithms (IANA "DNS Security Algorithm Numbers").
pub(super) const ALGORITHMS: Mnemonics = &[
    (1, "RSAMD5"),
    (2, "DH"),
    (3, "DSA"),
    (4, "ECC"),
    (5, "RSASHA1"),
    (6, "NSEC3DSA"),
    (6, "DSA-NSEC3-SHA1"),
    (7, "NSEC3RSASHA1"),
    (7, "RSASHA1-NSEC3-SHA1"),
    (8, "RSASHA256"),
    (10, "RSASHA512"),
    (12, "ECCGOST"),
    (12, "ECC-GOST"),
    (13, "ECDSAP256SHA256"),
    (14, "ECDSAP384SHA384"),
    (15, "ED25519"),
    (16, "ED448"),
    (17, "SM2SM3"),
    (23, "ECC-GOST12"),
    (252, "INDIRECT"),
    (253, "PRIVATEDNS"),
    (254, "PRIVATEOID"),
];

/// Certificate types (RFC 4398 §2.1).
pub(super) const CERT_TYPES: Mnemonics = &[
    (1, "PKIX"),
    (2, "SPKI"),
    (3, "PGP"),
    (4, "IPKIX"),
    (5, "ISPKI"),
    (6, "IPGP"),
    (7, "ACPKIX"),
    (8, "IACPKIX"),
    (253, "URI"),
    (254, "OID"),
];

/// Errors in TSIG and TKEY: RCODEs, and codes that only these fields use (RFC 8945 §3).
pub(super) const TSIG_ERRORS: Mnemonics = &[
    (0, "NOERROR"),
    (1, "FORMERR"),
    (2, "SERVFAIL"),
    (3, "NXDOMAIN"),
    (4, "NOTIMP"),
    (5, "REFUSED"),
    (6, "YXDOMAIN"),
    (7, "YXRRSET"),
    (8, "NXRRSET"),
    (9, "NOTAUTH"),
    (10, "NOTZONE"),
    (16, "BADSIG"),
    (17, "BADKEY"),
    (18, "BADTIME"),
    (19, "BADMODE"),
    (20, "BADNAME"),
    (21, "BADALG"),
    (22, "BADTRUNC"),
];

/// Schemes of DSYNC (RFC 9859 §6.2).
pub(super) const DSYNC_SCHEMES: Mnemonics = &[(1, "NOTIFY")];

/// Internet protocols of WKS.
pub(super) const PROTOCOLS: Mnemonics = &[(1, "icmp"), (6, "tcp"), (17, "udp")];

/// WKS ports with names in actual use. All others are written as numbers.
pub(super) const SERVICES: Mnemonics = &[
    (7, "echo"),
    (9, "discard"),
    (13, "daytime"),
    (20, "ftp-data"),
    (21, "ftp"),
    (22, "ssh"),
    (23, "telnet"),
    (25, "smtp"),
    (37, "time"),
    (42, "nameserver"),
    (43, "whois"),
    (53, "domain"),
    (69, "tftp"),
    (70, "gopher"),
    (79, "finger"),
    (80, "http"),
    (110, "pop3"),
    (111, "sunrpc"),
    (113, "auth"),
    (119, "nntp"),
    (123, "ntp"),
    (143, "imap"),
    (161, "snmp"),
    (443, "https"),
];

/// Returns the name of a code.
pub(super) fn name_of(number: u16, table: Mnemonics) -> Option<&'static str> {
    table.iter().find(|(value, _)| *value == number).map(|(_, name)| *name)
}

/// Parses a name, ignoring case, or decimal digits.
pub(super) fn number_of(token: &[u8], table: Mnemonics, max: u16) -> Result<u16, Problem> {
    if let Some((value, _)) =
        table.iter().find(|(_, name)| token.eq_ignore_ascii_case(name.as_bytes()))
    {
        return Ok(*value);
    }
    let number = super::input::number(token, u64::from(max)).map(|value| value as u16);
    number.map_err(|_| Problem::Rule("neither a known name nor a number in range"))
}
