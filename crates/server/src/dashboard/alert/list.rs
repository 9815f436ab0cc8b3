//! Alerts, one row each: on their page and in their patches.

use crate::dashboard::instant::Times;
use crate::dashboard::page_snapshot::PageSnapshot;
use crate::dashboard::part::{Health, command, empty_row, encoded, state};
use crate::dashboard::region::{Audience, Page, Region, Row};
use crate::state::State;
use maud::{Markup, html};
use tidemill_domain::alert::{AlertState, Severity};
use tidemill_store::alert::AlertRecord;

/// What the table's columns are called.
pub(crate) const COLUMNS: &[(&str, bool)] = &[
    ("State", false),
    ("Rule", false),
    ("Subject", false),
    ("Severity", false),
    ("Value", true),
    ("Since", false),
    ("Silenced", false),
];

pub(crate) fn region(at: &State, common: &PageSnapshot, times: &Times) -> Region {
    let alerts = common.alerts.rows.iter().filter(|alert| alert.state != AlertState::Inactive);
    let rows = alerts.map(|alert| Row::new(name(alert), row(at, alert, times))).collect();
    let below = html! {
        @if common.alerts.is_cut {
            tr { td.soft colspan=(COLUMNS.len()) { "There are more; the firing come first." } }
        }
    };
    let text = html! { "No alert fires. See whether all is well: " (command("tidemill doctor")) };
    let without = empty_row(COLUMNS.len(), &text);
    Region::table_body("alerts", Audience::On(&[Page::Alerts]), rows, without, below)
}

/// Where the form for it is.
fn silencing(alert: &AlertRecord) -> String {
    format!("/alerts?rule={}&subject={}#silence", encoded(&alert.rule), encoded(alert.subject.as_str()))
}

fn name(alert: &AlertRecord) -> String {
    format!("alert:{}/{}", alert.rule, alert.subject)
}

/// A value as people read it; no threshold is finer than that.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// A row. It is the same for everybody, so the way to silence it leads to the form.
fn row(at: &State, alert: &AlertRecord, times: &Times) -> Markup {
    let health = match (alert.state, alert.severity) {
        (AlertState::Firing { .. }, Severity::Info) | (AlertState::Pending { .. }, _) => Health::Warn,
        (AlertState::Firing { .. }, _) => Health::Bad,
        (AlertState::Inactive | AlertState::Resolved { .. }, _) => Health::Idle,
    };
    html! {
        tr data-live=(name(alert)) {
            td { (state(health, alert.state.as_str())) }
            th scope="row" { (alert.rule) }
            td.long { (alert.subject) }
            td { (alert.severity.as_str()) }
            td.number {
                @match alert.value {
                    Some(value) => (rounded(value)),
                    None => span.soft { "unknown" },
                }
            }
            td { (times.maybe(alert.state.since(), "")) }
            td.long {
                @if let Some(silence) = &alert.silence {
                    "until " (times.at(silence.until)) " by " (silence.by) ": " (silence.reason)
                } @else if !matches!(alert.state, AlertState::Inactive | AlertState::Resolved { .. }) {
                    a.button href=(at.path(&silencing(alert))) {
                        "Silence…" span.unseen { " " (alert.rule) " of " (alert.subject) }
                    }
                }
            }
        }
    }
}
