//! The outbox: on the overview, on its page, and the events that were not taken.

use super::{Browser, HOSTILE, between, has_button};
use crate::App;
use axum::http::{Method, StatusCode};
use tidemill_domain::audit::Role;
use tidemill_domain::outbox::failed_event::FailedEventState;
use tidemill_domain::outbox::{Aggregate, EventId, Seq, Slot};
use tidemill_domain::time::Clock;
use tidemill_store::audit::AuditFilter;
use tidemill_store::outbox::failed_event::{FailedEventFilter, NewFailedEvent};

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
    let tile = |age: &str, class: &str| {
        format!("{age}</b><span class=\"state {class}\"><span aria-hidden=\"true\">")
    };

    let before = overview(&app).await;
    assert!(
        before.contains(&tile("<b>none", "idle")) && before.contains("oldest unpublished event"),
        "{before}"
    );
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
    assert!(alone.contains(&tile("0 s</time>", "bad")) && alone.contains("nothing is published"), "{alone}");
    assert!(alone.contains("<dt>Unpublished</dt><dd>2</dd>"), "{alone}");
    assert!(alone.contains("1</span><span class=\"soft\">, not retried any more"), "{alone}");

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
    assert!(relayed.contains(&tile("0 s</time>", "warn")), "{relayed}");
    assert!(relayed.contains("<dt>Live relays</dt><dd>1</dd>"), "{relayed}");
}

/// The words of a part of a page, without its tags.
fn words(html: &str) -> String {
    let words = html.split('<').filter_map(|piece| piece.split_once('>')).map(|(_, text)| text.trim());
    words.filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ")
}

/// A panel of a page, in words.
fn panel(page: &str, id: &str) -> String {
    words(&format!("<{}", between(page, &format!("<section class=\"panel\" id=\"{id}\""), "</section>")))
}

/// Makes an event that was refused; behind an earlier one of its aggregate it is held.
pub(super) async fn refuse(app: &App, id: i64, aggregate: &str, topic: &str, payload: &str) {
    let mut tx = app.store.begin().await.unwrap();
    let quoted = |text: &str| text.replace('\'', "''");
    tx.execute_for_test(&format!(
        "insert into outbox_event (id, aggregate_type, aggregate_id, event_type, topic, payload, headers, created_at)
         values ({id}, 'order', '{}', 'order.paid', '{}', '{}', '{{\"trace\":\"t\"}}', {})",
        quoted(aggregate),
        quoted(topic),
        quoted(payload),
        app.clock.now().as_micros()
    ))
    .await
    .unwrap();
    let new = NewFailedEvent {
        event_id: EventId::new(id),
        slot: Slot::of(aggregate),
        seq: Seq::new(id),
        aggregate: Aggregate { kind: "order".into(), id: aggregate.into() },
        event_type: "order.paid".into(),
        attempts: 3,
        state: FailedEventState::Parked,
        error: Some(format!("no to {id}\nat the second line")),
    };
    let now = tx.now().await.unwrap();
    tx.outbox().add_failed_events(&[new], now).await.unwrap();
    tx.commit().await.unwrap();
}

/// Three events that are parked, and a fourth that waits behind the third.
async fn refused() -> App {
    let app = App::closed().await;
    for (id, aggregate, topic) in
        [(1, "a", "orders"), (2, "b", "orders"), (3, "c", "carts"), (4, "c", "carts")]
    {
        refuse(&app, id, aggregate, topic, &format!("{{\"secret\":{id},\"big\":12345678901234567890.10}}"))
            .await;
    }
    app
}

/// The state of each event.
async fn states(app: &App) -> Vec<(i64, String)> {
    let mut tx = app.store.read().await.unwrap();
    let found = tx.outbox().failed_events(&FailedEventFilter::default(), EventId::ZERO, 1_000).await.unwrap();
    tx.rollback().await.unwrap();
    found.into_iter().map(|one| (one.id.get(), one.failed_event.state.word().to_string())).collect()
}

/// What people have done to events, the newest first: action, object and reason.
async fn audited(app: &App) -> Vec<(String, String, String)> {
    let mut tx = app.store.read().await.unwrap();
    let records = tx.audit().entries(&AuditFilter::default(), 1_000).await.unwrap();
    tx.rollback().await.unwrap();
    let of_events = records.into_iter().filter(|record| record.entry.action.starts_with("event."));
    of_events
        .map(|record| (record.entry.action, record.entry.object, record.entry.reason.unwrap_or_default()))
        .collect()
}

