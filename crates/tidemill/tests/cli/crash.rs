//! A migration is killed at every statement, on both databases, and restarts as if nothing had been.

use crate::Stage;
use std::os::unix::process::ExitStatusExt;
use tidemill_store::migration::known;
use tidemill_store::scratch::Scratch;
use tidemill_store::url::Dialect;

tidemill_store::on_both![
    empty: a_migration_killed_at_any_statement_restarts_cleanly,
    programs_that_start_at_once_on_an_empty_database_all_work,
];

async fn a_migration_killed_at_any_statement_restarts_cleanly(database: Scratch) {
    let stage = Stage::on(database.url());
    let mut killed = 0;
    // Each round dies one statement later than the one before, until one gets through.
    let survived = (1..100).find(|n| {
        let mut command = stage.command(&["db", "migrate"]);
        let ended = command.env("TIDEMILL_CRASH_AT", format!("migration_statement:{n}")).output().unwrap();
        let was_killed = ended.status.signal() == Some(6);
        killed += u32::from(was_killed);
        assert!(was_killed || ended.status.success(), "{ended:?}");
        !was_killed
    });

    assert_eq!(survived, Some(killed + 1));
    assert!(killed >= 10, "only {killed} points were passed on {}", database.url());
    let status = stage.run(&["db", "status", "-o", "csv"]);
    assert!(status.succeeds().stdout.contains(",applied,"), "{status:#?}");
    stage.run(&["process", "list"]).succeeds();
    assert_each_was_applied_once(&stage);
}

async fn programs_that_start_at_once_on_an_empty_database_all_work(database: Scratch) {
    let stage = Stage::on(database.url()).with("TIDEMILL_DATABASE_INIT", "always");
    let children: Vec<_> = (0..6)
        .map(|_| stage.command(&["process", "list"]).stdout(std::process::Stdio::null()).spawn().unwrap())
        .collect();

    for child in children {
        assert!(child.wait_with_output().unwrap().status.success());
    }
    assert_each_was_applied_once(&stage);
}

/// One audit row for one migration, whatever happened on the way.
fn assert_each_was_applied_once(stage: &Stage) {
    let log = stage.run(&["audit", "list", "--action", "db.migrate", "-o", "jsonl"]);
    assert_eq!(log.stdout.lines().count(), known(Dialect::Sqlite).len(), "{log:#?}");
}

#[test]
fn a_crash_point_that_is_never_passed_changes_nothing() {
    let stage = Stage::new().with("TIDEMILL_CRASH_AT", "no_such_point:1");

    stage.run(&["db", "migrate"]).succeeds();
}
