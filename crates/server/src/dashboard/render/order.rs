//! The question before an action on a render: its consequence, or why it is not possible.

use super::page::tabs;
use super::row::title;
use crate::api::id;
use crate::api::render::{find, object};
use crate::dashboard::frame::Section;
use crate::dashboard::page_context::PageContext;
use crate::dashboard::sheet::{QuestionPage, Sheet, SheetForm, WHY, Weight, reason_field};
use crate::problem::Problem;
use maud::html;
use tidemill_domain::access::Permission;
use tidemill_domain::action::{Action, Reason};
use tidemill_domain::render::order::{self, OrderRefusal};
use tidemill_domain::render::{Render, RenderId};
use tidemill_domain::time::Timestamp;
use tidemill_store::Tx;

/// The consequence of an action, or why it is not possible.
fn means(action: Action, render: &Render, now: Timestamp) -> Result<&'static str, OrderRefusal> {
    match action {
        Action::RenderCancel => order::may_cancel(render).map(|()| order::cancel_means(render)),
        Action::RenderRetry => order::retry(render, now).map(|_| order::retry_means(render)),
        _ => order::may_recover(render, now).map(|()| order::recover_means(render)),
    }
}

pub(crate) async fn question(
    action: Action,
    visit: &PageContext,
    tx: &mut Tx,
    text: &str,
    back: Option<&str>,
    now: Timestamp,
) -> Result<QuestionPage, Problem> {
    let id = RenderId::new(id(text)?);
    let record = find(tx, id).await?;
    let address = visit.state.path(&format!("/render/{id}"));
    let back = back.unwrap_or(&address).to_owned();
    let word = action.label();
    let means = means(action, &record.render, now);
    let refusal =
        visit.refusal_of(Permission::Operate, &object(record.composition.as_deref())).or_else(|| {
            means.err().map(|refusal| format!("Not possible: {refusal}. Instead: {}.", refusal.fix()))
        });
    let own = format!("{address}/{}", action.verb());
    let sheet = Sheet {
        question: format!("{word} render {id}, “{}”?", title(&record)),
        consequence: html! { @if let Ok(means) = means { p { (means) } } },
        form: SheetForm::with_way_back(&visit.principal, own, &back),
        fields: reason_field(WHY, Reason::Required, None),
        back,
        leave: "Go back",
        button: format!("{word} render {id}"),
        weight: if action == Action::RenderCancel { Weight::Ends } else { Weight::Normal },
        refusal,
        command: Some(action.command_for(id)),
    };
    let heading = html! { h1 { "Renders" } (tabs(visit, "")) };
    Ok(QuestionPage { section: Section::Render, title: format!("{word} render {id}"), heading, sheet })
}
