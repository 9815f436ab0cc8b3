//! What can be done about an execution. The buttons change by themselves and are the same for everybody who may use them;
//! the forms that they belong to, with their proofs, are the visitor's own.

use super::page_data::{From, Possible, Resume, Seen};
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

/// The panel: the buttons as they are now, or why this visitor can use none of them.
pub(super) fn panel_of(visit: &PageContext, seen: &Seen, actions: &Region) -> Markup {
    let execution = seen.execution();
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

pub(super) fn markup(state: &State, seen: &Seen) -> Markup {
    let Possible { restart, stop, abandon } = &seen.possible;
    let id = seen.execution().id;
    html! {
        ul.acts data-live="actions" {
            li {
                @match restart {
                    Err(error) if !seen.possible.needs_accepting() => (refused("Restart", &reason(error))),
                    _ => {
                        button.do form="do-restart" { "Restart" }
                        " "
                        span { (goes_on(seen.resume.as_ref())) }
                        @if seen.possible.needs_accepting() { (accept_change("do-restart")) }
                    }
                }
                (cli(&format!("tidemill job restart {id}{}", state.jobs_flag())))
            }
            li {
                @match stop {
                    Ok(()) => (stop_asked(state, seen)),
                    Err(error) => (refused("Stop…", &reason(error))),
                }
                (cli(&format!("tidemill job stop {id} --reason WHY")))
            }
            li {
                @match abandon {
                    Ok(()) => (abandon_asked(state, seen)),
                    Err(error) => (refused("Abandon…", &reason(error))),
                }
                (cli(&format!("tidemill job abandon {id} --reason WHY")))
            }
        }
    }
}

/// The reason that programs are told, as a sentence.
fn reason(error: &JobError) -> String {
    match error {
        // What the database says goes to the log only.
        JobError::Engine(_) => "The database does not tell whether it could be done.".to_owned(),
        error => format!("{error}."),
    }
}

/// Where a restart goes on.
fn goes_on(resume: Option<&Resume>) -> Markup {
    html! {
        @match resume {
            Some(Resume { step, from }) => {
                "Resumes " code { (step) }
                @match from {
                    From::Item(items) => { " at item " (number(*items)) }
                    From::Partitions { left, all } => { ": " (left) " of " (all) " partitions are left" }
                    From::Start => {}
                }
                "."
            }
            None => "Goes on behind the steps that completed.",
        }
    }
}

fn stop_asked(state: &State, seen: &Seen) -> Markup {
    let sheet = Sheet {
        consequence: html! {
            p { "It stops at the end of the chunk that it is at. What was committed stays, and a restart goes on from there." }
        },
        fields: reason_field("Why (may be left empty)", Reason::Optional, Some("do-stop")),
        ..sheet(state, seen, Action::ExecutionStop, "do-stop")
    };
    html! {
        (sheet.unfolding("Stop…"))
        " "
        span { "Stops at the end of the chunk that it is at." }
    }
}

fn abandon_asked(state: &State, seen: &Seen) -> Markup {
    let form = Some("do-abandon");
    let sheet = Sheet {
        consequence: html! {
            p { "It is given up for good: its instance is never restarted, and what is left of its work is not done. This cannot be taken back." }
        },
        fields: html! {
            (reason_field("Why", Reason::Required, form))
            (number_field(seen.execution().id.get(), form))
        },
        ..sheet(state, seen, Action::ExecutionAbandon, "do-abandon")
    };
    html! {
        (sheet.unfolding("Abandon…"))
        " "
        span { "Gives it up for good: it is never restarted." }
    }
}

/// What the sheets have in common.
fn sheet(state: &State, seen: &Seen, action: Action, form: &'static str) -> Sheet {
    let execution = seen.execution();
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

/// The same at the command line.
fn cli(text: &str) -> Markup {
    html! { details.cli { summary { "CLI" } (command(text)) } }
}
