//! Reading XML files.

use super::{Folder, all, check_every_restart, euc_kr, fatal, gzip, open, read, saved, zstd};
use serde::Deserialize;
use std::path::Path;
use tidemill_domain::item::{Row, Value};
use tidemill_domain::job::ExecutionContext;
use tidemill_engine::item::{Encoding, XmlReader};
use tidemill_engine::job::component::ItemReader;

#[derive(Deserialize, PartialEq, Debug)]
struct Transaction {
    id: u32,
    name: String,
    memo: Option<String>,
}

fn reader(path: &Path) -> XmlReader<Transaction> {
    XmlReader::new("in", path).record("transaction")
}

fn rows(path: &Path) -> XmlReader<Row> {
    XmlReader::rows("in", path).record("transaction")
}

fn transactions(count: u32) -> Vec<Result<Transaction, String>> {
    (0..count).map(|id| Ok(Transaction { id, name: format!("<김> & '{id}'"), memo: None })).collect()
}

/// Files of these transactions, in the styles that programs write.
fn files(count: u32) -> Vec<String> {
    let name = |id: u32| format!("&lt;김> &amp; '{id}'");
    let compact =
        |id: u32| format!("<transaction id=\"{id}\"><name>{}</name><memo/></transaction>", name(id));
    let pretty = |id: u32| {
        let cdata = format!("<![CDATA[<김> & '{id}']]>");
        format!(
            "  <b:transaction\r\n    id='{id}' >\r\n    <b:name>{cdata}</b:name>\r\n  </b:transaction >\r\n"
        )
    };
    let attributes = |id: u32| format!("<transaction name=\"{}\" id=\"{id}\"/>", name(id));
    let all = |make: &dyn Fn(u32) -> String| (0..count).map(make).collect::<String>();
    vec![
        format!("<all>{}</all>", all(&compact)),
        format!(
            "<?xml version=\"1.0\"?>\r\n<!DOCTYPE b:all>\r\n<b:all xmlns:b='urn:b'>\r\n<!-- <transaction/> -->\r\n\
             <head><day>2026-11-15 &amp;</day></head>\r\n<list>{}</list><list/>\r\n</b:all>\r\n<!-- end -->\r\n",
            all(&pretty)
        ),
        format!("<all>\n<a><transactions>{}\n</transactions></a></all>\n", all(&attributes)),
    ]
}

#[tokio::test]
async fn a_restart_at_any_record_reads_the_rest() {
    let folder = Folder::new();
    for count in [0, 1, 2, 9] {
        for text in files(count) {
            for (path, encoding) in [
                (folder.put("in.xml", &text), Encoding::Utf8),
                (folder.put("marked.xml", format!("\u{feff}{text}")), Encoding::Utf8),
                (folder.put("in.xml.gz", gzip(&text)), Encoding::Utf8),
                (folder.put("in.xml.zst", zstd(&text)), Encoding::Utf8),
                (folder.put("korean.xml", euc_kr(&text)), Encoding::EucKr),
            ] {
                let seen = check_every_restart(|| reader(&path).encoding(encoding)).await;

                assert_eq!(seen, transactions(count), "{text}");
            }
        }
    }
}

#[tokio::test]
async fn several_files_are_read_one_after_the_other() {
    let folder = Folder::new();
    for (name, text) in ["a.xml", "b.xml", "c.xml"].into_iter().zip(files(2)) {
        folder.put(name, text);
    }
    let reader = || XmlReader::<Transaction>::pattern("in", folder.pattern("*.xml")).record("transaction");

    let ids: Vec<u32> = check_every_restart(reader).await.into_iter().map(|item| item.unwrap().id).collect();

    assert_eq!(ids, [0, 1, 0, 1, 0, 1]);
    let counted = open(reader().count_total(), &ExecutionContext::new()).await.unwrap();
    assert_eq!(counted.total(), Some(6));
}

