//! The audit log: who changed what, when and why; as pages or as a CSV file.

use crate::api::QueryString;
use crate::dashboard::part::{attachment, given, list_table, pager, plain_panel, query};
use crate::dashboard::{Audience, Frame, PageContext, PageSnapshot, Region, Row, Rows, Section, Times};
use crate::problem::Problem;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Value, json};
use tidemill_api::View;
use tidemill_api::audit::AuditEntry;
use tidemill_domain::audit::AuditRecord;
use tidemill_store::audit::AuditFilter;

pub(crate) const COLUMNS: &[&str] = &["Time", "Action", "Object", "Change", "Reason", "Actor"];
const PAGE_ROWS: u32 = 50;
/// Maximum rows of the CSV file. The API has pages for more.
const FILE_ROWS: u32 = 5000;

/// The query string. Empty fields do not filter.
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
        let given = |text: &str| given(text).map(str::to_owned);
        AuditFilter {
            before_id: self.before,
            since: None,
            actor: given(&self.actor),
            action: given(&self.action),
            object: given(&self.object),
        }
    }

    /// The query string of the same filter, with `more` at its end.
    fn query(&self, more: &str) -> String {
        query([("actor", &*self.actor), ("action", &self.action), ("object", &self.object)], more)
    }
}

pub(crate) async fn page(
    visit: PageContext,
    QueryString(filter): QueryString<AuditQuery>,
) -> Result<Response, Problem> {
    if filter.format == "csv" {
        let mut tx = visit.state.read().await?;
        let records = tx.audit().entries(&filter.filter(), FILE_ROWS).await?;
        return Ok(file(&records));
    }
    let (common, mut tx) = PageSnapshot::read(&visit.state).await?;
    let records = Rows::new(tx.audit().entries(&filter.filter(), PAGE_ROWS + 1).await?, PAGE_ROWS);
    let times = visit.times(common.now);
    let rows = records.rows.iter().map(|record| row(record, &times));
    let empty = html! { "No entries match." };
    let address = visit.state.path("/settings/audit");
    let older = |record: &AuditRecord| format!("{address}{}", filter.query(&format!("before={}", record.id)));
    let older = records.last_of_more().map(older);
    let file = html! {
        a href={ (address) (filter.query("format=csv")) } { "Download CSV" }
        span.soft { "(at most " (FILE_ROWS) " entries)" }
    };
    let content = html! {
        h1 { "Audit log" }
        (plain_panel("filter", "Filter", &filter_form(&address, &filter)))
        (plain_panel("entries", "Entries", &html! {
            (list_table("Audit log", COLUMNS, rows, &empty))
            (pager(filter.before.map(|_| format!("{address}{}", filter.query(""))), older, &file))
        }))
    };
    let frame = Frame::new(&visit, &common, Section::Settings).titled("Audit log");
    Ok(frame.render(&content).into_response())
}

fn filter_form(address: &str, filter: &AuditQuery) -> Markup {
    html! {
        form.body method="get" action=(address) {
            div.fields {
                label { "Actor" input name="actor" value=(filter.actor) autocomplete="off"; }
                label { "Action, such as process.dead" input name="action" value=(filter.action) autocomplete="off"; }
                label { "Object, such as token/4Tq0" input name="object" value=(filter.object) autocomplete="off"; }
            }
            div.row { button.do { "Show" } " " a href=(address) { "Clear" } }
        }
    }
}

/// The newest entries, on the page of what they are about.
pub(crate) fn region(entries: &[AuditRecord], audience: Audience, empty: &Markup, times: &Times) -> Region {
    let rows = entries.iter().map(|entry| Row::new(name(entry), row(entry, times)));
    Region::rows("events", audience, COLUMNS, rows, empty, None)
}

fn name(record: &AuditRecord) -> String {
    format!("event:{}", record.id)
}

fn row(record: &AuditRecord, times: &Times) -> Markup {
    let entry = &record.entry;
    let state = |state: &Option<String>| state.clone().filter(|text| !text.is_empty());
    html! {
        tr data-live=(name(record)) {
            td { (times.at(record.at)) }
            th scope="row" { (entry.action) }
            td.long { (entry.object) }
            td {
                @match (state(&entry.from), state(&entry.to)) {
                    (Some(from), Some(to)) => { (from) " → " (to) }
                    (None, Some(to)) => { "→ " (to) }
                    (Some(from), None) => { (from) " →" }
                    (None, None) => {}
                }
            }
            td.long { (entry.reason.as_deref().unwrap_or_default()) }
            td { (entry.actor.name) " " span.soft { "(" (entry.actor.role) ")" } }
        }
    }
}

fn file(records: &[AuditRecord]) -> Response {
    let mut lines = vec![AuditEntry::FIELDS.join(",")];
    for record in records {
        let entry = json!(AuditEntry::from(record));
        let cells = AuditEntry::FIELDS.iter().map(|field| match &entry[*field] {
            Value::String(text) => cell(text),
            Value::Null => String::new(),
            other => other.to_string(),
        });
        lines.push(cells.collect::<Vec<_>>().join(","));
    }
    let text = lines.into_iter().map(|line| line + "\r\n").collect();
    attachment("tidemill-audit.csv", "text/csv; charset=utf-8", text)
}

/// A CSV field. An apostrophe keeps spreadsheets from running the text as a formula.
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
        let filter = AuditQuery { actor: "a&b=c d/ä".into(), ..AuditQuery::default() };
        assert_eq!(filter.query("before=7"), "?actor=a%26b%3Dc%20d%2F%C3%A4&before=7");
    }
}
