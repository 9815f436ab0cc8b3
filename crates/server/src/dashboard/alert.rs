//! The page of alerts. The list is live; the forms belong to the visitor.

use crate::api::QueryString;
use crate::dashboard::part::{
    Health, command, encoded, list_table, panel, plain_panel, span, state as state_word, table,
    unless_refused, value_or,
};
use crate::dashboard::{
    Audience, Frame, Page, PageContext, PageResult, PageSnapshot, Region, Row, Section, Times, form,
};
use crate::state::State;
use maud::{Markup, html};
use serde::Deserialize;
use tidemill_domain::access::Permission;
use tidemill_domain::alert::silence::REASON_CHARS_MAX;
use tidemill_domain::alert::{AlertState, Rule, Severity, Silence};
use tidemill_store::alert::AlertRecord;

const SILENCES_MAX: u32 = 200;
const COLUMNS: &[&str] = &["State", "Rule", "Subject", "Severity", "#Value", "Since", "Silenced"];
const SILENCE_COLUMNS: &[&str] = &["Rule", "Subject", "Until", "By", "Reason", "Action"];
const RULE_COLUMNS: &[&str] = &["Rule", "Fires when", "#For", "Severity", "Channels"];
/// The durations of a silence, in hours.
const HOURS: [(u32, &str); 5] =
    [(1, "1 hour"), (4, "4 hours"), (24, "1 day"), (168, "7 days"), (720, "30 days")];

/// Prefills the form. The `Silence…` button of an alert links to it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Prefill {
    rule: String,
    subject: String,
}

pub(crate) async fn page(visit: PageContext, QueryString(prefill): QueryString<Prefill>) -> PageResult {
    let (common, mut tx) = PageSnapshot::read(&visit.state).await?;
    let silences = tx.alerts().silences(SILENCES_MAX).await?;
    let times = visit.times(common.now);
    let list = region(&visit.state, &common, &times);
    let refusal = visit.refusal(Permission::Operate);
    let silence_rows =
        silences.iter().map(|silence| silence_row(&visit, silence, &times, refusal.as_deref()));
    let silences = list_table("Silences", SILENCE_COLUMNS, silence_rows, &html! { "No silences." });
    let rules = visit.state.inner().parts.rules.iter().map(rule_row);
    let rules = list_table("Rules", RULE_COLUMNS, rules, &html! { "The configuration disables all rules." });
    let content = html! {
        h1 { "Alerts" }
        (plain_panel("alerts", "Current and recent alerts", &table("Alerts", COLUMNS, &list.markup())))
        (plain_panel("silences", "Silences", &silences))
        (plain_panel("silence", "Silence an alert", &silence_form(&visit, &common, &prefill, refusal.as_deref())))
        (panel("rules", "Rules", &command("tidemill alert rules"), &rules))
    };
    Ok(Frame::new(&visit, &common, Section::Alerts).live(Page::Alerts).render(&content))
}

/// The live list. It is the same for all visitors, so its buttons only link to the form.
pub(crate) fn region(at: &State, common: &PageSnapshot, times: &Times) -> Region {
    let alerts = common.alerts.rows.iter().filter(|alert| alert.state != AlertState::Inactive);
    let rows = alerts.map(|alert| row(at, alert, times));
    let note = common.alerts.is_cut.then(|| html! { "There are more. Firing alerts come first." });
    let empty = html! { "No alerts. To check the installation, run " (command("tidemill doctor")) };
    Region::rows("alerts", Audience::On(&[Page::Alerts]), COLUMNS, rows, &empty, note)
}

/// Two decimal places: no threshold is finer.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

