//! Reading delimited files.

use super::{
    Folder, all, check_every_restart, euc_kr, fatal, gzip, open, read, saved, with_restart_after, zstd,
};
use serde::Deserialize;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use tidemill_domain::item::{Row, Value};
use tidemill_domain::job::ExecutionContext;
use tidemill_engine::item::reader::RECORD_BYTES_MAX;
use tidemill_engine::item::{Compression, CsvReader, Encoding};
use tidemill_engine::job::component::ItemReader;

#[derive(Deserialize, Clone, PartialEq, Debug)]
struct Payment {
    id: u32,
    name: String,
    memo: Option<String>,
}

fn payment(id: u32) -> Payment {
    let name = ["김철수", "plain", "two\nlines", "say \"x\"", "a,b;c"][id as usize % 5].to_owned();
    Payment { id, name, memo: id.is_multiple_of(3).then(|| format!("메모 {id}")) }
}

/// A file of so many payments, every name in quotes.
fn file_of(records: u32, line_end: &str, delimiter: char) -> String {
    let mut text = format!("id{delimiter}name{delimiter}memo{line_end}");
    for payment in (0..records).map(payment) {
        let name = payment.name.replace('"', "\"\"");
        let memo = payment.memo.unwrap_or_default();
        write!(text, "{}{delimiter}\"{name}\"{delimiter}{memo}{line_end}", payment.id).unwrap();
    }
    text
}

fn payments(records: u32) -> super::Seen<Payment> {
    (0..records).map(|id| Ok(payment(id))).collect()
}

#[tokio::test]
async fn a_restart_at_any_position_reads_the_rest() {
    let folder = Folder::new();
    for records in [0, 1, 2, 3, 17] {
        for (line_end, delimiter) in [("\n", ','), ("\r\n", ';')] {
            let text = file_of(records, line_end, delimiter);
            let plain = folder.put("plain.csv", &text);
            let open_ended = folder.put("open-ended.csv", text.trim_end());
            let marked = folder.put("marked.csv", format!("\u{feff}{text}"));
            let packed = folder.put("packed.csv.gz", gzip(&text));
            let zstd_packed = folder.put("packed.csv.zst", zstd(&text));
            let korean = folder.put("korean.csv", euc_kr(&text));
            let packed_korean = folder.put("packed-by-content", gzip(euc_kr(&text)));

            for (path, encoding) in [
                (plain, Encoding::Utf8),
                (open_ended, Encoding::Utf8),
                (marked, Encoding::Utf8),
                (packed, Encoding::Utf8),
                (zstd_packed, Encoding::Utf8),
                (korean, Encoding::EucKr),
                (packed_korean, Encoding::EucKr),
            ] {
                let reader =
                    || CsvReader::<Payment>::new("in", &path).delimiter(delimiter as u8).encoding(encoding);
                let seen = check_every_restart(reader).await;
                assert_eq!(seen, payments(records), "{records} records of {}", path.display());
            }
        }
    }
}

#[tokio::test]
async fn a_restart_reaches_any_part_of_a_file_larger_than_the_buffer() {
    let folder = Folder::new();
    let records = 40_000;
    let text = file_of(records, "\n", ',');
    assert!(text.len() > 3 * 256 * 1024);
    let plain = folder.put("large.csv", &text);
    let packed = folder.put("large.csv.gz", gzip(&text));
    let whole = payments(records);

    for path in [plain, packed] {
        for calls in (0..=40_000).step_by(3_333) {
            let seen = with_restart_after(&|| CsvReader::<Payment>::new("in", &path), calls).await;
            assert!(seen == whole, "stopped after {calls} reads of {}", path.display());
        }
    }
}

