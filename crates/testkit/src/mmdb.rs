//! A writer of files in the MaxMind DB format 2.0, based on its public specification:
//! <https://maxmind.github.io/MaxMind-DB/>.
//!
//! ```text
//! search tree, one node after another | 16 zero octets | data | marker | metadata
//! ```

use std::collections::HashMap;
use std::net::IpAddr;

const MARKER: &[u8] = b"\xab\xcd\xefMaxMind.com";
const SEPARATOR: usize = 16;
/// Keys with at least this many octets are written once, as real writers do.
const SHARED_KEY: usize = 3;
/// The time 2026-11-21, 12:00 in UTC.
const BUILT_AT: u64 = 1_795_262_400;

/// A value of the data section.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Record {
    /// Pairs of a key and a value.
    Map(Vec<(Record, Record)>),
    /// Values in their order.
    Array(Vec<Record>),
    /// Text in UTF-8.
    Text(String),
    /// A number of 16 bits.
    U16(u16),
    /// An integer of 32 bits.
    U32(u32),
    /// An integer of 64 bits.
    U64(u64),
    /// The bits of a double.
    Double(u64),
    /// A value that is true or false.
    Boolean(bool),
    /// A value that is written once and referenced by pointers.
    Shared(Box<Record>),
}

impl Record {
    /// Returns a map with these keys.
    pub fn map<K: Into<String>>(pairs: impl IntoIterator<Item = (K, Self)>) -> Self {
        let key = |key: String| match key.len() {
            SHARED_KEY.. => Self::Text(key).shared(),
            _ => Self::Text(key),
        };
        Self::Map(pairs.into_iter().map(|(name, value)| (key(name.into()), value)).collect())
    }

    /// Returns a text.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }

    /// Returns a number.
    #[must_use]
    pub fn number(number: u32) -> Self {
        Self::U32(number)
    }

    /// Returns the usual record of country databases: `country.iso_code` with names.
    #[must_use]
    pub fn country(code: &str) -> Self {
        let names = Self::map([
            ("en", Self::text("The name of a country")),
            ("de", Self::text("Der Name eines Landes")),
        ]);
        let country = [
            ("geoname_id", Self::number(2_750_405)),
            ("iso_code", Self::text(code)),
            ("names", names),
        ];
        Self::map([("country", Self::map(country).shared())])
    }

    /// Returns the same value, to be written once for all its uses.
    #[must_use]
    pub fn shared(self) -> Self {
        Self::Shared(Box::new(self))
    }
}

/// The target of one bit of an address in the search tree.
#[derive(Clone, Copy)]
enum Way {
    Nowhere,
    Node(usize),
    Data(usize),
}

/// A database under construction.
pub struct Database {
    database_type: String,
    built_at: u64,
    record_bits: usize,
    is_v6: bool,
    nodes: Vec<[Way; 2]>,
    data: Vec<u8>,
    written: HashMap<Record, usize>,
}

impl Database {
    /// Creates an empty database of this type for IPv4 and IPv6, with records of 24 bits.
    #[must_use]
    pub fn new(database_type: &str) -> Self {
        Self {
            database_type: database_type.to_owned(),
            built_at: BUILT_AT,
            record_bits: 24,
            is_v6: true,
            nodes: vec![[Way::Nowhere; 2]],
            data: Vec::new(),
            written: HashMap::new(),
        }
    }

    /// Creates a database with the countries of these networks.
    #[must_use]
    pub fn of_countries(networks: &[(&str, &str)]) -> Self {
        let mut database = Self::new("Test-Country");
        networks.iter().for_each(|(network, code)| database.put(network, Record::country(code)));
        database
    }

    /// Sets the record size of the tree: 24, 28 or 32 bits.
    #[must_use]
    pub fn with_record_bits(mut self, bits: usize) -> Self {
        self.record_bits = bits;
        self
    }

    /// Sets the build time in Unix seconds.
    #[must_use]
    pub fn with_built_at(mut self, secs: u64) -> Self {
        self.built_at = secs;
        self
    }

    /// Restricts the database to IPv4. Call it before networks are added.
    #[must_use]
    pub fn of_v4_only(mut self) -> Self {
        self.is_v6 = false;
        self
    }

    /// Adds a network such as `192.0.2.0/24`. Wider networks must precede those within them.
    ///
    /// # Panics
    /// The network is malformed, or is IPv6 in a database of IPv4.
    pub fn put(&mut self, network: &str, record: Record) {
        let place = self.place(&record);
        self.lead(network, Way::Data(place));
    }

    /// Maps a network of 6to4, Teredo or IPv4-mapped addresses to the IPv4 addresses, as real
    /// writers do. Call it after adding an IPv4 network.
    ///
    /// # Panics
    /// There is no IPv4 network yet.
    pub fn alias(&mut self, network: &str) {
        let mut way = Way::Node(0);
        for _ in 0..96 {
            let Way::Node(node) = way else { panic!("no IPv4 network") };
            way = self.nodes[node][0];
        }
        self.lead(network, way);
    }

    fn lead(&mut self, network: &str, to: Way) {
        let (bits, len) = self.bits(network);
        let mut node = 0;
        for at in 0..len {
            let bit = (bits >> (127 - at)) as usize & 1;
            if at + 1 == len {
                self.nodes[node][bit] = to;
                return;
            }
            node = match self.nodes[node][bit] {
                Way::Node(next) => next,
                way => {
                    self.nodes.push([way; 2]);
                    self.nodes[node][bit] = Way::Node(self.nodes.len() - 1);
                    self.nodes.len() - 1
                }
            };
        }
    }

