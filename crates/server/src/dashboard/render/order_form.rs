//! The form that orders one render: an input for each field of the composition, a preview, and the order. It is a row of a
//! table to the rules, so they are those of a batch.

use super::batch_form::{ORDER, outcome};
use super::page::tabs;
use crate::api::QueryString;
use crate::api::render::batch::plan_row;
use crate::dashboard::form::{Fields, Pairs, field, typed};
use crate::dashboard::part::{
    command, given, list_table, plain_panel, plural, refusal_banner, unless_refused,
};
use crate::dashboard::{Frame, PageContext, PageResult, PageSnapshot, Section, form};
use crate::mutation::Caller;
use crate::problem::Problem;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::json;
use tidemill_domain::access::Permission;
use tidemill_domain::render::Profile;
use tidemill_domain::render::field::Field;
use tidemill_domain::render::form::{Input, OrderForm};
use tidemill_domain::render::sheet::{BadSheet, Part};
use tidemill_engine::render::Material;
use tidemill_store::Tx;
use tidemill_store::render::{PlannedRender, Submitted};

const PATH: &str = "/render/new";

/// What is shown beside the form.
enum Shown {
    Nothing,
    Preview(PlannedRender),
    Refused(Problem),
    Ordered { id: String, is_new: bool },
}

/// What the page of a render says of the order that led to it, from the query string.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct OrderNotice {
    known: bool,
}

impl OrderNotice {
    pub(super) fn banner(self) -> Markup {
        html! {
            @if self.known {
                p.banner role="status" { "The same render was ordered before, for the same cue item, and has not ended. Nothing new was ordered." }
            }
        }
    }
}

pub(crate) async fn page(visit: PageContext, QueryString(pairs): QueryString<Pairs>) -> PageResult {
    show(&visit, &pairs, &Shown::Nothing).await
}

/// Shows the preview, or orders the render and redirects to it.
pub(crate) async fn perform(
    mut visit: PageContext,
    Fields(fields): Fields<Pairs>,
) -> Result<Response, Problem> {
    form::check(&visit.principal, field(&fields, "form_token"))?;
    visit.address = visit.state.path(PATH);
    let done = match field(&fields, "step") {
        ORDER => order(&visit, &fields).await,
        _ => preview(&visit, &fields).await,
    };
    match done {
        Ok(Shown::Ordered { id, is_new }) => {
            let notice = if is_new { "" } else { "?known=true" };
            Ok(Redirect::to(&visit.state.path(&format!("/render/{id}{notice}"))).into_response())
        }
        Ok(shown) => Ok(show(&visit, &fields, &shown).await?.into_response()),
        Err(problem) => {
            let status = problem.status();
            Ok((status, show(&visit, &fields, &Shown::Refused(problem)).await?).into_response())
        }
    }
}

async fn preview(visit: &PageContext, fields: &Pairs) -> Result<Shown, Problem> {
    let mut tx = visit.state.read().await?;
    Ok(Shown::Preview(planned(&visit.caller(""), fields, &mut tx).await?))
}

async fn order(visit: &PageContext, fields: &Pairs) -> Result<Shown, Problem> {
    let caller = visit.caller(field(fields, "key"));
    let what = format!("form: order render {}", json!(typed(fields)));
    let place = async |tx: &mut Tx| {
        let row = planned(&caller, fields, tx).await?;
        let Some(new) = row.order else { return Err(BadSheet { problems: row.problems }.into()) };
        let submitted = tx.renders().submit(&new, &caller.principal.actor()).await?;
        let is_new = matches!(submitted, Submitted::New(_));
        let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
        Ok((status, json!(submitted.id().get())))
    };
    let (status, id) = caller.once(&what, place).await?;
    Ok(Shown::Ordered { id, is_new: status == StatusCode::CREATED.as_u16() })
}

/// The row of the table that the fields are.
async fn planned(caller: &Caller, fields: &Pairs, tx: &mut Tx) -> Result<PlannedRender, Problem> {
    let zone = &caller.state.inner().parts.render.zone;
    let cell = |name: &str, text: &str| match zone.read_local(text).filter(|_| name == "deadline") {
        Some(deadline) => deadline.to_string(),
        None => text.to_owned(),
    };
    let is_column = |name: &str| name.parse::<Field>().is_ok() || name.parse::<Part>().is_ok();
    let columns = fields.iter().filter(|(name, _)| is_column(name));
    let (names, cells) = columns.map(|(name, text)| (name.clone(), cell(name, text))).unzip();
    plan_row(caller, names, cells, tx).await
}