/// The file has no blocks on the disk, but reading it would take minutes.
#[tokio::test]
async fn a_restart_goes_to_the_position_without_reading_what_lies_before() {
    let folder = Folder::new();
    let path = folder.put("in.csv", "id,name,memo\n");
    let position = 256 * 1024 * 1024 * 1024;
    let mut file = File::options().write(true).open(&path).unwrap();
    file.seek(SeekFrom::Start(position - 1)).unwrap();
    file.write_all(b"\n9,last,\n").unwrap();
    let mut context = ExecutionContext::new();
    context.put("in.read.count", 1_000_000);
    context.put("in.position", position);

    let mut reader = open(CsvReader::<Payment>::new("in", &path), &context).await.unwrap();

    let last = Payment { id: 9, name: "last".into(), memo: None };
    assert_eq!(read(&mut reader, usize::MAX).await, [Ok(last)]);
    assert_eq!(saved(&mut reader).get_long("in.position"), Some(position as i64 + 8));
}

#[tokio::test]
async fn the_count_grows_with_every_read_as_in_spring_batch() {
    let folder = Folder::new();
    let path = folder.put("in.csv", "id,name,memo\n1,a,\nx,b,\n3,c,\n");
    let mut reader = open(CsvReader::<Payment>::new("in", &path), &ExecutionContext::new()).await.unwrap();

    read(&mut reader, usize::MAX).await;

    assert_eq!(saved(&mut reader).get_long("in.read.count"), Some(4));
}

#[tokio::test]
async fn a_context_with_only_a_count_drops_that_many_records() {
    let folder = Folder::new();
    let path = folder.put("in.csv", file_of(5, "\n", ','));
    let mut context = ExecutionContext::new();
    context.put("in.read.count", 3);

    let mut reader = open(CsvReader::<Payment>::new("in", &path), &context).await.unwrap();

    assert_eq!(read(&mut reader, usize::MAX).await, payments(5)[3..]);
}

#[tokio::test]
async fn a_bad_record_is_told_with_its_line_and_the_next_read_goes_on_behind_it() {
    let folder = Folder::new();
    let text = "id,name,memo\n1,\"two\nlines\",\nx,b,\n3,c\n\"4\"4,d,\n5,e,\n";
    let path = folder.put("in.csv", text);
    let place = path.display();
    let reader = || CsvReader::<Payment>::new("in", &path);

    let seen = check_every_restart(reader).await;

    let errors: Vec<_> = seen.iter().filter_map(|seen| seen.as_ref().err().cloned()).collect();
    assert_eq!(
        errors,
        [
            format!("column \"id\": invalid digit found in string ({place} line 4)"),
            format!("the record has 2 fields, but there are 3 columns ({place} line 5)"),
            format!(
                "there is text behind a closing quote; a quote inside a quoted field has to be doubled \
                 ({place} line 6)"
            ),
        ]
    );
    assert_eq!(
        seen.iter().filter_map(|seen| seen.as_ref().ok()).map(|item| item.id).collect::<Vec<_>>(),
        [1, 5]
    );
}

#[tokio::test]
async fn the_raw_text_of_a_bad_record_is_kept_as_it_stood() {
    let folder = Folder::new();
    let path = folder.put("in.csv", euc_kr("id,name,memo\n하나,\"둘\n셋\",\n"));
    let reader = CsvReader::<Payment>::new("in", &path).encoding(Encoding::EucKr);
    let mut reader = open(reader, &ExecutionContext::new()).await.unwrap();

    let error = reader.read().await.unwrap_err();

    assert_eq!(error.origin().unwrap().raw, "하나,\"둘\n셋\",");
}

#[tokio::test]
async fn bytes_of_another_encoding_are_an_error_and_never_replaced() {
    let folder = Folder::new();
    let mut bytes = b"id,name,memo\n1,a,\n2,".to_vec();
    bytes.extend(b"\xc8\xff,\n3,c,\n");
    let path = folder.put("in.csv", bytes);

    for (encoding, word) in [(Encoding::Utf8, "UTF-8"), (Encoding::EucKr, "EUC-KR")] {
        let seen = all(CsvReader::<Payment>::new("in", &path).encoding(encoding)).await;

        assert_eq!(seen.len(), 3);
        let error = seen[1].as_ref().unwrap_err();
        assert!(error.contains(&format!("not {word}")) && error.contains("line 3"), "{error}");
        assert_eq!(seen[2].as_ref().unwrap().id, 3);
    }
}

