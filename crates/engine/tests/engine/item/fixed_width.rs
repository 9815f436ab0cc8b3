//! Reading files whose columns are places in the line.

use super::{Folder, all, check_every_restart, euc_kr, gzip};
use serde::Deserialize;
use tidemill_domain::item::Value;
use tidemill_engine::item::{Encoding, FixedWidthReader};

#[derive(Deserialize, PartialEq, Debug)]
struct Balance {
    account: String,
    amount: i64,
    memo: Option<String>,
}

fn balance(account: &str, amount: i64, memo: Option<&str>) -> Result<Balance, String> {
    Ok(Balance { account: account.to_owned(), amount, memo: memo.map(str::to_owned) })
}

/// Six characters, six characters, four characters, and something that nobody reads.
const TEXT: &str = "김철수       12메모  !\r\nabcdef-00034    \n\nxyz   0000567890ignored\n";

#[tokio::test]
async fn columns_are_places_in_characters_and_a_restart_reads_the_rest() {
    let folder = Folder::new();
    for (path, encoding) in [
        (folder.put("utf-8.txt", TEXT), Encoding::Utf8),
        (folder.put("euc-kr.txt", euc_kr(TEXT)), Encoding::EucKr),
        (folder.put("utf-8.txt.gz", gzip(TEXT)), Encoding::Utf8),
    ] {
        let reader = || {
            FixedWidthReader::<Balance>::new("in", &path)
                .column("account", 0..6)
                .column("amount", 6..12)
                .column("memo", 12..16)
                .encoding(encoding)
        };

        let seen = check_every_restart(reader).await;

        let expected = [
            balance("김철수", 12, Some("메모")),
            balance("abcdef", -34, None),
            balance("xyz", 56, Some("7890")),
        ];
        assert_eq!(seen, expected, "{encoding:?}");
    }
}

#[tokio::test]
async fn places_can_be_counted_in_bytes_of_the_file() {
    let folder = Folder::new();
    let path = folder.put("in.txt", euc_kr("김철수   12\nabcdef   34\n"));
    let reader = FixedWidthReader::<(String, i64)>::new("in", &path)
        .column("account", 0..6)
        .column("amount", 6..11)
        .encoding(Encoding::EucKr)
        .in_bytes();

    assert_eq!(all(reader).await, [Ok(("김철수".to_owned(), 12)), Ok(("abcdef".to_owned(), 34))]);
}

#[tokio::test]
async fn a_line_that_ends_too_early_is_an_error_and_the_next_one_is_read() {
    let folder = Folder::new();
    let path = folder.put("in.txt", "aa11\naa1\n가나1\nbb22\n");
    let reader =
        || FixedWidthReader::<(String, u8)>::new("in", &path).column("name", 0..2).column("number", 2..4);

    let seen = check_every_restart(reader).await;

    assert_eq!(seen.len(), 4);
    for (index, line) in [(1, 2), (2, 3)] {
        let expected = format!(
            "the line has 3 characters, but column \"number\" ends at 4 ({} line {line})",
            path.display()
        );
        assert_eq!(seen[index], Err(expected));
    }
    assert_eq!(seen[3], Ok(("bb".to_owned(), 22)));
}

#[tokio::test]
async fn rows_hold_the_columns_as_texts() {
    let folder = Folder::new();
    folder.put("in.txt", "aa  \n");
    let pattern = folder.pattern("*.txt");
    let reader = FixedWidthReader::rows_pattern("in", pattern).column("name", 0..2).column("number", 2..4);

    let seen = all(reader.empty_as_null()).await;

    assert_eq!(seen[0].as_ref().unwrap().values(), ["aa".into(), Value::Null]);
}
