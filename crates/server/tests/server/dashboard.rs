//! The pages, as a browser without JavaScript sees and uses them.

mod every;
mod job;
mod outbox;
mod overview;
mod pool;
mod problem;
pub(crate) mod render;

use crate::{Answer, App};
use axum::http::{Method, StatusCode};
use std::time::Duration;
use tidemill_domain::access::Token;
use tidemill_domain::alert::{Reading, Severity, Subject};
use tidemill_domain::audit::{Actor, AuditEntry, Role};
use tidemill_domain::lease::{LeaseKey, Term};
use tidemill_domain::process::Identity;
use tidemill_engine::{Process, ProcessOptions};
use tidemill_server::access::Authentication;
use tidemill_store::alert::Judging;
use tidemill_store::token::NewToken;

const HOSTILE: &str = "<script>alert(1)</script>\"'&";

/// A browser that has logged in: it sends its cookie, and what its pages gave it.
pub(crate) struct Browser<'a> {
    app: &'a App,
    cookie: String,
}

impl<'a> Browser<'a> {
    pub(crate) async fn log_in(app: &'a App, role: Role) -> Self {
        let token = app.token(role).await;
        let answer = post(app, "/login", "", &format!("token={token}")).await;
        assert_eq!(answer.status, StatusCode::SEE_OTHER, "{answer:?}");
        Self { app, cookie: cookie_of(&answer) }
    }

    /// One who is an operator of what lies within this scope only.
    async fn log_in_scoped(app: &'a App, scope: &str) -> Self {
        let token = Token::from_random(&[9; 16], &[9; 32]);
        let (name, scopes) = ("limited".to_owned(), vec![scope.to_owned()]);
        let new = NewToken { name, role: Role::Operator, scopes, valid_for: Some(Duration::from_secs(3600)) };
        let mut tx = app.store.begin().await.unwrap();
        tx.tokens().create(&token, &new, &Actor::system()).await.unwrap();
        tx.commit().await.unwrap();
        let answer = post(app, "/login", "", &format!("token={}", token.expose())).await;
        Self { app, cookie: cookie_of(&answer) }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.app.ask(Method::GET, path, &[("cookie", &self.cookie)], "").await
    }

    pub(crate) async fn post(&self, path: &str, body: &str) -> Answer {
        post(self.app, path, &self.cookie, body).await
    }

    /// Sends a form with the token that a page has for it.
    pub(crate) async fn submit(&self, page: &str, path: &str, body: &str) -> Answer {
        let token = form_token(&self.get(page).await.text);
        self.post(path, &format!("form_token={token}&{body}")).await
    }
}

async fn post(app: &App, path: &str, cookie: &str, body: &str) -> Answer {
    let form = ("content-type", "application/x-www-form-urlencoded");
    app.ask(Method::POST, path, &[("cookie", cookie), form, ("sec-fetch-site", "same-origin")], body).await
}

fn cookie_of(answer: &Answer) -> String {
    answer.header("set-cookie").split(';').next().unwrap().to_owned()
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    let rest = text.split_once(before).unwrap_or_else(|| panic!("{before} is not in {text}")).1;
    rest.split_once(after).unwrap().0
}

fn form_token(page: &str) -> String {
    between(page, "name=\"form_token\" value=\"", "\"").to_owned()
}

/// Whether a button with this text can be used.
fn has_button(page: &str, text: &str) -> bool {
    page.contains(&format!("{text}</button>")) && !page.contains(&format!("disabled>{text}</button>"))
}