#[tokio::test]
async fn a_record_of_more_than_a_mebibyte_is_an_error_and_the_next_one_is_read() {
    let folder = Folder::new();
    let long = |bytes: usize| format!("1,{},\n", "x".repeat(bytes - 3));
    for bytes in [RECORD_BYTES_MAX + 1, 3 * RECORD_BYTES_MAX] {
        let text = format!("id,name,memo\n{}{}7,z,\n", long(RECORD_BYTES_MAX), long(bytes));
        for path in [folder.put("in.csv", &text), folder.put("in.csv.gz", gzip(&text))] {
            let seen = all(CsvReader::<Payment>::new("in", &path)).await;

            assert!(seen[0].is_ok());
            assert!(seen[1].as_ref().unwrap_err().contains("longer than 1048576 bytes"));
            assert_eq!(seen[2].as_ref().unwrap().id, 7);
            assert_eq!(seen.len(), 3);
        }
    }
}

#[tokio::test]
async fn comments_and_empty_lines_are_passed_over_and_padding_is_trimmed() {
    let folder = Folder::new();
    let text = "# made by hand\nid|name|memo\r\n\r\n 1 | \" a \" | \n#2|b|\n\n3|c| x #y\n\n";
    let path = folder.put("in.csv", text);
    let reader = || CsvReader::<Payment>::new("in", &path).delimiter(b'|').comment(b'#').trim();

    let seen = check_every_restart(reader).await;

    let expected = [
        Payment { id: 1, name: " a ".into(), memo: None },
        Payment { id: 3, name: "c".into(), memo: Some("x #y".into()) },
    ];
    assert_eq!(seen, expected.map(Ok));
}

#[tokio::test]
async fn columns_can_be_named_by_the_reader_or_go_by_their_order() {
    let folder = Folder::new();
    let bare = folder.put("bare.csv", "a,1,\nb,2,\n");
    let foreign = folder.put("foreign.csv", "이름,번호,비고\na,1,\nb,2,\n");
    let names = ["name", "id", "memo"];
    let expected =
        ["a", "b"].iter().zip(1..).map(|(name, id)| Ok(Payment { id, name: (*name).to_owned(), memo: None }));
    let expected: Vec<_> = expected.collect();

    let named = all(CsvReader::<Payment>::new("in", &bare).columns(names)).await;
    let renamed = all(CsvReader::<Payment>::new("in", &foreign).columns(names).has_headers()).await;
    let ordered = all(CsvReader::<(String, u32, Option<String>)>::new("in", &bare).no_headers()).await;

    assert_eq!(named, expected);
    assert_eq!(renamed, expected);
    assert_eq!(ordered, [Ok(("a".to_owned(), 1, None)), Ok(("b".to_owned(), 2, None))]);
}

#[tokio::test]
async fn rows_hold_texts_under_the_names_of_their_columns() {
    let folder = Folder::new();
    let path = folder.put("in.csv", "id,memo\n1,\n");
    let value =
        |seen: &super::Seen<Row>, column: &str| seen[0].as_ref().unwrap().value(column).unwrap().clone();

    let texts = all(CsvReader::rows("in", &path)).await;
    let nulls = all(CsvReader::rows("in", &path).empty_as_null()).await;
    let numbered = all(CsvReader::rows("in", &path).no_headers()).await;

    assert_eq!((value(&texts, "id"), value(&texts, "memo")), ("1".into(), "".into()));
    assert_eq!((value(&nulls, "id"), value(&nulls, "memo")), ("1".into(), Value::Null));
    assert_eq!(value(&numbered, "2"), "memo".into());
}

