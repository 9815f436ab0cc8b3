//! The form of one render: made from its mapping and its profile, previewed, and ordered, without JavaScript.

use super::*;
use crate::Choices;
use tidemill_server::access::Authentication;

const FORM: &str = "/render/new";

/// A composition with two seats and a title, of which seat 1 and the title are required.
async fn teach(app: &App) {
    let profile = json!({
        "composition": "Main", "template": "D:\\a.aep", "output_module": "H.264", "width": 1920, "height": 1080,
        "rate": "25", "required_fields": ["Slot 1 - name"], "min_slots": 1,
    });
    let row = |field: &str, more: Value| {
        let mut row = json!({ "composition": "Main", "field_name": field, "layer_name": field });
        row.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(row).unwrap()
    };
    let rows = [
        row("Slot 1 - name", json!({})),
        row("Slot 1 - stack", json!({ "optional": true })),
        row("Slot 2 - name", json!({})),
        row("Single - title", json!({})),
        row("Single - clock", json!({ "kind": "expression", "source": "time" })),
    ];
    let mut tx = app.store.begin().await.unwrap();
    tx.renders().save_profiles(&[serde_json::from_value(profile).unwrap()], &Actor::system()).await.unwrap();
    tx.renders().save_field_mappings(&rows, &Actor::system()).await.unwrap();
    tx.commit().await.unwrap();
}

/// The fields of the form.
fn filled(name: &str) -> String {
    format!(
        "composition=Main&Slot+1+-+name={name}&Slot+1+-+stack=&Slot+2+-+name=&Single+-+title=Final+%3Cb%3E\
         &cue_item=cue-1&priority=7&deadline=2026-11-16T03:00&broadcast_date="
    )
}

async fn all(app: &App) -> Vec<tidemill_store::render::RenderRecord> {
    let mut tx = app.store.read().await.unwrap();
    tx.renders().list(&Default::default(), None, 100).await.unwrap()
}

#[tokio::test]
async fn a_render_is_ordered_by_a_form_of_its_fields() {
    let choices = Choices { zone: Some("Asia/Seoul".parse().unwrap()), ..Choices::default() };
    let app = App::choosing(Authentication::Required { issuers: Vec::new() }, "", choices).await;
    teach(&app).await;
    let operator = Browser::log_in(&app, Role::Operator).await;
    assert!(operator.get(FORM).await.text.contains("<option>Main</option>"));
    let path = "/render/new?composition=Main";
    let form = operator.get(path).await.text;
    for (field, is_required) in [
        ("Single - title", true),
        ("Slot 1 - name", true),
        ("Slot 1 - stack", false),
        ("Slot 2 - name", false),
    ] {
        let input = between(&form, &format!("<input name=\"{field}\""), ">");
        assert_eq!(input.contains(" required"), is_required, "{input}");
    }
    assert!(!form.contains("Single - clock") && form.contains("At least 1 slot must be filled."), "{form}");
    assert!(form.contains("On air (Asia/Seoul)"), "{form}");

    let preview = operator.submit(path, FORM, &filled("PHIL+IVEY")).await;
    assert_eq!(preview.status, StatusCode::OK, "{preview:?}");
    let result = words(between(&preview.text, "id=\"preview\"", "</section>"));
    assert!(result.contains("▲ warning these fields stay empty: Slot 1 - stack, Slot 2 - name"), "{result}");
    assert!(has_button(&preview.text, "Order the render") && !preview.text.contains("<b>\""));
    assert_eq!(preview.text.matches("value=\"Final &lt;b&gt;\"").count(), 2, "to order, and to change");
    assert_eq!(all(&app).await.len(), 0);

    let body = format!("{}&step=order&key=one-form", filled("PHIL+IVEY"));
    let done = operator.submit(path, FORM, &body).await;
    let twice = operator.submit(path, FORM, &body).await;
    assert_eq!((done.status, done.header("location")), (StatusCode::SEE_OTHER, "/render/1"), "{done:?}");
    assert_eq!(twice.header("location"), "/render/1", "a double click");
    assert!(!operator.get("/render/1").await.text.contains("was ordered before"));
    let again = operator.submit(path, FORM, &body.replace("one-form", "another-form")).await;
    assert_eq!(again.header("location"), "/render/1?known=true");
    let told = operator.get(again.header("location")).await.text;
    assert!(told.contains("The same render was ordered before"), "{told}");
    let record = &all(&app).await[..][0];
    assert_eq!((all(&app).await.len(), record.priority, record.batch), (1, 7, None));
    assert_eq!(record.render.deadline, Some("2026-11-15T18:00:00Z".parse().unwrap()));
    let data = app.store.read().await.unwrap().renders().data(record.id()).await.unwrap().unwrap();
    let data: Value = serde_json::from_str(&data).unwrap();
    let slots = json!([{ "slot_number": 1, "fields": { "name": "PHIL IVEY" } }]);
    assert_eq!(data, json!({ "slots": slots, "single_fields": { "title": "Final <b>" } }));
}

#[tokio::test]
async fn a_form_with_problems_names_the_fields_and_orders_nothing() {
    let app = App::closed().await;
    teach(&app).await;
    let operator = Browser::log_in(&app, Role::Operator).await;
    let path = "/render/new?composition=Main";

    let preview =
        operator.submit(path, FORM, &filled("+").replace("priority=7", "priority=first")).await.text;
    let result = words(between(&preview, "id=\"preview\"", "</section>"));
    assert!(result.contains("✖ refused priority : &quot;first&quot; is not a whole number"), "{result}");
    let preview = operator.submit(path, FORM, &filled("+")).await.text;
    let result = words(between(&preview, "id=\"preview\"", "</section>"));
    assert!(result.contains("Slot 1 - name is empty, and the profile requires it"), "{result}");
    assert!(!preview.contains("Order the render"), "{preview}");
    let forced = operator.submit(path, FORM, &format!("{}&step=order", filled("+"))).await;
    assert_eq!(
        (forced.status, forced.text.contains("TM1555")),
        (StatusCode::BAD_REQUEST, true),
        "{forced:?}"
    );
    let unknown = operator.get("/render/new?composition=Man").await;
    assert_eq!((unknown.status, unknown.text.contains("Main")), (StatusCode::NOT_FOUND, true), "{unknown:?}");
    assert_eq!(
        operator.post(FORM, &format!("{}&form_token=forged", filled("A"))).await.status,
        StatusCode::FORBIDDEN
    );
    assert_eq!(all(&app).await.len(), 0);
}

#[tokio::test]
async fn a_viewer_sees_the_form_and_whoever_is_limited_orders_nothing_else() {
    let app = App::closed().await;
    assert!(look_as(&app, FORM).await.contains("tidemill render profile import profiles.yaml"));
    teach(&app).await;
    let form = look_as(&app, "/render/new?composition=Main").await;
    assert!(form.contains("The role viewer may not operate.") && !has_button(&form, "Preview"), "{form}");
    let viewer = Browser::log_in(&app, Role::Viewer).await;
    assert_eq!(viewer.submit("/render", FORM, &filled("A")).await.status, StatusCode::FORBIDDEN);

    let limited = Browser::log_in_scoped(&app, "render/Lower").await;
    for step in ["", "&step=order"] {
        let refused = limited.submit(FORM, FORM, &format!("{}{step}", filled("A"))).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{refused:?}");
    }
    assert_eq!(all(&app).await.len(), 0);
}

async fn look_as(app: &App, path: &str) -> String {
    app.ask_as(Role::Viewer, Method::GET, path, "").await.text
}
