//! Actions on an execution. The buttons are a live region and the same for all visitors; the forms that they belong to
//! carry the visitor's own token, so they are outside of the region.

use super::page_data::{AllowedActions, PageData, Resume};
use crate::dashboard::job::list::address as job_address;
use crate::dashboard::job::run::{accept_change, argument_lines, next_fields};
use crate::dashboard::part::{command, plain_panel, refused, unless_refused};
use crate::dashboard::sheet::{Sheet, SheetForm, number_field, reason_field};
use crate::dashboard::{PageContext, form};
use crate::state::State;
use maud::{Markup, html};
use tidemill_api::execution::JobParameter;
use tidemill_domain::access::Permission;
use tidemill_domain::action::{Action, Confirmation, Reason};
use tidemill_domain::job::BatchStatus;
use tidemill_engine::job::JobError;

const ACTIONS: [(&str, &str); 3] = [("restart", "Restart"), ("stop", "Stop…"), ("abandon", "Abandon…")];

/// The panel with the buttons, or why this visitor may not use them.
pub(super) fn panel_of(visit: &PageContext, data: &PageData, actions: &Markup) -> Markup {
    let execution = data.execution();
    let (id, address) = (execution.id, visit.state.path(&format!("/executions/{}", execution.id)));
    let content = html! {
        div.body {
            @match visit.refusal_of(Permission::Operate, &format!("job/{}", execution.job)) {
                Some(reason) => ul.acts {
                    @for (_, button) in ACTIONS { li { (refused(button, &reason)) } }
                },
                None => {
                    @for (verb, _) in ACTIONS {
                        form method="post" id={ "do-" (verb) } action={ (address) "/" (verb) } {
                            (form::hidden(&visit.principal))
                        }
                    }
                    form method="post" id="do-next" action={ (job_address(&visit.state, &execution.job)) "/run#run" } {
                        (form::hidden(&visit.principal))
                        (next_fields(&parameters(data)))
                    }
                    (actions)
                }
            }
            div.row {
                (command(&format!("tidemill executions {id}")))
                a.button href={ (address) "/download" } { "Download JSON" }
            }
        }
    };
    plain_panel("actions", "Actions", &content)
}

pub(super) fn markup(state: &State, data: &PageData) -> Markup {
    let AllowedActions { restart, stop, abandon } = &data.actions;
    let (id, job) = (data.execution().id, &data.execution().job);
    let needs_accepting = data.actions.needs_accepting();
    let restart_button = html! {
        button.do form="do-restart" { "Restart" }
        " "
        span {
            @match &data.resume {
                Some(Resume { step, place }) => { "Resumes " code { (step) } (place) "." }
                None => "Resumes after the completed steps.",
            }
        }
        @if needs_accepting { (accept_change(Some("do-restart"))) }
    };
    let next_button = html! {
        button form="do-next" { "Run as a new instance" }
        " "
        span { "Runs all steps again, with the same parameters and the next run.id." }
    };
    let next_refusal = state.launcher().jobs().get(job).err();
    let next_command = format!("tidemill job run {job} --next{}{}", arguments(data), state.jobs_flag());
    let restart = restart.as_ref().err().filter(|_| !needs_accepting);
    let restart_command = format!("tidemill job restart {id}{}", state.jobs_flag());
    html! {
        ul.acts data-live="actions" {
            (item("Restart", restart, &restart_button, &restart_command))
            @if data.execution().status == BatchStatus::Completed {
                (item("Run as a new instance", next_refusal.as_ref(), &next_button, &next_command))
            }
            (item("Stop…", stop.as_ref().err(), &sheet(state, data, Action::ExecutionStop), &format!("tidemill job stop {id} --reason REASON")))
            (item("Abandon…", abandon.as_ref().err(), &sheet(state, data, Action::ExecutionAbandon), &format!("tidemill job abandon {id} --reason REASON")))
        }
    }
}

fn parameters(data: &PageData) -> Vec<JobParameter> {
    data.detail.parameters.iter().map(JobParameter::from).collect()
}

/// The parameters as flags of a command, quoted for a shell.
fn arguments(data: &PageData) -> String {
    let lines = argument_lines(&parameters(data));
    lines.iter().map(|line| format!(" -p '{}'", line.replace('\'', r"'\''"))).collect()
}

/// An action, or why it is refused, with the same action on the command line.
fn item(button: &str, refusal: Option<&JobError>, form: &Markup, text: &str) -> Markup {
    let refusal = refusal.map(|error| match error {
        // Database errors go to the log only.
        JobError::Engine(_) => "The database could not be read.".to_owned(),
        error => format!("{error}."),
    });
    html! {
        li {
            (unless_refused(refusal.as_deref(), button, form))
            details.cli { summary { "CLI" } (command(text)) }
        }
    }
}

fn sheet(state: &State, data: &PageData, action: Action) -> Markup {
    let (execution, word) = (data.execution(), action.label());
    let id = execution.id;
    let (form, effect, consequence) = match action {
        Action::ExecutionStop => (
            "do-stop",
            "Stops after the current chunk.",
            "It stops after the current chunk. Committed chunks are kept, and a restart resumes after them.",
        ),
        _ => (
            "do-abandon",
            "Its instance can never be restarted.",
            "Its instance can never be restarted, and the remaining work is not done. You cannot undo this.",
        ),
    };
    let (reason, confirmation) = (action.declaration().reason, action.declaration().confirmation);
    let label = if reason == Reason::Required { "Reason" } else { "Reason (optional)" };
    let sheet = Sheet {
        question: format!("{word} {} #{id}?", execution.job),
        consequence: html! { p { (consequence) } },
        form: SheetForm::Named(form),
        fields: html! {
            (reason_field(label, reason, Some(form)))
            @if confirmation == Confirmation::Number { (number_field(id.get(), Some(form))) }
        },
        back: state.path(&format!("/executions/{id}")),
        leave: "Cancel",
        button: format!("{word} execution {id}"),
        ends: true,
        refusal: None,
        command: None,
    };
    html! { (sheet.unfolding(&format!("{word}…"))) " " span { (effect) } }
}