async fn fire_alert(app: &App, subject: &str) {
    let mut tx = app.store.begin().await.unwrap();
    let judging = Judging {
        rule: "process_died",
        subject: &Subject::new(subject).unwrap(),
        severity: Severity::Critical,
        hold: Duration::ZERO,
        channels: &[],
        reading: Reading::Breached(3.0),
        detail: None,
    };
    tx.alerts().judge(judging, |_, _| String::new()).await.unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn every_page_is_whole_for_everybody_who_may_see_it() {
    let app = App::closed().await;
    for role in [Role::Viewer, Role::Operator, Role::Admin] {
        let browser = Browser::log_in(&app, role).await;
        for (path, title) in [
            ("/", "Overview"),
            ("/pools", "Pools"),
            ("/outbox", "Outbox"),
            ("/alerts", "Alerts"),
            ("/settings", "Settings"),
        ] {
            let answer = browser.get(path).await;

            assert_eq!(answer.status, StatusCode::OK);
            assert!(answer.header("content-type").starts_with("text/html"));
            let page = answer.text;
            assert!(page.contains(&format!("<title>{title} – test</title>")), "{page}");
            assert!(page.contains("href=\"#main\"") && page.contains("id=\"main\""));
            assert!(page.contains(&format!("the {role}")) && page.contains("Log out</button>"));
            assert!(page.contains("leader unknown · v0.1.0"));
            assert!(!page.contains("style=\"") && !page.contains("<script>") && !page.contains("onclick"));
        }
    }
}

#[tokio::test]
async fn what_a_role_may_not_do_is_disabled_with_the_reason() {
    let app = App::closed().await;

    let viewer = Browser::log_in(&app, Role::Viewer).await;
    let settings = viewer.get("/settings").await.text;
    assert!(settings.contains("The role viewer may not administer."));
    assert!(!settings.contains("href=\"/settings/tokens\""));
    assert!(settings.contains("Read-only: role viewer"));
    let alerts = viewer.get("/alerts").await.text;
    assert!(alerts.contains("The role viewer may not operate.") && !has_button(&alerts, "Silence"));
    assert_eq!(viewer.get("/settings/tokens").await.status, StatusCode::FORBIDDEN);

    let operator = Browser::log_in(&app, Role::Operator).await;
    assert!(has_button(&operator.get("/alerts").await.text, "Silence"));
    assert!(operator.get("/settings").await.text.contains("The role operator may not administer."));

    let admin = Browser::log_in(&app, Role::Admin).await;
    assert!(admin.get("/settings").await.text.contains("href=\"/settings/tokens\""));
    assert!(has_button(&admin.get("/settings/tokens").await.text, "Create token"));
}

#[tokio::test]
async fn read_only_mode_disables_buttons_and_says_so() {
    let app = App::open().await;
    let page = |answer: Answer| answer.text;

    let on = app.ask(Method::GET, "/settings/tokens", &[("cookie", "tidemill_read_only=on")], "").await;
    let off = app.ask(Method::GET, "/settings/tokens", &[], "").await;

    let (on, off) = (page(on), page(off));
    assert!(on.contains("Read-only mode is on.") && !has_button(&on, "Create token"));
    assert!(!off.contains("Read-only mode is on.") && has_button(&off, "Create token"));
}

/// A process, a lease, an entry of the audit log and an alert whose words are all hostile.
async fn join_hostile(app: &App) {
    let identity = Identity { name: HOSTILE.into(), host: HOSTILE.into(), pid: 9, version: HOSTILE.into() };
    let options = ProcessOptions { identity, ttl: Duration::from_secs(3600) };
    let process = Process::register(app.store.clone(), app.clock.clone(), options).await.unwrap();
    let mut tx = app.store.begin().await.unwrap();
    let key = LeaseKey::new("test", HOSTILE).unwrap();
    tx.leases().acquire(&key, process.id(), Term::Process).await.unwrap().unwrap();
    let actor = Actor { name: HOSTILE.into(), role: Role::Admin, request_id: None };
    let entry = AuditEntry::new(actor, HOSTILE, HOSTILE).from_to(HOSTILE, HOSTILE).because(HOSTILE);
    tx.audit().record(&entry).await.unwrap();
    tx.commit().await.unwrap();
    fire_alert(app, HOSTILE).await;
}

#[tokio::test]
async fn hostile_strings_are_shown_as_text() {
    let app = App::open().await;
    join_hostile(&app).await;

    for path in ["/", "/alerts", "/settings", "/settings/audit", "/settings/audit?actor=%3Cscript%3E%22"] {
        let page = app.ask(Method::GET, path, &[], "").await.text;
        assert!(!page.contains("<script>alert"), "{path}: {page}");
        assert!(page.contains("&lt;script&gt;"), "{path}");
        assert!(!page.contains("value=\"<script>"), "{path}");
    }
}

#[tokio::test]
async fn the_overview_tells_who_runs_who_holds_what_and_what_happened() {
    let app = App::open().await;
    let options = ProcessOptions {
        identity: Identity { name: "worker-b".into(), host: "h".into(), pid: 8, version: "0.1.0".into() },
        ttl: Duration::from_secs(15),
    };
    let worker = Process::register(app.store.clone(), app.clock.clone(), options).await.unwrap();
    let mut tx = app.store.begin().await.unwrap();
    let key = LeaseKey::new("alert", "evaluator").unwrap();
    tx.leases().acquire(&key, worker.id(), Term::Process).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    fire_alert(&app, "all").await;

    let page = app.ask(Method::GET, "/", &[], "").await.text;

    assert!(page.contains("leader worker-b"));
    assert!(page.contains("alert/evaluator") && page.contains("1 of 1 are shown."));
    assert!(page.contains("process.start") && page.contains("alert.fired"));
    assert!(page.contains("<span class=\"count\">1<span class=\"unseen\"> firing</span></span>"));
    assert!(page.contains("<span aria-hidden=\"true\">✖</span> critical"));
    assert!(page.contains("sqlite") && page.contains("applied"));

    app.clock.advance(Duration::from_secs(20));
    let later = app.ask(Method::GET, "/", &[], "").await.text;
    assert!(later.contains("<span aria-hidden=\"true\">▲</span> silent"));
    assert!(later.contains("<span aria-hidden=\"true\">▲</span> lapsed"));
    assert!(later.contains("leader unknown"));
}

#[tokio::test]
async fn preferences_are_kept_in_cookies_and_the_server_renders_by_them() {
    let app = App::open().await;

    let answer = post(&app, "/settings/preferences", "", "theme=dark&time=relative&back=/alerts").await;
    assert_eq!((answer.status, answer.header("location")), (StatusCode::SEE_OTHER, "/alerts"));
    let cookies: Vec<_> =
        answer.headers.get_all("set-cookie").iter().map(|line| line.to_str().unwrap()).collect();
    assert!(
        cookies[0].starts_with("tidemill_theme=dark; Path=/;")
            && cookies[1].starts_with("tidemill_time=relative;")
    );

    let cookie = [("cookie", "tidemill_theme=dark; tidemill_time=relative; tidemill_shortcuts=off")];
    let page = app.ask(Method::GET, "/", &cookie, "").await.text;
    assert!(page.contains("data-theme=\"dark\" data-time=\"relative\" data-shortcuts=\"off\""));
    assert!(page.contains(">0 s ago</time>") && !page.contains("http-equiv=\"refresh\""));
    let reloading = app.ask(Method::GET, "/", &[("cookie", "tidemill_reload=on")], "").await.text;
    assert!(reloading.contains("<noscript><meta http-equiv=\"refresh\" content=\"15\"></noscript>"));

    let evil = post(&app, "/settings/preferences", "", "theme=dark&back=//evil.example/").await;
    assert_eq!(evil.header("location"), "/settings");
    let odd = post(&app, "/settings/preferences", "", "theme=pink").await;
    assert_eq!(odd.status, StatusCode::BAD_REQUEST);
    assert!(odd.headers.get("set-cookie").is_none());
}

#[tokio::test]
async fn a_session_begins_with_a_token_and_ends_with_log_out() {
    let app = App::closed().await;
    let page = app.ask(Method::GET, "/login", &[], "").await;
    assert!(page.text.contains("type=\"password\"") && page.status == StatusCode::OK);

    let browser = Browser::log_in(&app, Role::Viewer).await;
    assert_eq!(browser.get("/").await.status, StatusCode::OK);
    assert_eq!(browser.get("/login").await.header("location"), "/");

    let answer = browser.post("/logout", "form_token=wrong").await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    let answer = browser.submit("/", "/logout", "").await;
    assert_eq!((answer.status, answer.header("location")), (StatusCode::SEE_OTHER, "/login"));
    assert!(answer.header("set-cookie").contains("Max-Age=0"));
    assert_eq!(browser.get("/").await.header("location"), "/login");
}

#[tokio::test]
async fn wrong_tokens_are_refused_and_who_goes_on_has_to_wait() {
    let app = App::closed().await;
    let wrong = format!("token=tm_{}_{}", "a".repeat(8), "b".repeat(43));

    for body in [wrong.as_str(), "token=nonsense", "token="] {
        let answer = post(&app, "/login", "", body).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
        assert!(answer.text.contains("This token is not valid") && !answer.text.contains(&"b".repeat(43)));
        assert!(answer.headers.get("set-cookie").is_none());
    }
    for _ in 0..3 {
        post(&app, "/login", "", &wrong).await;
    }
    let answer = post(&app, "/login", "", &wrong).await;
    assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS);
    assert!(!answer.header("retry-after").is_empty());
}

