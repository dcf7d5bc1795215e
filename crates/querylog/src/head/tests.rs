//! Tests of the head on disk: entries that were written can be read, and damage affects only one
//! block.

use std::fs;
use std::path::PathBuf;

use super::*;
use crate::column::{Int, NULL, Set, Text};
use crate::directory::Listing;
use crate::scratch::{Numbered, Scratch};
use crate::{Entry, Facts, NO_EDE, Outcome, Privacy, Writer, WriterOptions};

pub(crate) fn options(scratch: &Scratch) -> WriterOptions {
    WriterOptions {
        directory: scratch.0.clone(),
        head_entries: 1000,
        head_secs: 3600,
        pseudonym_key: [1; 16],
    }
}

pub(crate) fn numbered(number: u32, privacy: Privacy) -> Entry<'static> {
    let facts = Facts {
        response_delay_us: number,
        upstream_rtt_us: number % 2,
        revision: 7,
        profile: 2,
        device: 5,
        upstream: 1,
        rule: 3,
        qtype: 28,
        flags: 0x8180,
        rcode: 3,
        ede: if number.is_multiple_of(3) { 15 } else { NO_EDE },
        answer_count: 2,
        query_size: 40,
        response_size: 100,
        stage: 1,
        cache: 2,
        validation: 1,
        outcome: Outcome::Blocked,
        privacy,
        ..Facts::of(1_700_000_000_000_000 + u64::from(number), [192, 0, 2, number as u8].into())
    };
    // The answer has an alias, from the QNAME to the name `a.QNAME`, and an address of that name.
    let answer = b"\xc0\x0c\x00\x05\x00\x01\x00\x00\x00\x09\x00\x04\x01a\xc0\x0c\
                   \xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x09\x00\x04\xc0\x00\x02\x09";
    Entry { facts, qname: b"\x03WwW\x07Example\x00", lists: &[4, 9], answer }
}

/// Writes entries in blocks of `per_block` entries. Returns the files of the head.
fn written(scratch: &Scratch, count: u32, per_block: u32) -> Vec<PathBuf> {
    let mut now = 0;
    let mut writer = Writer::open(options(scratch), now).unwrap();
    for number in 0..count {
        writer.add(&numbered(number, Privacy::Full), &Numbered, now).unwrap();
        if (number + 1).is_multiple_of(per_block) {
            now += 1_000_000;
            writer.tick(now).unwrap();
        }
    }
    assert_eq!(writer.close(now).unwrap().written, u64::from(count));
    Listing::read(&scratch.0).unwrap().heads.into_iter().map(|head| head.path).collect()
}

fn share(block: &Block, number: u32) -> String {
    String::from_utf8(block.dictionary().get(number).to_vec()).unwrap()
}

/// Returns the delays of all entries in intact blocks. The delays identify the entries.
fn delays(reader: &HeadReader) -> Vec<i64> {
    let mut delays = Vec::new();
    for place in &reader.blocks {
        reader.block(place).unwrap().ints(Int::Delay, &mut delays).unwrap();
    }
    delays
}

#[test]
fn an_entry_is_read_as_it_was_added() {
    let scratch = Scratch::create();
    let files = written(&scratch, 2, 2);
    let reader = HeadReader::open(&files[0]).unwrap();
    let block = reader.block(&reader.blocks[0]).unwrap();
    let text = |text: Text| {
        let mut numbers = Vec::new();
        block.text_numbers(text, &mut numbers).unwrap();
        share(&block, numbers[1])
    };
    assert_eq!(text(Text::Qname), "www.example.");
    assert_eq!(text(Text::Client), "192.0.2.1");
    assert_eq!(text(Text::Device), "Device-7-5-0");
    assert_eq!(text(Text::Listener), "");
    assert_eq!(text(Text::Qtype), "AAAA");
    assert_eq!(text(Text::Rcode), "NXDOMAIN");
    assert_eq!(text(Text::Outcome), "blocked");
    assert_eq!(text(Text::Answer), "a.www.example. 192.0.2.9");
    let int = |int: Int| {
        let mut values = Vec::new();
        block.ints(int, &mut values).unwrap();
        values[1]
    };
    assert_eq!(int(Int::Time), 1_700_000_000_000_001);
    assert_eq!(int(Int::Ede), NULL);
    assert_eq!(int(Int::Rtt), 1);
    assert_eq!(int(Int::Flags), 0x8180);
    let mut sets = Vec::new();
    block.set_numbers(Set::Lists, &mut sets).unwrap();
    let members = &block.sets()[sets[1] as usize];
    let lists: Vec<String> = members.iter().map(|text| share(&block, *text)).collect();
    assert_eq!(lists, ["List-7-4-0", "List-7-9-0"]);
}