    /// Returns the bits of a network, with the first bit as the highest, and the number of bits.
    fn bits(&self, network: &str) -> (u128, u32) {
        let (address, len) = network.split_once('/').expect("address/length");
        let len: u32 = len.parse().expect("a length");
        match address.parse().expect("an address") {
            IpAddr::V4(address) if self.is_v6 => (u128::from(u32::from(address)), len + 96),
            IpAddr::V4(address) => (u128::from(u32::from(address)) << 96, len),
            IpAddr::V6(address) => {
                assert!(self.is_v6, "a network of IPv6 in a database of IPv4");
                (address.into(), len)
            }
        }
    }

    /// Returns the offset of the record in the data, and writes the record if necessary.
    fn place(&mut self, record: &Record) -> usize {
        if let Some(place) = self.written.get(record) {
            return *place;
        }
        self.write_shared(record);
        let mut octets = Vec::new();
        write(record, &self.written, &mut octets);
        let place = self.data.len();
        self.data.extend(octets);
        self.written.insert(record.clone(), place);
        place
    }

    /// Writes shared values before the values that refer to them.
    fn write_shared(&mut self, record: &Record) {
        match record {
            Record::Shared(inner) => {
                self.place(inner);
            }
            Record::Map(pairs) => pairs.iter().for_each(|(key, value)| {
                self.write_shared(key);
                self.write_shared(value);
            }),
            Record::Array(values) => values.iter().for_each(|value| self.write_shared(value)),
            _ => {}
        }
    }

    /// Returns the file.
    #[must_use]
    pub fn octets(&self) -> Vec<u8> {
        let mut octets = Vec::new();
        for ways in &self.nodes {
            let [left, right] = ways.map(|way| match way {
                Way::Nowhere => self.nodes.len() as u32,
                Way::Node(node) => node as u32,
                Way::Data(place) => (self.nodes.len() + SEPARATOR + place) as u32,
            });
            let (low_left, low_right) = (left.to_be_bytes(), right.to_be_bytes());
            match self.record_bits {
                24 => octets.extend([&low_left[1..], &low_right[1..]].concat()),
                28 => {
                    octets.extend(&low_left[1..]);
                    octets.push(low_left[0] << 4 | low_right[0]);
                    octets.extend(&low_right[1..]);
                }
                _ => octets.extend([low_left, low_right].concat()),
            }
        }
        octets.extend([0; SEPARATOR]);
        octets.extend(&self.data);
        octets.extend(MARKER);
        let plain = HashMap::new();
        write(&self.metadata(), &plain, &mut octets);
        octets
    }

    fn metadata(&self) -> Record {
        let text = |text: &str| Record::Text(text.to_owned());
        let pairs = [
            ("binary_format_major_version", Record::U16(2)),
            ("binary_format_minor_version", Record::U16(0)),
            ("build_epoch", Record::U64(self.built_at)),
            ("database_type", text(&self.database_type)),
            ("description", Record::Map(vec![(text("en"), text("For tests"))])),
            ("ip_version", Record::U16(if self.is_v6 { 6 } else { 4 })),
            ("languages", Record::Array(vec![text("en")])),
            ("node_count", Record::U32(self.nodes.len() as u32)),
            ("record_size", Record::U16(self.record_bits as u16)),
        ];
        Record::Map(pairs.map(|(key, value)| (text(key), value)).into())
    }
}

fn write(record: &Record, written: &HashMap<Record, usize>, out: &mut Vec<u8>) {
    match record {
        Record::Shared(inner) => pointer(written[&**inner], out),
        Record::Text(text) => {
            header(2, text.len(), out);
            out.extend(text.as_bytes());
        }
        Record::Double(bits) => {
            header(3, 8, out);
            out.extend(bits.to_be_bytes());
        }
        Record::U16(number) => unsigned(5, u64::from(*number), out),
        Record::U32(number) => unsigned(6, u64::from(*number), out),
        Record::U64(number) => unsigned(9, *number, out),
        Record::Boolean(value) => header(14, usize::from(*value), out),
        Record::Map(pairs) => {
            header(7, pairs.len(), out);
            for (key, value) in pairs {
                write(key, written, out);
                write(value, written, out);
            }
        }
        Record::Array(values) => {
            header(11, values.len(), out);
            values.iter().for_each(|value| write(value, written, out));
        }
    }
}

/// Writes a type and a size, in five bits or in additional octets.
fn header(kind: u8, size: usize, out: &mut Vec<u8>) {
    let (bits, more): (u8, &[u8]) = match size {
        0..29 => (size as u8, &[]),
        29..285 => (29, &((size - 29) as u32).to_be_bytes()[3..]),
        285..65_821 => (30, &((size - 285) as u32).to_be_bytes()[2..]),
        _ => (31, &((size - 65_821) as u32).to_be_bytes()[1..]),
    };
    match kind {
        1..=7 => out.push(kind << 5 | bits),
        _ => out.extend([bits, kind - 7]),
    }
    out.extend(more);
}

/// Writes an unsigned number without leading zero octets.
fn unsigned(kind: u8, number: u64, out: &mut Vec<u8>) {
    let octets = number.to_be_bytes();
    let used = &octets[number.leading_zeros() as usize / 8..];
    header(kind, used.len(), out);
    out.extend(used);
}

fn pointer(to: usize, out: &mut Vec<u8>) {
    let (size, value) = match to {
        0..2_048 => (0_u8, to),
        2_048..526_336 => (1, to - 2_048),
        526_336..134_744_064 => (2, to - 526_336),
        _ => (3, to),
    };
    let octets = (value as u32).to_be_bytes();
    let low = usize::from(size) + 1;
    let high = if size < 3 { (value >> (8 * low)) as u8 } else { 0 };
    out.push(1 << 5 | size << 3 | high);
    out.extend(&octets[4 - low..]);
}
