//! Writes a segment column by column, so that memory holds only one column of a row group.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterPropertiesPtr;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::SchemaDescriptor;

use super::encode::{self, EncodeError};
use super::{FileColumn, PARQUET, PIECES, SCHEMA, pieces};
use crate::chunk::Chunk;
use crate::directory::{SegmentLabel, SegmentName};
use crate::error::LogError;

/// Entries for a row group: all entries of a chunk, or only the entries that are kept.
pub(crate) struct RowSource {
    pub(crate) chunk: Chunk,
    /// Whether each row of the chunk is kept. If this list is empty, all rows are kept.
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

    /// Estimates the number of octets of the compressed names.
    pub(crate) fn name_octets(&self) -> u64 {
        match &self.chunk {
            Chunk::Block(block) => u64::from(block.header.stored),
            Chunk::RowGroup(group) => group.name_octets(),
        }
    }
}

/// A writer of row groups to any output, such as a file.
pub(crate) struct RowGroups<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    schema: SchemaDescriptor,
    properties: WriterPropertiesPtr,
    /// The list of the pages that were written, for the footer.
    pieces: String,
}

impl<W: Write + Send> RowGroups<W> {
    /// Creates a writer, and writes the magic number at the start of the file.
    ///
    /// # Errors
    /// `out` cannot be written. The other functions have the same error.
    pub(crate) fn create(out: W) -> Result<Self, EncodeError> {
        let no_schema = || ParquetError::General("the schema is invalid".to_owned());
        let schema = super::descriptor().ok_or_else(no_schema)?;
        let root = SCHEMA.clone().ok_or_else(no_schema)?;
        let properties = Arc::new(super::properties());
        let writer = SerializedFileWriter::new(out, root, Arc::clone(&properties))?;
        Ok(Self { writer, schema, properties, pieces: String::new() })
    }

    /// Writes a row group.
    pub(crate) fn write(&mut self, sources: &[RowSource]) -> Result<(), EncodeError> {
        let Self { writer, schema, properties, pieces } = self;
        let mut group = writer.next_row_group()?;
        for column in FileColumn::all() {
            let description = schema.column(column.index());
            let encoded = encode::column(column, description, properties, sources)?;
            let irregular = || ParquetError::General("the pages are not regular".to_owned());
            pieces::list(&encoded.octets, &encoded.close, pieces).ok_or_else(irregular)?;
            group.append_column(&encoded.octets, encoded.close)?;
        }
        group.close()?;
        Ok(())
    }

    /// Writes the indexes and the footer of the file. Returns the offset at which they start.
    pub(crate) fn finish(&mut self) -> Result<u64, EncodeError> {
        let pieces = std::mem::take(&mut self.pieces);
        self.writer.append_key_value_metadata(KeyValue::new(PIECES.to_owned(), pieces));
        let metadata = self.writer.finish()?;
        let last = metadata.row_groups().last().and_then(|group| group.columns().last());
        Ok(last.map_or(PARQUET.len() as u64, |column| {
            let (start, len) = column.byte_range();
            start + len
        }))
    }
}

/// A writer of a segment to a file.
pub(crate) struct Sealer {
    part: PathBuf,
    groups: RowGroups<File>,
}

impl Sealer {
    /// Creates a file under a temporary name.
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
        let groups = RowGroups::create(file).map_err(|error| error.of_file(&part))?;
        Ok(Self { part, groups })
    }

    /// Writes a row group.
    ///
    /// # Errors
    /// A source cannot be read, or the file cannot be written.
    pub(crate) fn row_group(&mut self, sources: &[RowSource]) -> Result<(), LogError> {
        self.groups.write(sources).map_err(|error| error.of_file(&self.part))
    }

    /// Completes the file and renames it to its final name.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn finish(mut self, label: &SegmentLabel) -> Result<SegmentName, LogError> {
        let tail_start = self.groups.finish().map_err(|error| error.of_file(&self.part))?;
        let Self { part, groups } = self;
        let tail = Tail::of(groups.writer.inner(), tail_start);
        let tail = tail.map_err(LogError::file("write", &part))?;
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

/// The tail of a file, after the file was synced to the disk.
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