#[tokio::test]
async fn an_open_server_has_no_login() {
    let app = App::open().await;
    assert_eq!(app.ask(Method::GET, "/login", &[], "").await.header("location"), "/");
    assert!(!app.ask(Method::GET, "/", &[], "").await.text.contains("Log out"));
}

#[tokio::test]
async fn a_token_is_shown_once_and_can_be_deleted_for_a_reason() {
    let app = App::closed().await;
    let admin = Browser::log_in(&app, Role::Admin).await;

    let form = "name=ci&role=viewer&days=7&scopes=pool%2Fetl*%2C+job%2Fx&key=one-form";
    let created = admin.submit("/settings/tokens", "/settings/tokens", form).await;
    assert_eq!(created.status, StatusCode::OK, "{created:?}");
    let secret = between(&created.text, "<code>tm_", "</code>").to_owned();
    let id = secret.split('_').next().unwrap().to_owned();
    let again = admin.submit("/settings/tokens", "/settings/tokens", form).await;
    assert!(again.text.contains("sent twice") && !again.text.contains(&secret));
    let list = admin.get("/settings/tokens").await.text;
    assert!(!list.contains(&secret) && list.contains(&id) && list.contains("pool/etl*, job/x"));
    assert_eq!(list.matches("Delete token ").count(), 2);

    let bearer = format!("Bearer tm_{secret}");
    let headers = [("authorization", bearer.as_str())];
    assert_eq!(app.ask(Method::GET, "/api/v1/processes", &headers, "").await.status, StatusCode::OK);
    let delete = format!("/settings/tokens/{id}/delete");
    let answer = admin.submit("/settings/tokens", &delete, "reason=left+the+company").await;
    assert_eq!(answer.header("location"), "/settings/tokens");
    assert_eq!(
        app.ask(Method::GET, "/api/v1/processes", &headers, "").await.status,
        StatusCode::UNAUTHORIZED
    );
    let audit = admin.get("/settings/audit").await.text;
    assert!(audit.contains("token.delete") && audit.contains("left the company"));
}