fn row(at: &State, alert: &AlertRecord, times: &Times) -> Row {
    let health = match (alert.state, alert.severity) {
        (AlertState::Firing { .. }, Severity::Info) | (AlertState::Pending { .. }, _) => Health::Warn,
        (AlertState::Firing { .. }, _) => Health::Bad,
        (AlertState::Inactive | AlertState::Resolved { .. }, _) => Health::Idle,
    };
    let (rule, subject) = (encoded(&alert.rule), encoded(alert.subject.as_str()));
    let form = at.path(&format!("/alerts?rule={rule}&subject={subject}#silence"));
    let cells = html! {
        td { (state_word(health, alert.state.as_str())) }
        th scope="row" { (alert.rule) }
        td.long {
            (alert.subject)
            @if let Some(detail) = &alert.detail { br; span.soft { (detail) } }
        }
        td { (alert.severity.as_str()) }
        td.number { (value_or(alert.value.map(rounded), "unknown")) }
        td { (times.maybe(alert.state.since(), "")) }
        td.long {
            @if let Some(silence) = &alert.silence {
                "until " (times.at(silence.until)) " by " (silence.by) ": " (silence.reason)
            } @else if !matches!(alert.state, AlertState::Inactive | AlertState::Resolved { .. }) {
                a.button href=(form) {
                    "Silence…" span.unseen { " " (alert.rule) " of " (alert.subject) }
                }
            }
        }
    };
    Row::of(format!("alert:{}/{}", alert.rule, alert.subject), &cells)
}

fn silence_row(visit: &PageContext, silence: &Silence, times: &Times, refusal: Option<&str>) -> Markup {
    html! {
        tr {
            th scope="row" { (silence.rule) }
            td.long { (value_or(silence.subject.as_ref(), "all")) }
            td { (times.at(silence.until)) }
            td { (silence.by) }
            td.long { (silence.reason) }
            td {
                (unless_refused(refusal, "End", &unsilence_form(visit, silence)))
            }
        }
    }
}

fn unsilence_form(visit: &PageContext, silence: &Silence) -> Markup {
    let of = silence.subject.as_ref().map(|subject| format!(" {subject}")).unwrap_or_default();
    html! {
        form method="post" action=(visit.state.path("/alerts/unsilence")) {
            (form::hidden(&visit.principal))
            input type="hidden" name="rule" value=(silence.rule);
            @if let Some(subject) = &silence.subject { input type="hidden" name="subject" value=(subject); }
            button aria-label={ "End the silence of " (silence.rule) (of) } { "End" }
        }
    }
}

fn silence_form(
    visit: &PageContext,
    common: &PageSnapshot,
    prefill: &Prefill,
    refusal: Option<&str>,
) -> Markup {
    let is_off = refusal.is_some();
    html! {
        form.body method="post" action=(visit.state.path("/alerts/silence")) {
            (form::hidden(&visit.principal))
            p { "A silenced alert sends no notifications. It stays in the list, and notifications resume when the silence ends." }
            div.fields {
                label {
                    "Rule"
                    input name="rule" value=(prefill.rule) required disabled[is_off] list="rules-known" maxlength="100" autocomplete="off";
                }
                label {
                    "Subject (empty for all)"
                    input name="subject" value=(prefill.subject) disabled[is_off] list="subjects" maxlength="200" autocomplete="off";
                }
                label {
                    "Duration"
                    select name="hours" disabled[is_off] {
                        @for (hours, text) in HOURS { option value=(hours) { (text) } }
                    }
                }
                label.wide {
                    "Reason"
                    input name="reason" required disabled[is_off] maxlength=(REASON_CHARS_MAX);
                }
            }
            (datalist("rules-known", visit.state.inner().parts.rules.iter().map(Rule::name)))
            (datalist("subjects", common.alerts.rows.iter().map(|alert| alert.subject.as_str())))
            div.row { (unless_refused(refusal, "Silence", &html! { button.do { "Silence" } })) }
        }
    }
}

/// Suggestions for an input.
fn datalist<'a>(id: &str, values: impl Iterator<Item = &'a str>) -> Markup {
    let values: std::collections::BTreeSet<&str> = values.collect();
    html! { datalist id=(id) { @for value in values { option value=(value) {} } } }
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
                @if rule.hold().is_zero() { span.soft { "immediately" } } @else { (span(rule.hold())) }
            }
            td { (rule.severity()) }
            td.long {
                @if rule.channels().is_empty() { span.soft { "none" } } @else { (rule.channels().join(", ")) }
            }
        }
    }
}
