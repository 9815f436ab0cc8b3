//! What a program adds to its dashboard: only where it does, for those who may, once per form, and written down.

use crate::dashboard::Browser;
use crate::{App, Choices};
use axum::http::{Method, StatusCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tidemill_domain::access::{Permission, ROLES, allows};
use tidemill_domain::audit::Role;
use tidemill_server::access::Authentication;
use tidemill_server::action::{CannotPerform, ExtraAction, Performed, Performing};
use tidemill_server::route::{Access, action_route, routes};
use tidemill_store::audit::AuditFilter;

/// Rings a bell three times; then it has had enough.
#[derive(Debug, Default)]
struct Bell(AtomicU32);

impl ExtraAction for Bell {
    fn name(&self) -> &'static str {
        "test.ring"
    }

    fn title(&self) -> &'static str {
        "Ring the bell"
    }

    fn explanation(&self) -> &'static str {
        "Everybody hears it."
    }

    fn perform(&self) -> Performing<'_> {
        Box::pin(async {
            if self.0.load(Ordering::SeqCst) >= 3 {
                let (why, remedy) = ("the bell is worn out".into(), "buy another one".into());
                return Err(CannotPerform { why, remedy });
            }
            self.0.fetch_add(1, Ordering::SeqCst);
            Ok(Performed { object: "bell/1".into(), story: "it rang".into() })
        })
    }
}

async fn with_a_bell() -> (App, Arc<Bell>) {
    let bell = Arc::new(Bell::default());
    let choices = Choices { action: Some(bell.clone()), ..Choices::default() };
    let required = Authentication::Required { issuers: Vec::new() };
    (App::choosing(required, "", choices).await, bell)
}

fn rung(bell: &Bell) -> u32 {
    bell.0.load(Ordering::SeqCst)
}

#[tokio::test]
async fn a_server_without_one_has_neither_button_nor_route() {
    let app = App::closed().await;
    let admin = Browser::log_in(&app, Role::Admin).await;

    let answer = admin.submit("/", "/action", "").await;

    assert_eq!(answer.status, StatusCode::NOT_FOUND);
    assert!(!admin.get("/").await.text.contains("action=\"/action\""));
    assert!(routes().iter().all(|route| route.path != action_route().path));
}

#[tokio::test]
async fn only_administrators_may_and_others_are_told_why_not() {
    let (app, bell) = with_a_bell().await;

    for role in ROLES {
        let answer = app.ask_as(role, Method::POST, "/action", "").await;
        let may = allows(role, Permission::Administer);
        assert_eq!(answer.status == StatusCode::FORBIDDEN, !may, "{role}: {answer:?}");
    }
    let nobody = app.ask(Method::POST, "/action", &[], "").await;
    let operator = Browser::log_in(&app, Role::Operator).await.get("/").await.text;

    assert_eq!(action_route().access, Access::Needs(Permission::Administer));
    assert_eq!((nobody.status, nobody.header("location")), (StatusCode::SEE_OTHER, "/login"));
    assert!(operator.contains("disabled>Ring the bell</button>"), "{operator}");
    assert!(!operator.contains("action=\"/action\""));
    assert_eq!(rung(&bell), 0);
}

#[tokio::test]
async fn a_form_of_another_page_or_site_does_nothing() {
    let (app, bell) = with_a_bell().await;
    let admin = Browser::log_in(&app, Role::Admin).await;

    let forged = admin.post("/action", "form_token=forged").await;
    let form = ("content-type", "application/x-www-form-urlencoded");
    let foreign =
        app.ask(Method::POST, "/action", &[form, ("sec-fetch-site", "cross-site")], "form_token=").await;

    assert_eq!(forged.status, StatusCode::FORBIDDEN);
    assert!(forged.text.contains("TM0503"), "{}", forged.text);
    assert_ne!(foreign.status, StatusCode::OK);
    assert_eq!(rung(&bell), 0);
}

#[tokio::test]
async fn a_click_does_it_once_and_writes_it_down_and_a_refusal_is_told() {
    let (app, bell) = with_a_bell().await;
    let admin = Browser::log_in(&app, Role::Admin).await;
    assert!(admin.get("/").await.text.contains("Everybody hears it."));

    for _ in 0..2 {
        let answer = admin.submit("/", "/action", "key=one-click").await;
        assert_eq!((answer.status, answer.header("location")), (StatusCode::SEE_OTHER, "/#leases"));
    }
    assert_eq!(rung(&bell), 1);
    for key in ["second", "third"] {
        admin.submit("/", "/action", &format!("key={key}")).await;
    }
    let refused = admin.submit("/", "/action", "key=fourth").await;

    assert_eq!(refused.status, StatusCode::CONFLICT);
    assert!(refused.text.contains("TM0006"), "{}", refused.text);
    assert!(refused.text.contains("The bell is worn out") && refused.text.contains("buy another one"));
    let filter = AuditFilter { action: Some("test.ring".into()), ..AuditFilter::default() };
    let log = app.store.read().await.unwrap().audit().entries(&filter, 10).await.unwrap();
    assert_eq!(log.len(), 3);
    let entry = &log[0].entry;
    assert_eq!((entry.object.as_str(), entry.reason.as_deref()), ("bell/1", Some("it rang")));
    assert_eq!((entry.actor.name.as_str(), entry.actor.role), ("the admin", Role::Admin));
    assert!(admin.get("/").await.text.contains("it rang"));
}
