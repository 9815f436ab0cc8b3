//! Pools that are created and changed on the pages: one form has all settings that people change.

use super::super::{Browser, HOSTILE, between, has_button};
use super::{audited, crowded, set, settings, usage, words};
use crate::{App, Choices};
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use std::time::Duration;
use tidemill_domain::audit::Role;
use tidemill_domain::pool::{Policy, Settings, WeightModel};
use tidemill_server::access::Authentication;

/// A form with everything that can be typed.
const NEW: &str = "name=ADW&external_id=4&max_units=40&threshold_percent=90&min_units=3&default_units=5\
                   &max_hold=12h&policy=fifo&weight=sessions";

async fn settings_of(app: &App, name: &str) -> Settings {
    let mut tx = app.store.read().await.unwrap();
    let pool = tx.pools().find(&name.parse().unwrap()).await.unwrap().unwrap();
    tx.rollback().await.unwrap();
    pool.settings
}

/// The field that is wrong, and why.
fn fault(page: &str) -> (&str, &str) {
    let (_, rest) =
        page.split_once("<span class=\"fault\" role=\"alert\">").unwrap_or_else(|| panic!("{page}"));
    let (why, rest) = rest.split_once("</span>").unwrap();
    assert!(between(rest, "<", ">").contains("aria-invalid=\"true\""), "{rest}");
    (between(rest, "name=\"", "\""), why)
}

/// The input of a field: its tag.
fn input<'a>(page: &'a str, name: &str) -> &'a str {
    between(page, &format!("<input name=\"{name}\""), ">")
}

#[tokio::test]
async fn a_pool_is_created_by_a_form_as_by_the_api() {
    let app = App::closed().await;
    let admin = Browser::log_in(&app, Role::Admin).await;
    let page = admin.get("/pools").await.text;
    for (name, value) in [("threshold_percent", "95"), ("min_units", "2"), ("max_hold", "1d")] {
        assert!(input(&page, name).contains(&format!("value=\"{value}\"")), "{}", input(&page, name));
    }
    for (word, about) in Policy::ALL
        .map(|policy| (policy.as_str(), policy.about()))
        .into_iter()
        .chain(WeightModel::ALL.map(|model| (model.as_str(), model.about())))
    {
        assert!(words(&page).contains(&format!("{word} {about}")), "{word}: {}", words(&page));
    }

    let done = admin.submit("/pools", "/pools", &format!("{NEW}&key=a")).await;
    assert_eq!((done.status, done.header("location")), (StatusCode::SEE_OTHER, "/pools/ADW"), "{done:?}");
    let again = admin.submit("/pools", "/pools", &format!("{NEW}&key=a")).await;
    assert_eq!(again.status, StatusCode::SEE_OTHER, "a double click is one order");
    let body = json!({
        "name": "API", "max_units": 40, "threshold_percent": 90, "min_units": 3, "default_units": 5,
        "max_hold": "12h", "policy": "fifo", "weight": "sessions",
    });
    let api = app.ask_as(Role::Admin, Method::POST, "/api/v1/pools", &body.to_string()).await;
    assert_eq!(api.status, StatusCode::CREATED, "{api:?}");

    let (by_form, by_api) = (settings_of(&app, "ADW").await, settings_of(&app, "API").await);
    assert_eq!(by_form, Settings { name: by_form.name.clone(), external_id: Some(4), ..by_api });
    assert_eq!(audited(&app).await, [("pool.create".to_owned(), String::new())]);
    assert!(words(&admin.get("/pools/ADW").await.text).contains("0 of 36 units in use"));
}

