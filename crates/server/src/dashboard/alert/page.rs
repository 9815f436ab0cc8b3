//! The page of the alerts. The list changes by itself; the forms around it are the visitor's own.

use super::list;
use crate::api::QueryString;
use crate::dashboard::form;
use crate::dashboard::frame::{Frame, Section};
use crate::dashboard::instant::{Times, span};
use crate::dashboard::page_context::PageContext;
use crate::dashboard::page_snapshot::PageSnapshot;
use crate::dashboard::part::{command, empty_row, panel, refused, table, wide_table};
use crate::dashboard::region::Page;
use crate::problem::Problem;
use axum::response::Html;
use maud::{Markup, html};
use serde::Deserialize;
use tidemill_domain::access::Permission;
use tidemill_domain::alert::silence::REASON_CHARS_MAX;
use tidemill_domain::alert::{Rule, Silence};

const SILENCES_MAX: u32 = 200;
const SILENCE_COLUMNS: &[&str] = &["Rule", "Subject", "Until", "By", "Why", "Action"];
/// For how long a silence can be chosen, in hours.
const HOURS: [(u32, &str); 5] =
    [(1, "1 hour"), (4, "4 hours"), (24, "1 day"), (168, "7 days"), (720, "30 days")];

/// What is to be silenced, as far as the way to the form says it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Meant {
    rule: String,
    subject: String,
}

pub(crate) async fn page(
    visit: PageContext,
    QueryString(meant): QueryString<Meant>,
) -> Result<Html<String>, Problem> {
    let (common, mut tx) = PageSnapshot::read(&visit.state).await?;
    let silences = tx.alerts().silences(SILENCES_MAX).await?;
    let times = visit.times(common.now);
    let list = list::region(&visit.state, &common, &times);
    let nothing = html! {};
    let content = html! {
        h1 { "Alerts" }
        (panel("alerts", "Now and lately", &nothing, &wide_table("Alerts", list::COLUMNS, &list.markup())))
        (panel("silences", "Silences", &nothing,
            &table("Silences", SILENCE_COLUMNS, &silence_rows(&visit, &silences, &times))))
        (panel("silence", "Silence an alert", &nothing, &silence_form(&visit, &common, &meant)))
        (panel("rules", "Rules", &html! { (command("tidemill alert rules")) },
            &wide_table("Rules", RULE_COLUMNS, &rule_rows(&visit.state.inner().parts.rules))))
    };
    let frame =
        Frame { visit: &visit, common: &common, section: Section::Alerts, title: None, page: Page::Alerts };
    Ok(frame.render(&content))
}

fn silence_rows(visit: &PageContext, silences: &[Silence], times: &Times) -> Markup {
    let refusal = visit.refusal(Permission::Operate);
    html! {
        tbody {
            @if silences.is_empty() {
                (empty_row(SILENCE_COLUMNS.len(), &html! { "Nothing is silenced." }))
            }
            @for silence in silences {
                tr {
                    th scope="row" { (silence.rule) }
                    td.long {
                        @match &silence.subject {
                            Some(subject) => (subject),
                            None => span.soft { "all" },
                        }
                    }
                    td { (times.at(silence.until)) }
                    td { (silence.by) }
                    td.long { (silence.reason) }
                    td {
                        @match &refusal {
                            Some(reason) => (refused("End", reason)),
                            None => (unsilence_form(visit, silence)),
                        }
                    }
                }
            }
        }
    }
}

fn unsilence_form(visit: &PageContext, silence: &Silence) -> Markup {
    let what = silence
        .subject
        .as_ref()
        .map_or_else(|| silence.rule.clone(), |one| format!("{} {one}", silence.rule));
    html! {
        form method="post" action=(visit.state.path("/alerts/unsilence")) {
            (form::hidden(&visit.principal))
            input type="hidden" name="rule" value=(silence.rule);
            @if let Some(subject) = &silence.subject { input type="hidden" name="subject" value=(subject); }
            button aria-label={ "End the silence of " (what) } { "End" }
        }
    }
}

fn silence_form(visit: &PageContext, common: &PageSnapshot, meant: &Meant) -> Markup {
    let refusal = visit.refusal(Permission::Operate);
    let is_off = refusal.is_some();
    html! {
        form.body method="post" action=(visit.state.path("/alerts/silence")) {
            (form::hidden(&visit.principal))
            p { "Nobody is told of a silenced alert. It stays in the list, and whoever has to hear of it does so after." }
            div.fields {
                label {
                    "Rule"
                    input name="rule" value=(meant.rule) required disabled[is_off] list="rules-known" maxlength="100" autocomplete="off";
                }
                label {
                    "Subject (all when empty)"
                    input name="subject" value=(meant.subject) disabled[is_off] list="subjects" maxlength="200" autocomplete="off";
                }
                label {
                    "For"
                    select name="hours" disabled[is_off] {
                        @for (hours, text) in HOURS { option value=(hours) { (text) } }
                    }
                }
                label.wide {
                    "Why"
                    input name="reason" required disabled[is_off] maxlength=(REASON_CHARS_MAX);
                }
            }
            (known("rules-known", visit.state.inner().parts.rules.iter().map(Rule::name)))
            (known("subjects", common.alerts.rows.iter().map(|alert| alert.subject.as_str())))
            div.row {
                @match &refusal {
                    Some(reason) => (refused("Silence", reason)),
                    None => button.do { "Silence" },
                }
            }
        }
    }
}

/// What can be chosen without typing it.
fn known<'a>(id: &str, values: impl Iterator<Item = &'a str>) -> Markup {
    let values: std::collections::BTreeSet<&str> = values.collect();
    html! { datalist id=(id) { @for value in values { option value=(value) {} } } }
}

/// The columns of the rules, and whether they are of numbers.
const RULE_COLUMNS: &[(&str, bool)] =
    &[("Rule", false), ("Fires when", false), ("For", true), ("Severity", false), ("Tells", false)];

fn rule_rows(rules: &[Rule]) -> Markup {
    html! {
        tbody {
            @if rules.is_empty() {
                (empty_row(RULE_COLUMNS.len(), &html! { "No rule is in force: all are switched off in the configuration." }))
            }
            @for rule in rules { (rule_row(rule)) }
        }
    }
}

fn rule_row(rule: &Rule) -> Markup {
    html! {
        tr {
            th scope="row" { (rule.name()) }
            td.long {
                code { (rule.signal()) " " (rule.condition()) }
                @if !rule.window().is_zero() {
                    br; span.soft { "the " (rule.aggregate()) " of " (span(rule.window())) }
                }
            }
            td.number {
                @if rule.hold().is_zero() { span.soft { "at once" } } @else { (span(rule.hold())) }
            }
            td { (rule.severity()) }
            td.long {
                @if rule.channels().is_empty() { span.soft { "nobody" } } @else { (rule.channels().join(", ")) }
            }
        }
    }
}
