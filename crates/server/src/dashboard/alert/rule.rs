//! The rules in force: what each watches, when it fires, and who is told.

use crate::dashboard::instant::span;
use crate::dashboard::part::empty_row;
use maud::{Markup, html};
use tidemill_domain::alert::Rule;

/// What the columns are called, and whether they are of numbers.
pub(super) const COLUMNS: &[(&str, bool)] =
    &[("Rule", false), ("Fires when", false), ("For", true), ("Severity", false), ("Tells", false)];

pub(super) fn rows(rules: &[Rule]) -> Markup {
    html! {
        tbody {
            @if rules.is_empty() {
                (empty_row(COLUMNS.len(), &html! { "No rule is in force: all are switched off in the configuration." }))
            }
            @for rule in rules { (row(rule)) }
        }
    }
}

fn row(rule: &Rule) -> Markup {
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
