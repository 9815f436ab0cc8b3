//! The routes `POST /acquire`, `POST /release`, `GET /status`, and `POST /` where the body names the action.

use super::request::{Action, Request};
use super::serve::Caller;
use crate::access::Principal;
use crate::api::QueryString;
use crate::api::pool::call_of;
use crate::body;
use crate::problem::Problem;
use crate::state::State;
use axum::Extension;
use axum::Json;
use axum::body::Body;
use axum::extract::State as Given;
use axum::http::HeaderMap;
use serde_json::{Map, Value};

type AgentAnswer = Result<Json<Value>, Problem>;

pub(crate) async fn acquire(
    Given(state): Given<State>,
    Extension(principal): Extension<Principal>,
    headers: HeaderMap,
    body: Body,
) -> AgentAnswer {
    serve(&state, &principal, &headers, body, Some(Action::Acquire)).await
}

pub(crate) async fn release(
    Given(state): Given<State>,
    Extension(principal): Extension<Principal>,
    headers: HeaderMap,
    body: Body,
) -> AgentAnswer {
    serve(&state, &principal, &headers, body, Some(Action::Release)).await
}

pub(crate) async fn any(
    Given(state): Given<State>,
    Extension(principal): Extension<Principal>,
    headers: HeaderMap,
    body: Body,
) -> AgentAnswer {
    serve(&state, &principal, &headers, body, None).await
}

pub(crate) async fn status(
    Given(state): Given<State>,
    Extension(principal): Extension<Principal>,
    QueryString(query): QueryString<Map<String, Value>>,
) -> AgentAnswer {
    let request = Request::read(&Value::Object(query), Some(Action::Status))?;
    let caller = Caller { state: &state, principal: &principal, call: None, is_present: true };
    Ok(Json(caller.serve(request).await?))
}

async fn serve(
    state: &State,
    principal: &Principal,
    headers: &HeaderMap,
    body: Body,
    action: Option<Action>,
) -> AgentAnswer {
    let bytes = body::read(body).await?;
    let request: Value = serde_json::from_slice(&bytes).map_err(|error| {
        let place = format!("line {}, column {}", error.line(), error.column());
        Problem::bad_request(format!("the body is not JSON: {place}"), "send a JSON object")
    })?;
    let request = Request::read(&request, action)?;
    let call = call_of(principal, headers)?;
    Ok(Json(Caller { state, principal, call, is_present: true }.serve(request).await?))
}
