//! Avro files, block by block. The library decodes the rows; the blocks are read here, because its own reader loops for ever
//! in a block that declares fewer rows than it has, loses rows at the end of one that declares more, and takes the end of a
//! file in a block as the end of that block.

use crate::open::BATCH_ROWS;
use crate::size::{append, damaged, has_room, unpacked_max};
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_avro::compression::CompressionCodec;
use arrow_avro::reader::{Decoder, DecoderMode, ReaderBuilder, read_header_info};
use arrow_avro::schema::{Fingerprint, FingerprintAlgorithm, SchemaStore};
use arrow_schema::{ArrowError, SchemaRef};
use flate2::Crc;
use flate2::read::DeflateDecoder;
use std::io::{BufReader, Read, Seek, SeekFrom};
use tidemill_engine::item::Source;

/// No schema is longer.
const HEADER_MAX: u64 = 64 << 20;

/// The marker after a larger block is looked at before the block is read.
const LARGE: u64 = 16 << 20;

const MARKER: u64 = 16;

pub(crate) struct AvroBlocks {
    source: BufReader<Source>,
    position: u64,
    size: u64,
    marker: [u8; MARKER as usize],
    codec: Option<CompressionCodec>,
    decoder: Decoder,
    /// The current block, unpacked.
    block: Vec<u8>,
    /// Its bytes that are decoded.
    decoded: usize,
    /// Its rows that are not.
    rows: u64,
}

impl AvroBlocks {
    pub(crate) fn open(source: &Source) -> Result<Self, ArrowError> {
        let header = read_header_info(BufReader::new(source.clone().take(HEADER_MAX)))?;
        let mut schemas = SchemaStore::new_with_type(FingerprintAlgorithm::Id);
        schemas.set(Fingerprint::Id(0), header.writer_schema()?)?;
        let decoder = ReaderBuilder::new()
            .with_batch_size(BATCH_ROWS)
            .with_writer_schema_store(schemas)
            .with_decoder_mode(DecoderMode::UnframedDatum)
            .build_decoder()?;
        let mut source = BufReader::new(source.clone());
        let position = source.seek(SeekFrom::Start(header.header_len()))?;
        Ok(Self {
            position,
            size: source.get_ref().size()?,
            source,
            marker: header.sync(),
            codec: header.compression()?,
            decoder,
            block: Vec::new(),
            decoded: 0,
            rows: 0,
        })
    }

    fn read(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        while !self.decoder.batch_is_full() {
            if self.rows > 0 {
                self.decoded += self.decoder.decode(&self.block[self.decoded..])?;
                self.rows -= 1;
            } else if self.decoded < self.block.len() {
                return Err(damaged("a block has more rows than it declares"));
            } else if !self.load()? {
                break;
            }
        }
        Ok(self.decoder.flush()?)
    }

    /// Reads the next block; false at the end.
    fn load(&mut self) -> Result<bool, ArrowError> {
        if self.position == self.size {
            return Ok(false);
        }
        let (rows, packed) = (self.long()?, self.long()?);
        let after = (self.size - self.position).saturating_sub(MARKER);
        let (Ok(rows), Some(packed)) =
            (u64::try_from(rows), u64::try_from(packed).ok().filter(|packed| *packed <= after))
        else {
            return Err(damaged("a block declares more than the file has"));
        };
        if packed > LARGE {
            let mut behind = self.source.get_ref().clone();
            behind.seek(SeekFrom::Start(self.position + packed))?;
            self.check_marker(&mut behind)?;
        }
        let mut block = Vec::new();
        append(&mut self.source, packed, &mut block)?;
        let mut marker = Vec::new();
        append(&mut self.source, MARKER, &mut marker)?;
        self.check_marker(&mut marker.as_slice())?;
        self.position += packed + MARKER;
        (self.block, self.decoded, self.rows) = (unpacked(self.codec, block)?, 0, rows);
        Ok(true)
    }

    fn check_marker(&self, source: &mut impl Read) -> Result<(), ArrowError> {
        let mut found = [0; MARKER as usize];
        source.read_exact(&mut found)?;
        if found == self.marker { Ok(()) } else { Err(damaged("a block does not end where it declares")) }
    }

    /// A number of variable length.
    fn long(&mut self) -> Result<i64, ArrowError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let mut byte = [0];
            self.source.read_exact(&mut byte)?;
            self.position += 1;
            number |= u64::from(byte[0] & 0x7f) << shift;
            if byte[0] < 0x80 {
                return Ok((number >> 1).cast_signed() ^ -(number & 1).cast_signed());
            }
        }
        Err(damaged("a block begins with a number of more than ten bytes"))
    }
}

impl Iterator for AvroBlocks {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

impl RecordBatchReader for AvroBlocks {
    fn schema(&self) -> SchemaRef {
        self.decoder.schema()
    }
}

fn unpacked(codec: Option<CompressionCodec>, packed: Vec<u8>) -> Result<Vec<u8>, ArrowError> {
    let max = unpacked_max(packed.len());
    let too_large = || damaged("a block becomes larger than blocks can be");
    let bounded = |unpacking: &mut dyn Read| {
        let mut block = Vec::new();
        unpacking.take(max + 1).read_to_end(&mut block)?;
        if block.len() as u64 > max { Err(too_large()) } else { Ok(block) }
    };
    match codec {
        None => Ok(packed),
        Some(CompressionCodec::Deflate) => bounded(&mut DeflateDecoder::new(packed.as_slice())),
        Some(CompressionCodec::ZStandard) => bounded(&mut zstd::Decoder::new(packed.as_slice())?),
        Some(CompressionCodec::Snappy) => {
            let snappy = |error: snap::Error| damaged(&error.to_string());
            let Some((packed, sum)) = packed.split_last_chunk() else {
                return Err(damaged("a block is shorter than its checksum"));
            };
            let length = snap::raw::decompress_len(packed).map_err(snappy)? as u64;
            if length > max || !has_room(length) {
                return Err(too_large());
            }
            let block = snap::raw::Decoder::new().decompress_vec(packed).map_err(snappy)?;
            let mut crc = Crc::new();
            crc.update(&block);
            if crc.sum() == u32::from_be_bytes(*sum) {
                Ok(block)
            } else {
                Err(damaged("a block has another checksum"))
            }
        }
        Some(other) => Err(damaged(&format!("it has the codec {other:?}"))),
    }
}
