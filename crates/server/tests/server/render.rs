//! Renders, over HTTP: ordered, listed, looked at and operated; what is known of compositions; and who may.

use crate::{Answer, App, Choices};
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use std::time::Duration;
use tidemill_domain::audit::Role;
use tidemill_domain::lease::Lease;
use tidemill_domain::process::ProcessId;
use tidemill_domain::render::{Policy, RenderId, Targets};
use tidemill_domain::schedule::Zone;
use tidemill_server::access::Authentication;
use tidemill_store::render::ClaimRequest;

const RENDERS: &str = "/api/v1/renders";
const MAPPINGS: &str = "/api/v1/render-mappings";
const PROFILES: &str = "/api/v1/render-profiles";

async fn post(app: &App, role: Role, path: &str, body: &Value) -> Answer {
    app.ask_as(role, Method::POST, path, &body.to_string()).await
}

async fn look(app: &App, role: Role, path: &str) -> Value {
    let answer = app.ask_as(role, Method::GET, path, "").await;
    assert_eq!(answer.status, StatusCode::OK, "{path}: {answer:?}");
    answer.json()
}

#[track_caller]
fn refused(answer: &Answer, status: StatusCode, code: &str) -> String {
    assert_eq!((answer.status, &answer.json()["code"]), (status, &json!(code)), "{answer:?}");
    answer.json()["detail"].as_str().unwrap().to_owned()
}

fn profile(composition: &str) -> Value {
    json!({
        "composition": composition,
        "template": "D:\\templates\\cyprus.aep",
        "output_module": "H.264",
        "width": 1920,
        "height": 1080,
        "rate": "30000/1001",
        "duration": "5s",
    })
}

fn row(composition: &str, field: &str, layer: &str) -> Value {
    json!({ "composition": composition, "field_name": field, "layer_name": layer })
}

/// A server that knows the composition `Main`.
async fn app() -> App {
    let app = App::closed().await;
    let rows =
        json!({ "items": [row("Main", "Slot 1 - name", "Name 1"), row("Main", "Single - table", "Table")] });
    let saved = post(&app, Role::Admin, MAPPINGS, &rows).await;
    assert_eq!((saved.status, saved.json()), (StatusCode::OK, json!({ "count": 2 })), "{saved:?}");
    let saved = post(&app, Role::Admin, PROFILES, &json!({ "items": [profile("Main")] })).await;
    assert_eq!((saved.status, saved.json()), (StatusCode::OK, json!({ "count": 1 })), "{saved:?}");
    app
}

fn order(name: &str) -> Value {
    json!({
        "gfx_data": {
            "composition_name": "Main",
            "slots": [{ "slot_number": 1, "fields": { "name": name } }],
            "single_fields": { "table": "Final" },
        },
    })
}

async fn ordered(app: &App, name: &str) -> i64 {
    let answer = post(app, Role::Operator, RENDERS, &order(name)).await;
    assert_eq!(answer.status, StatusCode::CREATED, "{answer:?}");
    answer.json()["id"].as_i64().unwrap()
}

/// Lets a worker that soon vanishes have a render.
async fn claimed(app: &App) -> ProcessId {
    let by = tidemill_engine::SystemIds.process();
    let policy = Policy::standard().unwrap();
    let mut tx = app.store.begin().await.unwrap();
    let request = ClaimRequest { by, worker: "gone", count: 1, policy: &policy, zone: &Zone::UTC };
    let claims = tx.renders().claim(request).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(claims.claimed.len(), 1);
    by
}

#[tokio::test]
async fn a_render_is_ordered_and_shown_without_what_it_shows() {
    let app = app().await;
    let mut wanted = order("PHIL IVEY");
    wanted["priority"] = json!(7);
    wanted["deadline"] = json!("2026-11-15T18:00:00Z");
    wanted["broadcast_date"] = json!("2026-11-16");

    let answer = post(&app, Role::Operator, RENDERS, &wanted).await;
    let id = answer.json()["id"].clone();
    let shown = look(&app, Role::Viewer, &format!("{RENDERS}/{id}")).await;

    assert_eq!((answer.status, &answer.json()["is_new"]), (StatusCode::CREATED, &json!(true)));
    assert_eq!((&shown["status"], &shown["composition"]), (&json!("pending"), &json!("Main")));
    assert_eq!((&shown["priority"], &shown["broadcast_date"]), (&json!(7), &json!("2026-11-16")));
    assert!(shown["deadline"].as_str().unwrap().starts_with("2026-11-15T18:00:00"), "{shown}");
    assert!(!shown.to_string().contains("IVEY"), "{shown}");
    let data = look(&app, Role::Admin, &format!("{RENDERS}/{id}/data")).await;
    assert_eq!(data["gfx_data"]["slots"][0]["fields"]["name"], "PHIL IVEY");
    let audit = look(&app, Role::Viewer, &format!("{RENDERS}/{id}/audit")).await;
    assert_eq!((&audit["items"][0]["from"], &audit["items"][0]["to"]), (&Value::Null, &json!("pending")));
    assert_eq!(look(&app, Role::Viewer, &format!("{RENDERS}/{id}/attempts")).await["items"], json!([]));
}

