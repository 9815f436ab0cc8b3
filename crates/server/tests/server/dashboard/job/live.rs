//! The list and the page of an execution change by themselves.

use super::{words, written};
use crate::App;
use crate::live::{Page, produce};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_list_and_an_execution_change_on_open_pages_and_each_page_gets_its_own() {
    let app = App::open().await;
    written(&app, 100, &[("archive", "STARTED", ""), ("zebra", "STARTED", "")]).await;
    let _stop = produce(&app);
    let mut all = Page::open(&app, "/ui/events?page=jobs:", &[]).await;
    let mut failed = Page::open(&app, "/ui/events?page=jobs%3Afailed%3A", &[]).await;
    let mut one = Page::open(&app, "/ui/events?page=execution%3A100", &[]).await;
    let (_, html) = all.patch("jobs").await;
    assert!(words(&html).contains("STARTED") && words(&html).contains("zebra"), "{html}");
    assert!(words(&failed.patch("jobs").await.1).contains("No matching jobs"));
    assert!(one.patch("head").await.1.contains("data-title=\"STARTED archive #100 – test\""));

    super::sql(
        &app,
        "update batch_job_execution set status = 'FAILED', exit_message = 'it rained' where job_execution_id = 100",
    )
    .await;
    // No part of a page is sent twice within a second.
    app.clock.advance(Duration::from_secs(2));

    assert!(words(&failed.patch("jobs").await.1).contains("FAILED"), "the filtered list has it now");
    assert!(one.patch("head").await.1.contains("data-title=\"FAILED archive #100 – test\""));
    assert!(words(&one.patch("fault").await.1).contains("it rained"));
    let (_, html) = all.patch("job:archive").await;
    assert!(words(&html).contains("archive (not on this server) it rained"), "{html}");
}
