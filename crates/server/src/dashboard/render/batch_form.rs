//! The form that orders a batch of renders: a table from a spreadsheet, a preview of every row, and all or none.

use super::batch::address;
use super::page::tabs;
use crate::api::render::batch::{plan, submit};
use crate::dashboard::form::{Fields, Pairs, field};
use crate::dashboard::part::{
    Health, command, given, list_table, panel, plain_panel, plural, refusal_banner, state as state_word,
    unless_refused, value_or,
};
use crate::dashboard::{Frame, PageContext, PageResult, PageSnapshot, Section, form};
use crate::problem::Problem;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tidemill_api::render::batch::OrderRenders;
use tidemill_domain::access::Permission;
use tidemill_domain::render::RenderId;
use tidemill_domain::render::sheet::ROWS_MAX;
use tidemill_store::render::PlannedRender;

const COLUMNS: &[&str] = &["Line", "Composition", "Cue item", "Result"];

/// The button that orders what was previewed.
pub(super) const ORDER: &str = "order";

/// What is shown beside the form.
enum Shown {
    Nothing,
    Preview(Vec<PlannedRender>),
    Refused(Problem),
}

pub(crate) async fn page(visit: PageContext) -> PageResult {
    show(&visit, &Pairs::new(), &Shown::Nothing).await
}

/// Shows the preview, or orders all rows and redirects to their batch.
pub(crate) async fn perform(
    mut visit: PageContext,
    Fields(fields): Fields<Pairs>,
) -> Result<Response, Problem> {
    form::check(&visit.principal, field(&fields, "form_token"))?;
    match run(&visit, &fields).await {
        Ok(Done::Ordered(batch)) => {
            let all = || visit.state.path("/render");
            let to = batch.map_or_else(all, |batch| address(&visit.state, batch));
            Ok(Redirect::to(&to).into_response())
        }
        Ok(Done::Planned(rows)) => {
            visit.address = visit.state.path("/render/batch");
            Ok(show(&visit, &fields, &Shown::Preview(rows)).await?.into_response())
        }
        Err(problem) => {
            visit.address = visit.state.path("/render/batch");
            let status = problem.status();
            Ok((status, show(&visit, &fields, &Shown::Refused(problem)).await?).into_response())
        }
    }
}

enum Done {
    Planned(Vec<PlannedRender>),
    /// None if all renders were ordered before.
    Ordered(Option<RenderId>),
}

async fn run(visit: &PageContext, fields: &Pairs) -> Result<Done, Problem> {
    let body = body(fields)?;
    let caller = visit.caller(field(fields, "key"));
    if field(fields, "step") != ORDER {
        let mut tx = visit.state.read().await?;
        return Ok(Done::Planned(plan(&caller, &body, &mut tx).await?));
    }
    let what = format!("form: order batch {}", json!(body));
    let (_, answer) = caller.once(&what, async |tx| submit(&caller, &body, tx).await).await?;
    let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
    Ok(Done::Ordered(answer["batch"].as_i64().map(RenderId::new)))
}

fn body(fields: &Pairs) -> Result<OrderRenders, Problem> {
    let text = |name: &str| given(field(fields, name)).map(str::to_owned);
    let priority = given(field(fields, "priority")).unwrap_or("0").parse();
    Ok(OrderRenders {
        csv: field(fields, "csv").to_owned(),
        map: map(field(fields, "map"))?,
        composition: text("composition"),
        priority: priority.map_err(|_| {
            Problem::bad_request("the priority is not a whole number", "use a number such as 10")
        })?,
        deadline: text("deadline"),
        broadcast_date: text("broadcast_date"),
        dry_run: false,
    })
}

/// A line for each column.
fn map(text: &str) -> Result<BTreeMap<String, String>, Problem> {
    let pair = |line: &str| {
        let (column, target) = line.split_once('=').ok_or_else(|| {
            let detail = format!("{line:?} does not say which field the column is");
            Problem::bad_request(detail, "write a line such as Player=Slot 1 - name")
        })?;
        Ok((column.trim().to_owned(), target.trim().to_owned()))
    };
    text.lines().filter(|line| !line.trim().is_empty()).map(pair).collect()
}

