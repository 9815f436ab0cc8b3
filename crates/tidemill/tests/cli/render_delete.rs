//! Deleting old renders with their files: at the command line, and by a server that is configured to.

use crate::Stage;
use crate::job_reload::until;
use crate::pool::json_of;
use crate::render::known;
use crate::serve::Served;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};
use tidemill_store::Store;
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![old_renders_go_with_their_files_and_films_only_if_they_are_asked_for,];

/// A NAS with its folders, and a database that knows one composition.
fn site(stage: Stage) -> (Stage, PathBuf) {
    let nas = stage.path("nas");
    for folder in ["output/2026-11-15", ".staging", ".posters"] {
        fs::create_dir_all(nas.join(folder)).unwrap();
    }
    let path = nas.to_str().unwrap().to_owned();
    let stage = known(stage)
        .with("NAS_MOUNT_PATH", &path)
        .with("NAS_OUTPUT_DIR", "/output")
        .with("TIDEMILL_RENDER_MOUNT_CHECK", "false")
        .with("TIDEMILL_RENDER_PATHS", &format!("\\\\NAS\\broadcast={path}"));
    (stage, nas)
}

async fn execute(store: &Store, sql: &str) {
    let mut tx = store.begin().await.unwrap();
    tx.execute_for_test(sql).await.unwrap();
    tx.commit().await.unwrap();
}

/// A file that nobody has touched for years.
fn old(path: &Path) {
    fs::write(path, "x").unwrap();
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(UNIX_EPOCH + Duration::from_secs(1_500_000_000)).unwrap();
}

/// Completes a render by SQL, with a file of a node, a picture and a published file.
async fn complete(store: &Store, nas: &Path, id: i64, film: &str) {
    let queue = store.read().await.unwrap().renders().queue().await.unwrap();
    let (staged, poster) =
        (format!("rq-{id}-1.{queue}.mp4"), nas.join(format!(".posters/rq-{id}-1.{queue}.jpg")));
    old(&nas.join(".staging").join(&staged));
    old(&poster);
    old(&nas.join("output/2026-11-15").join(film));
    let change = format!(
        "update render_queue
         set status = 'completed', output_bytes = 10, output_revision = 2, poster_path = '{}',
             staged_path = '\\\\NAS\\broadcast\\.staging\\{staged}',
             output_file_path = '\\\\NAS\\broadcast\\output\\2026-11-15\\{film}'
         where id = {id}",
        poster.display()
    );
    execute(store, &change).await;
}

fn names(folder: &Path) -> Vec<String> {
    let entries =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = entries.collect();
    names.sort_unstable();
    names
}

