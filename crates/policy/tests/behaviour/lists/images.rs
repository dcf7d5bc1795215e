//! Images as octets: complete, torn and hostile.

use avocet_policy::list::{
    Asker, Compiler, Format, Image, ImageError, Kind, ListQuestion, ListSet, Scratch,
};
use avocet_testkit::Chance;
use avocet_wire::Rtype;

use crate::lists::invariants::seal;
use crate::lists::material::{SECRET, ask, read, source, wire};

const TEXT: &str = "||a.example^\n||b.example^$client=10.0.0.0/8|~'x',dnstype=A,denyallow=c.b.example\n\
    @@||c.example^$important\n||d.example^$dnsrewrite=NOERROR;MX;1 x.example\n/^ads?[0-9]+\\./\n/^[0-9]$/\n-ads-\n\
    ||a.example^$badfilter,ctag=x\n";

fn octets() -> Vec<u8> {
    let mut compiler = Compiler::new(SECRET);
    let report =
        read(&mut compiler, source(0, Kind::Block, Some(Format::Adblock)), TEXT.as_bytes(), 7);
    assert_eq!((report.entries, report.faults), (8, 0));
    compiler.finish().0
}

/// Uses an image as a query would.
fn use_up(image: &Image<Vec<u8>>) {
    let mut scratch = Scratch::empty();
    for name in ["a.example", "x.b.example", "c.example", "d.example", "ads1.x", "7", "x-ads-x", ""]
    {
        let qname = wire(name);
        let asker =
            Asker { address: "10.1.1.1".parse().ok(), names: &["y".into()], tags: &["x".into()] };
        let question = ListQuestion { qname: &qname, qtype: Rtype::A, asker };
        let found = image.lookup(question, &ListSet::ALL, &mut scratch);
        assert!(found.matches().count() < 1000);
        let _ = (found.decision(), found.rewrite().map(ToString::to_string));
    }
}

#[test]
fn the_same_lists_make_the_same_image() {
    assert_eq!(octets(), octets());
    let image = Image::open(octets()).unwrap();
    assert_eq!((image.names(), image.patterns()), (4, 3));
    assert_eq!(ask(&image, "ads1.x"), "Blocked 0:5");
    let mut other = Compiler::new([8; 32]);
    let _ = read(&mut other, source(0, Kind::Block, Some(Format::Adblock)), TEXT.as_bytes(), 7);
    let other = Image::open(other.finish().0).unwrap();
    assert_ne!(image.digest(), other.digest());
    assert_eq!(ask(&other, "ads1.x"), "Blocked 0:5");
}

#[test]
fn no_list_at_all_is_an_image_too() {
    let image = Image::open(Compiler::new(SECRET).finish().0).unwrap();
    assert_eq!(ask(&image, "a.example"), "None");
}

#[test]
fn foreign_images_other_versions_and_truncation_are_reported() {
    let whole = octets();
    assert_eq!(Image::open(Vec::new()).err(), Some(ImageError::Foreign));
    assert_eq!(Image::open(b"AVOCETLI".to_vec()).err(), Some(ImageError::Torn));
    let mut other = whole.clone();
    other[8] = 99;
    assert_eq!(Image::open(other).err(), Some(ImageError::Version(99)));
    for cut in [20, 100, whole.len() / 2, whole.len() - 1] {
        assert_eq!(Image::open(whole[..cut].to_vec()).err(), Some(ImageError::Torn), "{cut}");
    }
    for at in 16..whole.len() {
        let mut torn = whole.clone();
        torn[at] ^= 0x10;
        assert_eq!(Image::open(torn).err(), Some(ImageError::Torn), "{at}");
    }
}

#[test]
fn an_image_of_an_enemy_does_no_harm() {
    let whole = octets();
    let mut chance = Chance::new(4);
    let mut opened = 0;
    for _ in 0..4_000 {
        let mut octets = whole.clone();
        for _ in 0..=chance.below(3) {
            let at = 32 + chance.below(octets.len() as u64 - 32) as usize;
            octets[at] = chance.number() as u8;
        }
        if chance.percent(10) {
            octets.truncate(200 + chance.below(octets.len() as u64 - 200) as usize);
        }
        seal(&mut octets);
        if let Ok(image) = Image::open(octets) {
            opened += 1;
            use_up(&image);
        }
    }
    assert!(opened > 200, "{opened} were opened");
}