async fn show(visit: &PageContext, fields: &Pairs, shown: &Shown) -> PageResult {
    let (common, _) = PageSnapshot::read(&visit.state).await?;
    let content = html! {
        h1 { "Order a batch" }
        (tabs(visit, "/render/batch"))
        @if let Shown::Refused(problem) = shown { (refusal_banner(problem)) }
        @if let Shown::Preview(rows) = shown { (preview(visit, fields, rows)) }
        (plain_panel("table", "Table", &table_form(visit, fields)))
    };
    Ok(Frame::new(visit, &common, Section::Render).titled("Order a batch").render(&content))
}

fn table_form(visit: &PageContext, fields: &Pairs) -> Markup {
    let refusal = visit.refusal(Permission::Operate);
    let is_off = refusal.is_some();
    let input = |name: &str, label: &str, kind: &str| {
        html! {
            label { (label) input name=(name) type=(kind) value=(field(fields, name)) disabled[is_off] autocomplete="off"; }
        }
    };
    html! {
        form.body method="post" action=(visit.state.path("/render/batch")) {
            (form::token(&visit.principal))
            p {
                "Paste cells from a spreadsheet, or CSV: a header, then a row for each render, at most " (ROWS_MAX) ". Columns are "
                code { "composition" } ", " code { "cue_item" } ", " code { "priority" } ", " code { "deadline" } ", "
                code { "broadcast_date" } ", and fields such as " code { "Slot 1 - name" } ", " code { "Single - title" }
                " or " code { "Flag 1" } "."
            }
            div.fields {
                label.wide {
                    "Table"
                    textarea name="csv" rows="10" required disabled[is_off] autocomplete="off" { "\n" (field(fields, "csv")) }
                }
                label.wide {
                    "Columns with other names, one per line: Player=Slot 1 - name. Notes= leaves a column out"
                    textarea name="map" rows="3" disabled[is_off] autocomplete="off" { "\n" (field(fields, "map")) }
                }
                (input("composition", "Composition, if a row names none", "text"))
                (input("priority", "Priority, if a row has none", "number"))
                (input("deadline", "Deadline, if a row has none", "text"))
                (input("broadcast_date", "Broadcast date, if a row has none", "date"))
            }
            div.row { (unless_refused(refusal.as_deref(), "Preview", &html! { button.do { "Preview" } })) }
            p.soft { "At the command line: " (command("tidemill render submit --csv rows.csv --dry-run")) }
        }
    }
}

/// Every row with its warnings or problems; and the button that orders exactly these, if there are no problems.
fn preview(visit: &PageContext, fields: &Pairs, rows: &[PlannedRender]) -> Markup {
    let refused = rows.iter().filter(|row| !row.problems.is_empty()).count();
    let lines = rows.iter().map(|row| {
        let composition = row.order.as_ref().and_then(|order| order.composition.as_ref());
        let cue_item = row.order.as_ref().and_then(|order| order.cue_item.as_ref());
        html! {
            tr {
                th scope="row" { (row.line) }
                td.long { (value_or(composition, "none")) }
                td.long { (value_or(cue_item, "none")) }
                td.long { (outcome(row)) }
            }
        }
    });
    let button = format!("Order {}", plural(rows.len(), "render", "renders"));
    let content = html! {
        (list_table("Preview", COLUMNS, lines, &html! { "No rows." }))
        form.body method="post" action=(visit.state.path("/render/batch")) {
            @if refused == 0 {
                (form::hidden(&visit.principal))
                @for name in ["csv", "map", "composition", "priority", "deadline", "broadcast_date"] {
                    input type="hidden" name=(name) value=(field(fields, name));
                }
                div.row {
                    button.do name="step" value=(ORDER) { (button) }
                    span.soft { "All are ordered, or none." }
                }
            } @else {
                p { "Nothing can be ordered: " (plural(refused, "row has", "rows have")) " problems. Correct the table and preview it again." }
            }
        }
    };
    panel("preview", "Preview", &html! { span.soft { (plural(rows.len(), "row", "rows")) } }, &content)
}

pub(super) fn outcome(row: &PlannedRender) -> Markup {
    html! {
        @for problem in &row.problems {
            div {
                (state_word(Health::Bad, "refused")) " "
                @if let Some(column) = &problem.column { b { (column) } ": " }
                (problem.why)
            }
        }
        @for warning in &row.warnings { div { (state_word(Health::Warn, "warning")) " " (warning) } }
        @if row.problems.is_empty() && row.warnings.is_empty() { (state_word(Health::Ok, "ready")) }
    }
}
