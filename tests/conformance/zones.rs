//! The zones that peers serve for comparison.

use std::process::Command;

use crate::harness::Directory;
use crate::harness::peers::{self, Zone};

/// The apex of the zone with all types.
pub(crate) const APEX: &str = "equal.example.";
/// The apex of the zone that chains lead to.
pub(crate) const OTHER: &str = "other.example.";

/// Types with the data of one record each. SOA, NS, CNAME and DNAME are elsewhere in the zone.
pub(crate) const TYPES: &[(&str, &str)] = &[
    ("A", "192.0.2.1"),
    ("PTR", "target.equal.example."),
    ("HINFO", "\"AMD64\" \"Linux 6.1\""),
    ("MX", "10 mail.equal.example."),
    ("TXT", "\"one\" \"two words\" \"\""),
    ("RP", "admin.equal.example. text.equal.example."),
    ("AFSDB", "1 afs.equal.example."),
    ("AAAA", "2001:db8::1"),
    ("LOC", "52 22 23.000 N 4 53 32.000 E -2.00m 0.00m 10000m 10m"),
    ("SRV", "10 60 5060 sip.equal.example."),
    ("NAPTR", "100 10 \"U\" \"E2U+sip\" \"!^.*$!sip:info@example.com!\" ."),
    ("KX", "10 kx.equal.example."),
    ("CERT", "1 12345 8 AAECAwQFBgc="),
    ("APL", "1:192.0.2.0/24 !2:2001:db8::/32"),
    ("DS", "60485 5 1 2BB183AF5F22588179A53B0A98631FAD1A292118"),
    ("SSHFP", "4 2 123456789ABCDEF67890123456789ABCDEF67890123456789ABCDEF123456789"),
    ("IPSECKEY", "10 1 2 192.0.2.38 AQNRU3mG7TVTO2BkR47usntb102uFJtugbo6BSGvgqt4AQ=="),
    (
        "RRSIG",
        "A 8 3 3600 20300101000000 20200101000000 12345 equal.example. AAECAwQFBgcICQoLDA0ODw==",
    ),
    ("NSEC", "zz.equal.example. A RRSIG NSEC"),
    (
        "DNSKEY",
        "256 3 8 AwEAAcNEU67LJI5GEgF9QLNqLO1SMq1EdoQ6E9f85ha0k0ewQGCblyW2836GiVsm6k8Kr5ECIoMJ6fZWf3CQSQ9ycWfTyOHfmI3eQ/1Covhb2y4bAmL/07PhrL7ozWBW3wBfM335Ft9xjtXHPy7ztCbV9qZ4TVDTW/Iyg0PiwgoXVesz",
    ),
    ("DHCID", "AAIBY2/AuCccgoJbsaxcQc9TUapptP69lOjxfNuVAA2kjEA="),
    ("NSEC3PARAM", "1 0 0 -"),
    ("TLSA", "3 1 1 0C72AC70B745AC19998811B131D662C9AC69DBDBE7CB23E5B514B56664C5D3D6"),
    ("SMIMEA", "3 1 1 0C72AC70B745AC19998811B131D662C9AC69DBDBE7CB23E5B514B56664C5D3D6"),
    (
        "HIP",
        "2 200100107B1A74DF365639CC39F1D578 AwEAAbdxyhNuSutc5EMzxTs9LBPCIkOFH8cIvM4p9+LrV4e19WzK00+CI6zBCQTdtWsuxKbWIy87UOoJTwkUs7lBu+Upr1gsNrut79ryra+bSRGQb1slImA8YVJyuIDsj7kwzG7jnERNqnWxZ48AWkskmdHaVDP4BcelrTI3rMXdXF5D rvs.equal.example.",
    ),
    ("CDS", "60485 5 1 2BB183AF5F22588179A53B0A98631FAD1A292118"),
    (
        "CDNSKEY",
        "257 3 8 AwEAAcNEU67LJI5GEgF9QLNqLO1SMq1EdoQ6E9f85ha0k0ewQGCblyW2836GiVsm6k8Kr5ECIoMJ6fZWf3CQSQ9ycWfTyOHfmI3eQ/1Covhb2y4bAmL/07PhrL7ozWBW3wBfM335Ft9xjtXHPy7ztCbV9qZ4TVDTW/Iyg0PiwgoXVesz",
    ),
    ("OPENPGPKEY", "mQENBFVjvLUBCADE"),
    ("CSYNC", "66 3 A NS AAAA"),
    (
        "ZONEMD",
        "2018031900 1 1 C68090D90A7AED716BC459F9340E3D7C1370D4D24B7E2FC3A1DDC0B9A87153B9A9713B3C9AE5CC27777F98B8E730044C",
    ),
    ("SVCB", "1 svc.equal.example. alpn=\"h2\" port=\"8443\""),
    ("HTTPS", "1 . alpn=\"h2,h3\" ipv4hint=\"192.0.2.1\""),
    ("SPF", "\"v=spf1 -all\""),
    ("NID", "10 0014:4FFF:FF20:EE64"),
    ("L32", "10 10.1.2.0"),
    ("L64", "10 2001:0DB8:1140:1000"),
    ("LP", "10 l64-subnet.equal.example."),
    ("EUI48", "00-00-5E-00-53-2A"),
    ("EUI64", "00-00-5E-EF-10-00-00-2A"),
    ("URI", "10 1 \"https://equal.example/path\""),
    ("CAA", "0 issue \"ca.example; policy=ev\""),
    ("AVC", "\"app-name:WOLFGANG|app-class:OAM\""),
    ("AMTRELAY", "10 0 1 203.0.113.15"),
    ("RESINFO", "\"qnamemin\" \"exterr=15,16,17\""),
    ("WALLET", "\"BTC\" \"bc1qexample\""),
    ("TYPE65400", "\\# 5 0102030405"),
];

