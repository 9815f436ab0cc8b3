//! What changes by itself is what the page would show.

use super::*;
use crate::live::{Page, produce};

/// Without the lengths of time, which the script counts by itself.
fn without_lengths(html: &str) -> String {
    let mut pieces = html.split("<time class=\"length\"");
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |text, piece| text + piece.split_once("</time>").unwrap().1)
}

async fn listen(app: &App, page: &str) -> Page {
    Page::open(app, &format!("/ui/events?page={page}"), &[]).await
}

#[tokio::test]
async fn every_patch_is_word_for_word_what_its_page_has() {
    let app = App::open().await;
    ordered(&app, "Broken <b>").await;
    fail(&app, &claim(&app, "w").await, "gone").await;
    let running = ordered(&app, "Running").await;
    render_to(&app, &claim(&app, "w").await, 10.0).await;
    ordered(&app, "Waiting").await;
    beat(&app, "w", 1, 1, WorkerState::Working).await;
    super::super::job::sql(&app, "update render_queue set batch_id = 1").await;
    let _stop = produce(&app);

    for (path, page, regions) in [
        ("/render/batches/1", "render-batch:1:on", &["head", "failed"][..]),
        ("/render", "renders:all:on", &["chips", "banner", "at-work", "waiting", "ended"]),
        ("/render?status=failed", "renders:failed:on", &["chips", "ended"]),
        ("/render?status=pending", "renders:pending:on", &["waiting"]),
        (&format!("/render/{running}"), "render:2:on", &["head", "file", "attempts", "report", "changes"]),
        ("/render/1", "render:1:on", &["head", "attempts"]),
    ] {
        for region in regions {
            let name = format!("{region}@{page}");
            let (_, patch) = listen(&app, page).await.patch(&name).await;
            let html = look(&app, path).await;
            assert!(patch.contains(&format!("data-live=\"{name}\"")), "{name}");
            assert!(without_lengths(&html).contains(&without_lengths(&patch)), "{name}: {patch}");
        }
    }
    let (_, workers) = listen(&app, "render-workers").await.patch("render-workers").await;
    assert!(look(&app, "/render/workers").await.contains(&workers), "{workers}");
}

#[tokio::test]
async fn progress_reaches_everybody_who_looks_with_the_buttons_that_they_have() {
    let app = App::open().await;
    let id = ordered(&app, "A").await;
    let claimed = claim(&app, "w").await;
    render_to(&app, &claimed, 10.0).await;
    let _stop = produce(&app);
    let mut operator = listen(&app, "renders:all:on").await;
    let mut viewer = listen(&app, "renders:rendering:off").await;
    let mut one = listen(&app, "render:1:off").await;
    operator.patch("at-work@renders:all:on").await;
    viewer.patch("at-work@renders:rendering:off").await;
    one.patch("head@render:1:off").await;

    app.clock.advance(Duration::from_secs(2));
    let report = Report::At { phase: Phase::Rendering, percent: Some(55.0) };
    say(&app, &claimed, Work::Reported(report)).await;

    let row = format!("render:{id}");
    let (_, seen) = operator.patch(&row).await;
    assert!(
        seen.contains("value=\"55\"") && seen.contains("data-ask") && !seen.contains("disabled"),
        "{seen}"
    );
    let (_, seen) = viewer.patch(&row).await;
    assert!(
        seen.contains("value=\"55\"") && seen.contains("disabled") && !seen.contains("data-ask"),
        "{seen}"
    );
    let (_, seen) = one.patch("head@render:1:off").await;
    assert!(seen.contains("55 %") && !seen.contains("form_token"), "{seen}");
}
