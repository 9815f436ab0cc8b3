//! The form that creates a pool. If it is refused, it is shown again, with the reason and what was typed.

use super::field::{CHANGEABLE, Field, IDENTITY, inputs, new_settings};
use super::list;
use super::order::PoolNotice;
use crate::api::pool::define;
use crate::dashboard::form::{Fields, Pairs, RefusedForm};
use crate::dashboard::part::{command, given, unless_refused};
use crate::dashboard::{PageContext, form};
use crate::problem::Problem;
use crate::state::State;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use tidemill_api::pool::CreatePool;
use tidemill_domain::access::Permission;
use tidemill_domain::pool::PoolName;

pub(super) fn form(visit: &PageContext, refused: Option<&RefusedForm>) -> Markup {
    let refusal = visit.refusal(Permission::Administer);
    let fields = IDENTITY.iter().chain(CHANGEABLE);
    html! {
        form.body method="post" action={ (visit.state.path("/pools")) "#create" } {
            (form::hidden(&visit.principal))
            (inputs(fields, refused, refusal.is_some(), |field| initial(&visit.state, field)))
            div.row { (unless_refused(refusal.as_deref(), "Create pool", &html! { button.do { "Create pool" } })) }
            p.soft { "At the command line: " (command("tidemill pool create NAME --max 40")) }
        }
    }
}

fn initial(state: &State, field: &Field) -> String {
    let new = |name: PoolName| (field.value)(&define::new_pool(state, name, 0));
    match field.name {
        "name" | "max_units" => String::new(),
        _ => "new".parse().map(new).unwrap_or_default(),
    }
}

/// Creates the pool and redirects to its page.
pub(crate) async fn create(
    mut visit: PageContext,
    Fields(fields): Fields<Pairs>,
) -> Result<Response, Problem> {
    form::check(&visit.principal, form::field(&fields, "form_token"))?;
    match order(&visit, &fields).await {
        Ok(name) => Ok(Redirect::to(&visit.state.path(&format!("/pools/{name}"))).into_response()),
        Err(problem) => {
            visit.address = visit.state.path("/pools");
            let (status, refused) = (problem.status(), RefusedForm { fields, problem });
            let page = list::show(&visit, &PoolNotice::default(), Some(&refused)).await?;
            Ok((status, page).into_response())
        }
    }
}

/// Returns the name of the new pool.
async fn order(visit: &PageContext, fields: &[(String, String)]) -> Result<String, Problem> {
    let name = given(form::field(fields, "name")).unwrap_or_default().to_owned();
    let body = CreatePool { name, settings: new_settings(fields)? };
    let caller = visit.caller(form::field(fields, "key"));
    define::create_by(&caller, "form: create pool", &body).await?;
    Ok(body.name)
}
