//! Batches of renders, over HTTP: planned, ordered all or none, watched and retried.

use crate::{Answer, App};
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use tidemill_domain::audit::{Actor, Role};
use tidemill_domain::render::Policy;
use tidemill_domain::render::{Failure, Trouble, Work};
use tidemill_domain::schedule::Zone;
use tidemill_store::render::{ClaimRequest, Notes};

const BATCH: &str = "/api/v1/renders/batch";

async fn post(app: &App, role: Role, path: &str, body: &Value) -> Answer {
    app.ask_as(role, Method::POST, path, &body.to_string()).await
}

async fn look(app: &App, path: &str) -> Value {
    let answer = app.ask_as(Role::Viewer, Method::GET, path, "").await;
    assert_eq!(answer.status, StatusCode::OK, "{path}: {answer:?}");
    answer.json()
}

/// A server that knows the compositions `Main` and `Lower`.
pub(crate) async fn app() -> App {
    let app = App::closed().await;
    teach(&app).await;
    app
}

pub(crate) async fn teach(app: &App) {
    let profile = |name: &str| json!({ "composition": name, "template": "D:\\a.aep", "output_module": "H.264", "width": 1920, "height": 1080, "rate": "25" });
    let row = |name: &str, field: &str, optional: bool| json!({ "composition": name, "field_name": field, "layer_name": field, "optional": optional });
    let profiles = ["Main", "Lower"].map(|name| serde_json::from_value(profile(name)).unwrap());
    let rows = [
        row("Main", "Slot 1 - name", false),
        row("Main", "Slot 1 - stack", false),
        row("Main", "Single - table", true),
        row("Lower", "Single - title", false),
    ];
    let rows = rows.map(|row| serde_json::from_value(row).unwrap());
    let mut tx = app.store.begin().await.unwrap();
    tx.renders().save_profiles(&profiles, &Actor::system()).await.unwrap();
    tx.renders().save_field_mappings(&rows, &Actor::system()).await.unwrap();
    tx.commit().await.unwrap();
}

const TABLE: &str = "composition\tcue_item\tPlayer\tSlot 1 - stack\tSingle - title\n\
                     Main\tcue-1\tPHIL IVEY\t250\t\n\
                     Main\tcue-2\tDANIEL\t300\t\n\
                     Lower\tcue-3\t\t\tGood evening\n";

fn order(csv: &str) -> Value {
    json!({ "csv": csv, "map": { "Player": "Slot 1 - name" } })
}