#[tokio::test]
async fn a_refused_form_has_the_reason_at_its_field_and_what_was_typed() {
    let app = App::closed().await;
    crowded(&app).await;
    let admin = Browser::log_in(&app, Role::Admin).await;

    for (typed, field, why) in [
        (
            "name=ADW&max_units=7&min_units=3",
            "name",
            "There is already a pool ADW: change this pool, or choose another name.",
        ),
        ("name=a+b&max_units=7&min_units=3", "name", "The name of a pool is 1 to 64 of"),
        (
            "name=new&external_id=4&max_units=7&min_units=3",
            "external_id",
            "The pool ADW has this external id: choose another external id, or delete ADW.",
        ),
        ("name=new&max_units=&min_units=3", "max_units", "It is missing."),
        ("name=new&max_units=-7&min_units=3", "max_units", "-7 is not a whole number from 0 to 4294967295."),
        (
            "name=new&max_units=7&threshold_percent=0&min_units=3",
            "threshold_percent",
            "0 is not from 1 to 100.",
        ),
        ("name=new&max_units=7&default_units=0&min_units=3", "default_units", "It is zero."),
        ("name=new&max_units=7&max_hold=soon&min_units=3", "max_hold", "Not a duration such as"),
    ] {
        let refused = admin.submit("/pools", "/pools", &format!("{typed}&policy=fifo")).await;
        assert!(refused.status.is_client_error(), "{typed}: {refused:?}");
        let (wrong, told) = fault(&refused.text);
        assert!(wrong == field && told.starts_with(why), "{typed}: {wrong}: {told}");
        assert!(input(&refused.text, "min_units").contains("value=\"3\""), "{typed}: what was typed is lost");
        assert!(refused.text.contains("value=\"fifo\" checked"), "{typed}: what was chosen is lost");
        let theme = between(&refused.text, "action=\"/settings/preferences\"", "</form>");
        assert!(theme.contains("name=\"back\" value=\"/pools\""), "it leads back to the list: {theme}");
    }
    let odd = admin.submit("/pools", "/pools", "name=new&max_units=7&policy=random").await;
    assert!(odd.text.contains("<span class=\"fault\" role=\"alert\">A policy is "), "{}", odd.text);
    let hostile = HOSTILE.replace('&', "%26").replace('+', "%2B");
    let hostile = admin.submit("/pools", "/pools", &format!("name={hostile}&max_units={hostile}")).await;
    assert!(hostile.status == StatusCode::BAD_REQUEST && !hostile.text.contains("<script>alert"));
    let mut tx = app.store.read().await.unwrap();
    assert_eq!(tx.pools().directory().await.unwrap().len(), 1, "none was created");
}

#[tokio::test]
async fn only_who_may_administer_creates_a_pool() {
    let app = App::closed().await;
    let operator = Browser::log_in(&app, Role::Operator).await;

    let page = operator.get("/pools").await.text;
    let refused = operator.submit("/pools", "/pools", NEW).await;

    assert!(page.contains("The role operator may not administer.") && !has_button(&page, "Create pool"));
    assert!(input(&page, "max_units").contains(" disabled"));
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    let admin = Browser::log_in(&app, Role::Admin).await;
    let forged = admin.post("/pools", &format!("{NEW}&form_token=forged")).await;
    assert!(forged.status == StatusCode::FORBIDDEN && forged.text.contains("TM0503"), "{forged:?}");
    let pools = app.ask_as(Role::Admin, Method::GET, "/api/v1/pools", "").await.json();
    assert_eq!(pools["items"], Value::Array(Vec::new()));
}

