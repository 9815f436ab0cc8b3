//! Arrow files and streams, message by message. The library decodes them; they are read and checked here, because its readers
//! allocate what a message declares.

use crate::size::{append, damaged, has_room, is_zstd_of, unpacked_max};
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::{FileDecoder, read_footer_length};
use arrow_ipc::{Block, CompressionType, Message, MessageHeader, root_as_footer, root_as_message};
use arrow_schema::{ArrowError, SchemaRef};
use std::fmt::Display;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::sync::Arc;
use tidemill_engine::item::Source;

/// Behind the footer: its length and six letters.
const TAIL: u64 = 10;

/// Before a message: a mark and a length.
const PREFIX: usize = 8;

const MARK: [u8; 4] = [0xff; 4];

pub(crate) struct ArrowMessages {
    source: BufReader<Source>,
    schema: SchemaRef,
    decoder: FileDecoder,
    next: Next,
}

enum Next {
    /// Of a file, which has an index.
    Blocks(std::vec::IntoIter<Block>),
    /// Of a stream, which has none. The bytes that are left.
    Message(u64),
    End,
}

impl ArrowMessages {
    /// Opens a file with an index.
    pub(crate) fn file(source: &Source) -> Result<Self, ArrowError> {
        let size = source.size()?;
        let mut source = BufReader::new(source.clone());
        let end = size.checked_sub(TAIL).ok_or_else(|| damaged("it has no footer"))?;
        let mut tail = [0; TAIL as usize];
        source.seek(SeekFrom::Start(end))?;
        source.read_exact(&mut tail)?;
        let length = read_footer_length(tail)? as u64;
        let end = end.checked_sub(length).ok_or_else(|| damaged("its footer is longer than the file"))?;
        let mut footer = Vec::new();
        source.seek(SeekFrom::Start(end))?;
        append(&mut source, length, &mut footer)?;
        let footer = root_as_footer(&footer).map_err(invalid)?;
        let (Some(schema), Some(blocks)) = (footer.schema(), footer.recordBatches()) else {
            return Err(damaged("its footer has no schema or no index"));
        };
        let schema = schema_of(schema)?;
        let mut decoder = FileDecoder::new(schema.clone(), footer.version());
        for block in footer.dictionaries().into_iter().flatten() {
            check_block(block, end)?;
            let bytes = read_block(&mut source, block)?;
            check_packed(&bytes, block)?;
            decoder.read_dictionary(block, &bytes.into())?;
        }
        let blocks: Vec<Block> = blocks.iter().copied().collect();
        blocks.iter().try_for_each(|block| check_block(block, end))?;
        Ok(Self { source, schema, decoder, next: Next::Blocks(blocks.into_iter()) })
    }

    /// Opens a stream.
    pub(crate) fn stream(source: &Source) -> Result<Self, ArrowError> {
        let mut left = source.size()?;
        let mut source = BufReader::new(source.clone());
        let none = || damaged("it does not begin with a schema");
        let (block, bytes) = next_message(&mut source, &mut left)?.ok_or_else(none)?;
        let message = message(&bytes, &block)?;
        let schema = schema_of(message.header_as_schema().ok_or_else(none)?)?;
        let decoder = FileDecoder::new(schema.clone(), message.version());
        Ok(Self { source, schema, decoder, next: Next::Message(left) })
    }

    /// The number of record batches of a file.
    pub(crate) fn group_count(&self) -> usize {
        match &self.next {
            Next::Blocks(blocks) => blocks.len(),
            Next::Message(_) | Next::End => 0,
        }
    }

    /// Only the record batch with this number.
    pub(crate) fn only(mut self, group: usize) -> Self {
        if let Next::Blocks(blocks) = self.next {
            self.next = Next::Blocks(blocks.skip(group).take(1).collect::<Vec<_>>().into_iter());
        }
        self
    }

    fn read(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        loop {
            let (block, bytes) = match &mut self.next {
                Next::End => return Ok(None),
                Next::Blocks(blocks) => {
                    let Some(block) = blocks.next() else { return Ok(None) };
                    (block, read_block(&mut self.source, &block)?)
                }
                Next::Message(left) => match next_message(&mut self.source, left)? {
                    Some(found) => found,
                    None => {
                        self.next = Next::End;
                        return Ok(None);
                    }
                },
            };
            check_packed(&bytes, &block)?;
            if message(&bytes, &block)?.header_type() == MessageHeader::DictionaryBatch {
                self.decoder.read_dictionary(&block, &bytes.into())?;
            } else if let Some(batch) = self.decoder.read_record_batch(&block, &bytes.into())? {
                return Ok(Some(batch));
            }
        }
    }
}

