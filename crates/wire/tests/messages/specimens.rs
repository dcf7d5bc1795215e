//! Messages as servers and clients send them, of all kinds: the seed corpus of tests and fuzzing.

use avocet_wire::builder::{OptFields, Record};
use avocet_wire::edns::EdnsOption;
use avocet_wire::header::{AA, AD, CD, QR, RA, RD, TC};
use avocet_wire::rdata::{from_mnemonic, parse};
use avocet_wire::text::name_to_wire;
use avocet_wire::{Builder, Class, Ede, Rcode, Rtype, Section};

const QUERY: u16 = RD;
const ANSWER: u16 = QR | RD | RA;
const AUTHORITATIVE: u16 = QR | AA;

/// A message: its name, its flags, its question as `NAME TYPE`, and lines `SECTION OWNER TTL TYPE
/// DATA`.
type Message = (&'static str, u16, &'static str, &'static [&'static str]);

#[rustfmt::skip]
const PLAIN: &[Message] = &[
    ("query-a", QUERY, "www.example.com. A", &[]),
    ("query-root-ns", QUERY, ". NS", &[]),
    ("query-https", QUERY, "www.example.com. HTTPS", &[]),
    ("query-any", QUERY, "example.com. ANY", &[]),
    ("query-ptr", QUERY, "4.3.2.1.in-addr.arpa. PTR", &[]),
    ("query-ptr6", QUERY, "b.a.9.8.7.6.5.0.4.0.0.0.3.0.0.0.2.0.0.0.1.0.0.0.0.0.0.0.1.2.3.4.ip6.arpa. PTR", &[]),
    ("query-mixed-case", QUERY, "wWw.eXaMpLe.CoM. AAAA", &[]),
    ("query-escaped", QUERY, "\\000\\255\\.x.example. TXT", &[]),
    ("answer-a", ANSWER, "www.example.com. A", &["an www.example.com. 300 A 192.0.2.1"]),
    ("answer-cname", ANSWER, "www.example.com. A", &[
        "an www.example.com. 300 CNAME edge.example.net.", "an edge.example.net. 60 A 192.0.2.1",
        "an edge.example.net. 60 A 192.0.2.2"]),
    ("answer-twelve", ANSWER, "www.example.com. A", &[
        "an www.example.com. 300 CNAME edge.example.net.", "an edge.example.net. 60 A 192.0.2.1",
        "an edge.example.net. 60 A 192.0.2.2", "an edge.example.net. 60 A 192.0.2.3",
        "ns example.net. 3600 NS ns1.example.net.", "ns example.net. 3600 NS ns2.example.net.",
        "ns example.net. 3600 NS ns3.example.net.", "ns example.net. 3600 NS ns4.example.net.",
        "ar ns1.example.net. 3600 A 198.51.100.1", "ar ns2.example.net. 3600 A 198.51.100.2",
        "ar ns3.example.net. 3600 AAAA 2001:db8::3", "ar ns4.example.net. 3600 AAAA 2001:db8::4"]),
    ("answer-mx", ANSWER, "example.com. MX", &[
        "an example.com. 300 MX 10 mail.example.com.", "an example.com. 300 MX 20 mail2.example.com.",
        "ar mail.example.com. 300 A 192.0.2.25"]),
    ("answer-txt", ANSWER, "example.com. TXT", &["an example.com. 300 TXT \"v=spf1 -all\" \"two\""]),
    ("answer-srv", ANSWER, "_sip._tcp.example.com. SRV", &["an _sip._tcp.example.com. 300 SRV 1 2 5060 sip.example.com."]),
    ("answer-naptr", ANSWER, "example.com. NAPTR", &["an example.com. 300 NAPTR 1 2 \"s\" \"SIP+D2U\" \"\" _sip._udp.example.com."]),
    ("answer-https", ANSWER, "example.com. HTTPS", &["an example.com. 300 HTTPS 1 . alpn=h2,h3 ipv4hint=192.0.2.1"]),
    ("answer-caa", ANSWER, "example.com. CAA", &["an example.com. 300 CAA 0 issue \"ca.example\""]),
    ("answer-dname", ANSWER, "a.old.example. A", &[
        "an old.example. 300 DNAME new.example.", "an a.old.example. 300 CNAME a.new.example.",
        "an a.new.example. 300 A 192.0.2.9"]),
    ("answer-soa", AUTHORITATIVE, "example.com. SOA", &["an example.com. 3600 SOA ns1.example.com. root.example.com. 1 7200 3600 1209600 300"]),
    ("answer-ds-rrsig", ANSWER | AD, "example.com. DS", &[
        "an example.com. 300 DS 1 8 2 00112233445566778899AABBCCDDEEFF00112233445566778899AABBCCDDEEFF",
        "an example.com. 300 RRSIG DS 8 2 300 20300101000000 20200101000000 1 com. AAECAwQFBgcICQ=="]),
    ("answer-dnskey", ANSWER | AD, "example.com. DNSKEY", &["an example.com. 300 DNSKEY 257 3 13 AAECAwQFBgcICQoLDA0ODw=="]),
    ("nxdomain-nsec", ANSWER | AD, "no.example.com. A", &[
        "ns example.com. 300 SOA ns1.example.com. root.example.com. 1 7200 3600 1209600 300",
        "ns n.example.com. 300 NSEC p.example.com. A RRSIG NSEC",
        "ns example.com. 300 NSEC a.example.com. NS SOA RRSIG NSEC DNSKEY"]),
    ("nodata-nsec3", ANSWER | AD, "example.com. AAAA", &[
        "ns example.com. 300 SOA ns1.example.com. root.example.com. 1 7200 3600 1209600 300",
        "ns 0p9mhaveqvm6t7vbl5lop2u3t2rp3tom.example.com. 300 NSEC3 1 1 0 - 2T7B4G4VSA5SMI47K61MV5BV1A22BOJR A RRSIG"]),
    ("referral", QR, "www.example.com. A", &[
        "ns com. 172800 NS a.gtld-servers.net.", "ns com. 172800 NS b.gtld-servers.net.",
        "ar a.gtld-servers.net. 172800 A 192.5.6.30", "ar b.gtld-servers.net. 172800 AAAA 2001:503:231d::2:30"]),
    ("truncated", ANSWER | TC, "example.com. TXT", &[]),
    ("servfail", ANSWER | 2, "broken.example. A", &[]),
    ("refused", QR | 5, "example.com. A", &[]),
    ("checking-disabled", ANSWER | CD, "example.com. A", &["an example.com. 0 A 192.0.2.1"]),
    ("unknown-type", ANSWER, "example.com. TYPE65400", &["an example.com. 300 TYPE65400 \\# 4 C00C0001"]),
    ("notify", 4 << 11 | AA, "example.com. SOA", &["an example.com. 0 SOA ns1.example.com. root.example.com. 2 7200 3600 1209600 300"]),
    ("update", 5 << 11, "example.com. SOA", &["ns new.example.com. 300 A 192.0.2.7"]),
];

