//! Replies of 64 KiB that are as expensive to read as a server can make them.

use avocet_testkit::Query;
use avocet_wire::header::{AA, QR};

/// A message that is filled with records up to 64 KiB.
pub(crate) struct Message {
    octets: Vec<u8>,
    counts: [u16; 4],
}

impl Message {
    pub(crate) fn to(query: &Query, flags: u16) -> Self {
        let mut octets = query.id.to_be_bytes().to_vec();
        octets.extend((QR | flags).to_be_bytes());
        octets.extend([0; 8]);
        octets.extend(&query.question);
        Self { octets, counts: [1, 0, 0, 0] }
    }

    /// Adds a record if there is room for it.
    fn add(&mut self, section: usize, (owner, rtype): (&[u8], u16), rdata: &[u8]) -> bool {
        let has_room = self.octets.len() + owner.len() + 10 + rdata.len() <= 65_535;
        if has_room {
            self.octets.extend(owner);
            for field in [rtype, 1, 0, 300, rdata.len() as u16] {
                self.octets.extend(field.to_be_bytes());
            }
            self.octets.extend(rdata);
            self.counts[section] += 1;
        }
        has_room
    }

    /// Adds records until there is no room. `record` makes the record with a number.
    fn fill(&mut self, section: usize, rtype: u16, record: impl Fn(u16) -> (Vec<u8>, Vec<u8>)) {
        let mut number = 0;
        loop {
            let (owner, rdata) = record(number);
            if !self.add(section, (&owner, rtype), &rdata) {
                return;
            }
            number += 1;
        }
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        for (at, count) in self.counts.iter().enumerate() {
            self.octets[4 + 2 * at..6 + 2 * at].copy_from_slice(&count.to_be_bytes());
        }
        self.octets
    }
}

const ANSWER: usize = 1;
const AUTHORITY: usize = 2;
const ADDITIONAL: usize = 3;
/// A type whose data may be any octets.
const PRIVATE: u16 = 65_280;
/// A pointer to the QNAME.
const QNAME: [u8; 2] = [0xc0, 12];
/// Data of an NSEC record with arbitrary content: the next name is the root, and there is an A
/// record.
const NSEC: &[u8] = &[0, 0, 1, 0x40];
const SOA: &[u8] = &[0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 44];

/// Returns a pointer to the QNAME without its first `labels` labels.
fn above(query: &Query, labels: usize) -> [u8; 2] {
    let mut at = 0;
    for _ in 0..labels {
        at += 1 + usize::from(query.question[at]);
    }
    (0xc000 | (12 + at) as u16).to_be_bytes()
}

/// Returns a name with one label more than the name at `pointer`.
fn below(number: u16, pointer: [u8; 2]) -> Vec<u8> {
    let [high, low] = number.to_be_bytes();
    [&[2, high, low][..], &pointer].concat()
}

/// Returns RRSIG data that covers a type and that no key verifies.
fn signature(covered: u16, number: u16) -> Vec<u8> {
    let fixed = [15, 1, 0, 0, 1, 44, 0x7f, 0, 0, 0, 0x60, 0, 0, 0];
    [&covered.to_be_bytes()[..], &fixed, &number.to_be_bytes(), &[0], &number.to_be_bytes()]
        .concat()
}

/// A function that makes the reply to a query, given the number of earlier replies.
pub(crate) type Reply = fn(&Query, usize) -> Message;

fn denial_of_many_names(query: &Query, _: usize) -> Message {
    let mut message = Message::to(query, AA);
    let zone = above(query, labels(query) - 1);
    message.add(AUTHORITY, (&zone, 6), SOA);
    message.fill(AUTHORITY, 47, |number| (below(number, zone), NSEC.to_vec()));
    message
}

fn denial_with_many_records_at_one_name(query: &Query, _: usize) -> Message {
    let mut message = Message::to(query, AA);
    message.add(AUTHORITY, (&above(query, labels(query) - 1), 6), SOA);
    message.fill(AUTHORITY, 47, |number| {
        let [high, low] = number.to_be_bytes();
        (QNAME.to_vec(), vec![2, high, low, 0, 0, 1, 0x40])
    });
    message
}

fn denial_with_many_signatures(query: &Query, _: usize) -> Message {
    let mut message = Message::to(query, AA);
    message.add(AUTHORITY, (&above(query, labels(query) - 1), 6), SOA);
    message.fill(AUTHORITY, 46, |number| {
        (below(number / 2, QNAME), signature(47 + number % 2 * 3, number))
    });
    message
}

fn labels(query: &Query) -> usize {
    query.qname.matches('.').count()
}

/// Returns a referral to a zone one label below the zone of the previous referral.
fn referral(query: &Query, number: usize) -> Message {
    let mut message = Message::to(query, 0);
    let zone = above(query, labels(query).saturating_sub(2 + number));
    message.add(AUTHORITY, (&zone, 2), &[&[2, b'n', b's'][..], &zone].concat());
    message.add(ADDITIONAL, (&[&[2, b'n', b's'][..], &zone].concat(), 1), &[192, 0, 2, 2]);
    message
}

