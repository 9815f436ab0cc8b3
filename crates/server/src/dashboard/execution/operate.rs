//! What is done about an execution, through the same functions as programs use. What is refused comes back to the page,
//! with the reason.

use super::page::show;
use crate::api::execution::operate::{ExecutionRequest, checked, operate, restart_wanted};
use crate::api::id;
use crate::api::job::launch::launched;
use crate::dashboard::form::{self, Fields};
use crate::dashboard::page_context::PageContext;
use crate::problem::Problem;
use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use tidemill_domain::code::Code;
use tidemill_domain::job::ExecutionId;
use tidemill_store::Tx;

/// The form of any of the actions.
#[derive(Debug, Deserialize)]
pub(crate) struct ActionForm {
    #[serde(default)]
    reason: String,
    #[serde(default)]
    confirm: String,
    #[serde(default)]
    accept_change: String,
    #[serde(default)]
    form_token: String,
    #[serde(default)]
    key: String,
}

impl ActionForm {
    /// The reason, if one was given.
    fn reason(&self) -> Result<Option<&str>, Problem> {
        if self.reason.trim().is_empty() { Ok(None) } else { checked(&self.reason).map(Some) }
    }
}

/// One action that a visitor wants.
struct RequestedAction<'a> {
    visit: &'a PageContext,
    id: ExecutionId,
    fields: &'a ActionForm,
    headers: HeaderMap,
}

impl RequestedAction<'_> {
    /// The request as the functions for programs take it.
    fn asked(&self, verb: &str) -> ExecutionRequest<'_> {
        let Self { visit, id, fields, headers } = self;
        let what = format!("form: {verb} execution {id} {} {}", fields.reason, fields.accept_change);
        ExecutionRequest { state: &visit.state, principal: &visit.principal, headers, what, id: *id }
    }
}

/// Goes on with it: to the new execution.
pub(crate) async fn restart(
    visit: PageContext,
    Path(text): Path<String>,
    Fields(fields): Fields<ActionForm>,
) -> Result<Response, Problem> {
    answer(&visit, &text, &fields, async |action| {
        let accept_change = action.fields.accept_change == "yes";
        let wanted = restart_wanted(action.asked("restart"), action.fields.reason()?, accept_change).await?;
        let id = launched(wanted).await?.id;
        id.ok_or_else(|| Problem::new(Code::Unexpected, "the restart has no execution", "report it"))
    })
    .await
}

pub(crate) async fn stop(
    visit: PageContext,
    Path(text): Path<String>,
    Fields(fields): Fields<ActionForm>,
) -> Result<Response, Problem> {
    answer(&visit, &text, &fields, async |action| {
        let (id, reason) = (action.id, action.fields.reason()?);
        let give = async |tx: &mut Tx, actor: &_| tx.jobs().request_stop(id, actor, reason).await;
        operate(action.asked("stop"), StatusCode::ACCEPTED, give).await?;
        Ok(id.get())
    })
    .await
}

/// Gives it up, if its number was typed.
pub(crate) async fn abandon(
    visit: PageContext,
    Path(text): Path<String>,
    Fields(fields): Fields<ActionForm>,
) -> Result<Response, Problem> {
    answer(&visit, &text, &fields, async |action| {
        let (id, reason) = (action.id, checked(&action.fields.reason)?);
        form::confirmed(&action.fields.confirm, id.get())?;
        let give = async |tx: &mut Tx, actor: &_| tx.jobs().abandon_execution(id, actor, reason).await;
        operate(action.asked("abandon"), StatusCode::OK, give).await?;
        Ok(id.get())
    })
    .await
}

/// Does it, and goes to the execution that it answers with; or shows the page with the reason why not.
async fn answer(
    visit: &PageContext,
    text: &str,
    fields: &ActionForm,
    act: impl AsyncFnOnce(&RequestedAction<'_>) -> Result<i64, Problem>,
) -> Result<Response, Problem> {
    form::check(&visit.principal, &fields.form_token)?;
    let id = ExecutionId::new(id(text)?);
    let action = RequestedAction { visit, id, fields, headers: form::key_header(&fields.key) };
    match act(&action).await {
        Ok(id) => Ok(Redirect::to(&visit.state.path(&format!("/executions/{id}"))).into_response()),
        Err(problem) => {
            let page = show(visit, id, Some(&problem)).await?;
            Ok((problem.status(), page).into_response())
        }
    }
}
