//! The table of the schedules of a job, with the buttons that pause and resume them.

use super::list::address;
use crate::dashboard::part::{Health, command, encoded, list_table, state, unless_refused};
use crate::dashboard::sheet::{Sheet, SheetForm, reason_field};
use crate::dashboard::{PageContext, Times, form};
use crate::problem::Problem;
use maud::{Markup, html};
use tidemill_api::schedule::ScheduleState;
use tidemill_domain::access::Permission;
use tidemill_domain::action::{Action, Reason};
use tidemill_domain::schedule::possible;
use tidemill_store::schedule::ScheduleRecord;

const COLUMNS: &[&str] = &["State", "Schedule", "When", "Next run", "Last tick", "Action"];

pub(super) fn table_of(visit: &PageContext, schedules: &[ScheduleRecord], times: &Times) -> Markup {
    let empty = html! {
        "No schedules. Add " code { "schedule" } " to the job file to launch the job automatically. List all schedules: "
        (command("tidemill schedule list"))
    };
    list_table("Schedules", COLUMNS, schedules.iter().map(|record| row(visit, record, times)), &empty)
}

fn row(visit: &PageContext, record: &ScheduleRecord, times: &Times) -> Markup {
    let (schedule, pause) = (&record.schedule, record.pause.as_ref());
    let schedule_state = ScheduleState::from(record);
    let health = match schedule_state {
        ScheduleState::Paused => Health::Idle,
        ScheduleState::Waiting => Health::Warn,
        ScheduleState::Active => Health::Ok,
    };
    html! {
        tr {
            td {
                (state(health, schedule_state.as_str()))
                @if let Some(pause) = pause {
                    div.soft { "since " (times.at(pause.at)) " by " (pause.by) ": " (pause.reason) }
                }
            }
            th.long scope="row" { (schedule.name) }
            td { code { (schedule.cron) } " " span.soft { (schedule.zone) } }
            td { @if pause.is_some() { span.soft { "paused" } } @else { (times.maybe(record.next_at, "none")) } }
            td { (times.maybe(record.last_tick_at, "none")) }
            td { (action(visit, record)) }
        }
    }
}

fn action(visit: &PageContext, record: &ScheduleRecord) -> Markup {
    let (name, job) = (&record.schedule.name, &record.schedule.job);
    let action = possible(record.pause.is_some());
    let path = visit.state.path(&format!("/schedules/{}/{}", encoded(name), action.verb()));
    let refusal = visit.refusal_of(Permission::Operate, &format!("job/{job}"));
    if action == Action::ScheduleResume {
        let form = html! {
            form method="post" action=(path) {
                (form::hidden(&visit.principal))
                button aria-label={ "Resume schedule " (name) } { "Resume" }
            }
        };
        return unless_refused(refusal.as_deref(), "Resume", &form);
    }
    let sheet = Sheet {
        question: format!("Pause “{name}”?"),
        consequence: html! {
            p { "It does not launch " (job) " until it is resumed. Ticks in the meantime are not made up for." }
        },
        form: SheetForm::Own { address: path, hidden: form::hidden(&visit.principal) },
        fields: reason_field("Reason", Reason::Required, None),
        back: address(&visit.state, job),
        leave: "Cancel",
        button: format!("Pause {name}"),
        ends: false,
        refusal: None,
        command: None,
    };
    unless_refused(refusal.as_deref(), "Pause…", &sheet.unfolding("Pause…"))
}

/// The address of the page that has a schedule.
pub(crate) async fn address_of(visit: &PageContext, name: &str) -> Result<String, Problem> {
    let mut tx = visit.state.read().await?;
    let found = tx.schedules().find(name).await?;
    Ok(found.map_or_else(
        || visit.state.path("/jobs"),
        |record| format!("{}#schedules", address(&visit.state, &record.schedule.job)),
    ))
}
