//! A batch on the page: a table that is pasted, previewed, corrected, ordered, watched and retried.

use super::*;
use crate::render_batch::{fail_next, teach};

const FORM: &str = "/render/batch";

/// The fields of the form for a table with a column `Player`.
fn fields(table: &str) -> String {
    let encoded = |text: &str| text.replace('\t', "%09").replace('\n', "%0D%0A").replace(' ', "+");
    format!("csv={}&map={}&composition=Main", encoded(table), encoded("Player=Slot 1 - name"))
}

async fn count(app: &App) -> usize {
    let mut tx = app.store.read().await.unwrap();
    tx.renders().list(&Default::default(), None, 100).await.unwrap().len()
}

#[tokio::test]
async fn a_pasted_table_is_previewed_and_then_ordered_as_it_was_previewed() {
    let app = App::closed().await;
    teach(&app).await;
    let operator = Browser::log_in(&app, Role::Operator).await;
    let table = "cue_item\tPlayer\tSlot 1 - stack\ncue-1\tPHIL IVEY\t250\ncue-2\tDANIEL\t300\n";

    let preview = operator.submit(FORM, FORM, &fields(table)).await;
    assert_eq!(preview.status, StatusCode::OK, "{preview:?}");
    let rows = words(between(&preview.text, "id=\"preview\"", "</table>"));
    assert!(rows.contains("2 Main cue-1 ▲ warning these fields stay empty: Single - table"), "{rows}");
    assert!(has_button(&preview.text, "Order 2 renders"));
    assert!(preview.text.contains("PHIL IVEY"), "the table is still in the form");
    assert_eq!(count(&app).await, 0);

    let body = format!("{}&step=order&key=one-form", fields(table));
    let done = operator.submit(FORM, FORM, &body).await;
    let twice = operator.submit(FORM, FORM, &body).await;
    assert_eq!((done.status, done.header("location")), (StatusCode::SEE_OTHER, "/render/batches/1"));
    assert_eq!(twice.header("location"), "/render/batches/1", "a double click");
    assert_eq!(count(&app).await, 2);
    let one = operator.get("/render/1").await.text;
    assert!(one.contains("href=\"/render/batches/1\""), "{one}");
}

#[tokio::test]
async fn a_table_with_problems_says_where_and_cannot_be_ordered() {
    let app = App::closed().await;
    teach(&app).await;
    let operator = Browser::log_in(&app, Role::Operator).await;
    let table = "cue_item,Player,Slot 1 - stack\ncue-1,PHIL IVEY,250\ncue-2,,300\n";

    let preview = operator.submit(FORM, FORM, &fields(table)).await.text;
    let refused = operator.submit(FORM, FORM, &format!("{}&step=order", fields(table))).await;
    let unknown = operator.submit(FORM, FORM, "csv=Plaver%0D%0AA&map=&composition=Main").await;

    let rows = words(between(&preview, "id=\"preview\"", "</table>"));
    assert!(rows.contains("3 none none ✖ refused Player : Slot 1 - name is missing"), "{rows}");
    assert!(!preview.contains("value=\"order\"") && preview.contains("1 row has problems"), "{preview}");
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert!(refused.text.contains("line 3, column &quot;Player&quot;"), "{}", refused.text);
    assert!(
        unknown.text.contains("TM1555") && unknown.text.contains("it is not a field"),
        "{}",
        unknown.text
    );
    assert_eq!(count(&app).await, 0);
}

#[tokio::test]
async fn a_batch_shows_how_far_it_is_and_its_failed_renders_are_retried() {
    let app = App::closed().await;
    teach(&app).await;
    let operator = Browser::log_in(&app, Role::Operator).await;
    let table = "Player\tSlot 1 - stack\nA\t1\nB\t2\nC\t3\n";
    operator.submit(FORM, FORM, &format!("{}&step=order", fields(table))).await;
    fail_next(&app).await;

    let page = operator.get("/render/batches/1").await.text;
    let text = words(&page);
    assert!(text.contains("1 of 3 renders ended") && text.contains("✖ failed 1"), "{text}");
    assert_eq!(ids(&page), [1], "the one that failed");
    let found = operator.get("/render?status=pending&batch=1").await.text;
    assert_eq!(ids(&found), [3, 2]);
    let question = "/render/batches/1/retry";
    let asked = operator.get(question).await.text;
    assert!(asked.contains("1 failed render of this batch"), "{asked}");
    assert!(asked.contains("tidemill render retry --batch 1 --reason WHY"), "{asked}");
    super::super::job::sql(&app, "update render_queue set error_code = 'TM1557' where status = 'failed'")
        .await;
    let rejected = operator.get(question).await.text;
    assert!(rejected.contains("because a person has rejected the file: 1 render."), "{rejected}");
    assert!(rejected.contains("The failed renders of this batch were rejected."), "{rejected}");
    super::super::job::sql(&app, "update render_queue set error_code = 'TM1524' where status = 'failed'")
        .await;

    let done = operator.submit(question, question, "reason=it+is+back").await;

    assert_eq!((done.status, done.header("location")), (StatusCode::SEE_OTHER, "/render/batches/1"));
    let page = operator.get("/render/batches/1").await.text;
    assert!(words(&page).contains("0 of 3 renders ended"), "{page}");
    assert!(operator.get(question).await.text.contains("No render of this batch has failed."));
    assert_eq!(operator.get("/render/batches/2").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_viewer_sees_a_batch_and_orders_none() {
    let app = App::closed().await;
    teach(&app).await;
    let operator = Browser::log_in(&app, Role::Operator).await;
    operator.submit(FORM, FORM, &format!("{}&step=order", fields("Player,Slot 1 - stack\nA,1\n"))).await;
    fail_next(&app).await;
    let viewer = Browser::log_in(&app, Role::Viewer).await;

    let form = viewer.get(FORM).await.text;
    let batch = viewer.get("/render/batches/1").await.text;
    let forced = viewer.submit("/render", FORM, &fields("Player\nA\n")).await;

    assert!(form.contains("The role viewer may not operate.") && !has_button(&form, "Preview"), "{form}");
    assert!(!batch.contains("data-ask") && batch.contains("1 of 1 render"), "{batch}");
    assert_eq!(forced.status, StatusCode::FORBIDDEN);
    let limited = Browser::log_in_scoped(&app, "render/Lower").await;
    let refused = limited.submit(FORM, FORM, &fields("Player,Slot 1 - stack\nB,1\n")).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN, "{refused:?}");
}
