//! The demo verifies what it shows; here only that it does, and that it can say no.

use crate::Stage;

#[test]
fn what_is_configured_to_be_published_to_is_nothing_to_the_demo() {
    let stage = Stage::new().with("TIDEMILL_OUTBOX_SINK", "kafka:host");

    // It gets as far as its dashboard, which is for this host only.
    stage.run(&["demo", "--exit", "--listen", "0.0.0.0:0"]).fails("TM0509", 2);
}

#[test]
fn the_demo_verifies_itself_and_leaves_nothing_behind() {
    let stage = Stage::new();

    let ran = stage.run(&["demo", "--exit", "--listen", "127.0.0.1:0"]);

    ran.succeeds();
    assert!(
        ran.stdout.lines().count() >= 5 && ran.stdout.lines().all(|line| line.starts_with("✓ ")),
        "{ran:#?}"
    );
    let tells_the_night = |line: &str| line.contains("1200 batches") && line.contains(", 0 violations");
    assert!(ran.stdout.lines().any(tells_the_night), "{ran:#?}");
    let tells_the_outbox = |line: &str| line.contains("one killed: 0 lost, 0 reordered");
    assert!(ran.stdout.lines().any(tells_the_outbox), "{ran:#?}");
    let tells_the_renders =
        |line: &str| line.contains("4 of 4 films") && line.ends_with(": 0 renders repeated");
    assert!(ran.stdout.lines().any(tells_the_renders), "{ran:#?}");
    assert_eq!(std::fs::read_dir(stage.folder.path()).unwrap().count(), 0);
}