#[tokio::test]
async fn forms_without_the_token_of_the_session_change_nothing() {
    let app = App::closed().await;
    let admin = Browser::log_in(&app, Role::Admin).await;

    for (path, body) in [
        ("/settings/tokens", "name=x&role=admin"),
        ("/settings/tokens/abcdefgh/delete", "reason=x"),
        ("/settings/preferences", "theme=dark"),
        ("/alerts/silence", "rule=process_died&hours=1&reason=x"),
        ("/alerts/unsilence", "rule=process_died"),
    ] {
        let answer = admin.post(path, &format!("{body}&form_token=forged")).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{path}");
        assert!(answer.text.contains("TM0503"), "{path}: {}", answer.text);
    }
    assert_eq!(admin.get("/settings/tokens").await.text.matches("Delete token ").count(), 1);
}

#[tokio::test]
async fn an_alert_is_silenced_with_a_reason_and_unsilenced() {
    let app = App::closed().await;
    fire_alert(&app, "all").await;
    let operator = Browser::log_in(&app, Role::Operator).await;

    let link = "/alerts?rule=process_died&amp;subject=all#silence";
    assert!(operator.get("/alerts").await.text.contains(link));
    let form = operator.get("/alerts?rule=process_died&subject=all").await.text;
    assert!(
        form.contains("name=\"rule\" value=\"process_died\"")
            && form.contains("name=\"subject\" value=\"all\"")
    );
    let empty = operator.submit("/alerts", "/alerts/silence", "rule=process_died&hours=1&reason=+").await;
    assert_eq!(empty.status, StatusCode::BAD_REQUEST);
    let body = "rule=process_died&subject=all&hours=4&reason=disk+is+replaced";
    let answer = operator.submit("/alerts", "/alerts/silence", body).await;
    assert_eq!(answer.header("location"), "/alerts", "{answer:?}");
    let page = operator.get("/alerts").await.text;
    assert!(
        page.contains("by the operator: disk is replaced")
            && page.contains("End the silence of process_died all")
    );
    assert!(
        !page.contains(link) && !page.contains("class=\"count\""),
        "a silenced alert is not counted in red"
    );

    operator.submit("/alerts", "/alerts/unsilence", "rule=process_died&subject=all").await;
    assert!(operator.get("/alerts").await.text.contains("No silences."));
}