/// Lets a worker claim the next render and fail.
pub(crate) async fn fail_next(app: &App) {
    let policy = Policy::standard().unwrap();
    let by = tidemill_engine::SystemIds.process();
    let mut tx = app.store.begin().await.unwrap();
    let request = ClaimRequest { by, worker: "w", count: 1, policy: &policy, zone: &Zone::UTC };
    let claimed = tx.renders().claim(request).await.unwrap().claimed.remove(0);
    let failed = Work::Failed(Trouble::new(Failure::TemplateMissing, "gone"));
    let id = claimed.record.id();
    tx.renders().work(id, claimed.fence, failed, Notes::default(), &policy).await.unwrap().unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn a_table_is_planned_and_then_ordered_as_one_batch() {
    let app = app().await;
    let mut wanted = order(TABLE);
    wanted["dry_run"] = json!(true);
    wanted["priority"] = json!(7);

    let plan = post(&app, Role::Operator, BATCH, &wanted).await;
    assert_eq!(plan.status, StatusCode::OK, "{plan:?}");
    let plan = plan.json();
    assert_eq!((&plan["batch"], &plan["is_valid"]), (&Value::Null, &json!(true)));
    assert_eq!(
        plan["rows"][0],
        json!({
            "line": 2, "composition": "Main", "cue_item": "cue-1", "id": null, "is_new": null,
            "warnings": ["these fields stay empty: Single - table"], "problems": [],
        })
    );
    assert_eq!(look(&app, "/api/v1/renders").await["items"], json!([]), "a plan orders nothing");

    wanted["dry_run"] = json!(false);
    let done = post(&app, Role::Operator, BATCH, &wanted).await;
    assert_eq!(done.status, StatusCode::CREATED, "{done:?}");
    let batch = done.json()["batch"].clone();
    let renders = look(&app, &format!("/api/v1/renders?batch={batch}")).await;
    let renders = renders["items"].as_array().unwrap();
    assert_eq!((renders.len(), &renders[0]["priority"], &renders[0]["batch"]), (3, &json!(7), &batch));
    assert_eq!(renders[0]["cue_item"], "cue-3", "the newest first");
    let data =
        app.ask_as(Role::Admin, Method::GET, &format!("/api/v1/renders/{batch}/data"), "").await.json();
    let slot = json!([{ "slot_number": 1, "fields": { "name": "PHIL IVEY", "stack": "250" } }]);
    assert_eq!(data["gfx_data"], json!({ "slots": slot }));

    let again = post(&app, Role::Operator, BATCH, &wanted).await;
    assert_eq!((again.status, &again.json()["batch"]), (StatusCode::OK, &Value::Null));
    assert_eq!(again.json()["rows"][0]["is_new"], json!(false));
}

#[tokio::test]
async fn one_bad_row_orders_none_and_each_problem_has_its_line_and_column() {
    let app = app().await;
    let table = "composition,Player,Slot 1 - stack,priority\n\
                 Main,PHIL IVEY,250,\n\
                 Main,,250,\n\
                 Mian,A,1,\n\
                 Main,A,1,high\n\
                 Main,A,1\n\
                 ,A,1,\n";

    let refused = post(&app, Role::Operator, BATCH, &order(table)).await;

    let problem = refused.json();
    assert_eq!((refused.status, &problem["code"]), (StatusCode::BAD_REQUEST, &json!("TM1555")), "{problem}");
    let detail = problem["detail"].as_str().unwrap();
    for part in [
        "line 3, column \"Player\": Slot 1 - name is missing",
        "line 4: there is no profile of the composition \"Mian\"; did you mean Main?",
        "line 5, column \"priority\": \"high\" is not a whole number",
        "line 6: the row has 3 cells and the header 4",
        "line 7: no composition",
    ] {
        assert!(detail.contains(part), "{part}: {detail}");
    }
    assert!(!detail.contains("line 2"), "{detail}");
    assert_eq!(look(&app, "/api/v1/renders").await["items"], json!([]), "all or none");
    let mut dry = order(table);
    dry["dry_run"] = json!(true);
    let plan = post(&app, Role::Operator, BATCH, &dry).await.json();
    assert_eq!((&plan["is_valid"], &plan["rows"][0]["problems"]), (&json!(false), &json!([])));
    let unknown = post(&app, Role::Operator, BATCH, &json!({ "csv": TABLE })).await;
    assert!(unknown.json()["detail"].as_str().unwrap().contains("column \"Player\": it is not a field"));
}

#[tokio::test]
async fn a_repeated_request_orders_once_and_only_operators_order() {
    let app = app().await;
    let table = "composition,Single - title\nLower,Good evening\n";
    let body = json!({ "csv": table }).to_string();
    let bearer = format!("Bearer {}", app.token(Role::Operator).await);
    let headers =
        [("authorization", &*bearer), ("content-type", "application/json"), ("idempotency-key", "sheet-1")];

    let first = app.ask(Method::POST, BATCH, &headers, &body).await;
    let second = app.ask(Method::POST, BATCH, &headers, &body).await;
    let viewer = post(&app, Role::Viewer, BATCH, &json!({ "csv": table })).await;

    assert_eq!(first.status, StatusCode::CREATED, "{first:?}");
    assert_eq!((second.status, second.json()), (first.status, first.json()));
    assert_eq!(viewer.status, StatusCode::FORBIDDEN);
    assert_eq!(look(&app, "/api/v1/renders").await["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn the_failed_renders_of_a_batch_are_retried_together() {
    let app = app().await;
    let batch = post(&app, Role::Operator, BATCH, &order(TABLE)).await.json()["batch"].clone();
    let path = format!("/api/v1/renders/batches/{batch}");
    fail_next(&app).await;
    fail_next(&app).await;

    let before = look(&app, &path).await;
    let retried =
        post(&app, Role::Operator, &format!("{path}/retry"), &json!({ "reason": "it is back" })).await;
    let after = look(&app, &path).await;

    assert_eq!((&before["renders"], &before["failed"], &before["ended"]), (&json!(3), &json!(2), &json!(2)));
    assert_eq!((retried.status, retried.json()), (StatusCode::OK, json!({ "batch": batch, "retried": 2 })));
    assert_eq!(
        (&after["pending"], &after["failed"], &after["ended_at"]),
        (&json!(3), &json!(0), &Value::Null)
    );
    let log = look(&app, "/api/v1/audit?action=render.retry").await.to_string();
    assert_eq!(log.matches("it is back").count(), 2, "each in its own name: {log}");
    let unknown =
        post(&app, Role::Operator, "/api/v1/renders/batches/99/retry", &json!({ "reason": "x" })).await;
    assert_eq!((unknown.status, &unknown.json()["code"]), (StatusCode::NOT_FOUND, &json!("TM1546")));
}
