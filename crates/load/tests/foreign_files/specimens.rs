//! Small input files: the seeds of the corpora.

/// The name of a file in the corpus, and its octets.
pub(crate) type Specimen = (&'static str, Vec<u8>);

const QUERY: &[u8] = b"\0\x07\x01\0\0\x01\0\0\0\0\0\0\x01a\x04test\0\0\x01\0\x01";
const QUERY_WITH_OPT: &[u8] =
    b"\x12\x34\x01\x20\0\x01\0\0\0\0\0\x01\x03www\x07example\0\0\x1c\0\x01\0\0\x29\x04\xd0\0\0\x80\0\0\0";
const ANSWER: &[u8] =
    b"\0\x07\x81\x80\0\x01\0\x01\0\0\0\0\x01a\x04test\0\0\x01\0\x01\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\xc0\0\x02\x01";

/// Link types of captures.
const ETHERNET: u32 = 1;
const RAW: u32 = 101;
const COOKED: u32 = 113;
const RAW_V6: u32 = 229;
const COOKED_SECOND: u32 = 276;

/// Recordings with each link type, byte order and time unit.
pub(crate) fn recordings() -> Vec<Specimen> {
    let ethernet = |kind: &[u8], packet: Vec<u8>| [&[2; 12], kind, &packet].concat();
    let mixed = [
        ethernet(&[8, 0], v4(4000, 53, QUERY)),
        ethernet(&[0x86, 0xdd], v6(4001, 53, QUERY_WITH_OPT)),
        ethernet(&[0x81, 0, 0, 7, 8, 0], v4(4000, 53, QUERY_WITH_OPT)),
        ethernet(&[8, 0], v4(53, 4000, ANSWER)),
        ethernet(&[8, 6], vec![0; 28]),
    ];
    let cooked = [[&[0; 14][..], &[8, 0]].concat(), v4(4000, 53, QUERY)].concat();
    let second = [[&[0x86, 0xdd][..], &[0; 18]].concat(), v6(4000, 53, QUERY)].concat();
    let mut cut = file(RAW, Order::Little, &[v4(4000, 53, QUERY), v4(4000, 53, QUERY)]);
    cut.truncate(cut.len() - 9);
    let mut huge = file(RAW, Order::Little, &[]);
    huge.extend([0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
    vec![
        ("ethernet", file(ETHERNET, Order::Little, &mixed)),
        ("raw", file(RAW, Order::Big, &[v4(4000, 53, QUERY), v6(4001, 53, QUERY)])),
        ("raw-v6", file(RAW_V6, Order::Little, &[v6(4000, 53, QUERY_WITH_OPT)])),
        ("cooked", file(COOKED, Order::Big, &[cooked])),
        ("cooked-second", file(COOKED_SECOND, Order::Little, &[second])),
        ("cut", cut),
        ("huge", huge),
        ("empty", file(RAW, Order::Little, &[])),
    ]
}

#[derive(Clone, Copy)]
enum Order {
    /// Little-endian, with times in microseconds.
    Little,
    /// Big-endian, with times in nanoseconds.
    Big,
}

fn file(link: u32, order: Order, packets: &[Vec<u8>]) -> Vec<u8> {
    let word = |value: u32| match order {
        Order::Little => value.to_le_bytes(),
        Order::Big => value.to_be_bytes(),
    };
    let half = |value: u16| match order {
        Order::Little => value.to_le_bytes(),
        Order::Big => value.to_be_bytes(),
    };
    let magic = if matches!(order, Order::Little) { 0xa1b2_c3d4 } else { 0xa1b2_3c4d };
    let mut out =
        [&word(magic)[..], &half(2), &half(4), &[0; 8], &word(65_535), &word(link)].concat();
    for (number, packet) in (0..).zip(packets) {
        // The second packet is older than the first, as with several cores.
        let secs = if number == 1 { 99 } else { 100 + number };
        for value in [secs, number * 1000, packet.len() as u32, packet.len() as u32] {
            out.extend(word(value));
        }
        out.extend_from_slice(packet);
    }
    out
}

fn udp(from: u16, to: u16, message: &[u8]) -> Vec<u8> {
    let len = 8 + message.len() as u16;
    [&[from, to, len, 0].map(u16::to_be_bytes).concat(), message].concat()
}

fn v4(from: u16, to: u16, message: &[u8]) -> Vec<u8> {
    let body = udp(from, to, message);
    let len = 20 + body.len() as u8;
    [&[0x45, 0, 0, len, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 53], &body[..]].concat()
}

fn v6(from: u16, to: u16, message: &[u8]) -> Vec<u8> {
    let body = udp(from, to, message);
    [&[0x60, 0, 0, 0, 0, body.len() as u8, 17, 64][..], &[1; 32], &body].concat()
}

/// Files of queries.
pub(crate) fn queries() -> Vec<Specimen> {
    let texts: [(_, &[u8]); 6] = [
        (
            "plain",
            b"www.example.com A\nexample.com. MX\n\n; comment\n# comment\nexample.com TYPE65\n",
        ),
        ("no-type", b"a\nb.test\n.\n"),
        ("escapes", b"a\\.b.test TXT\n\\255\\000.test A\n\\#x \\; A\n\\065.test ANY\n"),
        ("ends-of-lines", b" a.test\tAAAA \r\n\tb.test A trailing words\r\nc.test"),
        ("fault", b"a.test A\nb..c A\n"),
        ("no-such-type", b"a.test TYPE65536\n"),
    ];
    let mut all: Vec<Specimen> = texts.map(|(name, text)| (name, text.to_vec())).into();
    all.push(("long-line", [&b"a".repeat(2_100)[..], b" A\n"].concat()));
    all.push(("longest-name", [&b"a.".repeat(127)[..], b" A\n"].concat()));
    all
}

/// Zone files.
pub(crate) fn zone_files() -> Vec<Specimen> {
    let texts: [(_, &[u8]); 7] = [
        (
            "all",
            b"$ORIGIN example.\n$TTL 1h\n@ IN SOA ns admin ( 1 3600 ; serial, refresh\n 600 86400 300 )\n NS ns\n\
              ns 300 IN A 192.0.2.53\nwww IN 300 A 192.0.2.1\n A 192.0.2.2\n TXT \"a;b (c)\" \"\\\"\\065\"\n\
              alias CNAME WWW\naway CNAME www.other.\ndeep.er.name AAAA 2001:db8::1\n*.wild MX 10 www\n\
              sub NS ns.sub\nloop CNAME loop\nd DNAME www\nout.other. A 192.0.2.9\n",
        ),
        ("absolute", b"example. 60 SOA a. b. 1 2 3 4 5\nwww.example. 60 A 192.0.2.1\n"),
        ("root", b". SOA . . 1 2 3 4 5\n* A 192.0.2.1\ncom. NS ns.com.\n"),
        ("unknown", b"x. SOA a. b. 1 2 3 4 5\nx. TYPE65280 \\# 3 010203\nx. HTTPS 1 . alpn=h2,h3 ipv4hint=192.0.2.1\n"),
        ("wildcards", b"z. SOA a. b. 1 2 3 4 5\n*.z. CNAME *.a.z.\n*.a.z. CNAME b.c.z.\n*.c.z. NS .\n"),
        ("open", b"a. SOA (\n"),
        ("no-soa", b"a. A 192.0.2.1\n"),
    ];
    texts.map(|(name, text)| (name, text.to_vec())).into()
}
