//! Reading all files that match a pattern.

use super::{Folder, all, check_every_restart, euc_kr, fatal, gzip, open, read, saved};
use serde::Deserialize;
use tidemill_domain::job::ExecutionContext;
use tidemill_engine::item::{CsvReader, Encoding, JsonLinesReader};
use tidemill_engine::job::component::ItemReader;

#[derive(Deserialize, PartialEq, Debug)]
struct Person {
    id: u32,
    name: String,
}

fn ids(seen: &super::Seen<Person>) -> Vec<u32> {
    seen.iter().map(|item| item.as_ref().unwrap().id).collect()
}

fn reader(folder: &Folder) -> CsvReader<Person> {
    CsvReader::pattern("in", folder.pattern("*.csv*"))
}

fn three_files() -> Folder {
    let folder = Folder::new();
    folder.put("b.csv", "id,name\n3,c\n4,\"d\nd\"\n");
    folder.put("a.csv", "id,name\n1,a\n2,b\n");
    folder.put("c.csv.gz", gzip("name,id\ne,5\n"));
    folder.put("unrelated.txt", "9,z\n");
    std::fs::create_dir(folder.path("d.csv")).unwrap();
    folder
}

#[tokio::test]
async fn files_are_read_in_the_order_of_their_names_each_with_its_own_header() {
    let folder = three_files();
    folder.put("aa.csv", "id,name\n");

    let seen = check_every_restart(|| reader(&folder)).await;

    assert_eq!(ids(&seen), [1, 2, 3, 4, 5]);
    assert_eq!(seen[4].as_ref().unwrap().name, "e");
}

#[tokio::test]
async fn korean_files_are_read_from_any_position_as_well() {
    let folder = Folder::new();
    for number in 0..4 {
        let records: String = (0..number).map(|id| format!("{id},\"이름\n{id}\"\r\n")).collect();
        folder.put(&format!("{number}.csv"), euc_kr(&format!("id,name\r\n{records}")));
    }

    let seen = check_every_restart(|| reader(&folder).encoding(Encoding::EucKr)).await;

    assert_eq!(ids(&seen), [0, 0, 1, 0, 1, 2]);
}

#[tokio::test]
async fn the_name_of_the_file_is_what_is_remembered() {
    let folder = three_files();
    let mut first = open(reader(&folder), &ExecutionContext::new()).await.unwrap();
    read(&mut first, 3).await;
    let context = saved(&mut first);
    folder.put("aa.csv", "id,name\n70,x\n");
    folder.put("bb.csv", "id,name\n80,x\n");

    let mut second = open(reader(&folder), &context).await.unwrap();

    assert_eq!(context.get_text("in.file"), folder.path("b.csv").to_str());
    assert_eq!(ids(&read(&mut second, usize::MAX).await), [4, 80, 5]);
}

#[tokio::test]
async fn a_finished_file_may_be_moved_away_and_an_unfinished_one_may_not() {
    let folder = three_files();
    let mut first = open(reader(&folder), &ExecutionContext::new()).await.unwrap();
    read(&mut first, 2).await;
    let behind_a = saved(&mut first);
    read(&mut first, 1).await;
    let inside_b = saved(&mut first);

    std::fs::remove_file(folder.path("a.csv")).unwrap();
    let mut second = open(reader(&folder), &behind_a).await.unwrap();
    assert_eq!(ids(&read(&mut second, usize::MAX).await), [3, 4, 5]);
    std::fs::remove_file(folder.path("b.csv")).unwrap();

    assert!(fatal(open(reader(&folder), &inside_b).await).contains("had not finished it"));
}

#[tokio::test]
async fn once_all_files_are_finished_a_restart_reads_nothing_and_keeps_its_place() {
    let folder = three_files();
    let mut first = open(reader(&folder), &ExecutionContext::new()).await.unwrap();
    read(&mut first, usize::MAX).await;
    let context = saved(&mut first);
    for file in ["a.csv", "b.csv", "c.csv.gz"] {
        std::fs::remove_file(folder.path(file)).unwrap();
    }

    let mut second = open(reader(&folder), &context).await.unwrap();
    assert_eq!(saved(&mut second), context);
    assert_eq!(read(&mut second, usize::MAX).await, []);
    folder.put("d2.csv", "id,name\n6,f\n");
    let mut third = open(reader(&folder), &saved(&mut second)).await.unwrap();

    assert_eq!(ids(&read(&mut third, usize::MAX).await), [6]);
}

#[tokio::test]
async fn a_file_that_vanishes_while_others_are_read_ends_the_step() {
    let folder = three_files();
    let mut reader = open(reader(&folder), &ExecutionContext::new()).await.unwrap();
    read(&mut reader, 2).await;

    std::fs::remove_file(folder.path("b.csv")).unwrap();

    assert!(fatal(reader.read().await).contains("b.csv cannot be opened"));
}

#[tokio::test]
async fn no_file_at_all_is_an_error_unless_that_is_allowed() {
    let folder = Folder::new();
    let reader = || JsonLinesReader::<u32>::pattern("in", folder.pattern("*.jsonl"));

    let error = fatal(open(reader(), &ExecutionContext::new()).await);

    assert!(error.contains("no file matches"), "{error}");
    assert_eq!(all(reader().allow_none()).await, []);
    let wrong = JsonLinesReader::<u32>::pattern("in", "in/***");
    assert!(fatal(open(wrong, &ExecutionContext::new()).await).contains("is not a pattern"));
}

#[tokio::test]
async fn the_total_counts_the_records_of_all_files() {
    let folder = three_files();

    let reader = open(reader(&folder).count_total(), &ExecutionContext::new()).await.unwrap();

    assert_eq!(reader.total(), Some(5));
}