#[tokio::test]
async fn a_plan_names_what_stays_empty_and_orders_nothing() {
    let app = app().await;
    let mut wanted = order("");
    let named = ["these fields stay empty: Slot 1 - name"];

    let plan = post(&app, Role::Operator, &format!("{RENDERS}/plan"), &wanted).await;

    assert_eq!((plan.status, &plan.json()["warnings"]), (StatusCode::OK, &json!(named)), "{plan:?}");
    assert_eq!(look(&app, Role::Viewer, RENDERS).await["items"], json!([]));
    let ordered = post(&app, Role::Operator, RENDERS, &wanted).await;
    assert_eq!((ordered.status, &ordered.json()["warnings"]), (StatusCode::CREATED, &json!(named)));
    let data = wanted["gfx_data"].as_object_mut().unwrap();
    let fields = data.remove("slots").unwrap();
    data.insert("slot".to_owned(), fields);
    let told =
        refused(&post(&app, Role::Operator, RENDERS, &wanted).await, StatusCode::BAD_REQUEST, "TM1501");
    assert!(told.contains("did you mean slots?"), "{told}");
}

#[tokio::test]
async fn somebody_who_clicks_twice_orders_once() {
    let app = app().await;
    let mut wanted = order("A");
    wanted["cue_item"] = json!("cue-1");

    let first = post(&app, Role::Operator, RENDERS, &wanted).await;
    let second = post(&app, Role::Operator, RENDERS, &wanted).await;

    assert_eq!((first.status, second.status), (StatusCode::CREATED, StatusCode::OK));
    assert_eq!((&second.json()["id"], &second.json()["is_new"]), (&first.json()["id"], &json!(false)));
}

#[tokio::test]
async fn renders_are_listed_in_pages_and_by_what_they_are() {
    let app = app().await;
    for name in ["A", "B", "C"] {
        ordered(&app, name).await;
    }
    let ids = |list: &Value| -> Vec<i64> {
        list["items"].as_array().unwrap().iter().map(|item| item["id"].as_i64().unwrap()).collect()
    };

    let first = look(&app, Role::Viewer, &format!("{RENDERS}?limit=2")).await;
    let second = look(&app, Role::Viewer, &format!("{RENDERS}?limit=2&before={}", first["next"])).await;

    assert_eq!((ids(&first), ids(&second), &second["next"]), (vec![3, 2], vec![1], &Value::Null));
    assert_eq!(ids(&look(&app, Role::Viewer, &format!("{RENDERS}?status=failed")).await), [0; 0]);
    assert_eq!(
        ids(&look(&app, Role::Viewer, &format!("{RENDERS}?status=pending&composition=Main")).await).len(),
        3
    );
    let bad = app.ask_as(Role::Viewer, Method::GET, &format!("{RENDERS}?status=done"), "").await;
    refused(&bad, StatusCode::BAD_REQUEST, "TM0504");
}

