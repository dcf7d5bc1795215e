//! Sealed segments: Parquet files that any data tool reads.
//!
//! A segment is written once, under a temporary name, and then renamed. Each row group has up to a
//! million entries in the order of their ids. Texts are dictionary-encoded, times and ids are
//! stored as differences, all pages are compressed by zstd. Names, clients and lists have bloom
//! filters.
//!
//! Every octet is covered by a checksum, which Parquet itself does not require:
//!
//! ```text
//!  PAR1 | column chunk | column chunk | ... | bloom filters, page indexes, footer
//!         CRC-32 of each, in the footer       CRC-32 and length in the name of the file
//!         (key `avocet.chunks`)
//! ```
//!
//! To open a segment is to check its tail; a column chunk is checked when it is read. A name that
//! does not fit the octets is an error, so a file is never used in part without notice. The crate
//! `parquet` only sees octets that were checked.

mod encode;
mod file;
mod pages;
mod seal;

pub(crate) use file::{RowGroup, Segment};
pub(crate) use seal::{RowSource, Sealer};

use std::sync::{Arc, LazyLock};

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{
    BloomFilterPosition, EnabledStatistics, WriterProperties, WriterVersion,
};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{ColumnPath, SchemaDescriptor, Type};

use crate::column::{INT_NAMES, INTS, Int, SET_NAMES, SETS, Set, TEXT_NAMES, TEXTS, Text};

/// Rows of a page, the same in all columns: what one page of a search decodes at least.
/// Tests have small pages and row groups, so that files have several of them.
pub(crate) const PAGE_ROWS: usize = if cfg!(test) { 1 << 4 } else { 1 << 16 };
/// Rows of the largest row group. Larger ones share more in their dictionaries, and need more
/// memory to write.
pub(crate) const GROUP_ROWS: usize = if cfg!(test) { 1 << 8 } else { 1 << 20 };
/// Level of zstd for pages. Most of their octets are packed numbers, which no level makes smaller.
const LEVEL: i32 = 3;
/// Octets of a dictionary page, above which the rest of a column is stored plainly: a million names
/// of an attack with random labels.
const DICTIONARY_OCTETS: usize = 1 << 24;
/// Share of row groups that a bloom filter does not exclude by mistake.
const FALSE_POSITIVES: f64 = 0.01;
/// Key of the footer with the checksums of the column chunks.
const CHECKSUMS: &str = "avocet.chunks";
/// The magic number of Parquet, at both ends of a file.
const PARQUET: [u8; 4] = *b"PAR1";

/// A column of the file, in the order of the schema: the id and then those of `column.rs`.
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

    /// Returns the place in the file.
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
            // Revisions have 32 bits without a sign.
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

/// Returns the schema with its columns in order.
fn descriptor() -> Option<SchemaDescriptor> {
    SCHEMA.clone().map(SchemaDescriptor::new)
}

/// Returns how segments are written.
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
        .set_dictionary_page_size_limit(DICTIONARY_OCTETS)
        .set_max_row_group_row_count(None)
        // All column chunks precede the tail, without gaps: each octet has a checksum.
        .set_bloom_filter_position(BloomFilterPosition::End)
        .set_statistics_enabled(EnabledStatistics::Page);
    for column in FileColumn::all() {
        let path = column.path();
        properties = match column {
            FileColumn::Id | FileColumn::Int(Int::Time | Int::Revision) => properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED),
            FileColumn::Int(Int::Delay | Int::Rtt) => {
                properties.set_column_dictionary_enabled(path, false)
            }
            FileColumn::Text(Text::Qname | Text::Client) | FileColumn::Set(Set::Lists) => {
                properties
                    .set_column_bloom_filter_fpp(path.clone(), FALSE_POSITIVES)
                    .set_column_bloom_filter_max_ndv(path, GROUP_ROWS as u64)
            }
            _ => properties,
        };
    }
    properties.build()
}