#[tokio::test]
async fn the_rules_in_force_are_told_with_when_they_fire_and_who_is_told() {
    let app = App::open().await;

    let page = app.ask(Method::GET, "/alerts", &[], "").await.text;

    let rules = between(&page, "<section class=\"panel\" id=\"rules\"", "</section>");
    for rule in tidemill_engine::alert::default_rules() {
        let condition = format!("<code>{} {}</code>", rule.signal(), rule.condition());
        assert!(
            rules.contains(&format!(">{}</th>", rule.name())) && rules.contains(&condition),
            "{condition}: {rules}"
        );
        assert!(
            page.contains(&format!("<option value=\"{}\">", rule.name())),
            "it can be chosen for a silence"
        );
    }
    assert!(rules.contains("immediately") && rules.contains("log"), "{rules}");
}

#[tokio::test]
async fn the_audit_log_is_filtered_paged_and_downloaded() {
    let app = App::open().await;
    let mut tx = app.store.begin().await.unwrap();
    for number in 0..60 {
        let actor = Actor { name: "ann & co".into(), role: Role::Operator, request_id: None };
        tx.audit().record(&AuditEntry::new(actor, "job.start", &format!("job/{number}"))).await.unwrap();
    }
    tx.commit().await.unwrap();

    let first = app.ask(Method::GET, "/settings/audit?actor=ann+%26+co&action=&object=", &[], "").await.text;
    assert_eq!(first.matches("job.start").count(), 50);
    let older = between(&first, "class=\"button\" href=\"", "\"").replace("&amp;", "&");
    assert!(older.starts_with("/settings/audit?actor=ann%20%26%20co&before="), "{older}");
    let second = app.ask(Method::GET, &older, &[], "").await.text;
    assert_eq!(second.matches("job.start").count(), 10);
    assert!(second.contains("job/0<") && !second.contains("Older"));

    let file = app.ask(Method::GET, "/settings/audit?action=job.start&format=csv", &[], "").await;
    assert!(file.header("content-type").starts_with("text/csv"));
    assert_eq!(file.text.lines().count(), 61);
}

#[tokio::test]
async fn the_configuration_has_the_origin_of_every_value_and_no_secret() {
    let app = App::closed().await;
    let page = Browser::log_in(&app, Role::Admin).await.get("/settings/configuration").await.text;
    assert!(
        page.contains("postgres://u:***@h/d") && page.contains("process.lease") && page.contains(">default<")
    );
}

#[tokio::test]
async fn assets_can_be_kept_for_ever_because_their_address_tells_their_content() {
    let app = App::closed().await;
    let page = app.ask(Method::GET, "/login", &[], "").await.text;

    for (before, kind) in [("rel=\"stylesheet\" href=\"", "text/css"), ("script src=\"", "text/javascript")] {
        let address = between(&page, before, "\"");
        let answer = app.ask(Method::GET, address, &[], "").await;
        assert_eq!(answer.status, StatusCode::OK);
        assert!(address.contains("?v=") && answer.header("content-type").starts_with(kind));
        assert!(answer.header("cache-control").contains("immutable"));
        assert!(answer.text.len() < 20 * 1024);
    }
    assert_eq!(app.ask(Method::GET, "/assets/other.js", &[], "").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn every_link_of_a_page_is_below_the_base_path() {
    let app = App::with(Authentication::None, "/mill").await;
    let saved = post(&app, "/mill/settings/preferences", "", "theme=dark&back=/mill").await;
    assert_eq!(saved.header("location"), "/mill");
    assert!(saved.header("set-cookie").contains("; Path=/mill;"));
    for path in [
        "/mill",
        "/mill/pools",
        "/mill/outbox",
        "/mill/outbox/failed",
        "/mill/alerts",
        "/mill/settings",
        "/mill/settings/tokens",
        "/mill/settings/audit",
    ] {
        let answer = app.ask(Method::GET, path, &[], "").await;
        assert_eq!(answer.status, StatusCode::OK, "{path}");
        for attribute in ["href=\"/", "src=\"/", "action=\"/", "data-events=\"/", "name=\"back\" value=\"/"] {
            for found in answer.text.split(attribute).skip(1) {
                let link = found.split('"').next().unwrap();
                assert!(link == "mill" || link.starts_with("mill/"), "{path}: {attribute}{link}");
            }
        }
    }
}