#[test]
fn privacy_hides_the_client_or_the_question() {
    let scratch = Scratch::create();
    let mut writer = Writer::open(options(&scratch), 0).unwrap();
    for (number, privacy) in
        [Privacy::Truncated, Privacy::Pseudonym, Privacy::NoNames].into_iter().enumerate()
    {
        writer.add(&numbered(number as u32, privacy), &Numbered, 0).unwrap();
    }
    writer.close(0).unwrap();
    let listing = Listing::read(&scratch.0).unwrap();
    let reader = HeadReader::open(&listing.heads[0].path).unwrap();
    let block = reader.block(&reader.blocks[0]).unwrap();
    let texts = |text: Text| {
        let mut numbers = Vec::new();
        block.text_numbers(text, &mut numbers).unwrap();
        numbers.into_iter().map(|number| share(&block, number)).collect::<Vec<_>>()
    };
    let clients = texts(Text::Client);
    assert_eq!(clients[0], "192.0.2.0");
    assert!(!clients[1].starts_with("192.0.2."), "{}", clients[1]);
    assert_eq!(clients[2], "192.0.2.2");
    assert_eq!(texts(Text::Device), ["", "", "Device-7-5-0"]);
    assert_eq!(texts(Text::Qname), ["www.example.", "www.example.", ""]);
    assert_eq!(texts(Text::Answer)[2], "");
}

#[test]
fn files_are_cut_by_entries_and_ids_go_on_after_a_restart() {
    let scratch = Scratch::create();
    assert_eq!(written(&scratch, 2500, 100).len(), 3);
    let files = written(&scratch, 10, 100);
    let readers: Vec<_> = files.iter().map(|path| HeadReader::open(path).unwrap()).collect();
    let firsts: Vec<_> = readers.iter().map(|r| r.blocks[0].header.first_id).collect();
    assert_eq!(firsts, [0, 1000, 2000, 2500]);
}

#[test]
fn a_second_writer_is_refused_until_the_first_one_ends() {
    let scratch = Scratch::create();
    let first = Writer::open(options(&scratch), 0).unwrap();
    assert!(matches!(Writer::open(options(&scratch), 0), Err(LogError::Locked(_))));
    drop(first);
    Writer::open(options(&scratch), 0).unwrap();
}

#[test]
fn truncation_at_any_octet_costs_the_last_block_only() {
    let scratch = Scratch::create();
    let path = written(&scratch, 12, 3).remove(0);
    let whole = fs::read(&path).unwrap();
    let places = HeadReader::open(&path).unwrap().blocks;
    for len in (0..whole.len()).rev() {
        fs::write(&path, &whole[..len]).unwrap();
        let reader = HeadReader::open(&path).unwrap();
        let end = |place: &&BlockPlace| {
            place.offset as usize + HEADER + place.header.stored as usize <= len
        };
        let intact = places.iter().filter(end).count();
        assert_eq!(delays(&reader), (0..3 * intact as i64).collect::<Vec<_>>());
        let loss = reader.final_loss();
        let rest = len - places.get(intact).map_or(len, |place| place.offset as usize);
        assert_eq!(loss.octets, rest as u64);
        assert_eq!(loss.entries, if rest >= HEADER { 3 } else { 0 });
    }
}

#[test]
fn a_flipped_bit_costs_its_block_only() {
    let scratch = Scratch::create();
    let path = written(&scratch, 12, 3).remove(0);
    let whole = fs::read(&path).unwrap();
    let places = HeadReader::open(&path).unwrap().blocks;
    for bit in (0..whole.len() * 8).step_by(5) {
        let mut octets = whole.clone();
        octets[bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, &octets).unwrap();
        let reader = HeadReader::open(&path).unwrap();
        let hit = places.iter().rposition(|place| place.offset as usize <= bit / 8).unwrap();
        let expected: Vec<_> = (0..12).filter(|delay| *delay / 3 != hit as i64).collect();
        assert_eq!(delays(&reader), expected);
        assert!(reader.final_loss().octets > 0);
    }
}

#[test]
fn a_reader_finds_blocks_as_they_are_appended() {
    let scratch = Scratch::create();
    let path = written(&scratch, 12, 3).remove(0);
    let whole = fs::read(&path).unwrap();
    fs::write(&path, b"").unwrap();
    let mut reader = HeadReader::open(&path).unwrap();
    let mut file = OpenOptions::new().append(true).open(&path).unwrap();
    for part in whole.chunks(whole.len() / 7) {
        file.write_all(part).unwrap();
        reader.refresh().unwrap();
    }
    assert_eq!(delays(&reader), (0..12).collect::<Vec<_>>());
    assert_eq!(reader.final_loss(), HeadLoss::default());
}