#[tokio::test]
async fn the_page_tells_the_lag_who_publishes_and_who_has_which_slot() {
    let app = App::open().await;
    let get = async |path: &str| app.ask(Method::GET, path, &[], "").await.text;
    let empty = get("/outbox").await;
    assert!(panel(&empty, "status").contains("Unpublished 0 events Oldest none Published unknown"));
    assert!(panel(&empty, "relays").contains("No relay is running. Start one: tidemill relay"));
    assert!(panel(&empty, "slots").contains("▲ no owner 256 0–255"), "{}", panel(&empty, "slots"));
    assert!(panel(&empty, "attached").contains("No table is attached."));

    refuse(&app, 1, "a", "orders", "{}").await;
    let (now, slot) = (app.clock.now().as_micros(), Slot::of("a").get());
    run(
        &app,
        &format!(
            "insert into tidemill_outbox_relay (id, process, name, host, pid, sink, joined_at, until, published)
             values ('00000000-0000-0000-0000-000000000001', '00000000-0000-0000-0000-000000000001', 'keeper', 'host', 7,
                     'kafka://k:9092', {now} - 10000000, {now} + 5000000, 120),
                    ('00000000-0000-0000-0000-000000000002', '00000000-0000-0000-0000-000000000002', 'lost', 'host', 8,
                     'kafka://k:9092', {now} - 10000000, {now} - 1, 0);
             update tidemill_outbox_slot
             set owner = '00000000-0000-0000-0000-000000000001', epoch = 3
             where slot < 100 or slot = {slot};
             update tidemill_outbox_slot
             set owner = '00000000-0000-0000-0000-000000000002', epoch = 2
             where slot = 255 and slot <> {slot};
             update tidemill_outbox set floor_id = 1"
        ),
    )
    .await;
    let page = get("/outbox").await;

    let status = panel(&page, "status");
    assert!(status.contains("Unpublished 1 event Oldest 0 s Published 12.0 events per second"), "{status}");
    assert!(
        panel(&page, "relays").contains("● live keeper host (7) kafka://k:9092 even"),
        "{}",
        panel(&page, "relays")
    );
    let slots = panel(&page, "slots");
    assert!(
        slots.contains("keeper") && slots.contains("0–99") && slots.contains("(gone) 1 255 2 0 none"),
        "{slots}"
    );
    assert!(page.contains("<title>0–99: keeper</title>") && page.contains(": failed events</title>"));
    assert!(panel(&page, "failed").contains("✖ parked 1 0 s"), "{}", panel(&page, "failed"));
}

#[tokio::test]
async fn what_nobody_can_say_is_unknown_and_not_nothing() {
    let Some(app) = App::on_postgres().await else { return };
    run(&app, "update tidemill_outbox set system_identifier = 'another'").await;

    let page = Browser::log_in(&app, Role::Viewer).await.get("/outbox").await.text;

    let status = panel(&page, "status");
    assert!(status.contains("Unpublished unknown Oldest unknown"), "{status}");
    assert!(status.contains("Slots with an owner unknown") && status.contains("restored to another server"));
    assert!(panel(&page, "slots").contains("unknown"));
}

#[tokio::test]
async fn events_that_were_not_taken_are_filtered_by_the_address_and_paged() {
    let app = refused().await;
    let viewer = Browser::log_in(&app, Role::Viewer).await;
    let listed = async |query: &str| {
        let page = viewer.get(&format!("/outbox/failed{query}")).await.text;
        let ids =
            page.split("name=\"id\" value=\"").skip(1).map(|rest| rest.split('"').next().unwrap().to_owned());
        ids.collect::<Vec<_>>()
    };

    for (query, expected) in [
        ("", vec!["1", "2", "3"]),
        ("?state=held", vec!["4"]),
        ("?state=open&topic=carts", vec!["3", "4"]),
        ("?aggregate_type=order&aggregate_id=b", vec!["2"]),
        ("?error=to+2", vec!["2"]),
        ("?event_type=order.sent", vec![]),
        ("?after=1&topic=", vec!["2", "3"]),
        (&format!("?slot={}", Slot::of("a").get()), vec!["1"]),
    ] {
        assert_eq!(listed(query).await, expected, "{query}");
    }
    let page = viewer.get("/outbox/failed").await.text;
    assert!(page.contains("no to 1") && !page.contains("second line") && !page.contains("secret"), "{page}");
    assert!(panel(&page, "events").starts_with("Events 3 match."), "{}", panel(&page, "events"));
    assert!(page.contains("The role viewer may not operate.") && !page.contains("data-ask"));
    for bad in ["?state=dead", "?slot=256"] {
        assert_eq!(
            viewer.get(&format!("/outbox/failed{bad}")).await.status,
            StatusCode::BAD_REQUEST,
            "{bad}"
        );
    }
    for id in 10..70 {
        refuse(&app, id, &format!("x{id}"), "many", "{}").await;
    }
    let first = viewer.get("/outbox/failed?topic=many").await.text;
    let next = between(&first, "class=\"button\" href=\"", "\"").replace("&amp;", "&");
    assert_eq!(next, "/outbox/failed?topic=many&after=59");
    assert_eq!(listed(next.trim_start_matches("/outbox/failed")).await.len(), 10);
}

