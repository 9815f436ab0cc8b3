//! The audit log: who changed what, when and why; by page, or as a file.

use crate::api::QueryString;
use crate::dashboard::frame::{Frame, Section};
use crate::dashboard::overview::event;
use crate::dashboard::page_context::PageContext;
use crate::dashboard::page_snapshot::PageSnapshot;
use crate::dashboard::part::{empty_row, encoded, panel, table};
use crate::dashboard::region::Page;
use crate::problem::Problem;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use serde::Deserialize;
use std::fmt::Write as _;
use tidemill_domain::audit::AuditRecord;
use tidemill_store::audit::AuditFilter;

const PAGE_ROWS: u32 = 50;
/// Most rows of a file; whoever wants more asks the API page by page.
const FILE_ROWS: u32 = 5000;

/// What to list. Fields that were left empty are as if they were not there.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct AuditQuery {
    actor: String,
    action: String,
    object: String,
    before: Option<i64>,
    format: String,
}

impl AuditQuery {
    fn filter(&self) -> AuditFilter {
        let given = |text: &str| Some(text.trim()).filter(|text| !text.is_empty()).map(str::to_owned);
        AuditFilter {
            before_id: self.before,
            since: None,
            actor: given(&self.actor),
            action: given(&self.action),
            object: given(&self.object),
        }
    }

    /// The part of the address that asks for the same again, with `more` at its end.
    fn query(&self, more: &str) -> String {
        let mut query = String::new();
        for (name, value) in [("actor", &self.actor), ("action", &self.action), ("object", &self.object)] {
            if !value.is_empty() {
                let _infallible = write!(query, "{name}={}&", encoded(value));
            }
        }
        format!("?{query}{more}")
    }
}

/// The page, or the file.
pub(crate) async fn page(
    visit: PageContext,
    QueryString(wanted): QueryString<AuditQuery>,
) -> Result<Response, Problem> {
    let filter = wanted.filter();
    if wanted.format == "csv" {
        let mut tx = visit.state.read().await?;
        let records = tx.audit().entries(&filter, FILE_ROWS).await?;
        return Ok(file(&records));
    }
    let (common, mut tx) = PageSnapshot::read(&visit.state).await?;
    let mut records = tx.audit().entries(&filter, PAGE_ROWS + 1).await?;
    let has_more = records.len() > PAGE_ROWS as usize;
    records.truncate(PAGE_ROWS as usize);
    let times = visit.times(common.now);
    let rows = html! {
        tbody {
            @if records.is_empty() {
                (empty_row(event::COLUMNS.len(), &html! { "Nothing in the log is like this." }))
            }
            @for record in &records { (event::row(record, &times)) }
        }
    };
    let older =
        records.last().filter(|_| has_more).map(|record| wanted.query(&format!("before={}", record.id)));
    let address = visit.state.path("/settings/audit");
    let nothing = html! {};
    let content = html! {
        h1 { "Audit log" }
        (panel("filter", "Only", &nothing, &filter_form(&address, &wanted)))
        (panel("entries", "Entries", &nothing, &html! {
            (table("Audit log", event::COLUMNS, &rows))
            div.row.body {
                @if wanted.before.is_some() { a.button href={ (address) (wanted.query("")) } { "Newest" } }
                @if let Some(older) = older { a.button href={ (address) (older) } { "Older" } }
                a href={ (address) (wanted.query("format=csv")) } { "Download as CSV" }
                span.soft { "(at most " (FILE_ROWS) " entries)" }
            }
        }))
    };
    let title = Some("Audit log");
    let frame =
        Frame { visit: &visit, common: &common, section: Section::Settings, title, page: Page::Other };
    Ok(frame.render(&content).into_response())
}

fn filter_form(address: &str, wanted: &AuditQuery) -> Markup {
    html! {
        form.body method="get" action=(address) {
            div.fields {
                label { "Who" input name="actor" value=(wanted.actor) autocomplete="off"; }
                label { "What, such as process.dead" input name="action" value=(wanted.action) autocomplete="off"; }
                label { "To what, such as token/4Tq0" input name="object" value=(wanted.object) autocomplete="off"; }
            }
            div.row { button.do { "Show" } " " a href=(address) { "Everything" } }
        }
    }
}

fn file(records: &[AuditRecord]) -> Response {
    let mut text = String::from("id,at,actor,role,action,object,from,to,reason,request_id\r\n");
    for record in records {
        let entry = &record.entry;
        let maybe = |text: &Option<String>| text.clone().unwrap_or_default();
        let fields = [
            record.id.to_string(),
            record.at.to_string(),
            entry.actor.name.clone(),
            entry.actor.role.as_str().to_owned(),
            entry.action.clone(),
            entry.object.clone(),
            maybe(&entry.from),
            maybe(&entry.to),
            maybe(&entry.reason),
            maybe(&entry.actor.request_id),
        ];
        text.push_str(&fields.map(|field| cell(&field)).join(","));
        text.push_str("\r\n");
    }
    let name = "attachment; filename=\"tidemill-audit.csv\"";
    let headers = [(header::CONTENT_TYPE, "text/csv; charset=utf-8"), (header::CONTENT_DISPOSITION, name)];
    (headers, text).into_response()
}

/// A field of a CSV file. What a spreadsheet would take for a formula is marked as text.
fn cell(text: &str) -> String {
    let mark = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { "'" } else { "" };
    let text = format!("{mark}{text}");
    if text.contains([',', '"', '\r', '\n']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spreadsheet_finds_neither_formulas_nor_extra_columns() {
        assert_eq!(cell("plain"), "plain");
        assert_eq!(cell("=HYPERLINK(\"http://evil\")"), "\"'=HYPERLINK(\"\"http://evil\"\")\"");
        assert_eq!(cell("a,b"), "\"a,b\"");
        assert_eq!(cell("two\nlines"), "\"two\nlines\"");
    }

    #[test]
    fn the_address_of_the_next_page_keeps_the_filter() {
        let wanted = AuditQuery { actor: "a&b=c d/ä".into(), ..AuditQuery::default() };
        assert_eq!(wanted.query("before=7"), "?actor=a%26b%3Dc%20d%2F%C3%A4&before=7");
    }
}
