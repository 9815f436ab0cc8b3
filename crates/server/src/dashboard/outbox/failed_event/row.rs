//! One event that was not taken, as a row, and what can be done about it.

use super::one::verb;
use crate::dashboard::instant::Times;
use crate::dashboard::part::{Health, state as state_word};
use crate::dashboard::region::Buttons;
use crate::dashboard::sheet::ask_button;
use crate::state::State;
use maud::{Markup, html};
use tidemill_domain::action::Action;
use tidemill_domain::outbox::failed_event::{StateWord, operate};
use tidemill_store::outbox::failed_event::FailedEventRecord;

/// As much of an error as a row has.
const LINE_CHARS_MAX: usize = 200;

/// What the columns are called.
pub(super) const COLUMNS: &[&str] = &["Select", "State", "Event", "Of", "Topic", "Error", "Since", "Action"];

/// Where an event stands, in a word.
pub(super) fn standing(record: &FailedEventRecord) -> Markup {
    match record.failed_event.state.word() {
        StateWord::Parked => state_word(Health::Bad, "parked"),
        StateWord::Waiting => state_word(Health::Warn, "waiting"),
        StateWord::Held => state_word(Health::Warn, "held"),
        StateWord::Skipped => state_word(Health::Idle, "skipped"),
    }
}

pub(super) fn row(state: &State, record: &FailedEventRecord, times: &Times, buttons: Buttons) -> Markup {
    let id = record.id;
    html! {
        tr {
            td {
                label.pick {
                    input type="checkbox" name="id" value=(id) disabled[buttons == Buttons::Off];
                    span.unseen { "Select event " (id) }
                }
            }
            td {
                (standing(record))
                @if let Some(behind) = record.behind {
                    br; span.soft { "behind " a href=(state.path(&format!("/outbox/failed/{behind}"))) { (behind) } }
                }
            }
            th scope="row" {
                a href=(state.path(&format!("/outbox/failed/{id}"))) { (id) }
                br; span.soft { (record.event_type) }
            }
            td.long { (record.aggregate.kind) " " (record.aggregate.id) }
            td.long { (record.topic.as_deref().unwrap_or("unknown")) }
            td.long {
                (first_line(record.error.as_deref().unwrap_or("Nobody has said why.")))
                br; span.soft { (record.failed_event.attempts) " attempts" }
                @if let Some(next) = record.failed_event.state.next_attempt_at() {
                    span.soft { ", the next " (times.at(next)) }
                }
            }
            td { (times.at(record.since)) }
            td { div.acts { (actions(state, record, times, buttons)) } }
        }
    }
}

/// What can be done about it, or why not.
pub(super) fn actions(state: &State, record: &FailedEventRecord, times: &Times, buttons: Buttons) -> Markup {
    html! {
        @for action in [Action::EventReplay, Action::EventSkip] {
            @let (id, word) = (record.id, action.label());
            @match operate(record.facts(), &verb(action), times.now()) {
                Err(refusal) => button type="button" disabled title=(refusal) { (word) "…" },
                Ok(_) => (ask_button(buttons, &state.path(&format!("/outbox/failed/{id}/{}", action.verb())),
                    &format!("{word}…"), &format!("{word} event {id}…"))),
            }
        }
    }
}

fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let is_cut = line.chars().nth(LINE_CHARS_MAX).is_some() || text.lines().nth(1).is_some();
    let line: String = line.chars().take(LINE_CHARS_MAX).collect();
    if is_cut { format!("{line} …") } else { line }
}