async fn show(visit: &PageContext, fields: &Pairs, shown: &Shown) -> PageResult {
    let (common, mut tx) = PageSnapshot::read(&visit.state).await?;
    let inputs = match given(field(fields, "composition")) {
        Some(composition) => {
            let material = Material::read(&mut tx, "{}", Some(composition)).await?;
            let form = OrderForm::new(&material.mapping, &material.profile);
            inputs(visit, fields, &form, &material.profile)
        }
        None => choice(visit, &tx.renders().profiles().await?),
    };
    let content = html! {
        h1 { "Order a render" }
        (tabs(visit, PATH))
        @if let Shown::Refused(problem) = shown { (refusal_banner(problem)) }
        @if let Shown::Preview(row) = shown { (plain_panel("preview", "Preview", &result(visit, fields, row))) }
        (inputs)
    };
    Ok(Frame::new(visit, &common, Section::Render).titled("Order a render").render(&content))
}

fn choice(visit: &PageContext, profiles: &[Profile]) -> Markup {
    let content = html! {
        @if profiles.is_empty() {
            p.empty { "No profiles yet. Import a file: " (command("tidemill render profile import profiles.yaml")) }
        } @else {
            form.body method="get" action=(visit.state.path(PATH)) {
                div.fields {
                    label {
                        "Composition"
                        select name="composition" {
                            @for profile in profiles { option { (profile.composition) } }
                        }
                    }
                    div.row { button.do { "Continue" } }
                }
            }
        }
    };
    plain_panel("composition", "Composition", &content)
}

fn inputs(visit: &PageContext, fields: &Pairs, form: &OrderForm, profile: &Profile) -> Markup {
    let refusal = visit.refusal(Permission::Operate);
    let (is_off, zone) = (refusal.is_some(), &visit.state.inner().parts.render.zone);
    let part = |name: &str, label: &str, kind: &str| {
        html! {
            label { (label) input name=(name) type=(kind) value=(field(fields, name)) disabled[is_off] autocomplete="off"; }
        }
    };
    let input = |input: &Input, label: Option<&str>| {
        let name = input.field.to_string();
        html! {
            input name=(name) value=(field(fields, &name)) aria-label=[label] required[input.is_required]
                disabled[is_off] autocomplete="off";
        }
    };
    let columns: Vec<&str> = std::iter::once("Slot").chain(form.columns.iter().map(String::as_str)).collect();
    let slots = form.slots.iter().map(|(number, inputs)| {
        html! {
            tr {
                th scope="row" { (number) }
                @for name in &form.columns {
                    td {
                        @if let Some(one) = inputs.get(name) { (input(one, Some(&one.field.to_string()))) (mark(one)) }
                    }
                }
            }
        }
    });
    let content = html! {
        form method="post" action=(visit.state.path(PATH)) {
            (form::token(&visit.principal))
            input type="hidden" name="composition" value=(profile.composition);
            div.body {
                p {
                    "Fields with a * are required. "
                    @if let Some(least) = profile.min_slots.filter(|least| *least > 0) { "At least " (plural(least, "slot", "slots")) " must be filled. " }
                    a href=(visit.state.path(PATH)) { "Another composition" }
                }
                div.fields {
                    @for single in &form.singles {
                        label { span { (single.field) (mark(single)) } (input(single, None)) }
                    }
                }
            }
            @if !form.slots.is_empty() { (list_table("Slots", &columns, slots, &html! {})) }
            div.body {
                div.fields {
                    (part("cue_item", "Cue item", "text"))
                    (part("priority", "Priority (higher first)", "number"))
                    (part("deadline", &format!("On air ({zone})"), "datetime-local"))
                    (part("broadcast_date", "Broadcast date", "date"))
                }
                div.row { (unless_refused(refusal.as_deref(), "Preview", &html! { button.do { "Preview" } })) }
            }
        }
    };
    plain_panel("fields", &profile.composition, &content)
}

fn mark(input: &Input) -> Markup {
    html! { @if input.is_required { span aria-hidden="true" { " *" } } }
}

/// Warnings or problems; and the button that orders exactly this, if there are no problems.
fn result(visit: &PageContext, fields: &Pairs, row: &PlannedRender) -> Markup {
    html! {
        div.body { (outcome(row)) }
        form.body method="post" action=(visit.state.path(PATH)) {
            @if row.problems.is_empty() {
                (form::hidden(&visit.principal))
                @for (name, value) in typed(fields) { input type="hidden" name=(name) value=(value); }
                div.row { button.do name="step" value=(ORDER) { "Order the render" } }
            } @else {
                p { "Nothing is ordered yet. Correct the fields and preview it again." }
            }
        }
    }
}
