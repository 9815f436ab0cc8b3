//! The button of the program's extra action, and its handler.

use crate::action::CannotPerform;
use crate::dashboard::form::{ActionForm, Fields};
use crate::dashboard::page_context::home;
use crate::dashboard::part::{plain_panel, refused, unless_refused};
use crate::dashboard::{Audience, Page, PageContext, Region, form};
use crate::problem::Problem;
use crate::state::State;
use axum::http::StatusCode;
use axum::response::Redirect;
use maud::{Markup, html};
use serde_json::json;
use tidemill_domain::access::Permission;
use tidemill_domain::audit::AuditEntry;
use tidemill_domain::code::Code;

pub(crate) const PATH: &str = "/action";

const FORM: &str = "do-action";

/// The live button, the same for all who may use it; none if the program has no extra action.
pub(crate) fn region(state: &State) -> Option<Region> {
    let action = state.action()?;
    let markup = html! {
        p data-live="action" {
            (unless_refused(action.unavailable().as_deref(), action.title(), &html! {
                button form=(FORM) { (action.title()) }
            }))
        }
    };
    Some(Region::whole("action", Audience::On(&[Page::Overview]), markup))
}

/// The panel with the button; nothing if the program has no extra action.
pub(crate) fn panel_of(visit: &PageContext, button: &Markup) -> Markup {
    let Some(action) = visit.state.action() else { return html! {} };
    let content = html! {
        div.body {
            p { (action.explanation()) }
            @match visit.refusal(Permission::Administer) {
                Some(reason) => p { (refused(action.title(), &reason)) },
                None => {
                    form method="post" id=(FORM) action=(visit.state.path(PATH)) { (form::hidden(&visit.principal)) }
                    (button)
                }
            }
        }
    };
    plain_panel("action", "Try it", &content)
}

/// Performs the action and returns to the page that shows its effect.
pub(crate) async fn perform(
    visit: PageContext,
    Fields(fields): Fields<ActionForm>,
) -> Result<Redirect, Problem> {
    form::check(&visit.principal, &fields.form_token)?;
    let Some(action) = visit.state.action() else { return Err(Problem::not_found("this address")) };
    let object = format!("action/{}", action.name());
    let what = format!("form: {object}");
    visit
        .caller(&fields.key)
        .run(&object, &what, async |tx| {
            let performed = action.perform().await?;
            let entry = AuditEntry::new(visit.principal.actor(), action.name(), &performed.object);
            tx.audit().record(&entry.because(&performed.story)).await?;
            Ok((StatusCode::OK, json!({ "object": performed.object })))
        })
        .await?;
    Ok(Redirect::to(&format!("{}#leases", home(&visit.state))))
}

impl From<CannotPerform> for Problem {
    fn from(cannot: CannotPerform) -> Self {
        Self::new(Code::NotNow, cannot.why, cannot.remedy)
    }
}