fn referral_with_many_ds(query: &Query, number: usize) -> Message {
    let mut message = referral(query, number);
    let zone = above(query, labels(query).saturating_sub(2 + number));
    message.fill(AUTHORITY, 43, |number| {
        (zone.to_vec(), [&number.to_be_bytes()[..], &[15, 2], &number.to_be_bytes()].concat())
    });
    message
}

fn referral_with_many_nsec(query: &Query, number: usize) -> Message {
    let mut message = referral(query, number);
    message.fill(AUTHORITY, 47, |number| (below(number, QNAME), NSEC.to_vec()));
    message
}

fn referral_with_much_glue(query: &Query, _: usize) -> Message {
    let mut message = Message::to(query, 0);
    let zone = above(query, labels(query) - 2);
    for number in 0..1_000 {
        message.add(AUTHORITY, (&zone, 2), &below(number, zone));
    }
    message.fill(ADDITIONAL, 1, |number| {
        (below(number % 13, zone), [&[10, 0][..], &number.to_be_bytes()].concat())
    });
    message
}

fn many_addresses(query: &Query, _: usize) -> Message {
    let mut message = Message::to(query, AA);
    message.fill(ANSWER, 1, |number| {
        (QNAME.to_vec(), [&[198, 51][..], &number.to_be_bytes()].concat())
    });
    message
}

fn as_many_addresses_as_are_taken_and_extras(query: &Query, _: usize) -> Message {
    let mut message = Message::to(query, AA);
    for number in 0..256_u16 {
        message.add(ANSWER, (&QNAME, 1), &[&[198, 51][..], &number.to_be_bytes()].concat());
    }
    for number in 0..1_000 {
        message.add(AUTHORITY, (&QNAME, 2), &below(number, QNAME));
    }
    message.fill(ADDITIONAL, 1, |number| {
        (below(number, QNAME), [&[198, 51][..], &number.to_be_bytes()].concat())
    });
    message
}

fn one_address_many_times(query: &Query, _: usize) -> Message {
    let mut message = Message::to(query, AA);
    message.fill(ANSWER, 1, |_| (QNAME.to_vec(), vec![198, 51, 100, 1]));
    message
}

fn chain_of_aliases(query: &Query, _: usize) -> Message {
    let mut message = Message::to(query, AA);
    message.add(ANSWER, (&QNAME, 5), &below(0, QNAME));
    message.fill(ANSWER, 5, |number| (below(number, QNAME), below(number + 1, QNAME)));
    message
}

fn dnames_at_every_name_above(query: &Query, _: usize) -> Message {
    let mut message = Message::to(query, AA);
    let labels = labels(query);
    message.fill(ANSWER, 39, |number| {
        let above = above(query, 1 + usize::from(number) % (labels - 1));
        (above.to_vec(), below(number, above))
    });
    message
}

fn names_that_are_chains_of_pointers(query: &Query, _: usize) -> Message {
    let mut message = Message::to(query, AA);
    let last = add_chain(&mut message, &[1, b'x', 0]);
    message.fill(ANSWER, 5, |_| (last.to_vec(), last.to_vec()));
    message
}

fn malformed_names_at_the_end_of_chains(query: &Query, _: usize) -> Message {
    let mut message = Message::to(query, AA);
    // This is a label of an unknown type.
    let last = add_chain(&mut message, &[0x80]);
    message.fill(AUTHORITY, 2, |_| (QNAME.to_vec(), last.to_vec()));
    message
}

/// Adds a record of a private type with `end` and a chain of pointers to it as its data. Returns a
/// pointer to the last of these pointers.
fn add_chain(message: &mut Message, end: &[u8]) -> [u8; 2] {
    let start = (message.octets.len() + QNAME.len() + 10) as u16;
    let (mut data, mut previous) = (end.to_vec(), start);
    for _ in 0..125 {
        let at = start + data.len() as u16;
        data.extend((0xc000 | previous).to_be_bytes());
        previous = at;
    }
    message.add(ANSWER, (&QNAME, PRIVATE), &data);
    (0xc000 | previous).to_be_bytes()
}

fn records_of_a_meta_type(query: &Query, _: usize) -> Message {
    let mut message = Message::to(query, AA);
    message.fill(ANSWER, 255, |_| (vec![0], Vec::new()));
    message
}

fn names_of_255_octets(query: &Query, _: usize) -> Message {
    let mut message = Message::to(query, AA);
    let at = message.octets.len() + 12;
    let mut name = Vec::new();
    for letter in [b'a', b'b', b'c'] {
        name.push(63);
        name.extend([letter; 63]);
    }
    name.push(57);
    name.extend([b'd'; 57]);
    name.push(0);
    message.add(ANSWER, (&QNAME, PRIVATE), &name);
    let pointer = (0xc000 | at as u16).to_be_bytes();
    message.fill(AUTHORITY, 47, |number| (below(number, pointer), NSEC.to_vec()));
    message
}