#[tokio::test]
async fn what_cannot_be_rendered_is_refused_with_all_reasons_and_not_ordered() {
    let app = app().await;
    let with = |change: &dyn Fn(&mut Value)| {
        let mut wanted = order("A");
        change(&mut wanted);
        wanted
    };
    for (wanted, status, code) in [
        (with(&|o| o["gfx_data"] = json!([])), StatusCode::BAD_REQUEST, "TM1501"),
        (with(&|o| o["gfx_data"] = json!({ "slots": [] })), StatusCode::NOT_FOUND, "TM1547"),
        (with(&|o| o["gfx_data"]["composition_name"] = json!("Other")), StatusCode::NOT_FOUND, "TM1547"),
        (with(&|o| o["gfx_data"]["composition_name"] = json!("it's")), StatusCode::BAD_REQUEST, "TM1506"),
        (
            with(&|o| o["gfx_data"]["composition_name"] = json!("..\\secret")),
            StatusCode::BAD_REQUEST,
            "TM1506",
        ),
        (with(&|o| o["broadcast_date"] = json!("../2026-11-15")), StatusCode::BAD_REQUEST, "TM1510"),
        (with(&|o| o["deadline"] = json!("tonight")), StatusCode::BAD_REQUEST, "TM0504"),
        (with(&|o| o["composition"] = json!("Main ")), StatusCode::NOT_FOUND, "TM1547"),
    ] {
        refused(&post(&app, Role::Operator, RENDERS, &wanted).await, status, code);
    }
    let many = with(&|o| {
        o["gfx_data"]["slots"][0]["fields"]["stack"] = json!(250);
        o["gfx_data"]["slots"][0]["fields"]["odds"] = json!(2);
        o["gfx_data"]["single_fields"] = json!({});
    });
    let told = refused(&post(&app, Role::Operator, RENDERS, &many).await, StatusCode::BAD_REQUEST, "TM1503");
    for part in ["Slot 1 - stack is not mapped", "Slot 1 - odds is not mapped", "Single - table is missing"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let large = with(&|o| o["gfx_data"]["single_fields"]["table"] = json!("x".repeat(5_000_001)));
    refused(&post(&app, Role::Operator, RENDERS, &large).await, StatusCode::PAYLOAD_TOO_LARGE, "TM0506");
    assert_eq!(look(&app, Role::Viewer, RENDERS).await["items"], json!([]));
}

#[tokio::test]
async fn a_render_is_cancelled_and_tried_again_for_a_reason() {
    let app = app().await;
    let id = ordered(&app, "A").await;
    let why = json!({ "reason": "wrong name" });

    let cancelled = post(&app, Role::Operator, &format!("{RENDERS}/{id}/cancel"), &why).await;
    let again = post(&app, Role::Operator, &format!("{RENDERS}/{id}/cancel"), &why).await;
    let retried = post(&app, Role::Operator, &format!("{RENDERS}/{id}/retry"), &why).await;

    assert_eq!((cancelled.status, &cancelled.json()["status"]), (StatusCode::OK, &json!("cancelled")));
    refused(&again, StatusCode::CONFLICT, "TM1511");
    assert_eq!((retried.status, &retried.json()["status"]), (StatusCode::OK, &json!("pending")));
    let without =
        post(&app, Role::Operator, &format!("{RENDERS}/{id}/cancel"), &json!({ "reason": " " })).await;
    refused(&without, StatusCode::BAD_REQUEST, "TM0504");
    let missing = post(&app, Role::Operator, &format!("{RENDERS}/99/cancel"), &why).await;
    refused(&missing, StatusCode::NOT_FOUND, "TM1546");
    let log = look(&app, Role::Viewer, &format!("/api/v1/audit?object=render/{id}")).await;
    assert!(log.to_string().contains("wrong name"), "{log}");
}

#[tokio::test]
async fn a_render_whose_worker_has_vanished_is_taken_from_it_and_one_at_work_is_not() {
    let app = app().await;
    let id = ordered(&app, "A").await;
    claimed(&app).await;
    let why = json!({ "reason": "host is gone" });
    let path = format!("{RENDERS}/{id}/recover");

    let early = post(&app, Role::Operator, &path, &why).await;
    app.clock.advance(Duration::from_secs(61));
    let late = post(&app, Role::Operator, &path, &why).await;

    refused(&early, StatusCode::CONFLICT, "TM1511");
    assert_eq!((late.status, &late.json()["status"]), (StatusCode::OK, &json!("pending")), "{late:?}");
    assert_eq!(late.json()["recoveries"], 1);
    let attempts = look(&app, Role::Viewer, &format!("{RENDERS}/{id}/attempts")).await;
    assert_eq!(
        (&attempts["items"][0]["worker"], &attempts["items"][0]["outcome"]),
        (&json!("gone"), &json!("lost"))
    );
}

#[tokio::test]
async fn a_render_at_work_is_cancelled_when_its_worker_hears_of_it() {
    let app = app().await;
    let id = ordered(&app, "A").await;
    claimed(&app).await;

    let answer =
        post(&app, Role::Operator, &format!("{RENDERS}/{id}/cancel"), &json!({ "reason": "no" })).await;

    assert_eq!(
        (answer.status, &answer.json()["status"]),
        (StatusCode::ACCEPTED, &json!("preparing")),
        "{answer:?}"
    );
    assert!(answer.json()["cancel_requested_at"].is_string());
    let mut tx = app.store.read().await.unwrap();
    let record = tx.renders().find(RenderId::new(id)).await.unwrap().unwrap();
    assert!(matches!(record.render.lease, Lease::Held { .. }));
}

#[tokio::test]
async fn a_correction_is_checked_like_an_order_and_of_two_at_once_one_is_refused() {
    let app = app().await;
    let id = ordered(&app, "PHIL IVEI").await;
    let path = format!("{RENDERS}/{id}/correct");
    let right = json!({ "set": { "slots.1.fields.name": "PHIL IVEY" }, "reason": "wrong name" });
    refused(&post(&app, Role::Operator, &path, &right).await, StatusCode::CONFLICT, "TM1511");
    post(&app, Role::Operator, &format!("{RENDERS}/{id}/cancel"), &json!({ "reason": "wrong" })).await;

    let seen = look(&app, Role::Viewer, &format!("{RENDERS}/{id}")).await["revision"].clone();
    let mut first = right.clone();
    first["revision"] = seen.clone();
    assert_eq!(post(&app, Role::Viewer, &path, &first).await.status, StatusCode::FORBIDDEN);
    let blank = json!({ "gfx_data": { "composition_name": "Main" } });
    refused(&post(&app, Role::Operator, &path, &blank).await, StatusCode::BAD_REQUEST, "TM1503");
    let unknown = json!({ "gfx_data": { "slot": [] } });
    refused(&post(&app, Role::Operator, &path, &unknown).await, StatusCode::BAD_REQUEST, "TM1501");
    let done = post(&app, Role::Operator, &path, &first).await;
    let second = json!({ "set": { "slots.1.fields.name": "OTHER" }, "revision": seen });
    let late = refused(&post(&app, Role::Operator, &path, &second).await, StatusCode::CONFLICT, "TM1511");

    assert_eq!((done.status, &done.json()["status"]), (StatusCode::OK, &json!("pending")), "{done:?}");
    assert!(late.contains("was changed since revision"), "{late}");
    let data = look(&app, Role::Admin, &format!("{RENDERS}/{id}/data")).await;
    assert_eq!(data["gfx_data"]["slots"][0]["fields"]["name"], "PHIL IVEY");
}

#[tokio::test]
async fn mappings_and_profiles_are_brought_shown_and_forgotten() {
    let app = app().await;
    let profiles = look(&app, Role::Viewer, PROFILES).await;
    let shown = &profiles["items"][0];
    assert_eq!(
        (&shown["rate"], &shown["duration"], &shown["codecs"]),
        (&json!("30000/1001"), &json!("5s"), &json!(["h264"]))
    );
    // What is shown can be sent back.
    assert_eq!(post(&app, Role::Admin, PROFILES, &profiles).await.status, StatusCode::OK);
    let mappings = look(&app, Role::Viewer, &format!("{MAPPINGS}?composition=Main")).await;
    assert_eq!(post(&app, Role::Admin, MAPPINGS, &mappings).await.json(), json!({ "count": 2 }));

    let bad = json!({ "items": [row("Main", "Slot x", ""), row("it's", "Single - a", "A")] });
    let told = refused(&post(&app, Role::Admin, MAPPINGS, &bad).await, StatusCode::BAD_REQUEST, "TM1504");
    assert!(told.contains("row 1") && told.contains("row 2"), "{told}");
    let mut bad = profile("Main");
    bad["rate"] = json!("29.97");
    refused(
        &post(&app, Role::Admin, PROFILES, &json!({ "items": [bad] })).await,
        StatusCode::BAD_REQUEST,
        "TM1505",
    );
    let twice = json!({ "items": [profile("A"), profile("A")] });
    refused(&post(&app, Role::Admin, PROFILES, &twice).await, StatusCode::BAD_REQUEST, "TM1505");

    let one = format!("{MAPPINGS}/Main?field=Single%20-%20table");
    assert_eq!(app.ask_as(Role::Admin, Method::DELETE, &one, "").await.json(), json!({ "count": 1 }));
    refused(&app.ask_as(Role::Admin, Method::DELETE, &one, "").await, StatusCode::NOT_FOUND, "TM1547");
    let gone = app.ask_as(Role::Admin, Method::DELETE, &format!("{PROFILES}/Main"), "").await;
    assert_eq!(gone.status, StatusCode::OK);
    assert_eq!(look(&app, Role::Viewer, PROFILES).await["items"], json!([]));
}

#[tokio::test]
async fn a_profile_with_an_unknown_target_is_refused_where_targets_are_known() {
    let mut targets = Targets::default();
    targets.add("archive", "s3://films").unwrap();
    for (known, is_refused) in [(Some(targets), true), (None, false)] {
        let choices = Choices { targets: known, ..Choices::default() };
        let app = App::choosing(Authentication::Required { issuers: Vec::new() }, "", choices).await;
        let send = async |targets: &[&str]| {
            let mut profile = profile("Main");
            profile["targets"] = json!(targets);
            post(&app, Role::Admin, PROFILES, &json!({ "items": [profile] })).await
        };

        assert_eq!(send(&["nas", "archive"]).await.status, StatusCode::OK);
        let unknown = send(&["archve"]).await;
        assert_eq!(unknown.status == StatusCode::BAD_REQUEST, is_refused, "{unknown:?}");
        if is_refused {
            let told = refused(&unknown, StatusCode::BAD_REQUEST, "TM1505");
            assert!(told.contains("did you mean archive?"), "{told}");
        }
        refused(&send(&["Not a name"]).await, StatusCode::BAD_REQUEST, "TM1505");
    }
}

#[tokio::test]
async fn who_may_not_is_refused() {
    let app = app().await;
    let id = ordered(&app, "A").await;
    let why = json!({ "reason": "x" });
    for (role, path, body) in [
        (Role::Viewer, RENDERS.to_owned(), order("B")),
        (Role::Viewer, format!("{RENDERS}/{id}/cancel"), why.clone()),
        (Role::Requester, format!("{RENDERS}/{id}/retry"), why),
        (Role::Viewer, format!("{RENDERS}/poll"), json!({})),
        // Expressions are code that nodes run.
        (Role::Operator, MAPPINGS.to_owned(), json!({ "items": [] })),
        (Role::Operator, PROFILES.to_owned(), json!({ "items": [] })),
    ] {
        assert_eq!(post(&app, role, &path, &body).await.status, StatusCode::FORBIDDEN, "{role} {path}");
    }
    // It is the payload.
    let data = app.ask_as(Role::Operator, Method::GET, &format!("{RENDERS}/{id}/data"), "").await;
    assert_eq!(data.status, StatusCode::FORBIDDEN);
    assert_eq!(
        post(&app, Role::Operator, &format!("{RENDERS}/poll"), &json!({})).await.status,
        StatusCode::ACCEPTED
    );
    assert_eq!(look(&app, Role::Viewer, "/api/v1/render-workers").await["items"], json!([]));
}

#[tokio::test]
async fn a_token_for_one_composition_orders_nothing_else() {
    let app = app().await;
    assert_eq!(
        post(&app, Role::Admin, PROFILES, &json!({ "items": [profile("Other")] })).await.status,
        StatusCode::OK
    );
    let made = json!({ "name": "cues", "role": "operator", "scopes": ["render/Main"] });
    let token =
        post(&app, Role::Admin, "/api/v1/tokens", &made).await.json()["secret"].as_str().unwrap().to_owned();
    let bearer = format!("Bearer {token}");
    let send = async |path: &str, body: &Value| {
        app.ask(Method::POST, path, &[("authorization", &bearer)], &body.to_string()).await.status
    };
    let other = json!({ "gfx_data": { "composition_name": "Other" } });

    assert_eq!(send(RENDERS, &order("A")).await, StatusCode::CREATED);
    assert_eq!(send(RENDERS, &other).await, StatusCode::FORBIDDEN);
    let foreign = post(&app, Role::Operator, RENDERS, &other).await.json()["id"].as_i64().unwrap();
    let cancel = format!("{RENDERS}/{foreign}/cancel");
    assert_eq!(send(&cancel, &json!({ "reason": "x" })).await, StatusCode::FORBIDDEN);
}