async fn old_renders_go_with_their_files_and_films_only_if_they_are_asked_for(database: Scratch) {
    let (stage, nas) = site(Stage::on(database.url()));
    let store = database.store(None).await.unwrap();
    let submit = |_: i32| {
        stage.run(&["render", "submit", "ivey.json"]).succeeds();
    };
    (0..4).for_each(submit);
    complete(&store, &nas, 1, "Chips_1_r2.mp4").await;
    complete(&store, &nas, 2, "Chips_2.mp4").await;
    execute(&store, "update render_queue set status = 'failed' where id = 3").await;
    let queue = store.read().await.unwrap().renders().queue().await.unwrap();
    // Of a render that is gone; of another queue; and one that may still be written.
    old(&nas.join(format!(".posters/rq-99-1.{queue}.jpg")));
    old(&nas.join(".posters/rq-99-1.otherone.jpg"));
    fs::write(nas.join(format!(".staging/rq-99-1.{queue}.mp4")), "x").unwrap();
    let delete = |flags: &[&str]| {
        let ran = stage.run(&[&["render", "delete", "--older-than", "0s", "-o", "json"], flags].concat());
        let item = json_of(&ran)["items"][0].clone();
        (item["renders"].clone(), item["orphan_files"].clone(), item["is_dry_run"].clone())
    };
    let count = || json_of(&stage.run(&["render", "list", "-o", "json"]))["items"].as_array().unwrap().len();
    let films = || names(&nas.join("output/2026-11-15"));

    // The picture, and the files of nodes, which no completed render needs.
    assert_eq!(delete(&[]), (json!(3), json!(3), json!(true)));
    assert_eq!(delete(&["--films", "--max-size", "1kB"]).0, json!(0));
    assert_eq!(delete(&["--films", "--max-size", "10"]).0, json!(1));
    let purge = stage.run(&["render", "purge", "--older-than", "1h", "--yes", "-o", "json"]);
    assert_eq!(json_of(&purge)["items"][0]["renders"], 0);
    stage.run(&["render", "delete", "--older-than", "0s", "--max-size", "1GB"]).fails("TM0002", 2);
    stage.run(&["render", "delete", "--yes"]).fails("TM0002", 2);
    assert_eq!((count(), names(&nas.join(".posters")).len(), films().len()), (4, 3, 2));

    assert_eq!(delete(&["--yes"]), (json!(3), json!(0), json!(false)));

    assert_eq!((count(), films()), (1, vec!["Chips_1_r2.mp4".to_owned(), "Chips_2.mp4".to_owned()]));
    assert_eq!(names(&nas.join(".posters")), ["rq-99-1.otherone.jpg"]);
    assert_eq!(names(&nas.join(".staging")), [format!("rq-99-1.{queue}.mp4")]);
    let audit = stage.run(&["audit", "list", "--action", "render.delete", "-o", "csv"]);
    assert!(audit.succeeds().stdout.contains("3 renders"), "{audit:#?}");

    // Published files by their flag: all revisions, and no file that Tidemill has not named.
    (0..2).for_each(submit);
    complete(&store, &nas, 5, "Chips_5_r2.mp4").await;
    old(&nas.join("output/2026-11-15/Chips_5.mp4"));
    complete(&store, &nas, 6, "theirs.mp4").await;
    let numbers = |flags: &[&str]| {
        let ran = stage
            .run(&[&["render", "delete", "--older-than", "0s", "--films", "-o", "json"], flags].concat());
        let item = json_of(&ran)["items"][0].clone();
        ["renders", "film_bytes", "orphan_files"].map(|name| item[name].as_u64().unwrap())
    };
    let counted = numbers(&[]);
    assert_eq!(numbers(&["--yes"]), counted, "a dry run counts what is deleted");
    assert_eq!(counted, [2, 10, 2]);
    assert_eq!(films(), ["Chips_1_r2.mp4", "Chips_2.mp4", "theirs.mp4"]);
    assert_eq!(count(), 1, "what waits is never deleted");

    // A published file that cannot be found from here, and a picture that another host has noted with its own path.
    submit(0);
    complete(&store, &nas, 7, "Chips_7.mp4").await;
    let moved = format!(
        "update render_queue
         set output_file_path = '\\\\OLD\\broadcast\\Chips_7.mp4', poster_path = '/other/.posters/rq-7-1.{queue}.jpg'
         where id = 7"
    );
    execute(&store, &moved).await;
    assert_eq!(numbers(&["--yes"])[0], 0);
    let ran = stage.run(&["render", "delete", "--older-than", "0s", "--films", "--yes"]);
    assert!(
        ran.stderr.contains("no line of the path map covers \\\\OLD\\broadcast\\Chips_7.mp4"),
        "{ran:#?}"
    );
    assert_eq!((count(), names(&nas.join(".posters")).len()), (2, 2));
}

#[test]
fn a_server_that_could_not_find_the_files_of_old_renders_does_not_start() {
    let (stage, _) = site(Stage::new());
    let stage = stage.with("TIDEMILL_RENDER_KEEP_FOR", "1h").with("TIDEMILL_RENDER_ZONE", "Seoul");

    let ran = stage.run(&["serve", "--listen", "127.0.0.1:0"]);

    assert!(ran.fails("TM1549", 2).stderr.contains("render.zone"), "{ran:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_nas_that_is_away_keeps_the_rows_of_its_files() {
    let (stage, nas) = site(Stage::new());
    stage.run(&["render", "submit", "ivey.json"]).succeeds();
    let store = Store::connect(&format!("sqlite://{}", stage.path("tidemill.db").display())).await.unwrap();
    complete(&store, &nas, 1, "Chips_1.mp4").await;
    fs::rename(&nas, stage.path("away")).unwrap();

    let ran = stage.run(&["render", "delete", "--older-than", "0s", "--yes", "-o", "json"]);

    assert_eq!(json_of(&ran)["items"][0]["renders"], 0);
    assert!(ran.stderr.contains("1 kept: their files could not be deleted"), "{ran:#?}");
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_forgets_old_renders_by_itself_and_keeps_their_films() {
    let (stage, nas) = site(Stage::new());
    for _ in 0..2 {
        stage.run(&["render", "submit", "ivey.json"]).succeeds();
    }
    let store = Store::connect(&format!("sqlite://{}", stage.path("tidemill.db").display())).await.unwrap();
    complete(&store, &nas, 1, "Chips_1.mp4").await;
    complete(&store, &nas, 2, "Chips_2.mp4").await;
    execute(&store, "update render_queue set ended_at = 1000000 where id = 1").await;
    store.close().await;
    let stage = stage.with("TIDEMILL_RENDER_KEEP_FOR", "1h");

    let served = Served::start(&stage, &[]);
    until("the old render is gone", || (served.get("/api/v1/renders/1", None).0 == 404).then_some(()));

    let young: Value = serde_json::from_str(&served.get("/api/v1/renders/2", None).1).unwrap();
    assert_eq!(young["status"], "completed");
    assert_eq!(names(&nas.join("output/2026-11-15")), ["Chips_1.mp4", "Chips_2.mp4"]);
    assert_eq!(names(&nas.join(".posters")).len(), 1);
}
