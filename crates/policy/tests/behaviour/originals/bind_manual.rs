//! The BIND 9 Administrator Reference Manual, "Response Policy Zone (RPZ) Rewriting":
//! `doc/arm/reference.rst` at commit 000b63ad.
//!
//! According to the manual, the smallest of several matching server names takes precedence. The
//! draft says the last (§5.5), and `named` behaves like the draft.

use crate::originals::zones::Of::{Answer, Client, Name, ServerAddresses, Servers};
use crate::originals::zones::{check, find, read};

/// The manual's zone.
const ZONE: &str = "\
$TTL 1H
$ORIGIN badlist.
@                       SOA LOCALHOST. named-mgr.example.com (1 1h 15m 30d 2h)
                        NS  LOCALHOST.

; QNAME policy records.  There are no periods (.) after the owner names.
nxdomain.domain.com     CNAME   .               ; NXDOMAIN policy
*.nxdomain.domain.com   CNAME   .               ; NXDOMAIN policy
nodata.domain.com       CNAME   *.              ; NODATA policy
*.nodata.domain.com     CNAME   *.              ; NODATA policy
bad.domain.com          A       10.0.0.1        ; redirect to a walled garden
                        AAAA    2001:2::1
bzone.domain.com        CNAME   garden.example.com.
ok.domain.com           CNAME   rpz-passthru.
*.bzone.domain.com      CNAME   *.garden.example.com.
8.0.0.0.127.rpz-ip      CNAME   .
32.1.0.0.127.rpz-ip     CNAME   rpz-passthru.
ns.domain.com.rpz-nsdname   CNAME   .
48.zz.2.2001.rpz-nsip       CNAME   .
112.zz.2001.rpz-client-ip    CNAME   rpz-drop.
8.0.0.0.127.rpz-client-ip    CNAME   rpz-drop.
16.0.0.1.10.rpz-client-ip   CNAME   rpz-tcp-only.
example.com                 CNAME   rpz-tcp-only.
*.example.com               CNAME   rpz-tcp-only.
";

#[test]
fn the_zone_of_the_manual() {
    check(
        &read(ZONE),
        &[
            (Name("nxdomain.domain.com"), "nxdomain"),
            (Name("a.nxdomain.domain.com"), "nxdomain"),
            (Name("nodata.domain.com"), "nodata"),
            (Name("a.b.nodata.domain.com"), "nodata"),
            (Name("bad.domain.com"), "A 10.0.0.1"),
            (Name("a.bad.domain.com"), "-"),
            (Name("bzone.domain.com"), "alias garden.example.com."),
            (Name("x.bzone.domain.com"), "alias x.bzone.domain.com.garden.example.com."),
            (Name("ok.domain.com"), "passthru"),
            (Answer(&["127.0.0.2"]), "nxdomain"),
            (Answer(&["127.0.0.1"]), "passthru"),
            (Servers(&["ns.domain.com"]), "nxdomain"),
            (ServerAddresses(&["2001:2::53"]), "nxdomain"),
            (ServerAddresses(&["2001:2:1::53"]), "-"),
            (Client("2001::1"), "drop"),
            (Client("2001::1:0"), "-"),
            (Client("127.0.0.1"), "drop"),
            (Client("10.1.255.1"), "tcp-only"),
            (Name("example.com"), "tcp-only"),
            (Name("www.example.com"), "tcp-only"),
        ],
    );
}

#[test]
fn the_ttl_is_that_of_the_record_in_the_zone() {
    let zones =
        read("$TTL 1H\n@ SOA a. b. 1 2 3 4 5\na CNAME .\nb 60 A 192.0.2.1\nc 2h CNAME x.\n");
    let ttl = |name| find(&zones, Name(name)).map(|found| found.ttl_secs);
    assert_eq!([ttl("a"), ttl("b"), ttl("c")], [Some(3600), Some(60), Some(7200)]);
}