#[tokio::test]
async fn attributes_and_texts_are_columns_by_their_path() {
    let folder = Folder::new();
    let text = "<all><transaction id='1'>
        <amount currency='KRW'>12.50</amount>
        <party><name>Kim</name><address><city/></address></party> note
    </transaction><transaction>&#xAE40;<amount>7</amount></transaction></all>";
    let path = folder.put("in.xml", text);

    let seen = all(rows(&path)).await;
    let chosen = all(rows(&path).columns(["amount", "id"])).await;

    let first = seen[0].as_ref().unwrap();
    let names = ["id", "amount.currency", "amount", "party.name", "party.address.city", "transaction"];
    assert_eq!(first.columns().as_ref(), names);
    assert_eq!(first.values(), ["1", "KRW", "12.50", "Kim", "", "note"].map(Value::from));
    let second = seen[1].as_ref().unwrap();
    assert_eq!(second.values(), ["7", "김"].map(Value::from));
    assert_eq!(chosen[0].as_ref().unwrap().values(), ["12.50", "1"].map(Value::from));
    assert_eq!(chosen[1].as_ref().unwrap().values(), [Value::from("7"), Value::Null]);
}

#[tokio::test]
async fn a_bad_record_is_told_and_the_next_one_is_read() {
    let folder = Folder::new();
    let deep = format!("<transaction>{}{}</transaction>", "<a>".repeat(40), "</a>".repeat(40));
    let many: String = (0..2000).map(|number| format!("<c{number}/>")).collect();
    let text = format!(
        "<all>\n<transaction id='1' id='2'/>\n<transaction><name/><name/></transaction>\n\
         <transaction>&secret;</transaction>\n<transaction id='x'><name/></transaction>\n{deep}\n\
         <transaction>{many}</transaction>\n<transaction id='7' name='seven'/></all>"
    );
    let path = folder.put("in.xml", text);

    let seen = check_every_restart(|| reader(&path)).await;

    let expected = [
        "duplicated",
        "\"name\" is there twice",
        "the entity &secret;",
        "\"id\"",
        "32 levels",
        "1600 values",
    ];
    for (index, expected) in expected.into_iter().enumerate() {
        let error = seen[index].as_ref().unwrap_err();
        assert!(error.contains(expected) && error.ends_with(&format!("line {})", index + 2)), "{error}");
    }
    assert_eq!(seen[6], Ok(Transaction { id: 7, name: "seven".to_owned(), memo: None }));
}

#[tokio::test]
async fn no_entity_of_a_file_is_read_or_expanded() {
    let folder = Folder::new();
    let secret = folder.put("secret.txt", "secret");
    let text = format!(
        "<!DOCTYPE all [<!ENTITY secret SYSTEM \"file://{}\"><!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;\">]>\
         <all><transaction id='1'><name>&secret;</name></transaction><transaction id='2' name='&b;'/></all>",
        secret.display()
    );
    let path = folder.put("in.xml", text);

    for item in all(reader(&path)).await {
        let error = item.unwrap_err();
        assert!(error.contains("&secret;") || error.contains("`b`"), "{error}");
    }
}

#[tokio::test]
async fn a_file_that_is_not_whole_ends_the_step() {
    let folder = Folder::new();
    for (text, records, expected) in [
        ("", 0, "there is no element"),
        ("id,name\n1,a\n", 0, "text outside of the root element"),
        ("<all><transaction id='1' name='a'/>", 1, "before the end tag of its root element"),
        ("<all><transaction id='1' name='a'/><transaction id='2'>", 1, "XML element at"),
        ("<all><transaction id='1' name='a'/></all><all/>", 1, "behind the end of the root element"),
        ("<all><transaction id='1' name='a'/></all></all>", 1, "without a start tag"),
        (
            "<all><transaction id='1' name='a'/>\n<transaction><a></b></a></transaction>",
            1,
            "line 2: an end tag",
        ),
        ("<all><transaction id='1' name='a'/><!-- open", 1, "XML element at"),
    ] {
        let path = folder.put("in.xml", text);
        let mut first = open(reader(&path), &ExecutionContext::new()).await.unwrap();
        assert_eq!(read(&mut first, records).await.len(), records, "{text}");
        let context = saved(&mut first);

        let error = fatal(first.read().await);
        let mut again = open(reader(&path), &context).await.unwrap();
        let error_again = fatal(again.read().await);

        assert!(error.contains(expected), "{text}: {error}");
        assert_eq!(error_again, error, "a restart does not take it for the end");
    }
    let nameless = XmlReader::rows("in", folder.path("in.xml"));
    assert!(fatal(open(nameless, &ExecutionContext::new()).await).contains("is missing"));
}
