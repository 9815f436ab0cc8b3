//! The past of a pool, replayed with other settings.

use super::{ask, give_back, settings};
use crate::App;
use crate::dashboard::{Browser, between};
use axum::http::StatusCode;
use std::time::Duration;
use tidemill_domain::audit::{Actor, Role};

#[tokio::test]
async fn the_past_is_replayed_with_another_limit() {
    let app = App::closed().await;
    let viewer = Browser::log_in(&app, Role::Viewer).await;
    assert_eq!(viewer.get("/pools/ADW/replay").await.status, StatusCode::NOT_FOUND);
    let mut tx = app.store.begin().await.unwrap();
    tx.pools().create(&settings(10), &Actor::system()).await.unwrap();
    tx.commit().await.unwrap();
    ask(&app, "first", 8, 8).await;
    ask(&app, "second", 8, 8).await;
    app.clock.advance(Duration::from_secs(600));
    give_back(&app, "first").await;

    let page = viewer.get("/pools/ADW/replay?limit=20&policy=fifo&range=1h&advice=yes").await.text;

    let figures = between(&page, "id=\"figures\"", "</section>");
    assert!(figures.contains("Wait p95"), "{figures}");
    let peak = between(figures, "Peak", "</tr>");
    assert!(peak.contains(">8<") && peak.contains(">16<"), "{peak}");
    assert!(page.contains("value=\"20\"") && page.contains("As it would have been"), "{page}");
    let advice = between(&page, "id=\"advice\"", "</section>");
    assert!(advice.contains("The log has 1 night, and advice needs 3: "), "{advice}");
    assert!(advice.contains("pools.history"), "how to keep more: {advice}");
    assert!(viewer.get("/pools/ADW").await.text.contains("/pools/ADW/replay?range=24h"));
}
