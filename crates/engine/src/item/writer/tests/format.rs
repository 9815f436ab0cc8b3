//! Formats that have more than lines: what a crash and a rollback at any point leave.

use super::{Folder, Run, balances, chunk, fatal, text};
use crate::item::writer::FileWriter;
use crate::item::writer::file::Layout;
use crate::item::{Align, Encoding, FixedWidthWriter, JsonWriter, XmlWriter};
use crate::job::{ItemStream, ItemWriter};
use std::path::Path;
use tidemill_domain::item::{ErrorKind, Phase, Row};
use tidemill_domain::job::ExecutionContext;

/// The content of the file, which is the same wherever the writer dies or rolls back.
async fn check_every_crash<L: Layout>(make: impl Fn(&Path) -> FileWriter<L>, items: &[L::Item]) -> String {
    let folder = Folder::new();
    let path = folder.path("out");
    let mut whole = Run::open(make(&path).sync(false), &ExecutionContext::new()).await.unwrap();
    whole.commit(items).await;
    whole.complete::<L::Item>().await;
    let expected = text(&path);
    for size in 1..=3 {
        let chunks: Vec<_> = items.chunks(size).collect();
        for crash in 0..=chunks.len() {
            std::fs::remove_file(&path).unwrap();
            let mut first = Run::open(make(&path).sync(false), &ExecutionContext::new()).await.unwrap();
            for items in &chunks[..crash] {
                first.writer.write(items, &mut chunk().await).await.unwrap();
                first.writer.roll_back().await.unwrap();
                first.commit(items).await;
            }
            match chunks.get(crash) {
                // This chunk does not commit, although it is on disk.
                Some(lost) => first.writer.write(lost, &mut chunk().await).await.unwrap(),
                // The end is written, and the file not renamed: its place is taken.
                None => {
                    std::fs::create_dir(&path).unwrap();
                    first.writer.close(true).await.unwrap_err();
                    std::fs::remove_dir(&path).unwrap();
                }
            }
            let saved = ExecutionContext::from_text(&first.context.to_text().unwrap()).unwrap();
            drop(first);

            let mut second = Run::open(make(&path).sync(false), &saved).await.unwrap();
            for items in &chunks[crash..] {
                second.commit(items).await;
            }
            second.complete::<L::Item>().await;

            assert_eq!(text(&path), expected, "chunks of {size}, crash in chunk {crash}");
        }
    }
    expected
}

#[tokio::test]
async fn an_array_is_closed_once_and_has_each_value_once() {
    let written = check_every_crash(|path| JsonWriter::new("out", path), &balances(0..7)).await;

    let values: Vec<serde_json::Value> = serde_json::from_str(&written).unwrap();
    let expected = serde_json::to_value(balances(0..7)).unwrap();
    assert_eq!(serde_json::Value::from(values), expected);
    assert_eq!(written.lines().count(), 9, "one value per line");
}

#[tokio::test]
async fn an_array_without_values_is_an_array() {
    let folder = Folder::new();
    let path = folder.path("out.json");

    let run = Run::open(JsonWriter::<u8>::new("out", &path), &ExecutionContext::new()).await.unwrap();
    run.complete::<u8>().await;

    assert_eq!(serde_json::from_str::<Vec<u8>>(&text(&path)).unwrap(), [0; 0]);
}

fn fixed(path: &Path) -> FixedWidthWriter<Row> {
    FixedWidthWriter::rows("out", path)
        .column("amount", 8..14, Align::Right, '0')
        .column("account", 0..6, Align::Left, ' ')
        .encoding(Encoding::EucKr)
        .in_bytes()
}

fn row(account: &str, amount: i64) -> Row {
    Row::new(["account".to_owned(), "amount".to_owned()].into(), vec![account.into(), amount.into()])
}

#[tokio::test]
async fn columns_are_at_their_places_whatever_their_values() {
    let written = check_every_crash(
        |path| fixed(path).encoding(Encoding::Utf8),
        &[row("abc", 12), row("가나", -7), row("abcdef", 123_456)],
    )
    .await;

    assert_eq!(written, "abc     000012\n가나  -00007\nabcdef  123456\n");
}

