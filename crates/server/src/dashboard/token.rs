//! API tokens: the list, a new one whose secret is shown once, and the end of one.

use crate::api::token::{CreateToken, DAYS, make};
use crate::dashboard::form::{self, Fields};
use crate::dashboard::frame::{Frame, Section};
use crate::dashboard::instant::Times;
use crate::dashboard::page_context::PageContext;
use crate::dashboard::page_snapshot::PageSnapshot;
use crate::dashboard::part::{Health, command, empty_row, panel, refused, state as state_word, table};
use crate::dashboard::region::Page;
use crate::dashboard::sheet::{Sheet, SheetForm, WHY, Weight, reason_field};
use crate::problem::Problem;
use axum::http::StatusCode;
use axum::response::Html;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::json;
use tidemill_domain::access::{Permission, ROLES};
use tidemill_domain::action::Reason;
use tidemill_store::token::TokenRecord;

const TOKENS_MAX: u32 = 500;
const COLUMNS: &[&str] =
    &["State", "Name", "Id", "Role", "Scopes", "Created", "Expires", "Last used", "Action"];

pub(crate) async fn page(visit: PageContext) -> Result<Html<String>, Problem> {
    show(&visit, &html! {}).await
}

async fn show(visit: &PageContext, above: &Markup) -> Result<Html<String>, Problem> {
    let (common, mut tx) = PageSnapshot::read(&visit.state).await?;
    let tokens = tx.tokens().list(TOKENS_MAX).await?;
    let times = visit.times(common.now);
    let refusal = visit.refusal(Permission::Administer);
    let rows = html! {
        tbody {
            @if tokens.is_empty() {
                (empty_row(COLUMNS.len(), &html! {
                    "There is no token yet. At the command line: " (command("tidemill token create NAME --role viewer"))
                }))
            }
            @for token in &tokens { (row(visit, token, &times, refusal.as_deref())) }
        }
    };
    let nothing = html! {};
    let content = html! {
        h1 { "API tokens" }
        (above)
        (panel("tokens", "Tokens", &nothing, &table("API tokens", COLUMNS, &rows)))
        (panel("create", "Create a token", &nothing, &create_form(visit, refusal.as_deref())))
    };
    let title = Some("API tokens");
    let frame = Frame { visit, common: &common, section: Section::Settings, title, page: Page::Other };
    Ok(frame.render(&content))
}

fn row(visit: &PageContext, token: &TokenRecord, times: &Times, refusal: Option<&str>) -> Markup {
    let is_valid = token.is_valid(times.now());
    let (health, word) = match (is_valid, token.revoked_at) {
        (true, _) => (Health::Ok, "valid"),
        (false, Some(_)) => (Health::Idle, "revoked"),
        (false, None) => (Health::Idle, "expired"),
    };
    html! {
        tr {
            td { (state_word(health, word)) }
            th.long scope="row" { (token.name) }
            td.still.mono { (token.id) }
            td { (token.role) }
            td.long { @if token.scopes.is_empty() { span.soft { "all" } } @else { (token.scopes.join(", ")) } }
            td { (times.at(token.created_at)) " by " (token.created_by) }
            td { (times.maybe(token.expires_at, "never")) }
            td { (times.maybe(token.last_used_at, "never")) }
            td {
                @match (is_valid, refusal) {
                    (false, _) => {}
                    (true, Some(reason)) => (refused("Revoke…", reason)),
                    (true, None) => (revoke_form(visit, token)),
                }
            }
        }
    }
}

fn revoke_form(visit: &PageContext, token: &TokenRecord) -> Markup {
    let address = visit.state.path(&format!("/settings/tokens/{}/revoke", token.id));
    let sheet = Sheet {
        question: format!("Revoke “{}”?", token.name),
        consequence: html! {
            p { "Programs that use it are refused at once, and sessions that were opened with it end. It cannot be made valid again." }
        },
        form: SheetForm::Own { address, hidden: form::hidden(&visit.principal) },
        fields: reason_field(WHY, Reason::Optional, None),
        back: visit.state.path("/settings/tokens"),
        leave: "Cancel",
        button: format!("Revoke token {}", token.id),
        weight: Weight::Ends,
        refusal: None,
        command: None,
    };
    sheet.unfolding("Revoke…")
}

fn create_form(visit: &PageContext, refusal: Option<&str>) -> Markup {
    let is_off = refusal.is_some();
    html! {
        form.body method="post" action=(visit.state.path("/settings/tokens")) {
            (form::hidden(&visit.principal))
            div.fields {
                label { "Name" input name="name" required maxlength="100" disabled[is_off] autocomplete="off"; }
                label {
                    "Role"
                    select name="role" disabled[is_off] {
                        @for role in ROLES { option value=(role) { (role) } }
                    }
                }
                label { "Valid for (days)" input name="days" type="number" min="1" max="3650" value=(DAYS) disabled[is_off]; }
                label.wide {
                    "Scopes, separated by commas (all when empty)"
                    input name="scopes" placeholder="pool/etl*, job/nightly" disabled[is_off] autocomplete="off";
                }
            }
            div.row {
                @match refusal {
                    Some(reason) => (refused("Create token", reason)),
                    None => button.do { "Create token" },
                }
            }
        }
    }
}

/// The form for a new token.
#[derive(Debug, Deserialize)]
pub(crate) struct Creating {
    name: String,
    role: String,
    #[serde(default)]
    scopes: String,
    days: Option<u32>,
    #[serde(default)]
    form_token: String,
    #[serde(default)]
    key: String,
}

/// Creates a token. This answer is the only one that ever shows its secret.
pub(crate) async fn create(
    visit: PageContext,
    Fields(fields): Fields<Creating>,
) -> Result<Html<String>, Problem> {
    form::check(&visit.principal, &fields.form_token)?;
    let scopes = fields.scopes.split(',').map(str::trim).filter(|scope| !scope.is_empty());
    let wanted = CreateToken {
        name: fields.name.trim().to_owned(),
        role: fields.role,
        scopes: scopes.map(str::to_owned).collect(),
        days: fields.days,
    };
    let (new, secret) = (wanted.checked(&visit.principal)?, make()?);
    let object = format!("token/{}", new.name);
    let what = format!("form: create token {}", json!(wanted));
    let mut is_new = false;
    let caller = visit.caller(&fields.key);
    caller
        .run(&object, &what, async |tx| {
            let record = tx.tokens().create(&secret, &new, &visit.principal.actor()).await?;
            is_new = true;
            Ok((StatusCode::CREATED, json!({ "token": record.id })))
        })
        .await?;
    let above = html! {
        @if is_new {
            div.banner.ok role="status" {
                p { b { "The token “" (new.name) "” was created." } " Copy it now: it is never shown again." }
                (command(&secret.expose()))
            }
        } @else {
            p.banner role="status" {
                "This form was sent twice. The token exists; its secret was in the first answer. "
                "If you did not see it, revoke the token and create another."
            }
        }
    };
    show(&visit, &above).await
}
