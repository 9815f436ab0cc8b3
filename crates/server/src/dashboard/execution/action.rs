//! Actions on an execution. The buttons are a live region and the same for all visitors; the forms that they belong to
//! carry the visitor's own token, so they are outside of the region.

use super::page_data::{AllowedActions, PageData, Resume, ResumePoint};
use crate::dashboard::form;
use crate::dashboard::job::run::accept_change;
use crate::dashboard::page_context::PageContext;
use crate::dashboard::part::{command, number, panel, refused};
use crate::dashboard::region::Region;
use crate::dashboard::sheet::{Sheet, SheetForm, Weight, number_field, reason_field};
use crate::state::State;
use maud::{Markup, html};
use tidemill_domain::access::Permission;
use tidemill_domain::action::{Action, Reason};
use tidemill_engine::job::JobError;

const ACTIONS: [(&str, &str); 3] = [("restart", "Restart"), ("stop", "Stop…"), ("abandon", "Abandon…")];

/// The panel with the buttons, or why this visitor may not use them.
pub(super) fn panel_of(visit: &PageContext, data: &PageData, actions: &Region) -> Markup {
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
                    (actions.markup())
                }
            }
            div.row {
                (command(&format!("tidemill executions {id}")))
                a.button href={ (address) "/download" } { "Download JSON" }
            }
        }
    };
    panel("actions", "Actions", &html! {}, &content)
}

pub(super) fn markup(state: &State, data: &PageData) -> Markup {
    let AllowedActions { restart, stop, abandon } = &data.actions;
    let id = data.execution().id;
    html! {
        ul.acts data-live="actions" {
            li {
                @match restart {
                    Err(error) if !data.actions.needs_accepting() => (refused("Restart", &reason(error))),
                    _ => {
                        button.do form="do-restart" { "Restart" }
                        " "
                        span { (resume_text(data.resume.as_ref())) }
                        @if data.actions.needs_accepting() { (accept_change("do-restart")) }
                    }
                }
                (cli(&format!("tidemill job restart {id}{}", state.jobs_flag())))
            }
            li {
                @match stop {
                    Ok(()) => (stop_sheet(state, data)),
                    Err(error) => (refused("Stop…", &reason(error))),
                }
                (cli(&format!("tidemill job stop {id} --reason REASON")))
            }
            li {
                @match abandon {
                    Ok(()) => (abandon_sheet(state, data)),
                    Err(error) => (refused("Abandon…", &reason(error))),
                }
                (cli(&format!("tidemill job abandon {id} --reason REASON")))
            }
        }
    }
}

/// The reason that the API gives, as a sentence.
fn reason(error: &JobError) -> String {
    match error {
        // Database errors go to the log only.
        JobError::Engine(_) => "The database could not be read.".to_owned(),
        error => format!("{error}."),
    }
}

fn resume_text(resume: Option<&Resume>) -> Markup {
    html! {
        @match resume {
            Some(Resume { step, point }) => {
                "Resumes " code { (step) }
                @match point {
                    ResumePoint::Item(items) => { " at item " (number(*items)) }
                    ResumePoint::Partitions { left, all } => { ": " (left) " of " (all) " partitions left" }
                    ResumePoint::Unknown => {}
                }
                "."
            }
            None => "Resumes after the completed steps.",
        }
    }
}

fn stop_sheet(state: &State, data: &PageData) -> Markup {
    let sheet = Sheet {
        consequence: html! {
            p { "It stops after the current chunk. Committed chunks are kept, and a restart resumes after them." }
        },
        fields: reason_field("Reason (optional)", Reason::Optional, Some("do-stop")),
        ..sheet(state, data, Action::ExecutionStop, "do-stop")
    };
    html! {
        (sheet.unfolding("Stop…"))
        " "
        span { "Stops after the current chunk." }
    }
}

fn abandon_sheet(state: &State, data: &PageData) -> Markup {
    let form = Some("do-abandon");
    let sheet = Sheet {
        consequence: html! {
            p { "Its instance can never be restarted, and the remaining work is not done. You cannot undo this." }
        },
        fields: html! {
            (reason_field("Reason", Reason::Required, form))
            (number_field(data.execution().id.get(), form))
        },
        ..sheet(state, data, Action::ExecutionAbandon, "do-abandon")
    };
    html! {
        (sheet.unfolding("Abandon…"))
        " "
        span { "Its instance can never be restarted." }
    }
}

fn sheet(state: &State, data: &PageData, action: Action, form: &'static str) -> Sheet {
    let execution = data.execution();
    let (id, word) = (execution.id, action.label());
    Sheet {
        question: format!("{word} {} #{id}?", execution.job),
        consequence: html! {},
        form: SheetForm::Named(form),
        fields: html! {},
        back: state.path(&format!("/executions/{id}")),
        leave: "Cancel",
        button: format!("{word} execution {id}"),
        weight: Weight::Ends,
        refusal: None,
        command: None,
    }
}

/// The same action on the command line.
fn cli(text: &str) -> Markup {
    html! { details.cli { summary { "CLI" } (command(text)) } }
}
