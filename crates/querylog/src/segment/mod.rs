//! Sealed segments: Parquet files that any data tool reads.
//!
//! A segment is written once, under a temporary name, and then renamed. Each row group has up to
//! 2.6 million entries in the order of their ids. Texts are dictionary-encoded, times and ids are
//! stored as differences, and all pages are compressed by zstd. Names, clients and lists have bloom
//! filters.
//!
//! Every octet is covered by a checksum, which Parquet itself does not require:
//!
//! ```text
//!  PAR1 | page | page | page | ...          | bloom filters, page indexes, footer
//!         CRC-32 of each, in the footer       CRC-32 and length in the name of the file
//!         (key `avocet.pieces`)
//! ```
//!
//! Opening a segment checks its tail; a page is checked when it is read. It is an error if the name
//! does not match the octets, so a truncated file is always noticed. The crate `parquet` only sees
//! octets that were checked.
//!
//! Most columns have numbers of a dictionary for the row group. The most frequent value has number
//! zero, so that the upper bits of most numbers are zero and compress. A search compares each text
//! of a dictionary once, and reads the pages of numbers only if a text matches.

mod encode;
mod file;
mod numbered;
mod pages;
mod pieces;
mod seal;

pub(crate) use file::{RowGroup, Segment};
pub(crate) use seal::{RowGroups, RowSource, Sealer};

use std::sync::{Arc, LazyLock};

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{
    BloomFilterPosition, EnabledStatistics, WriterProperties, WriterVersion,
};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{ColumnPath, SchemaDescriptor, Type};

use crate::column::{INT_NAMES, INTS, Int, SET_NAMES, SETS, Set, TEXT_NAMES, TEXTS, Text};

/// Number of rows of a page, the same in all columns. A search decodes at least this number of
/// rows.
pub(crate) const PAGE_ROWS: usize = if cfg!(test) { 1 << 4 } else { 1 << 15 };
/// Maximum number of rows of a row group. Larger groups share more texts in their dictionaries, but
/// need more memory while they are written.
pub(crate) const GROUP_ROWS: usize = if cfg!(test) { 1 << 8 } else { 5 << 19 };
/// Number of octets of compressed names after which a row group gets no further source. Without
/// this limit, an attack with random labels would fill the memory with names.
pub(crate) const GROUP_NAME_OCTETS: u64 = 1 << 23;
/// The compression level of zstd. Most octets of pages are packed numbers, which a higher level
/// does not compress better.
const LEVEL: i32 = 3;
/// Level of zstd for dictionaries. They contain texts, and there is one dictionary for many pages
/// of numbers.
const DICTIONARY_LEVEL: i32 = 6;
/// Share of row groups without a text that its bloom filter fails to exclude.
const FALSE_POSITIVES: f64 = 0.01;
/// Key in the footer for the lengths and checksums of the pages.
const PIECES: &str = "avocet.pieces";
/// The magic number of Parquet, at both ends of a file.
const PARQUET: [u8; 4] = *b"PAR1";

/// A column of the file. The order of the columns in the file is the id, then those of `column.rs`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FileColumn {
    Id,
    Int(Int),
    Text(Text),
    Set(Set),
}

impl FileColumn {
    /// Number of columns.
    pub(crate) const COUNT: usize = 1 + INTS + TEXTS + SETS;

    pub(crate) fn all() -> impl Iterator<Item = Self> {
        std::iter::once(Self::Id)
            .chain(Int::ALL.map(Self::Int))
            .chain(Text::ALL.map(Self::Text))
            .chain(Set::ALL.map(Self::Set))
    }

    /// Returns the position of the column in the file.
    pub(crate) fn index(self) -> usize {
        match self {
            Self::Id => 0,
            Self::Int(int) => 1 + int as usize,
            Self::Text(text) => 1 + INTS + text as usize,
            Self::Set(set) => 1 + INTS + TEXTS + set as usize,
        }
    }

    fn declaration(self) -> String {
        match self {
            Self::Id => "required int64 id;".to_owned(),
            Self::Int(Int::Time) => "required int64 time (TIMESTAMP(MICROS,true));".to_owned(),
            Self::Int(int) if int.may_be_null() => {
                format!("optional int32 {};", INT_NAMES[int as usize])
            }
            // A revision is an unsigned integer of 32 bits, which needs 64 bits if signed.
            Self::Int(Int::Revision) => "required int64 revision;".to_owned(),
            Self::Int(int) => format!("required int32 {};", INT_NAMES[int as usize]),
            Self::Text(text) => {
                format!("required binary {} (STRING);", TEXT_NAMES[text as usize])
            }
            Self::Set(set) => format!(
                "required group {} (LIST) {{ repeated group list {{ required binary element \
                 (STRING); }} }}",
                SET_NAMES[set as usize]
            ),
        }
    }

    /// Reports whether the column is stored as numbers of a dictionary. The values of the other
    /// columns never decrease and are stored as differences.
    fn is_numbered(self) -> bool {
        !matches!(self, Self::Id | Self::Int(Int::Time | Int::Revision))
    }

    /// Reports whether the column has a bloom filter.
    fn has_filter(self) -> bool {
        matches!(self, Self::Text(Text::Qname | Text::Client) | Self::Set(Set::Lists))
    }

    fn path(self) -> ColumnPath {
        match self {
            Self::Id => ColumnPath::from("id"),
            Self::Int(int) => ColumnPath::from(INT_NAMES[int as usize]),
            Self::Text(text) => ColumnPath::from(TEXT_NAMES[text as usize]),
            Self::Set(set) => {
                let parts = [SET_NAMES[set as usize], "list", "element"];
                ColumnPath::new(parts.map(str::to_owned).to_vec())
            }
        }
    }
}

/// The schema of every segment.
pub(crate) static SCHEMA: LazyLock<Option<Arc<Type>>> = LazyLock::new(|| {
    let columns: Vec<_> = FileColumn::all().map(FileColumn::declaration).collect();
    parse_message_type(&format!("message query {{ {} }}", columns.join(" "))).ok().map(Arc::new)
});

/// Returns the schema with a descriptor of each column.
fn descriptor() -> Option<SchemaDescriptor> {
    SCHEMA.clone().map(SchemaDescriptor::new)
}

/// Returns the properties with which segments are written.
fn properties() -> WriterProperties {
    let level = ZstdLevel::try_new(LEVEL).unwrap_or_default();
    let mut properties = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_2_0)
        .set_created_by(concat!("avocet ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(level))
        .set_encoding(Encoding::PLAIN)
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_write_batch_size(PAGE_ROWS)
        .set_data_page_size_limit(1 << 23)
        .set_max_row_group_row_count(None)
        // The tail then follows the column chunks without a gap, so each octet has a checksum.
        .set_bloom_filter_position(BloomFilterPosition::End)
        .set_statistics_enabled(EnabledStatistics::Page);
    for column in FileColumn::all().filter(|column| !column.is_numbered()) {
        let path = column.path();
        properties = properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    properties.build()
}
