//! Records in files: whole, in order, and safe, whatever others do to the file.

use super::{options, record};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tidemill_domain::outbox::{Payload, line};
use tidemill_engine::outbox::sink::{FileSink, open};
use tidemill_engine::outbox::{Outcome, Publisher, SinkError, SinkOptions};

fn ids(path: &Path) -> Vec<Option<i64>> {
    let text = fs::read(path).unwrap();
    assert_eq!(text.last(), Some(&b'\n'));
    let lines = text[..text.len() - 1].split(|byte| *byte == b'\n');
    lines.map(|text| line::read(text).map(|published| published.id.get())).collect()
}

fn why(outcome: &Outcome) -> &str {
    match outcome {
        Outcome::Unavailable { why } | Outcome::Refused { why, .. } => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_record_is_a_line_with_all_that_is_known_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    let sink = open(&format!("file:{}", path.display()), options()).unwrap();

    let outcomes = sink.publish(&[record(7, "order-1")]).await;

    assert_eq!(outcomes, [Outcome::Delivered]);
    let expected = concat!(
        r#"{"id":7,"slot":110,"epoch":1,"seq":7,"aggregate_type":"order","aggregate_id":"order-1","#,
        r#""event_type":"order.paid","topic":"orders","headers":{"trace":"abc"},"payload":{"amount":5},"#,
        r#""published_at":"2026-11-15T02:00:00.000000Z"}"#,
        "\n",
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_of_two_writers_of_one_file_stay_whole_and_each_in_its_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    let write = |first: i64| {
        let path = path.clone();
        tokio::spawn(async move {
            let sink = FileSink::new(path, options());
            for batch in 0..40 {
                let start = first + batch * 25;
                let records: Vec<_> =
                    (start..start + 25).map(|id| record(id, &format!("o-{first}"))).collect();
                assert_eq!(sink.publish(&records).await, vec![Outcome::Delivered; 25]);
            }
        })
    };

    let (one, two) = tokio::join!(write(1), write(100_001));
    one.unwrap();
    two.unwrap();

    let ids: Vec<i64> = ids(&path).into_iter().map(Option::unwrap).collect();
    let (low, high): (Vec<i64>, Vec<i64>) = ids.iter().partition(|id| **id < 100_000);
    assert_eq!(low, (1..=1000).collect::<Vec<_>>());
    assert_eq!(high, (100_001..=101_000).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_part_of_a_line_that_somebody_left_stands_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    fs::write(&path, "{\"id\":1,\"slot\":0}\n{\"id\":2,\"sl").unwrap();
    let sink = FileSink::new(&path, options());

    sink.publish(&[record(3, "a")]).await;
    sink.publish(&[record(4, "a")]).await;

    assert_eq!(ids(&path), [None, None, Some(3), Some(4)]);
}

/// A file that is as long as its file system allows; it takes no room there.
fn fill(path: &Path) {
    let file = fs::File::create(path).unwrap();
    let (mut fits, mut is_too_long) = (0, 1 << 63);
    while is_too_long - fits > 1 {
        let middle = fits + (is_too_long - fits) / 2;
        match file.set_len(middle) {
            Ok(()) => fits = middle,
            Err(_) => is_too_long = middle,
        }
    }
    file.set_len(fits).unwrap();
}

#[tokio::test]
async fn a_file_that_takes_no_more_is_about_the_sink_and_not_about_records() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    fill(&path);
    let sink = FileSink::new(&path, options());

    let outcomes = sink.publish(&[record(1, "a"), record(2, "b")]).await;

    assert_eq!(outcomes.len(), 2);
    for outcome in &outcomes {
        assert!(matches!(outcome, Outcome::Unavailable { .. }));
        assert!(why(outcome).contains("events.jsonl: File too large"), "{outcome:?}");
    }
}

#[tokio::test]
async fn what_is_made_is_for_its_owner_only_and_what_is_there_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let (new, shared) = (folder.path().join("new.jsonl"), folder.path().join("shared.jsonl"));
    fs::write(&shared, "").unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o640)).unwrap();

    for path in [&new, &shared] {
        assert_eq!(FileSink::new(path, options()).publish(&[record(1, "a")]).await, [Outcome::Delivered]);
    }

    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&new), mode(&shared)), (0o600, 0o640));
}

#[test]
fn a_sink_has_the_whole_path_in_its_name() {
    let here = std::env::current_dir().unwrap();

    let sink = open("file:src/events.jsonl", options()).unwrap();

    assert_eq!(sink.name(), format!("file:{}/src/events.jsonl", here.display()));
}

#[test]
fn what_is_no_regular_file_is_refused_before_anything_is_published() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    make_pipe(&pipe);

    for path in [folder.path(), &pipe, Path::new("/dev/null")] {
        let error = open(&format!("file:{}", path.display()), options()).unwrap_err();
        assert_eq!(error, SinkError::NotAFile(path.display().to_string()));
    }
}

#[tokio::test]
async fn a_folder_that_comes_later_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("later/events.jsonl");
    let sink = FileSink::new(&path, options());

    let before = sink.publish(&[record(1, "a")]).await;
    fs::create_dir(path.parent().unwrap()).unwrap();
    let after = sink.publish(&[record(1, "a")]).await;

    assert!(why(&before[0]).contains("No such file"), "{before:?}");
    assert_eq!(after, [Outcome::Delivered]);
    assert_eq!(ids(&path), [Some(1)]);
}

#[tokio::test]
async fn where_nothing_can_be_appended_nothing_is_delivered() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    make_pipe(&pipe);

    for path in [folder.path(), Path::new("/proc/version"), Path::new("/dev/null"), &pipe] {
        let outcomes = FileSink::new(path, options()).publish(&[record(1, "a")]).await;
        assert!(matches!(outcomes[0], Outcome::Unavailable { .. }), "{path:?}: {outcomes:?}");
    }
}

fn make_pipe(path: &Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}

#[tokio::test]
async fn a_file_that_was_renamed_or_removed_is_followed_by_a_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    let rotated = folder.path().join("events.jsonl.1");
    let sink = FileSink::new(&path, options());

    sink.publish(&[record(1, "a")]).await;
    fs::rename(&path, &rotated).unwrap();
    sink.publish(&[record(2, "a")]).await;
    assert_eq!((ids(&rotated), ids(&path)), (vec![Some(1)], vec![Some(2)]));

    fs::remove_file(&path).unwrap();
    assert_eq!(sink.publish(&[record(3, "a")]).await, [Outcome::Delivered]);
    assert_eq!(ids(&path), [Some(3)]);
}

#[tokio::test]
async fn a_record_that_is_too_long_holds_its_aggregate_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    let sink = FileSink::new(&path, SinkOptions { max_record_bytes: Some(300), ..options() });
    let long = tidemill_domain::outbox::Record { payload: Payload::Bytes(vec![0; 500]), ..record(2, "a") };

    let outcomes = sink.publish(&[record(1, "a"), long, record(3, "b"), record(4, "a")]).await;

    assert_eq!(outcomes[0], Outcome::Delivered);
    assert!(matches!(outcomes[1], Outcome::Refused { is_permanent: true, .. }));
    assert!(why(&outcomes[1]).contains("bytes, and the sink takes 300"), "{outcomes:?}");
    assert_eq!(outcomes[2..], [Outcome::Delivered, Outcome::Held]);
    assert_eq!(ids(&path), [Some(1), Some(3)]);
}
