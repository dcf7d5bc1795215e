//! Tests of local records.

use super::*;

#[test]
fn records_of_one_name_and_type_are_one_set() {
    let config = read(
        "[[record]]\nname = \"NAS.lan\"\ntype = \"a\"\nvalues = [\"192.168.1.5\"]\n\
         [[record]]\nname = \"nas.lan.\"\ntype = \"A\"\nvalues = [\"192.168.1.6\"]\nptr = false\n\
         [[record]]\nname = \"*.lan\"\ntype = \"A\"\nvalues = [\"192.168.1.7\"]\nttl-secs = 60\n",
    );
    let sets: Vec<_> = config
        .records
        .iter()
        .map(|set| (&*set.name, set.rtype, set.rdata.len(), set.ttl_secs))
        .collect();
    assert_eq!(
        sets,
        [
            (&b"\x01*\x03lan\0"[..], Rtype::A, 1, 60),
            (&b"\x015\x011\x03168\x03192\x07in-addr\x04arpa\0"[..], Rtype::PTR, 1, 300),
            (&b"\x03nas\x03lan\0"[..], Rtype::A, 2, 300),
        ]
    );
    assert_eq!(&*config.records[1].rdata[0], b"\x03nas\x03lan\0");
}

#[test]
fn a_written_ptr_stands_before_derived_ones_and_the_first_name_before_later_ones() {
    let config = read(
        "[[record]]\nname = \"one.lan\"\ntype = \"AAAA\"\nvalues = [\"fd00::1\", \"fd00::2\"]\n\
         [[record]]\nname = \"two.lan\"\ntype = \"AAAA\"\nvalues = [\"fd00::1\", \"fd00::2\"]\n\
         [[record]]\nname = \
         \"2.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa\"\n\
         type = \"PTR\"\nvalues = [\"chosen.lan\"]\n",
    );
    let targets: Vec<&[u8]> = config
        .records
        .iter()
        .filter(|set| set.rtype == Rtype::PTR)
        .map(|set| &*set.rdata[0])
        .collect();
    assert_eq!(targets, [&b"\x03one\x03lan\0"[..], b"\x06chosen\x03lan\0"]);
}

#[test]
fn local_zones_are_names_of_their_own() {
    let zones = |text: &str| read_with(&format!("{FORWARD}[server]\nlocal-zones = {text}\n"), &[]);
    assert_eq!(zones("[\"LAN\", \"b\u{fc}ro.example\"]").unwrap().server.local_zones.len(), 2);
    for (text, expected) in [
        ("[\".\"]", "the root cannot be a local zone"),
        ("[\"lan\", \"lan.\"]", "duplicate zone"),
        ("[\"my nas.lan\"]", "has a space in it"),
        ("[\"lan\"]\n[[stub]]\nzone = \"lan\"\nservers = [\"192.0.2.1\"]", "also has servers"),
    ] {
        let errors = zones(text).unwrap_err().to_string();
        assert!(errors.contains(expected), "{errors}");
    }
}

#[test]
fn wrong_records_are_refused() {
    let a = "type = \"A\"\nvalues = [\"192.0.2.1\"]\n";
    let cases = [
        (
            format!("name = \"my nas.lan\"\n{a}"),
            "2:8: \"my nas.lan\" has a space in it; if that is intended, write \\\\032".to_owned(),
        ),
        (a.to_owned(), "1:1: `name` is missing: a name such as \"corp.example\"".to_owned()),
        (
            "name = \"x\"\nvalues = []".to_owned(),
            "1:1: `type` is missing: a record type such as \"A\", \"CNAME\" or \
             \"TYPE65280\"".to_owned(),
        ),
        (
            "name = \"x\"\ntype = \"A\"".to_owned(),
            "1:1: `values` is missing: a list, each item a string in quotes".to_owned(),
        ),
        (
            "name = \"x\"\ntype = \"A\"\nvalues = []".to_owned(),
            "4:10: expected at least one value, found none".to_owned(),
        ),
        (
            "name = \"x\"\ntype = \"AA\"\nvalues = [\"1\"]".to_owned(),
            "3:8: expected a record type such as \"A\", \"CNAME\" or \"TYPE65280\", found \
             \"AA\"".to_owned(),
        ),
        (
            "name = \"x\"\ntype = \"ANY\"\nvalues = [\"1\"]".to_owned(),
            "3:8: records of type ANY exist only in messages".to_owned(),
        ),
        (
            "name = \"x\"\ntype = \"A\"\nvalues = [\"192.0.2.1\", \"192.0.2.1\"]".to_owned(),
            "4:24: duplicate value 192.0.2.1".to_owned(),
        ),
        (
            "name = \"x\"\ntype = \"CNAME\"\nvalues = [\"a\", \"b\"]".to_owned(),
            "4:16: a name has only one CNAME; remove the others".to_owned(),
        ),
        (
            format!("name = \"x\"\n{a}[[record]]\nname = \"X\"\ntype = \"CNAME\"\nvalues = \
                     [\"a\"]"),
            "6:8: \"x.\" already has A; a name with a CNAME has no other records".to_owned(),
        ),
        (
            format!("name = \"x\"\ntype = \"CNAME\"\nvalues = [\"a\"]\n[[record]]\nname = \
                     \"x\"\n{a}"),
            "6:8: \"x.\" already has CNAME; a name with a CNAME has no other records".to_owned(),
        ),
        (
            format!("name = \"x\"\n{a}[[record]]\nname = \"x\"\ntype = \"A\"\nvalues = \
                     [\"192.0.2.2\"]\nttl-secs = 9"),
            "6:8: all records of a name and type have the same TTL (RFC 2181 §5.2); write 300 as above".to_owned(),
        ),
        (
            "name = \"x\"\ntype = \"TXT\"\nvalues = [\"v=spf1 -all\"]".to_owned(),
            "4:11: a text with blanks needs quotes of its own: '\"v=spf1 -all\"'".to_owned(),
        ),
    ];
    for (keys, expected) in cases {
        assert_eq!(errors(&format!("[[record]]\n{keys}")), format!("a.toml:{expected}"), "{keys}");
    }
    let malformed = errors("[[record]]\nname = \"x\"\ntype = \"A\"\nvalues = [\"192.0.2\"]");
    assert!(
        malformed.starts_with("a.toml:4:11: \"192.0.2\" is not valid data of type A: "),
        "{malformed}"
    );
}

#[test]
fn text_may_be_written_in_the_form_of_unknown_types() {
    let config = read("[[record]]\nname = \"x\"\ntype = \"TXT\"\nvalues = ['\\# 2 0161']\n");
    assert_eq!(
        (config.records[0].rtype, &*config.records[0].rdata[0]),
        (Rtype::TXT, &b"\x01a"[..])
    );
}