#[tokio::test]
async fn without_a_quote_quotes_are_text() {
    let folder = Folder::new();
    let path = folder.put("in.csv", "id,name,memo\n1,\"a,\n2,b\",\n");

    let seen = all(CsvReader::<Payment>::new("in", &path).quote(None)).await;

    assert_eq!(seen[0].as_ref().unwrap().name, "\"a");
    assert_eq!(seen[1].as_ref().unwrap().name, "b\"");
}

#[tokio::test]
async fn the_total_is_known_only_when_it_was_asked_for() {
    let folder = Folder::new();
    let path = folder.put("in.csv", file_of(7, "\n", ','));
    let context = ExecutionContext::new();

    let silent = open(CsvReader::<Payment>::new("in", &path), &context).await.unwrap();
    let counting = open(CsvReader::<Payment>::new("in", &path).count_total(), &context).await.unwrap();

    assert_eq!((silent.total(), counting.total()), (None, Some(7)));
}

#[tokio::test]
async fn a_packed_file_that_is_cut_off_is_an_error_and_not_the_end() {
    let folder = Folder::new();
    let text = file_of(50, "\n", ',');
    for (name, packed) in
        [("cut.csv.gz", gzip(&text)), ("cut.csv.zst", zstd::encode_all(text.as_bytes(), 1).unwrap())]
    {
        let path = folder.put(name, &packed[..packed.len() - 3]);

        let opened =
            open(CsvReader::<Payment>::new("in", &path).count_total(), &ExecutionContext::new()).await;

        assert!(fatal(opened).contains("cannot be read to its end"));
    }
}

#[tokio::test]
async fn a_name_can_be_wrong_about_how_a_file_is_packed() {
    let folder = Folder::new();
    let text = file_of(3, "\n", ',');
    let (plain, packed) = (folder.put("plain.csv.gz", &text), folder.put("packed.csv.gz", zstd(&text)));

    let reader = CsvReader::<Payment>::new("in", &plain).compression(Compression::None);

    assert_eq!(all(reader).await, payments(3));
    assert_eq!(all(CsvReader::<Payment>::new("in", &packed)).await, payments(3), "the first bytes tell");
}

#[tokio::test]
async fn two_columns_of_one_name_are_refused_with_both_numbers() {
    let folder = Folder::new();
    let path = folder.put("in.csv", "id,name,,memo,,name\n1,a,b,c,d,e\n");

    let refused = fatal(open(CsvReader::rows("in", &path), &ExecutionContext::new()).await);
    let given = CsvReader::rows("in", &path).columns(["a", "b", "a", "c", "d", "e"]);
    let given = fatal(open(given, &ExecutionContext::new()).await);
    let renamed = CsvReader::rows("in", &path).columns(["a", "b", "c", "d", "e", "f"]).has_headers();

    assert!(refused.contains("columns 2 and 6 are both named \"name\"; give one"), "{refused}");
    assert!(given.contains("columns 1 and 3 are both named \"a\""), "{given}");
    assert_eq!(all(renamed).await.len(), 1);
}

#[tokio::test]
async fn lines_before_the_header_are_skipped_in_each_file() {
    let folder = Folder::new();
    let text = "Report of \"today\n\n# Payments\nid;name;memo\n#1;x;y\n2;'a;''b''';\n";
    folder.put("a.csv", text);
    folder.put("b.csv.gz", gzip(text));
    folder.put("c.csv", "only one line");
    let reader = || {
        let reader = CsvReader::<Payment>::pattern("in", folder.pattern("*.csv*"));
        reader.delimiter(b';').quote(b'\'').comment(b'#').skip_lines(3)
    };

    let seen = check_every_restart(reader).await;

    let expected = || Ok(Payment { id: 2, name: "a;'b'".to_owned(), memo: None });
    assert_eq!(seen, [expected(), expected()]);
    let counted = open(reader().count_total(), &ExecutionContext::new()).await.unwrap();
    assert_eq!(counted.total(), Some(2));
}
