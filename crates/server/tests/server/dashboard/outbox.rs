//! The outbox on the overview.

use crate::App;
use axum::http::Method;
use tidemill_domain::time::Clock;

async fn overview(app: &App) -> String {
    app.ask(Method::GET, "/", &[], "").await.text
}

async fn run(app: &App, sql: &str) {
    let mut tx = app.store.begin().await.unwrap();
    tx.execute_for_test(sql).await.unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn what_is_to_be_published_and_who_does_it_is_told() {
    let app = App::open().await;
    let tile = |count: &str, class: &str| {
        format!("<b>{count}</b><span class=\"state {class}\"><span aria-hidden=\"true\">")
    };

    let before = overview(&app).await;
    assert!(before.contains(&tile("0", "idle")) && before.contains("events unpublished"), "{before}");
    assert!(before.contains("<dt>Live relays</dt><dd><span class=\"soft\">none</span></dd>"), "{before}");

    let now = app.clock.now().as_micros();
    run(
        &app,
        &format!(
            "insert into outbox_event (aggregate_type, aggregate_id, event_type, topic, payload, created_at, slot)
             values ('order', 'a', 'paid', 'orders', '{{}}', {now}, 12), ('order', 'a', 'paid', 'orders', '{{}}', {now}, 12);
             update tidemill_outbox set floor_id = 1;
             insert into tidemill_outbox_exception
                 (event_id, slot, seq, aggregate_type, aggregate_id, event_type, state, since, updated_at)
             values (1, 12, 1, 'order', 'a', 'paid', 'parked', {now}, {now})"
        ),
    )
    .await;
    let alone = overview(&app).await;
    assert!(alone.contains(&tile("2", "bad")) && alone.contains("nothing is published"), "{alone}");
    assert!(alone.contains("1</span><span class=\"soft\">, which nobody tries any more"), "{alone}");

    run(
        &app,
        &format!(
            "insert into tidemill_outbox_relay (id, process, name, host, pid, sink, joined_at, until)
             values ('00000000-0000-0000-0000-000000000001', '00000000-0000-0000-0000-000000000001', 'relay', 'host', 7,
                     'null', {now}, {now} + 60000000)"
        ),
    )
    .await;
    let relayed = overview(&app).await;
    assert!(relayed.contains(&tile("2", "warn")), "{relayed}");
    assert!(relayed.contains("<dt>Live relays</dt><dd>1</dd>"), "{relayed}");
}
