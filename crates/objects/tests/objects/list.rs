//! Which objects a folder and a pattern have.

use crate::Lake;
use tidemill_engine::item::storage::{Depth, Storage};
use tidemill_engine::job::Partition;
use tidemill_testkit::moto::PAGE_KEYS;

const MAX: usize = 5000;

/// On three pages.
const KEYS: usize = 2 * PAGE_KEYS + 10;

fn listed(lake: &Lake, folder: &str, depth: Depth) -> Vec<String> {
    let found = lake.objects().list(folder, depth, MAX).unwrap();
    let mut urls: Vec<String> = found.into_iter().map(|object| object.url).collect();
    urls.sort();
    urls
}

#[test]
fn a_folder_is_listed_over_many_pages_and_without_what_is_below() {
    let Some(lake) = Lake::new() else { return };
    for number in 0..KEYS {
        lake.server.put(&format!("logs/{number:04}"), b"x").unwrap();
    }
    lake.server.put("a.csv", b"x").unwrap();

    let below = lake.objects().list("s3://lake", Depth::Below, KEYS - 10).unwrap();

    assert_eq!(listed(&lake, "s3://lake", Depth::Folder), ["s3://lake/a.csv"]);
    assert_eq!(listed(&lake, "s3://lake/logs", Depth::Folder).len(), KEYS);
    assert_eq!(below.len(), KEYS - 9, "one more than the limit");
}

#[test]
fn markers_of_folders_are_no_files() {
    let Some(lake) = Lake::new() else { return };
    for (key, body) in [("in/", ""), ("in/a", "x"), ("in/empty", ""), ("in/sub/", ""), ("in/sub/b", "x")] {
        lake.server.put(key, body.as_bytes()).unwrap();
    }
    let matching = |pattern: &str| -> Vec<String> {
        let parts = Partition::files(pattern).unwrap();
        parts.iter().map(|part| part.context().get_text("file").unwrap().to_owned()).collect()
    };

    assert_eq!(matching("s3://lake/in/*"), ["s3://lake/in/a", "s3://lake/in/empty"]);
    assert_eq!(matching("s3://lake/in/**"), ["s3://lake/in/a", "s3://lake/in/empty", "s3://lake/in/sub/b"]);
    assert_eq!(matching("s3://lake/*/*/b"), ["s3://lake/in/sub/b"]);
}