impl Iterator for ArrowMessages {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

impl RecordBatchReader for ArrowMessages {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

fn schema_of(schema: arrow_ipc::Schema<'_>) -> Result<SchemaRef, ArrowError> {
    if !schema.endianness().equals_to_target_endianness() {
        return Err(damaged("its numbers have another byte order than those of this machine"));
    }
    Ok(Arc::new(try_fb_to_schema(schema)?))
}

/// Refuses a block that is not within the file.
fn check_block(block: &Block, end: u64) -> Result<(), ArrowError> {
    let parts = [block.offset(), block.metaDataLength().into(), block.bodyLength()];
    let behind = parts.iter().try_fold(0_u64, |sum, part| sum.checked_add(u64::try_from(*part).ok()?));
    match behind {
        Some(behind) if behind <= end => Ok(()),
        _ => Err(damaged("a record batch declares more than the file has")),
    }
}

/// The block is within the file.
fn read_block(source: &mut BufReader<Source>, block: &Block) -> Result<Vec<u8>, ArrowError> {
    let mut bytes = Vec::new();
    source.seek(SeekFrom::Start(block.offset().unsigned_abs()))?;
    let length = u64::from(block.metaDataLength().unsigned_abs()) + block.bodyLength().unsigned_abs();
    append(source, length, &mut bytes)?;
    Ok(bytes)
}

/// The next message of a stream; none at its end marker.
fn next_message(
    source: &mut BufReader<Source>,
    left: &mut u64,
) -> Result<Option<(Block, Vec<u8>)>, ArrowError> {
    if source.fill_buf()?.is_empty() {
        return Err(ArrowError::IpcError("it has no end marker, so a part may be missing".to_owned()));
    }
    let mut bytes = Vec::new();
    let mut take = |bytes: &mut Vec<u8>, length: i64| {
        let length = u64::try_from(length).ok().filter(|length| *length <= *left);
        let length = length.ok_or_else(|| damaged("a message declares more than the file has"))?;
        *left -= length;
        append(&mut *source, length, bytes)
    };
    take(&mut bytes, PREFIX as i64)?;
    let Some((&MARK, length)) = bytes.split_first_chunk() else {
        return Err(damaged("a message does not begin with its mark"));
    };
    let length = i32::from_le_bytes(length.try_into().map_err(|_| damaged("a message has no length"))?);
    if length == 0 {
        return Ok(None);
    }
    take(&mut bytes, length.into())?;
    let body = root_as_message(&bytes[PREFIX..]).map_err(invalid)?.bodyLength();
    take(&mut bytes, body)?;
    Ok(Some((Block::new(0, length.saturating_add(PREFIX as i32), body), bytes)))
}

fn message<'a>(bytes: &'a [u8], block: &Block) -> Result<Message<'a>, ArrowError> {
    // Files of old versions have no mark.
    let from = if bytes.starts_with(&MARK) { PREFIX } else { MARK.len() };
    let to = usize::try_from(block.metaDataLength()).unwrap_or(0);
    root_as_message(bytes.get(from..to).unwrap_or_default()).map_err(invalid)
}

/// Refuses a message with a part that cannot become as large as it declares.
fn check_packed(bytes: &[u8], block: &Block) -> Result<(), ArrowError> {
    let message = message(bytes, block)?;
    let batch = match message.header_as_dictionary_batch() {
        Some(dictionary) => dictionary.data(),
        None => message.header_as_record_batch(),
    };
    let Some((batch, packing)) = batch.and_then(|batch| Some((batch, batch.compression()?))) else {
        return Ok(());
    };
    let body = usize::try_from(block.metaDataLength()).ok().and_then(|from| bytes.get(from..));
    for part in batch.buffers().into_iter().flatten() {
        let (from, length) = (usize::try_from(part.offset()), usize::try_from(part.length()));
        let range =
            from.ok().zip(length.ok()).and_then(|(from, length)| Some(from..from.checked_add(length)?));
        let Some(part) = range.and_then(|range| body?.get(range)) else {
            return Err(damaged("a column lies outside of its record batch"));
        };
        // Without a size it is empty, and with a negative one it is not packed.
        let Some((size, packed)) = part.split_first_chunk() else { continue };
        let Ok(size) = u64::try_from(i64::from_le_bytes(*size)) else { continue };
        let is_possible = match packing.codec() {
            CompressionType::ZSTD => size == 0 || is_zstd_of(packed, size),
            _ => size <= unpacked_max(packed.len()),
        };
        if !is_possible || !has_room(size) {
            return Err(damaged("a column declares more than it can become"));
        }
    }
    Ok(())
}

fn invalid(error: impl Display) -> ArrowError {
    damaged(&error.to_string())
}