#[tokio::test]
async fn a_change_tells_what_it_comes_to_before_it_is_made() {
    let app = App::closed().await;
    crowded(&app).await;
    let operator = Browser::log_in(&app, Role::Operator).await;
    let tab = operator.get("/pools/ADW?tab=settings").await.text;
    assert!(tab.contains("name=\"max_units\" type=\"number\"") && tab.contains("value=\"20\""));

    let question =
        "/pools/ADW/change?max_units=10&threshold_percent=100&policy=fifo&min_units=4&max_hold=12h";
    let question = operator.get(question).await.text;
    let told = words(&question);
    assert!(
        told.contains("Capacity 20 → 10 units. Limit 95 % → 100 % of the capacity. Minimum 2 → 4 units"),
        "{told}"
    );
    assert!(told.contains("Maximum hold time 1d → 12h, for current leases too."), "{told}");
    let command = "tidemill pool set ADW --max 10 --threshold 100 --min 4 --max-hold 12h --policy fifo";
    assert!(told.contains(command), "only what changes: {told}");
    assert!(
        told.contains(
            "Limit 19 → 10: 16 in use; nothing is killed; no grants until fewer than 10 units are in use."
        ),
        "{told}"
    );
    let before = between(&question, "name=\"before\" value=\"", "\"").replace('/', "%2F");
    assert!(
        told.contains("1 waiting request needs more than the new limit and will leave the queue."),
        "{told}"
    );
    let form = format!(
        "max_units=10&threshold_percent=100&min_units=3&default_units=5&max_hold=12h&policy=halving\
         &before={before}&reason=smaller+host&key=x"
    );

    set(&app, &settings(21)).await;
    let stale = operator.submit("/pools", "/pools/ADW/change", &form).await;
    assert_eq!(stale.status, StatusCode::CONFLICT);
    assert!(
        stale.text.contains("was changed in the meantime") && words(&stale.text).contains("Capacity 21 → 10")
    );
    set(&app, &settings(20)).await;
    let done = operator.submit("/pools", "/pools/ADW/change", &form.replace("key=x", "key=y")).await;
    assert_eq!(done.header("location"), "/pools/ADW?tab=settings&range=24h", "{done:?}");
    assert_eq!(usage(&app).await, (16, 1), "nothing was taken away");
    let list = words(&operator.get("/pools").await.text);
    assert!(
        list.contains("over by 6 ADW (4) 16 of 10 units in use, limit 10 16 of 10 (160 %) 10 2 1"),
        "{list}"
    );
    assert_eq!(audited(&app).await[0], ("pool.set".into(), "smaller host".into()));
    let log = words(&operator.get("/settings/audit").await.text);
    let from =
        "max_units 20, threshold_percent 95, default_units 1, min_units 2, policy adaptive, max_hold 1d";
    let to =
        "max_units 10, threshold_percent 100, default_units 5, min_units 3, policy halving, max_hold 12h";
    assert!(log.contains(&format!("{from} → {to}")), "{log}");
    let after = settings_of(&app, "ADW").await;
    assert_eq!((after.min_units.get(), after.default_units.get()), (3, 5));
    assert_eq!(after.max_hold, Duration::from_secs(12 * 3600));

    let same = operator.get("/pools/ADW/change?max_units=10&threshold_percent=100&policy=halving").await.text;
    assert!(same.contains("The pool already has these settings."));
    let bad = operator.get("/pools/ADW/change?max_units=11&threshold_percent=0&policy=fifo").await;
    assert_eq!(bad.status, StatusCode::BAD_REQUEST);
    assert_eq!(fault(&bad.text), ("threshold_percent", "0 is not from 1 to 100."));
    assert!(bad.text.contains("value=\"11\"") && has_button(&bad.text, "Change…"), "{}", bad.text);
    assert_eq!(operator.get("/pools/NONE").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_change_needs_a_reason_that_the_audit_log_can_keep() {
    let app = App::closed().await;
    crowded(&app).await;
    let operator = Browser::log_in(&app, Role::Operator).await;
    let question = operator.get("/pools/ADW/change?max_units=10").await.text;
    let before = between(&question, "name=\"before\" value=\"", "\"").replace('/', "%2F");
    let order = async |reason: &str| {
        let form = format!("max_units=10&before={before}&reason={reason}");
        operator.submit("/pools", "/pools/ADW/change", &form).await
    };

    for (reason, why) in [("", "eason is empty"), ("+", "eason is empty"), (&*"x".repeat(1_001), "too long")]
    {
        let refused = order(reason).await;
        assert!(refused.status == StatusCode::BAD_REQUEST && refused.text.contains(why), "{refused:?}");
    }
    assert_eq!(settings_of(&app, "ADW").await.max_units, 20);
    assert_eq!(order("+smaller+host+").await.status, StatusCode::SEE_OTHER);
    assert_eq!(audited(&app).await[0], ("pool.set".into(), "smaller host".into()));
}

#[tokio::test]
async fn a_new_pool_has_the_defaults_of_the_configuration_by_form_and_by_api() {
    let configuration = vec![
        ("pools.default_threshold_percent", "80"),
        ("pools.default_units", "3"),
        ("pools.min_units", "4"),
    ];
    let choices = Choices { configuration, ..Choices::default() };
    let app = App::choosing(Authentication::None, "", choices).await;

    let page = app.ask(Method::GET, "/pools", &[], "").await.text;
    let made = app.ask(Method::POST, "/api/v1/pools", &[], r#"{"name":"ADW","max_units":40}"#).await;

    assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
    for (field, value) in [("threshold_percent", 80), ("default_units", 3), ("min_units", 4)] {
        assert_eq!(made.json()[field], value, "{made:?}");
        assert!(input(&page, field).contains(&format!("value=\"{value}\"")), "{}", input(&page, field));
    }
}
