//! Properties of writing arbitrary records, checked by the tests and the fuzz target `builder`.
//!
//! The input is a program whose octets select what to write, when to rewind and how long the
//! message may be. Accepted records must be equal when they are read back, except for the case of
//! names. A record may be refused only if it does not fit.

use avocet_wire::builder::{Full, OptFields, Record};
use avocet_wire::edns::EdnsOption;
use avocet_wire::{Builder, Class, MessageView, Rcode, Rtype, Section};

const SECTIONS: [Section; 3] = [Section::Answer, Section::Authority, Section::Additional];
const TYPES: [u16; 12] = [1, 2, 5, 6, 12, 15, 16, 28, 33, 39, 46, 65_280];
/// Maximum number of records of one program.
const MOST: usize = 400;

/// A source of octets, which returns zeros after its end.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn octet(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    fn word(&mut self) -> u16 {
        u16::from_be_bytes([self.octet(), self.octet()])
    }

    fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// Returns a name: some labels, followed by a suffix of an earlier name or by the root.
    fn name(&mut self, known: &mut Vec<Vec<u8>>) -> Vec<u8> {
        let choice = self.octet();
        let suffix = known.get(usize::from(choice >> 2)).cloned().unwrap_or(vec![0]);
        let mut name = Vec::new();
        for _ in 0..choice & 3 {
            let length = 1 + usize::from(self.octet() % 63);
            let label = self.take(length);
            if !label.is_empty() {
                name.push(label.len() as u8);
                name.extend_from_slice(label);
            }
        }
        name.extend_from_slice(&suffix);
        if name.len() > 255 {
            return suffix;
        }
        let labels = avocet_wire::name::ancestors(&name);
        known.extend(labels.take(if known.len() < 64 { 4 } else { 0 }).map(<[u8]>::to_vec));
        name
    }
}

#[derive(Clone)]
struct Written {
    section: Section,
    owner: Vec<u8>,
    rtype: u16,
    ttl_secs: u32,
    rdata: Vec<u8>,
    /// The location of the names in the data. Their case may change.
    names: std::ops::Range<usize>,
}

impl Written {
    fn read(reader: &mut Reader<'_>, section: Section, known: &mut Vec<Vec<u8>>) -> Self {
        let owner = reader.name(known);
        let rtype = TYPES[usize::from(reader.octet()) % TYPES.len()];
        let ttl_secs = u32::from(reader.word());
        let (prefix, names, rest) = match rtype {
            2 | 5 | 12 | 39 => (0, 1, 0),
            6 => (0, 2, 20),
            15 => (2, 1, 0),
            33 => (6, 1, 0),
            _ => (usize::from(reader.octet()), 0, 0),
        };
        let mut rdata = vec![7; prefix];
        for _ in 0..names {
            rdata.extend_from_slice(&reader.name(known));
        }
        let names = prefix..rdata.len();
        rdata.extend_from_slice(&vec![9; rest]);
        Self { section, owner, rtype, ttl_secs, rdata, names }
    }

    fn record(&self) -> Record<'_> {
        let (rtype, class) = (Rtype(self.rtype), Class::IN);
        Record { owner: &self.owner, rtype, class, ttl_secs: self.ttl_secs, rdata: &self.rdata }
    }

    fn uncompressed_len(&self) -> usize {
        self.owner.len() + 10 + self.rdata.len()
    }

    fn is_read_as(&self, rdata: &[u8]) -> bool {
        let names = self.names.clone();
        rdata.len() == self.rdata.len()
            && rdata[..names.start] == self.rdata[..names.start]
            && rdata[names.clone()].eq_ignore_ascii_case(&self.rdata[names.clone()])
            && rdata[names.end..] == self.rdata[names.end..]
    }
}