#[tokio::test]
async fn bytes_are_those_of_the_encoding() {
    let folder = Folder::new();
    let path = folder.path("out.txt");
    let mut run = Run::open(fixed(&path), &ExecutionContext::new()).await.unwrap();

    run.commit(&[row("김철수", 1)]).await;
    run.complete::<Row>().await;

    assert_eq!(std::fs::read(&path).unwrap(), b"\xb1\xe8\xc3\xb6\xbc\xf6  000001\n");
}

#[tokio::test]
async fn what_does_not_fit_is_an_error_and_never_cut_off() {
    let folder = Folder::new();
    let path = folder.path("out.txt");
    let mut run = Run::open(fixed(&path), &ExecutionContext::new()).await.unwrap();
    for (item, expected) in [
        (row("김철수1", 1), "column \"account\" has 6 bytes, but the value has 7"),
        (row("a", -123_456), "column \"amount\" has 6 bytes, but the value has 7"),
        (row("a\nb", 1), "column \"account\" has a line end"),
    ] {
        let error = run.writer.write(&[item], &mut chunk().await).await.unwrap_err();

        assert_eq!(error.kind_in(Phase::Write), ErrorKind::WRITE);
        assert!(error.text().contains(expected), "{}", error.text());
    }
    run.complete::<Row>().await;
    assert_eq!(text(&path), "");
    let overlapping = fixed(&folder.path("other.txt")).column("memo", 5..9, Align::Left, ' ');
    let mut run = Run::open(overlapping, &ExecutionContext::new()).await.unwrap();
    assert!(fatal(run.writer.write(&[row("a", 1)], &mut chunk().await).await).contains("overlap"));
}

#[tokio::test]
async fn an_xml_file_has_one_root_and_each_record_once() {
    let rows: Vec<Row> = ["plain", "a \"b\" <&>", "two\r\nlines", "김"]
        .into_iter()
        .enumerate()
        .map(|(index, name)| row(name, index as i64))
        .collect();

    let written = check_every_crash(
        |path| XmlWriter::rows("out", path).root("all").record("balance").attributes(["account"]),
        &rows,
    )
    .await;

    let expected = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<all>\n\
        \x20 <balance account=\"plain\"><amount>0</amount></balance>\n\
        \x20 <balance account=\"a &quot;b&quot; &lt;&amp;&gt;\"><amount>1</amount></balance>\n\
        \x20 <balance account=\"two&#13;&#10;lines\"><amount>2</amount></balance>\n\
        \x20 <balance account=\"김\"><amount>3</amount></balance>\n</all>\n";
    assert_eq!(written, expected);
}

#[tokio::test]
async fn an_xml_file_without_items_has_its_root_and_typed_items_have_their_fields() {
    let typed = check_every_crash(|path| XmlWriter::new("out", path), &balances(3..4)).await;
    let folder = Folder::new();
    let path = folder.path("out.xml");
    let writer = XmlWriter::rows("out", &path).encoding(Encoding::EucKr);
    Run::open(writer, &ExecutionContext::new()).await.unwrap().complete::<Row>().await;

    assert!(typed.contains("<record><account>plain</account><amount>3</amount></record>"), "{typed}");
    assert_eq!(text(&path), "<?xml version=\"1.0\" encoding=\"EUC-KR\"?>\n<records>\n</records>\n");
}

#[tokio::test]
async fn what_xml_cannot_hold_is_an_error() {
    let folder = Folder::new();
    let writer = XmlWriter::rows("out", folder.path("out.xml"));
    let mut run = Run::open(writer, &ExecutionContext::new()).await.unwrap();

    let control = run.writer.write(&[row("a\u{1}b", 1)], &mut chunk().await).await.unwrap_err();
    let name = Row::new(["unit price".to_owned()].into(), vec![1.into()]);
    let name = fatal(run.writer.write(&[name], &mut chunk().await).await);

    assert_eq!(control.kind_in(Phase::Write), ErrorKind::WRITE);
    assert!(control.text().contains("column \"account\" has the character U+0001"), "{}", control.text());
    assert!(name.contains("\"unit price\" cannot be the name"), "{name}");
}
