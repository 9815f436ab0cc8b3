//! Damaged files that declare huge sizes: each is an error, and nobody asks for that much memory.
//!
//! A test runs itself again in a process that may have little memory, in which a failed allocation ends it.

use crate::{FILES, Folder, NUMBERS};
use arrow_avro::reader::read_header_info;
use arrow_ipc::{Block, root_as_footer, root_as_message};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{TestCaseError, TestRunner};
use std::fs;
use std::path::Path;
use std::process::Command;
use tidemill_columnar::{Columnar, row_groups};
use tidemill_engine::item::Source;
use tidemill_engine::item::reader::table::{Found, TableFormat};

/// The folder with the files, for the process with little memory.
const FOLDER: &str = "TIDEMILL_TEST_DAMAGED_FILES";

/// Address space in KiB. The program and its threads need a part of it, although they use little.
const MEMORY: u32 = 1 << 20;

const ROWS: u64 = 2500;

const MORE: &str = "
pq.write_table(table, 'snappy.parquet', compression='snappy')
pq.write_table(table, 'plain.parquet', compression='none', use_dictionary=False)
";

/// The folder, in the process with little memory; elsewhere it starts that process, and expects that it succeeds.
fn in_little_memory(test: &str) -> Option<String> {
    if let Ok(folder) = std::env::var(FOLDER) {
        return Some(folder);
    }
    let folder = Folder::new();
    folder.python(&format!("{NUMBERS}{MORE}"))?;
    let limited = format!("ulimit -v {MEMORY}; exec \"$0\" --exact damaged::{test} --nocapture");
    let ran = Command::new("sh")
        .args(["-c", &limited])
        .arg(std::env::current_exe().unwrap())
        .env(FOLDER, folder.path(""))
        .env("RUST_BACKTRACE", "0")
        .output()
        .unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    let end: String = said.chars().rev().take(3000).collect::<Vec<_>>().into_iter().rev().collect();
    assert!(ran.status.success() && said.contains("1 passed"), "{}: {end}", ran.status);
    None
}

/// The number of rows, or why they cannot be read.
fn read(path: &Path) -> Result<u64, String> {
    let source = Source::new(fs::File::open(path).unwrap());
    let mut table = Columnar::default().open(source, 0)?;
    for number in 0..=ROWS * 10 {
        match Columnar::row(&mut table, number)? {
            Found::Row(_) | Found::Blank => {}
            Found::Damaged(fault) => return Err(fault),
            Found::End => return Ok(number),
        }
    }
    panic!("it has more rows than bytes")
}

/// A number of variable length, as Avro and Thrift write it.
fn varint(number: i64) -> Vec<u8> {
    let (mut rest, mut bytes) = (((number << 1) ^ (number >> 63)).cast_unsigned(), Vec::new());
    loop {
        let byte = u8::try_from(rest & 0x7f).unwrap();
        rest >>= 7;
        if rest == 0 {
            bytes.push(byte);
            return bytes;
        }
        bytes.push(byte | 0x80);
    }
}

fn varint_length(bytes: &[u8]) -> usize {
    bytes.iter().position(|byte| *byte < 0x80).unwrap() + 1
}

