//! Rejects in the format of their source load again once they are mended.

use super::Stand;
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![
    rejects_of_a_csv_file_load_again_after_mending,
    lines_of_later_chunks_are_kept_without_other_rejects,
];

const PEOPLE: &str = r##"
job: people
parameters: { file: { type: string } }
steps:
  - name: load
    chunk: 2
    read: { csv: { path: "@/${file}.csv", delimiter: ";", skip_lines: 1, comment: "#" } }
    process:
      validate: { id: { type: long } }
      map: { id: "int(row.id)", name: "row.name" }
    write: { sql: { table: person } }
    skip: { limit: 10, reject: "@/why-${file}.jsonl", reject_source: "@/bad-${file}.csv" }
"##;

async fn rejects_of_a_csv_file_load_again_after_mending(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    stand.sql(&["create table person (id bigint primary key, name varchar(20) not null)"]).await;
    let text = "a title\nid;name\n1\n2;two\nx;\"a; \"\"b\"\"\"\n2;again\n\"#4\";four\n";
    stand.write("in.csv", text);

    let run = stand.run(PEOPLE, &["file=in"]).await;

    assert!(run.is_completed(), "{:?}", run.end);
    let rejects = stand.content("bad-in.csv");
    assert!(rejects.starts_with("\nid;name\n"), "{rejects:?}");
    let mut lines: Vec<&str> = rejects.lines().skip(2).collect();
    lines.sort_unstable();
    assert_eq!(lines, ["\"#4\";four", "1", "2;again", "x;\"a; \"\"b\"\"\""]);
    assert_eq!(stand.content("why-in.jsonl").lines().count(), 4);

    let mended = [("\n1\n", "\n1;one\n"), ("\"#4\"", "4"), ("2;again", "3;again"), ("x;", "5;")];
    let mended = mended.iter().fold(rejects, |text, (bad, good)| text.replace(bad, good));
    stand.write("mended.csv", &mended);
    let run = stand.run(PEOPLE, &["file=mended"]).await;

    assert!(run.is_completed(), "{:?}", run.end);
    assert_eq!(
        stand.texts("select name from person order by id").await,
        ["one", "two", "again", "four", "a; \"b\""]
    );
    assert!(!stand.path().join("bad-mended.csv").exists());
}

/// On PostgreSQL, the chunks after the first one are committed in one round trip.
async fn lines_of_later_chunks_are_kept_without_other_rejects(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    stand.sql(&["create table person (id bigint primary key, name varchar(20) not null)"]).await;
    let numbered = (1..=20).map(|id| if id == 5 { "x;five\n".to_owned() } else { format!("{id};n{id}\n") });
    stand.write("in.csv", &format!("a title\nid;name\n{}", numbered.collect::<String>()));

    let run = stand.run(&PEOPLE.replace(r#"reject: "@/why-${file}.jsonl", "#, ""), &["file=in"]).await;

    assert!(run.is_completed(), "{:?}", run.end);
    assert_eq!(stand.content("bad-in.csv"), "\nid;name\nx;five\n");
    assert_eq!(stand.texts("select count(*) || '' from person").await, ["19"]);
}

async fn rejected(read: &str, text: &[u8], rejects: &str) -> Vec<u8> {
    let stand = Stand::on(Scratch::file()).await;
    std::fs::write(stand.path().join("in"), text).unwrap();
    let job = format!(
        "job: lines\nsteps:\n  - name: load\n    chunk: 2\n    read: {{ {read} }}\n    \
         process: {{ validate: {{ id: {{ type: long }} }} }}\n    write: {{ jsonl: {{ path: \"@/out\" }} }}\n    \
         skip: {{ limit: 10, reject_source: \"@/{rejects}\" }}\n"
    );
    let run = stand.run(&job, &[]).await;
    assert!(run.is_completed(), "{:?}", run.end);
    std::fs::read(stand.path().join(rejects)).unwrap()
}

#[tokio::test]
async fn lines_of_json_are_written_as_they_were() {
    let text = b"{\"id\":1}\n{\"id\":\"x\",\"n\":[1,2]}\n{broken\n";

    let rejects = rejected("jsonl: { path: \"@/in\" }", text, "bad.jsonl").await;

    assert_eq!(String::from_utf8(rejects).unwrap(), "{\"id\":\"x\",\"n\":[1,2]}\n{broken\n");
}

#[tokio::test]
async fn lines_of_fixed_width_keep_their_columns() {
    let read = "fixed_width: { path: \"@/in\", columns: { id: 1-4, name: 5-9 } }";

    let rejects = rejected(read, b"0001Ann  \nx   Bob  \n12\n", "bad.txt").await;

    assert_eq!(String::from_utf8(rejects).unwrap(), "x   Bob  \n12\n");
}

#[tokio::test]
async fn a_file_without_header_and_with_another_encoding_keeps_both() {
    let read = "csv: { path: \"@/in\", header: false, columns: [id, name], encoding: euc-kr }";
    // 가 in EUC-KR; a lone byte of it cannot be decoded.
    let text = b"1,\xb0\xa1\nx,\xb0\xa1\n2,\xb0\n";

    let rejects = rejected(read, text, "bad.csv").await;

    assert_eq!(rejects, b"x,\xb0\xa1\n2,?\n");
}

/// Loads all files `in-*.csv`, and skips rows without an id.
const MANY: &str = r#"
job: many
steps:
  - name: load
    chunk: 2
    read: { csv: { path: "@/in-*.csv" } }
    process: { validate: { id: { type: long } } }
    write: { jsonl: { path: "@/out.jsonl" } }
    skip: { limit: 10, reject_source: "@/bad.csv" }
"#;

#[tokio::test]
async fn rejects_of_several_files_have_one_header() {
    let stand = Stand::on(Scratch::file()).await;
    stand.write("in-1.csv", "\"id\",\"name\"\nx,one\n1\n");
    stand.write("in-2.csv", "id,name\ny,two\n2\n");

    let run = stand.run(MANY, &[]).await;

    assert!(run.is_completed(), "{:?}", run.end);
    let rejects = stand.content("bad.csv");
    let mut lines: Vec<&str> = rejects.lines().collect();
    lines[1..].sort_unstable();
    assert_eq!(lines, ["id,name", "1", "2", "x,one", "y,two"]);
}

#[tokio::test]
async fn rejects_with_other_columns_are_refused_also_after_a_restart() {
    for first in ["id,name\nx,one\n", "id,name\n1\n"] {
        let stand = Stand::on(Scratch::file()).await;
        stand.write("in-1.csv", first);
        stand.write("in-2.csv", "name,id\ntwo,y\n");

        for _restart in 0..2 {
            let run = stand.run(MANY, &[]).await;

            let told = &run.end.exit.description;
            assert!(told.contains("has other columns than the records"), "{told}");
        }
    }
}