/// Runs the program and reads its message back.
pub(crate) fn holds(program: &[u8]) {
    let mut reader = Reader(program);
    let limit = usize::from(reader.word());
    let (id, flags) = (reader.word(), reader.word() & !0xf);
    let mut out = vec![0xee; 65_535];
    let Ok(mut builder) = Builder::new(&mut out, limit, id, flags) else {
        return assert!(limit < 12);
    };
    let mut known = Vec::new();
    let qname = reader.name(&mut known);
    let asked = builder.question(&qname, Rtype::A, Class::IN).is_ok();
    assert_eq!(asked, 12 + qname.len() + 4 <= limit);
    let mut written = Vec::new();
    let mut section = 0;
    for _ in 0..MOST {
        if reader.0.is_empty() {
            break;
        }
        let command = reader.octet();
        section = SECTIONS.len().min(section + usize::from(command & 7 == 7)).min(2);
        match command >> 5 {
            0 => rewound(&mut builder, &mut reader, SECTIONS[section], &mut known),
            1 => rrset(
                &mut builder,
                &mut reader,
                SECTIONS[section],
                (&mut known, &mut written),
                limit,
            ),
            _ => single(
                &mut builder,
                &mut reader,
                SECTIONS[section],
                (&mut known, &mut written),
                limit,
            ),
        }
    }
    let fields = OptFields { udp_size: 1232, rcode: Rcode(16), dnssec_ok: true };
    let with_opt = builder.opt(&fields, &[EdnsOption::Nsid(b"id")]).is_ok();
    let len = builder.finish();
    assert!(len <= limit);
    let questions = asked.then_some(&qname[..]);
    read_back(&out[..len], questions, &written, with_opt);
}

type Lists<'l> = (&'l mut Vec<Vec<u8>>, &'l mut Vec<Written>);

fn single(
    builder: &mut Builder<'_>,
    reader: &mut Reader<'_>,
    section: Section,
    lists: Lists<'_>,
    limit: usize,
) {
    let record = Written::read(reader, section, lists.0);
    let before = builder.len();
    match builder.record(section, &record.record()) {
        Ok(()) => lists.1.push(record),
        Err(Full) => {
            assert_eq!(builder.len(), before);
            assert!(before + record.uncompressed_len() > limit);
        }
    }
}

fn rrset(
    builder: &mut Builder<'_>,
    reader: &mut Reader<'_>,
    section: Section,
    lists: Lists<'_>,
    limit: usize,
) {
    let count = 1 + reader.octet() % 4;
    let set: Vec<_> = (0..count).map(|_| Written::read(reader, section, lists.0)).collect();
    let before = builder.len();
    match builder.rrset(section, set.iter().map(Written::record)) {
        Ok(()) => lists.1.extend(set),
        Err(Full) => {
            assert_eq!(builder.len(), before);
            assert!(before + set.iter().map(Written::uncompressed_len).sum::<usize>() > limit);
        }
    }
}

/// Writes a record and rewinds. No trace of the record may remain.
fn rewound(
    builder: &mut Builder<'_>,
    reader: &mut Reader<'_>,
    section: Section,
    known: &mut Vec<Vec<u8>>,
) {
    let mark = builder.mark();
    let record = Written::read(reader, section, known);
    let _ = builder.record(section, &record.record());
    builder.rewind(mark);
}

fn read_back(octets: &[u8], qname: Option<&[u8]>, written: &[Written], with_opt: bool) {
    let view = MessageView::new(octets).expect("a header");
    assert_eq!(
        view.question().ok().map(|q| q.qname().expect("a name").wire().to_vec()).as_deref(),
        qname
    );
    let mut records = view.records().expect("questions");
    let mut rdata = vec![0; 65_535];
    for expected in written {
        let record = records.next().expect("as many records").expect("a sound record");
        assert_eq!(record.section as usize + 1, expected.section as usize);
        assert!(record.owner().expect("an owner").wire().eq_ignore_ascii_case(&expected.owner));
        assert_eq!((record.rtype.0, record.class), (expected.rtype, Class::IN));
        assert_eq!(record.ttl_secs(), expected.ttl_secs);
        let len = record.expand_rdata(&mut rdata).expect("sound data");
        assert!(expected.is_read_as(&rdata[..len]), "type {}", expected.rtype);
    }
    assert_eq!(records.next().is_some(), with_opt);
    assert_eq!((records.next().is_none(), records.position()), (true, octets.len()));
    assert_eq!(view.edns().expect("sound").is_some(), with_opt);
    assert_eq!(view.header().rcode(), Rcode(0));
}