fn value_of(bytes: &[u8]) -> i64 {
    let length = varint_length(bytes);
    let number =
        bytes[..length].iter().rev().fold(0_u64, |number, byte| (number << 7) | u64::from(byte & 0x7f));
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

fn replace(bytes: &mut Vec<u8>, at: usize, length: usize, by: &[u8]) {
    bytes.splice(at..at + length, by.iter().copied());
}

/// One damage: a file, what is wrong with it, and how.
type Damage = (&'static str, &'static str, fn(&mut Vec<u8>));

const HUGE: i64 = 1 << 40;

fn footer_of(bytes: &[u8]) -> &[u8] {
    let end = bytes.len() - 10;
    let length = u32::from_le_bytes(bytes[end..end + 4].try_into().unwrap()) as usize;
    &bytes[end - length..end]
}

fn first_block(bytes: &[u8]) -> Block {
    *root_as_footer(footer_of(bytes)).unwrap().recordBatches().unwrap().get(0)
}

/// Where the length of the body of the first block is in the footer.
fn body_length_at(bytes: &[u8]) -> usize {
    let block = first_block(bytes);
    let mut wanted = block.offset().to_le_bytes().to_vec();
    wanted.extend(block.metaDataLength().to_le_bytes());
    let from = bytes.len() - 10 - footer_of(bytes).len();
    let at = bytes[from..].windows(wanted.len()).position(|found| found == wanted).unwrap();
    from + at + 16
}

/// Where the size of the first part of the first record batch is, when it is unpacked.
fn first_size_at(bytes: &[u8]) -> usize {
    let block = first_block(bytes);
    let (offset, meta) =
        (usize::try_from(block.offset()).unwrap(), usize::try_from(block.metaDataLength()).unwrap());
    let message = root_as_message(&bytes[offset + 8..offset + meta]).unwrap();
    let buffers = message.header_as_record_batch().unwrap().buffers().unwrap();
    let part = buffers.iter().find(|part| part.length() > 8).unwrap();
    offset + meta + usize::try_from(part.offset()).unwrap()
}

/// Where the body's length is in the second message of a stream, the first record batch.
fn stream_body_at(bytes: &[u8]) -> usize {
    let length = |at: usize| u32::from_le_bytes(bytes[at + 4..at + 8].try_into().unwrap()) as usize;
    let second = 8 + length(0);
    let message = &bytes[second + 8..second + 8 + length(second)];
    let body = root_as_message(message).unwrap().bodyLength().to_le_bytes();
    second + 8 + message.windows(8).position(|found| found == body).unwrap()
}

/// Where the first block of an Avro file begins: its count, then its size.
fn block_at(bytes: &[u8]) -> usize {
    usize::try_from(read_header_info(bytes).unwrap().header_len()).unwrap()
}

fn set_count(bytes: &mut Vec<u8>, change: impl Fn(i64) -> i64) {
    let at = block_at(bytes);
    let count = value_of(&bytes[at..]);
    replace(bytes, at, varint_length(&bytes[at..]), &varint(change(count)));
}

/// Where the bytes of the first block begin.
fn rows_at(bytes: &[u8]) -> usize {
    let at = block_at(bytes);
    let size = at + varint_length(&bytes[at..]);
    size + varint_length(&bytes[size..])
}

/// Puts a size into the header of the first page, which begins after four letters with its type and the size.
fn set_page_size(bytes: &mut Vec<u8>) {
    assert_eq!((bytes[4], bytes[6]), (0x15, 0x15));
    let length = varint_length(&bytes[7..]);
    replace(bytes, 7, length, &varint(i32::MAX.into()));
}

const DAMAGES: &[Damage] = &[
    ("a.arrow", "footer", |bytes| {
        let at = bytes.len() - 10;
        replace(bytes, at, 4, &i32::MAX.to_le_bytes());
    }),
    ("a.arrow", "negative footer", |bytes| {
        let at = bytes.len() - 10;
        replace(bytes, at, 4, &(-1_i32).to_le_bytes());
    }),
    ("a.arrow", "body", |bytes| {
        let at = body_length_at(bytes);
        replace(bytes, at, 8, &HUGE.to_le_bytes());
    }),
    ("a.arrow", "negative body", |bytes| {
        let at = body_length_at(bytes);
        replace(bytes, at, 8, &(-HUGE).to_le_bytes());
    }),
    ("a.arrow", "part of zstd", |bytes| {
        let at = first_size_at(bytes);
        replace(bytes, at, 8, &HUGE.to_le_bytes());
    }),
    ("lz4.arrow", "part of lz4", |bytes| {
        let at = first_size_at(bytes);
        replace(bytes, at, 8, &HUGE.to_le_bytes());
    }),
    ("stream.arrow", "metadata", |bytes| replace(bytes, 4, 4, &i32::MAX.to_le_bytes())),
    ("stream.arrow", "negative metadata", |bytes| replace(bytes, 4, 4, &(-5_i32).to_le_bytes())),
    ("stream.arrow", "body of a stream", |bytes| {
        let at = stream_body_at(bytes);
        replace(bytes, at, 8, &HUGE.to_le_bytes());
    }),
    ("null.avro", "count", |bytes| set_count(bytes, |_| HUGE)),
    ("null.avro", "one row more", |bytes| set_count(bytes, |count| count + 1)),
    ("null.avro", "one row less", |bytes| set_count(bytes, |count| count - 1)),
    ("null.avro", "no rows", |bytes| set_count(bytes, |_| 0)),
    ("null.avro", "negative count", |bytes| set_count(bytes, |count| -count)),
    ("null.avro", "size", |bytes| {
        let at = block_at(bytes);
        let at = at + varint_length(&bytes[at..]);
        let length = varint_length(&bytes[at..]);
        replace(bytes, at, length, &varint(HUGE));
    }),
    ("null.avro", "text", |bytes| {
        // The number 0, and the length of the text. What follows is shorter, so that the block has its size.
        let at = rows_at(bytes) + 1;
        let huge = varint(HUGE);
        replace(bytes, at, huge.len(), &huge);
    }),
    ("null.avro", "schema", |bytes| {
        // The number of pairs, and the length of the first key.
        let huge = varint(HUGE);
        replace(bytes, 5, 1, &huge);
    }),
    ("snappy.avro", "block of snappy", |bytes| {
        let at = rows_at(bytes);
        let (length, huge) = (varint_length(&bytes[at..]), [0xff, 0xff, 0xff, 0xff, 0x0f]);
        replace(bytes, at, length, &huge);
        // The block has the size that it declares.
        let at = block_at(bytes);
        let at = at + varint_length(&bytes[at..]);
        let longer = value_of(&bytes[at..]) + i64::try_from(huge.len() - length).unwrap();
        let length = varint_length(&bytes[at..]);
        replace(bytes, at, length, &varint(longer));
    }),
    ("a.parquet", "footer of parquet", |bytes| {
        let at = bytes.len() - 8;
        replace(bytes, at, 4, &i32::MAX.to_le_bytes());
    }),
    ("a.parquet", "page of zstd", set_page_size),
    ("gzip.parquet", "page of gzip", set_page_size),
    ("lz4.parquet", "page of lz4", set_page_size),
    ("snappy.parquet", "page of snappy", set_page_size),
];

#[test]
fn a_size_that_the_file_does_not_have_is_an_error() {
    let Some(folder) = in_little_memory("a_size_that_the_file_does_not_have_is_an_error") else { return };
    let damaged = Path::new(&folder).join("damaged");
    for (file, what, damage) in DAMAGES {
        let mut bytes = fs::read(Path::new(&folder).join(file)).unwrap();
        let before = bytes.clone();
        damage(&mut bytes);
        assert_ne!(bytes, before, "{what}");
        fs::write(&damaged, bytes).unwrap();

        let error = read(&damaged).expect_err(what);

        let is_clear = error.contains("the file is damaged or cannot be read: ")
            && error.contains("; put back a whole file");
        assert!(is_clear, "{file}, {what}: {error}");
        let _either = row_groups(damaged.to_str().unwrap(), None);
    }
}

#[test]
fn a_file_with_any_damage_is_read_or_refused_within_little_memory() {
    let Some(folder) = in_little_memory("a_file_with_any_damage_is_read_or_refused_within_little_memory")
    else {
        return;
    };
    let damaged = Path::new(&folder).join("damaged");
    let cases = tidemill_testkit::long_or(4000, 150);
    for file in FILES.into_iter().chain(["snappy.parquet", "plain.parquet"]) {
        let whole = fs::read(Path::new(&folder).join(file)).unwrap();
        assert_eq!(read(&Path::new(&folder).join(file)), Ok(ROWS), "{file}");
        // Most bytes are data, and the sizes are at both ends.
        let place = prop_oneof![
            any::<Index>().prop_map(|place| (true, place)),
            any::<Index>().prop_map(|place| (false, place)),
        ];
        let mut runner = TestRunner::new(ProptestConfig {
            failure_persistence: None,
            ..ProptestConfig::with_cases(cases)
        });
        let ran = runner.run(&vec((place, any::<u8>()), 1..4), |changes| {
            let mut bytes = whole.clone();
            for ((is_anywhere, place), byte) in changes {
                let near = bytes.len().min(1000);
                let at = match place.index(near) {
                    _ if is_anywhere => place.index(bytes.len()),
                    at if at % 2 == 0 => at / 2,
                    at => bytes.len() - 1 - at / 2,
                };
                bytes[at] ^= byte;
            }
            // A crash leaves the file behind.
            fs::write(&damaged, bytes).unwrap();
            match read(&damaged) {
                Ok(rows) if rows > ROWS => Err(TestCaseError::fail(format!("{file}: {rows} rows"))),
                Ok(_) | Err(_) => Ok(()),
            }
        });
        if let Err(error) = ran {
            panic!("{file}: {error}");
        }
    }
}
