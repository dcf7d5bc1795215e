//! Writes a segment: column by column, so that the memory is that of one column of a row group.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterPropertiesPtr;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::SchemaDescriptor;

use super::encode::{self, EncodeError};
use super::{CHECKSUMS, FileColumn, SCHEMA};
use crate::chunk::Chunk;
use crate::directory::{SegmentLabel, SegmentName};
use crate::error::LogError;

/// Entries for a row group: all of a chunk, or those that are kept.
pub(crate) struct RowSource {
    pub(crate) chunk: Chunk,
    /// Whether each row is kept; all are if it is empty.
    pub(crate) kept: Vec<bool>,
}

impl RowSource {
    pub(crate) fn keeps(&self, row: usize) -> bool {
        self.kept.get(row).copied().unwrap_or(true)
    }

    /// Returns the number of rows that are kept.
    pub(crate) fn len(&self) -> usize {
        if self.kept.is_empty() {
            return self.chunk.len();
        }
        self.kept.iter().filter(|kept| **kept).count()
    }
}

/// A segment that is being written.
pub(crate) struct Sealer {
    part: PathBuf,
    writer: SerializedFileWriter<File>,
    schema: SchemaDescriptor,
    properties: WriterPropertiesPtr,
    checksums: String,
}

impl Sealer {
    /// Begins a file under a temporary name.
    ///
    /// # Errors
    /// The file cannot be created.
    pub(crate) fn create(directory: &Path, first_id: u64) -> Result<Self, LogError> {
        let part = directory.join(format!("queries-{first_id:016x}.part"));
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&part)
            .map_err(LogError::file("create", &part))?;
        let no_schema = || LogError::damaged(&part, "its schema is invalid");
        let schema = super::descriptor().ok_or_else(no_schema)?;
        let root = SCHEMA.clone().ok_or_else(no_schema)?;
        let properties = Arc::new(super::properties());
        let writer = SerializedFileWriter::new(file, root, Arc::clone(&properties))
            .map_err(|error| failed(&part, error))?;
        Ok(Self { part, writer, schema, properties, checksums: String::new() })
    }

    /// Writes a row group.
    ///
    /// # Errors
    /// A source cannot be read, or the file cannot be written.
    pub(crate) fn row_group(&mut self, sources: &[RowSource]) -> Result<(), LogError> {
        let Self { part, writer, schema, properties, checksums } = self;
        let mut group = writer.next_row_group().map_err(|error| failed(part, error))?;
        for column in FileColumn::all() {
            let description = schema.column(column.index());
            let encoded = encode::column(column, description, properties, sources);
            let encoded = encoded.map_err(|error| match error {
                EncodeError::Source(error) => error,
                EncodeError::Parquet(error) => failed(part, error),
            })?;
            checksums.push_str(&format!("{:08x}", crc32fast::hash(&encoded.octets)));
            group
                .append_column(&encoded.octets, encoded.close)
                .map_err(|error| failed(part, error))?;
        }
        group.close().map(drop).map_err(|error| failed(part, error))
    }

    /// Completes the file and gives it its name.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn finish(mut self, label: &SegmentLabel) -> Result<SegmentName, LogError> {
        let checksums = std::mem::take(&mut self.checksums);
        self.writer.append_key_value_metadata(KeyValue::new(CHECKSUMS.to_owned(), checksums));
        let metadata = self.writer.finish().map_err(|error| failed(&self.part, error))?;
        let last = metadata.row_groups().last().and_then(|group| group.columns().last());
        let tail_start = last.map_or(4, |column| {
            let (start, len) = column.byte_range();
            start + len
        });
        let Self { part, writer, .. } = self;
        let tail = Tail::of(writer.inner(), tail_start).map_err(LogError::file("write", &part))?;
        let name = format!(
            "queries-{}-{:016x}-{:016x}-{:02x}-{:08x}-{:08x}.parquet",
            label.stamp,
            label.ids.start(),
            label.ids.end(),
            label.generation,
            tail.octets,
            tail.crc
        );
        let path = part.with_file_name(name);
        fs::rename(&part, &path).map_err(LogError::file("rename", &part))?;
        sync_directory(&path)?;
        Ok(SegmentName { path, label: label.clone(), tail: tail.octets, crc: tail.crc })
    }
}

/// The end of a file that is on the disk.
struct Tail {
    octets: u64,
    crc: u32,
}

impl Tail {
    fn of(mut file: &File, start: u64) -> io::Result<Self> {
        file.sync_all()?;
        file.seek(SeekFrom::Start(start))?;
        let mut octets = Vec::new();
        file.read_to_end(&mut octets)?;
        Ok(Self { octets: octets.len() as u64, crc: crc32fast::hash(&octets) })
    }
}

fn sync_directory(path: &Path) -> Result<(), LogError> {
    let Some(directory) = path.parent() else { return Ok(()) };
    File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(LogError::file("sync", directory))
}

/// Returns the error of the system in an error of the crate `parquet`.
fn failed(path: &Path, error: ParquetError) -> LogError {
    let source = match error {
        ParquetError::External(source) => io::Error::other(source),
        error => io::Error::other(error),
    };
    LogError::file("write", path)(source)
}