#[tokio::test]
async fn what_an_event_says_is_text_and_for_those_who_may_see_it() {
    let app = refused().await;
    refuse(&app, 5, HOSTILE, "orders", &format!("{{\"x\":\"{}\"}}", HOSTILE.replace('"', "\\\""))).await;
    let (admin, operator) =
        (Browser::log_in(&app, Role::Admin).await, Browser::log_in(&app, Role::Operator).await);

    let page = admin.get("/outbox/failed/1").await.text;
    assert!(
        page.contains("{&quot;secret&quot;:1,&quot;big&quot;:12345678901234567890.10}"),
        "no number is rounded: {page}"
    );
    assert!(page.contains("at the second line") && page.contains("trace"));
    let hidden = operator.get("/outbox/failed/1").await.text;
    assert!(
        !hidden.contains("secret") && hidden.contains("The role operator may not administer"),
        "{hidden}"
    );
    let behind = operator.get("/outbox/failed/4").await.text;
    assert!(
        behind.contains("Not possible: ") && behind.contains("Order is kept for each aggregate"),
        "{behind}"
    );
    for path in [
        "/outbox/failed/5",
        "/outbox/failed",
        "/outbox/failed/5/skip",
        "/outbox/failed?topic=%3Cscript%3Ealert(1)%22",
        "/outbox/failed/skip?id=5",
    ] {
        let page = admin.get(path).await.text;
        assert!(!page.contains("<script>alert"), "{path}: {page}");
    }
    assert_eq!(admin.get("/outbox/failed/99").await.status, StatusCode::NOT_FOUND);
    assert_eq!(admin.get("/outbox/failed/x").await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn one_event_is_replayed_or_skipped_after_a_question() {
    let app = refused().await;
    let (operator, viewer) =
        (Browser::log_in(&app, Role::Operator).await, Browser::log_in(&app, Role::Viewer).await);

    let question = operator.get("/outbox/failed/1/replay").await.text;
    assert!(
        question.contains("Replay event 1, “order.paid”?")
            && question.contains("wait until it is published or skipped")
    );
    assert!(question.contains("tidemill outbox replay 1 --reason WHY"));
    let refusal = operator.get("/outbox/failed/4/replay").await.text;
    assert!(refusal.contains("Not possible: ") && !refusal.contains("name=\"reason\""), "{refusal}");
    let nothing = operator.submit("/outbox", "/outbox/failed/1/replay", "reason=&key=a").await;
    assert_eq!(nothing.status, StatusCode::BAD_REQUEST);
    let conflict = operator.submit("/outbox", "/outbox/failed/4/replay", "reason=now&key=b").await;
    assert!(conflict.status == StatusCode::CONFLICT && conflict.text.contains("TM1405"), "{conflict:?}");
    for path in
        ["/outbox/failed/1/replay", "/outbox/failed/1/skip", "/outbox/failed/replay", "/outbox/failed/skip"]
    {
        let body = "id=1&number=1&reason=x";
        assert_eq!(viewer.submit("/outbox", path, body).await.status, StatusCode::FORBIDDEN, "{path}");
        let forged = operator.post(path, &format!("{body}&form_token=forged")).await;
        assert!(forged.status == StatusCode::FORBIDDEN && forged.text.contains("TM0503"), "{path}");
    }
    assert_eq!(audited(&app).await, []);

    for _ in 0..2 {
        let done = operator
            .submit("/outbox", "/outbox/failed/1/replay", "reason=topic+is+there&key=c&back=/outbox/failed")
            .await;
        assert_eq!(
            (done.status, done.header("location")),
            (StatusCode::SEE_OTHER, "/outbox/failed"),
            "{done:?}"
        );
    }
    assert!(operator.get("/outbox/failed/3/skip").await.text.contains("To confirm, type 3"));
    for typed in ["", "&confirm=4"] {
        let body = format!("reason=a+test&key=d{typed}");
        let refused = operator.submit("/outbox", "/outbox/failed/3/skip", &body).await;
        assert!(refused.status == StatusCode::BAD_REQUEST && refused.text.contains("not 3"), "{refused:?}");
    }
    let done = operator.submit("/outbox", "/outbox/failed/3/skip", "reason=a+test&key=d&confirm=3").await;
    assert_eq!(done.header("location"), "/outbox/failed/3");
    let expected = [(1, "waiting"), (2, "parked"), (3, "skipped"), (4, "waiting")];
    assert_eq!(states(&app).await, expected.map(|(id, state)| (id, state.to_owned())));
    let entry =
        |action: &str, object: &str, why: &str| (action.to_owned(), object.to_owned(), why.to_owned());
    let expected =
        [entry("event.skip", "event/3", "a test"), entry("event.replay", "event/1", "topic is there")];
    assert_eq!(audited(&app).await, expected, "a form that is sent twice is one order");
}

#[tokio::test]
async fn those_that_were_picked_are_replayed_when_their_number_is_typed() {
    let app = refused().await;
    let operator = Browser::log_in(&app, Role::Operator).await;

    let question = operator.get("/outbox/failed/replay?state=parked&id=1&id=2&id=4").await.text;
    assert!(question.contains("Replay 3 events?") && question.contains("Events 1, 2, 4."), "{question}");
    assert!(question.contains("tidemill outbox replay 1 2 4 --reason WHY"));
    let wrong =
        operator.submit("/outbox", "/outbox/failed/replay", "id=1&id=2&id=4&number=2&reason=go&key=a").await;
    assert_eq!(wrong.status, StatusCode::CONFLICT);
    assert!(wrong.text.contains("you typed “2”, and there are 3 events now"), "{}", wrong.text);
    assert_eq!(audited(&app).await, []);

    let done =
        operator.submit("/outbox", "/outbox/failed/replay", "id=1&id=2&id=4&number=3&reason=go&key=b").await;
    assert_eq!(done.status, StatusCode::OK, "{done:?}");
    let told = words(&done.text);
    assert!(told.contains("2 events changed; 1 refused.") && told.contains("4 "), "{told}");
    assert_eq!(states(&app).await.iter().filter(|(_, state)| state == "waiting").count(), 2);
    let none = operator.get("/outbox/failed/replay?state=parked").await;
    assert!(
        none.status == StatusCode::BAD_REQUEST && none.text.contains("No event was selected"),
        "{none:?}"
    );
}

#[tokio::test]
async fn all_that_match_are_replayed_when_their_number_is_typed_and_is_still_right() {
    let app = refused().await;
    for id in 10..530 {
        refuse(&app, id, &format!("x{id}"), "flood", "{}").await;
    }
    let operator = Browser::log_in(&app, Role::Operator).await;
    let wide = operator.get("/outbox/failed").await.text;
    assert!(wide.contains("To change all events, first filter them") && !wide.contains("all=1"), "{wide}");
    let empty = operator.get("/outbox/failed/replay?all=1&state=parked").await;
    assert!(empty.status == StatusCode::BAD_REQUEST && empty.text.contains("No filter is set"));
    let forced = operator.submit("/outbox", "/outbox/failed/replay", "all=1&number=523&reason=x&key=z").await;
    assert_eq!(forced.status, StatusCode::BAD_REQUEST);

    let narrow = operator.get("/outbox/failed?topic=flood").await.text;
    assert!(
        narrow.contains("Replay all 520 matching…")
            && narrow.contains("/outbox/failed/replay?topic=flood&amp;all=1")
    );
    let question = operator.get("/outbox/failed/replay?topic=flood&all=1").await.text;
    assert!(
        question.contains("Replay 520 events?") && question.contains("All with topic flood."),
        "{question}"
    );
    refuse(&app, 530, "late", "flood", "{}").await;
    let form = "all=1&topic=flood&reason=broker+is+back";
    let stale =
        operator.submit("/outbox", "/outbox/failed/replay", &format!("{form}&number=520&key=a")).await;
    assert_eq!(stale.status, StatusCode::CONFLICT);
    assert!(stale.text.contains("there are 521 events now") && has_button(&stale.text, "Replay 521 events"));
    assert_eq!(audited(&app).await, []);

    for _ in 0..2 {
        let done =
            operator.submit("/outbox", "/outbox/failed/replay", &format!("{form}&number=521&key=b")).await;
        assert_eq!(done.header("location"), "/outbox/failed?topic=flood&done=replay&count=521", "{done:?}");
    }
    assert_eq!(audited(&app).await.len(), 521, "each leaves an entry, and only one");
    let told = operator.get("/outbox/failed?topic=flood&done=replay&count=521").await.text;
    assert!(words(&told).contains("521 events are retried now"), "{told}");
    assert_eq!(states(&app).await.iter().filter(|(_, state)| state == "parked").count(), 3, "no others");
}
