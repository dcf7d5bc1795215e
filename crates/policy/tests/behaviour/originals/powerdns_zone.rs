//! The example of a policy zone from PowerDNS Recursor, `pdns/basic.rpz` at commit 0b7c9fa7.

use crate::originals::zones::Of::{Answer, Client, Name, Servers};
use crate::originals::zones::{check, read};

const ZONE: &str = "\
$TTL 2h;
$ORIGIN domain.example.com.
@               SOA powerdns.example.net. hostmaster.example.com ( 1 12h 15m 3w 2h)
                NS powerdns.example.net.  \n\
; begin RPZ RR definitions

;; QNAME Trigger
nxdomain.org        CNAME .
*.nxdomain.org      CNAME .
mail.nxdomain.org        CNAME rpz-passthru.
example.net        CNAME rpz-drop.
*.example.net      CNAME rpz-drop.
truncate.org        CNAME rpz-tcp-only.
*.truncate.org      CNAME rpz-tcp-only.
local.org        CNAME explanation.example.com.
*.local.org      CNAME explanation.example.com.
local-a.org        A 192.168.2.5
*.local-a.org      A 192.168.2.5
24.0.0.0.127.rpz-client-ip CNAME rpz-drop.
32.1.0.0.10.rpz-client-ip CNAME rpz-tcp-only.
32.2.0.0.10.rpz-ip CNAME .
dns-eu1.powerdns.net.rpz-nsdname CNAME .
*.powerdns.net.rpz-nsdname   CNAME .
*.gtld-servers.net.rpz-nsdname CNAME rpz-tcp-only.
";

#[test]
fn the_zone_does_what_its_comments_say() {
    check(
        &read(ZONE),
        &[
            (Name("nxdomain.org"), "nxdomain"),
            (Name("www.nxdomain.org"), "nxdomain"),
            (Name("mail.nxdomain.org"), "passthru"),
            (Name("example.net"), "drop"),
            (Name("a.b.example.net"), "drop"),
            (Name("truncate.org"), "tcp-only"),
            (Name("a.truncate.org"), "tcp-only"),
            (Name("local.org"), "alias explanation.example.com."),
            (Name("a.local.org"), "alias explanation.example.com."),
            (Name("local-a.org"), "A 192.168.2.5"),
            (Name("x.local-a.org"), "A 192.168.2.5"),
            (Client("127.0.0.9"), "drop"),
            (Client("10.0.0.1"), "tcp-only"),
            (Client("10.0.0.2"), "-"),
            (Answer(&["10.0.0.2"]), "nxdomain"),
            (Servers(&["dns-eu1.powerdns.net"]), "nxdomain"),
            (Servers(&["dns-us1.powerdns.net"]), "nxdomain"),
            (Servers(&["a.gtld-servers.net"]), "tcp-only"),
            // The exact name takes precedence over the wildcard of the others.
            (Servers(&["a.gtld-servers.net", "dns-eu1.powerdns.net"]), "nxdomain"),
        ],
    );
}
