//! Zones that BIND accepts: their common start, and the rest of each.

/// SOA and name server of a zone `example`.
pub(crate) const HEAD: &str =
    "$TTL 60\n@ SOA ns host\\.master 1 2h 3m 4w 5\n@ NS ns\nns A 192.0.2.1\n";

/// The rest of valid zones.
pub(crate) const VALID: &[&str] = &[
    "a A 192.0.2.1",
    "a 60 IN A 192.0.2.1\na IN 60 A 192.0.2.2\nb CLASS1 A 192.0.2.1\nc in a 192.0.2.1\n",
    "$ORIGIN sub\na A 192.0.2.1\n$ORIGIN example.\nb A 192.0.2.1\n",
    "$TTL 1h30m\na A 192.0.2.1\n$TTL 2\nb A 192.0.2.1\n",
    "a TXT ( \"one ; two\" ; comment\n \"three (\" )\n",
    "a TXT x;y\nb TXT \"\\\"\" \\\" \\059\n",
    "$GENERATE 1-3 h$ A 192.0.2.$\n$GENERATE 0-30/10 ${0,3,d} CNAME h${1}\n",
    "$GENERATE 1-2 ${0,3,n}.r PTR h$.example.\n",
    "a TYPE65280 \\# 3 000000\nb TYPE1 \\# 4 C0000201\nc A \\# 4 C0000201\n",
    "x.other. A 192.0.2.1\n",
    "a 5 A 192.0.2.1\n",
    "@ MX 1 nope\n@ MX 2 .\na MX 1 al\nal CNAME ns\n",
    "sub NS a.sub\nsub NS nope\n",
    "sub NS ns.sub\nns.sub A 192.0.2.9\nx.sub TXT occluded\n",
    "* TXT x\n*.a MX 1 ns\nb.*.c A 192.0.2.1\n",
    "a DNAME b.\nx.a A 192.0.2.1\n",
    "a DS 1 RSASHA256 2 00000000000000000000000000000000000000000000000000000000000000ff\n",
    "k DNSKEY 257 3 ECDSAP256SHA256 AAAA AAAA\n",
    "_x._tcp SRV 1 2 3 nope\n_y._tcp SRV 0 0 0 .\n",
    "h HTTPS 1 . alpn=\"h2,h3\" port=8443 ipv4hint=192.0.2.1\ns SVCB 0 h\n",
    "c CAA 0 issue \"ca.example; x=y\"\n",
    "l LOC 52 22 23.000 N 4 53 32.000 E -2.00m 0.00m 10000m 10m\n",
    "n NAPTR 100 10 \"u\" \"E2U+sip\" \"!^.*$!sip:a@example!\" .\n",
    "t TLSA 3 1 1 ( 00112233445566778899aabbccddeeff\n 00112233445566778899aabbccddeeff )\n",
    "a_b A 192.0.2.1\n\\097\\.c A 192.0.2.1\n",
    "a A 192.0.2.1\nA a 192.0.2.1\n",
    "\tTXT inherits\n\n   ; nothing\n\tTXT again",
    "u URI 10 1 \"https://example/\"\nr RP . .\ne EUI48 00-11-22-33-44-55\n",
];