/// The owner of the record of a type.
pub(crate) fn owner_of(rtype: &str) -> String {
    format!("{}.{APEX}", rtype.to_ascii_lowercase())
}

/// A zone with everything that forwarding may encounter.
pub(crate) fn everything() -> Zone {
    let mut text = format!("$ORIGIN {APEX}\n$TTL 3600\n{SOA}{CHAINS}");
    for (rtype, data) in TYPES {
        text += &format!("{} {}\n", owner_of(rtype), generic(rtype, data));
    }
    // A DS record is at a delegation.
    text += "ds NS ns.else.example.\n";
    for (name, count) in SIZED {
        for number in 0..*count {
            text += &format!("{name} TXT \"{}\"\n", filler(number, 100));
        }
    }
    // 62 records of four strings: 63,000 octets, which just fit into a TCP message.
    for number in 0..62 {
        let string = filler(number, 250);
        text += &format!("huge TXT \"{string}\" \"{string}\" \"{string}\" \"{string}\"\n");
    }
    Zone { name: APEX.to_owned(), text }
}

/// The zone that chains from the first one lead to.
pub(crate) fn other() -> Zone {
    let text = format!(
        "$ORIGIN {OTHER}\n$TTL 600\n@ SOA ns.else.example. nobody.example. 1 3600 600 86400 300\n@ NS ns.else.example.\n\
         www A 192.0.2.80\nwww A 192.0.2.81\nalias CNAME www\na.tree A 192.0.2.82\n"
    );
    Zone { name: OTHER.to_owned(), text }
}

const SOA: &str = "@ SOA ns.else.example. nobody.example. 1 3600 600 86400 300\n@ NS ns.else.example.\n\
                   @ NS ns2.else.example.\n@ A 192.0.2.9\n@ MX 10 mail\nmail A 192.0.2.10\nmail AAAA 2001:db8::10\n";

const CHAINS: &str = "many A 192.0.2.1\nmany A 192.0.2.2\nmany A 192.0.2.3\nmany A 192.0.2.4\nmany A 192.0.2.5\n\
    *.wild TXT \"any name\"\n*.wild A 192.0.2.20\nknown.wild A 192.0.2.21\n\
    x.empty.deep A 192.0.2.30\n\
    c1 CNAME c2\nc2 CNAME c3\nc3 CNAME many\nnowhere CNAME absent\nnodata CNAME many\n\
    out CNAME www.other.example.\nfar CNAME alias.other.example.\nlost CNAME absent.other.example.\n\
    *.star CNAME many\n\
    tree DNAME branch\na.branch A 192.0.2.40\nb.branch CNAME a.branch\nd2 DNAME tree\n\
    out-tree DNAME tree.other.example.\n\
    CamelCase A 192.0.2.50\n";

/// Names with their number of TXT records of 100 octets: answers around 512, 1,232 and 4,096
/// octets.
pub(crate) const SIZED: &[(&str, u32)] = &[
    ("s4", 4),
    ("s5", 5),
    ("s10", 10),
    ("s11", 11),
    ("s12", 12),
    ("s36", 36),
    ("s37", 37),
    ("s40", 40),
];

fn filler(number: u32, octets: usize) -> String {
    format!("{number:04}{}", "x".repeat(octets - 4))
}

/// The record's type and data in the syntax that every peer reads.
fn generic(rtype: &str, data: &str) -> String {
    let number = crate::harness::rtype(rtype).0;
    let mut rdata = Vec::new();
    avocet_wire::rdata::parse(number, data, &[0], &mut rdata)
        .unwrap_or_else(|error| panic!("{rtype} {data}: {error:?}"));
    if number < 53 {
        return format!("{rtype} {data}");
    }
    let hex: String = rdata.iter().map(|octet| format!("{octet:02x}")).collect();
    format!("TYPE{number} \\# {} {hex}", rdata.len())
}

/// The apex of the signed zone.
pub(crate) const SIGNED: &str = "signed.example.";

/// A zone with signatures and NSEC records, made with BIND's tools; `None` if they are missing.
pub(crate) fn signed() -> Option<Zone> {
    let [keygen, signzone] = ["dnssec-keygen", "dnssec-signzone"];
    if !(peers::is_installed(keygen) && peers::is_installed(signzone)) {
        return None;
    }
    let directory = Directory::create();
    let run = |program: &str, words: &[&str]| {
        let output = Command::new(program)
            .args(words)
            .current_dir(directory.path())
            .output()
            .expect("it runs");
        assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let apex = SIGNED.trim_end_matches('.');
    run(keygen, &["-q", "-a", "ECDSAP256SHA256", "-f", "KSK", apex]);
    run(keygen, &["-q", "-a", "ECDSAP256SHA256", apex]);
    directory.write(
        "zone",
        &format!(
            "$ORIGIN {SIGNED}\n$TTL 3600\n@ SOA ns.else.example. nobody.example. 1 3600 600 86400 300\n@ NS ns.else.example.\n\
             www A 192.0.2.1\nwww A 192.0.2.2\nalias CNAME www\n*.wild A 192.0.2.3\na.empty TXT \"x\"\ntree DNAME branch\n\
             a.branch A 192.0.2.4\n"
        ),
    );
    run(signzone, &["-S", "-o", apex, "-f", "zone.signed", "zone"]);
    Some(Zone { name: SIGNED.to_owned(), text: directory.read("zone.signed") })
}