const OPTIONS: &[(&str, &[EdnsOption<'static>])] = &[
    ("edns-none", &[]),
    ("edns-cookie", &[EdnsOption::Cookie { client: b"12345678", server: b"abcdefghijklmnop" }]),
    (
        "edns-subnet",
        &[EdnsOption::Ecs { family: 1, source_prefix: 24, scope_prefix: 0, address: &[192, 0, 2] }],
    ),
    ("edns-keepalive", &[EdnsOption::TcpKeepalive(None), EdnsOption::Nsid(b"")]),
    ("edns-padding", &[EdnsOption::Padding(100)]),
    (
        "edns-error",
        &[EdnsOption::Ede(Ede::BLOCKED, b"list"), EdnsOption::ReportChannel(b"\x05agent\x00")],
    ),
    ("edns-repeated-nsid", &[EdnsOption::Nsid(b""), EdnsOption::Nsid(b""), EdnsOption::Nsid(b"")]),
    (
        "edns-many",
        &[
            EdnsOption::KeyTag(&[0, 1]),
            EdnsOption::ZoneVersion(None),
            EdnsOption::Chain(b"\x03com\x00"),
            EdnsOption::Unknown(65_001, b"xyz"),
        ],
    ),
];

/// Returns all specimens with their names.
pub(crate) fn all() -> Vec<(&'static str, Vec<u8>)> {
    let mut all: Vec<_> = PLAIN.iter().map(|message| (message.0, build(message, None))).collect();
    let question: Message = ("", QUERY, "www.example.com. AAAA", &[]);
    all.extend(OPTIONS.iter().map(|(name, options)| (*name, build(&question, Some(options)))));
    all
}

/// Returns the wire form of an absolute name.
fn wire(text: &str) -> Vec<u8> {
    let mut out = [0; 255];
    let len = name_to_wire(text.as_bytes(), None, &mut out).expect(text);
    out[..len].to_vec()
}

fn build((name, flags, question, lines): &Message, options: Option<&[EdnsOption<'_>]>) -> Vec<u8> {
    let mut out = vec![0; 4096];
    let mut builder = Builder::new(&mut out, 4096, 0x2a17, *flags).expect("a sound specimen");
    let (qname, qtype) = question.split_once(' ').expect("a sound specimen");
    builder
        .question(&wire(qname), Rtype(from_mnemonic(qtype).unwrap_or(255)), Class::IN)
        .expect("a sound specimen");
    for line in *lines {
        let [section, owner, ttl, mnemonic, data] =
            line.splitn(5, ' ').collect::<Vec<_>>().try_into().expect("a sound specimen");
        let rtype = from_mnemonic(mnemonic).expect("a sound specimen");
        let mut rdata = Vec::new();
        parse(rtype, data, &[0], &mut rdata)
            .unwrap_or_else(|error| panic!("{name}: {data}: {error}"));
        let owner = wire(owner);
        let section = match section {
            "an" => Section::Answer,
            "ns" => Section::Authority,
            _ => Section::Additional,
        };
        let (rtype, ttl_secs) = (Rtype(rtype), ttl.parse().expect("a TTL"));
        builder
            .record(
                section,
                &Record { owner: &owner, rtype, class: Class::IN, ttl_secs, rdata: &rdata },
            )
            .expect("a sound specimen");
    }
    if let Some(options) = options {
        let fields = OptFields { udp_size: 1232, rcode: Rcode(flags & 0xf), dnssec_ok: true };
        builder.opt(&fields, options).expect("a sound specimen");
    }
    let len = builder.finish();
    out.truncate(len);
    out
}
