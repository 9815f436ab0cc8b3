//! API tokens: list, create and delete. The secret is shown once.

use crate::api::token::{DAYS, create_by};
use crate::dashboard::form::Fields;
use crate::dashboard::part::{Health, command, list_table, plain_panel, state as state_word, unless_refused};
use crate::dashboard::sheet::{Sheet, SheetForm, WHY, reason_field};
use crate::dashboard::{Frame, PageContext, PageResult, PageSnapshot, Section, Times, form};
use maud::{Markup, html};
use serde::Deserialize;
use tidemill_api::token::{CreateToken, state as state_of};
use tidemill_domain::access::{Permission, ROLES};
use tidemill_domain::action::Reason;
use tidemill_store::token::TokenRecord;

const TOKENS_MAX: u32 = 500;
const COLUMNS: &[&str] =
    &["State", "Name", "Id", "Role", "Scopes", "Created", "Expires", "Last used", "Action"];

pub(crate) async fn page(visit: PageContext) -> PageResult {
    show(&visit, &html! {}).await
}

async fn show(visit: &PageContext, above: &Markup) -> PageResult {
    let (common, mut tx) = PageSnapshot::read(&visit.state).await?;
    let tokens = tx.tokens().list(TOKENS_MAX).await?;
    let times = visit.times(common.now);
    let refusal = visit.refusal(Permission::Administer);
    let rows = tokens.iter().map(|token| row(visit, token, &times, refusal.as_deref()));
    let empty = html! {
        "No tokens yet. At the command line: " (command("tidemill token create NAME --role viewer"))
    };
    let content = html! {
        h1 { "API tokens" }
        (above)
        (plain_panel("tokens", "Tokens", &list_table("API tokens", COLUMNS, rows, &empty)))
        (plain_panel("create", "Create a token", &create_form(visit, refusal.as_deref())))
    };
    Ok(Frame::new(visit, &common, Section::Settings).titled("API tokens").render(&content))
}

fn row(visit: &PageContext, token: &TokenRecord, times: &Times, refusal: Option<&str>) -> Markup {
    let is_valid = token.is_valid(times.now());
    let health = if is_valid { Health::Ok } else { Health::Idle };
    html! {
        tr {
            td { (state_word(health, state_of(token, times.now()))) }
            th.long scope="row" { (token.name) }
            td.still.mono { (token.id) }
            td { (token.role) }
            td.long { @if token.scopes.is_empty() { span.soft { "all" } } @else { (token.scopes.join(", ")) } }
            td { (times.at(token.created_at)) " by " (token.created_by) }
            td { (times.maybe(token.expires_at, "never")) }
            td { (times.maybe(token.last_used_at, "never")) }
            td {
                @if is_valid { (unless_refused(refusal, "Delete…", &delete_form(visit, token))) }
            }
        }
    }
}

fn delete_form(visit: &PageContext, token: &TokenRecord) -> Markup {
    let address = visit.state.path(&format!("/settings/tokens/{}/delete", token.id));
    let sheet = Sheet {
        question: format!("Delete “{}”?", token.name),
        consequence: html! {
            p { "Programs that use this token lose access at once, and its sessions end. This cannot be undone." }
        },
        form: SheetForm::Own { address, hidden: form::hidden(&visit.principal) },
        fields: reason_field(WHY, Reason::Optional, None),
        back: visit.state.path("/settings/tokens"),
        leave: "Cancel",
        button: format!("Delete token {}", token.id),
        ends: true,
        refusal: None,
        command: None,
    };
    sheet.unfolding("Delete…")
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
                    "Scopes, separated by commas (empty for all)"
                    input name="scopes" placeholder="pool/etl*, job/nightly" disabled[is_off] autocomplete="off";
                }
            }
            div.row { (unless_refused(refusal, "Create token", &html! { button.do { "Create token" } })) }
        }
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct CreateForm {
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

/// Creates a token. Only this response shows the secret.
pub(crate) async fn create(visit: PageContext, Fields(fields): Fields<CreateForm>) -> PageResult {
    form::check(&visit.principal, &fields.form_token)?;
    let scopes = fields.scopes.split(',').map(str::trim).filter(|scope| !scope.is_empty());
    let request = CreateToken {
        name: fields.name.trim().to_owned(),
        role: fields.role,
        scopes: scopes.map(str::to_owned).collect(),
        days: fields.days,
    };
    let (_, created) = create_by(&visit.caller(&fields.key), "form: create token", &request).await?;
    let above = html! {
        @if let Some(secret) = created.and_then(|created| created.secret) {
            div.banner.ok role="status" {
                p { b { "The token “" (request.name) "” was created." } " Copy it now: it is never shown again." }
                (command(&secret))
            }
        } @else {
            p.banner role="status" {
                "This form was sent twice. The token exists, but only the first response showed its secret. "
                "If you did not see it, delete the token and create another one."
            }
        }
    };
    show(&visit, &above).await
}