fn many_keys(query: &Query, _: usize) -> Message {
    let mut message = Message::to(query, AA);
    message.fill(ANSWER, 48, |number| {
        let key = [&[1, 1, 3, 15][..], &[0; 30], &number.to_be_bytes()].concat();
        (QNAME.to_vec(), key)
    });
    message
}

fn denial_with_many_nsec3(query: &Query, _: usize) -> Message {
    let mut message = Message::to(query, AA);
    let zone = above(query, labels(query) - 1);
    message.add(AUTHORITY, (&zone, 6), SOA);
    message.fill(AUTHORITY, 50, |number| {
        // The digits 1 to 9 and the letter A are of base32hex, so each label is a hash.
        let hash = format!("{number:032}").replace('0', "a");
        let owner = [&[32], hash.as_bytes(), &zone].concat();
        (owner, [&[1, 0, 0, 0, 0, 20][..], &[7; 20], &[0, 1, 0x40]].concat())
    });
    message
}

fn many_edns_options(query: &Query, _: usize) -> Message {
    let mut message = Message::to(query, AA);
    let options: Vec<u8> =
        (0x8000..0xbe80_u16).flat_map(|code| [code.to_be_bytes(), [0, 0]]).flatten().collect();
    message.add(ANSWER, (&QNAME, 1), &[198, 51, 100, 1]);
    message.add(ADDITIONAL, (&[0], 41), &options);
    message
}

fn service_with_many_parameters(query: &Query, _: usize) -> Message {
    let mut message = Message::to(query, AA);
    let parameters = (1_000..17_000_u16).flat_map(|key| [key.to_be_bytes(), [0, 0]]).flatten();
    let data: Vec<u8> = [0, 1, 0].into_iter().chain(parameters).collect();
    message.add(ANSWER, (&QNAME, 1), &[198, 51, 100, 1]);
    message.add(ADDITIONAL, (&QNAME, 65), &data);
    message
}

fn many_signatures_of_one_set(query: &Query, _: usize) -> Message {
    let mut message = Message::to(query, AA);
    message.add(ANSWER, (&QNAME, 1), &[198, 51, 100, 1]);
    message.fill(ANSWER, 46, |number| (QNAME.to_vec(), signature(1, number)));
    message
}

fn many_servers_of_many_names(query: &Query, number: usize) -> Message {
    let mut message = referral(query, number);
    message.fill(AUTHORITY, 2, |number| (below(number, QNAME), below(number, QNAME)));
    message
}

fn referral_with_many_signatures(query: &Query, number: usize) -> Message {
    let mut message = referral(query, number);
    let zone = above(query, labels(query) - 2);
    message.fill(AUTHORITY, 46, |number| (zone.to_vec(), signature(43, number)));
    message
}

fn long_text(query: &Query, _: usize) -> Message {
    let mut message = Message::to(query, AA);
    message.add(ANSWER, (&QNAME, 1), &[198, 51, 100, 1]);
    message.add(AUTHORITY, (&QNAME, 16), &[0; 60_000]);
    message
}

fn denial_with_long_bitmaps(query: &Query, _: usize) -> Message {
    let mut message = Message::to(query, AA);
    let zone = above(query, labels(query) - 1);
    message.add(AUTHORITY, (&zone, 6), SOA);
    message.fill(AUTHORITY, 47, |number| {
        let windows = (0..=255).flat_map(|window| [window, 1, 1]);
        (below(number, zone), std::iter::once(0).chain(windows).collect())
    });
    message
}

/// All these replies, by name.
pub(crate) const REPLIES: &[(&str, Reply)] = &[
    ("a denial by many names", denial_of_many_names),
    ("a denial by many records of one name", denial_with_many_records_at_one_name),
    ("a denial with many signatures", denial_with_many_signatures),
    ("a referral with many DS records", referral_with_many_ds),
    ("a referral with many NSEC records", referral_with_many_nsec),
    ("a referral with much glue", referral_with_much_glue),
    ("an RRset beyond its bound", many_addresses),
    ("an RRset at its bound, and extras", as_many_addresses_as_are_taken_and_extras),
    ("one record many times", one_address_many_times),
    ("a chain of aliases", chain_of_aliases),
    ("DNAME records at every name above", dnames_at_every_name_above),
    ("names that are chains of pointers", names_that_are_chains_of_pointers),
    ("malformed names at the end of chains", malformed_names_at_the_end_of_chains),
    ("records of a meta type", records_of_a_meta_type),
    ("names of 255 octets", names_of_255_octets),
    ("keys", many_keys),
    ("a denial with many NSEC3 records", denial_with_many_nsec3),
    ("EDNS options", many_edns_options),
    ("a service with many parameters", service_with_many_parameters),
    ("signatures of one RRset", many_signatures_of_one_set),
    ("servers of many names", many_servers_of_many_names),
    ("a referral with many signatures", referral_with_many_signatures),
    ("a text of 60,000 strings", long_text),
    ("a denial with long bitmaps", denial_with_long_bitmaps),
];
