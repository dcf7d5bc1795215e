//! Runs the body of the fuzz target `lists` on its corpus and on mutations of it.
//!
//! `AVOCET_MUTATIONS` sets the number of mutations. `AVOCET_WRITE_CORPUS=1` writes the corpus.

use std::fs;
use std::path::PathBuf;

use avocet_policy::list::{Compiler, Format, Kind};
use avocet_testkit::Chance;

use crate::lists::invariants::{DETECTED, IMAGE, ZONE, hold};
use crate::lists::material::{SECRET, read, source};

/// Mutations in a plain `cargo test`.
const MUTATIONS: u64 = 3_000;

const HOSTS: &str = "\u{feff}# c\r\n0.0.0.0 ads.example.com x\r\n::1 localhost\n192.0.2.1 nas.example # d\n0.0.0.0 com\n";
const DOMAINS: &str =
    "example\nads.example.com\n*.example\n.b.c.d.e.f\nb\u{fc}cher.example\n1.2.3.4\na..b\n.\n";
const ADBLOCK: &str = "[Adblock]\n! c\n||example.com^\n@@||ads.example.com^$important\n|example|\n||a*.f^\n*ads*\n\
    /^ads[0-9]*\\./\n/[a-f]{1}$/$dnstype=A|~AAAA\n||com^$client=10.0.0.0/8|~'x\\'y',ctag=y|~z,denyallow=ads.example.com\n\
    ||e.f^$dnsrewrite=NOERROR;MX;10 x.example\n@@||e.f^$dnsrewrite\n||example.com^$badfilter\na.b##.x\n*$dnstype=A\n";
const DNSMASQ: &str = "address=/ads.example.com/0.0.0.0\nserver=/example/\nlocal=/a/b/192.0.2.1\naddress=/*ads.example.com/#\n";
const UNBOUND: &str = "server:\nlocal-zone: \"example.com\" always_nxdomain\nlocal-data: \"ads.example.com 60 IN A 192.0.2.1\"\n";
const PIHOLE: &str =
    "^ads[.]\n(\\.|^)example\\.com$;querytype=!AAAA\n[0-9];invert;reply=NXDOMAIN\n(a+)+$\n";
const ZONE_TEXT: &str = "$TTL 1h\n$ORIGIN .\n@ SOA a. b. ( 1 2 3 ; c\n 4 5 )\nads.example.com CNAME *.\n*.example CNAME rpz-passthru.\n\
    8.0.0.0.10.rpz-client-ip CNAME rpz-drop.\n128.zz.rpz-ip A 192.0.2.1\n\tTXT \"a\\\"b\"\n*.com.rpz-nsdname CNAME *.garden.\n\
    24.0.1.1.10.rpz-nsip CNAME rpz-tcp-only.\n";
/// Nested names, in the notations that master files permit.
const NESTED_ZONE: &str = "\u{feff}$TTL 1d\r\n@ SOA . . 0 0 0 0 0\r\na.b.c.d.e.f CNAME .\n*.f 60 IN CNAME .\n*.d.e.f CNAME *.\n\
    d.e.f A 192.0.2.1\n\tA 192.0.2.1 ; again\nd.e.f TXT \"a;b\" \"(\"\n$ORIGIN f\n*.e ( CNAME .\n )\n\\097.e CNAME a.e.f.\n\
    * CNAME x.\nEXAMPLE. CNAME example.\nads.example.com. A 192.0.2.1\nads.example.com. CNAME .\nexample.rpz-nsdname. CNAME .\n";

fn directory() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/lists"))
}

fn specimens() -> Vec<(&'static str, Vec<u8>)> {
    let texts = [
        ("hosts", 0, HOSTS),
        ("domains", 1, DOMAINS),
        ("wildcards", 2, DOMAINS),
        ("adblock", 3, ADBLOCK),
        ("dnsmasq", 4, DNSMASQ),
        ("unbound", 5, UNBOUND),
        ("pihole-regex", 6, PIHOLE),
        ("detected-hosts", DETECTED, HOSTS),
        ("detected-adblock", DETECTED, ADBLOCK),
        ("zone", ZONE, ZONE_TEXT),
        ("zone-nested", ZONE, NESTED_ZONE),
    ];
    let with_kind = |kind: u8, octets: &[u8]| [&[kind], octets].concat();
    let mut all: Vec<_> =
        texts.map(|(name, kind, text)| (name, with_kind(kind, text.as_bytes()))).into();
    let mut compiler = Compiler::new(SECRET);
    let _ =
        read(&mut compiler, source(0, Kind::Block, Some(Format::Adblock)), ADBLOCK.as_bytes(), 100);
    all.push(("image", with_kind(IMAGE, &compiler.finish().0)));
    all
}

#[test]
fn the_corpus_is_what_the_tests_say() {
    let write = std::env::var_os("AVOCET_WRITE_CORPUS").is_some();
    for (name, octets) in specimens() {
        let path = directory().join(name);
        if write {
            fs::create_dir_all(directory()).unwrap();
            fs::write(&path, &octets).unwrap();
        }
        assert_eq!(fs::read(&path).ok(), Some(octets), "{name}");
    }
}

#[test]
fn the_corpus_holds() {
    let files = fs::read_dir(directory()).unwrap();
    let octets: Vec<_> = files.map(|file| fs::read(file.unwrap().path()).unwrap()).collect();
    assert!(octets.len() >= 11);
    octets.iter().for_each(|octets| hold(octets));
}

#[test]
fn mutations_of_the_corpus_hold() {
    let count = std::env::var("AVOCET_MUTATIONS").map_or(MUTATIONS, |count| count.parse().unwrap());
    let specimens = specimens();
    let mut chance = Chance::new(0x115f);
    for _ in 0..count {
        let pick =
            |chance: &mut Chance| &specimens[chance.below(specimens.len() as u64) as usize].1;
        let mut octets = pick(&mut chance).clone();
        for _ in 0..=chance.below(4) {
            let at = 1 + chance.below(octets.len() as u64 - 1) as usize;
            match chance.below(4) {
                0 => octets[at] = chance.number() as u8,
                1 => octets[at] = b"|^$,;=~*./\\\"'()[]{}\n @!#0:"[chance.below(26) as usize],
                2 => drop(octets.drain(at..(at + chance.below(9) as usize).min(octets.len()))),
                _ => {
                    let other = pick(&mut chance);
                    let from = chance.below(other.len() as u64) as usize;
                    let part = &other[from..(from + chance.below(40) as usize).min(other.len())];
                    octets.splice(at..at, part.iter().copied());
                }
            }
            if octets.len() < 3 {
                break;
            }
        }
        hold(&octets);
    }
}
