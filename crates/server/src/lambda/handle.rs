//! The routes of the invoke endpoint.

use super::invocation::{Invocation, InvocationType, LogType, payload};
use super::name::FunctionName;
use super::reply::{FunctionError, Reply, ServiceError};
use crate::access::Principal;
use crate::api::pool::emr_agent::{Caller, Request as AgentRequest};
use crate::api::pool::named_call;
use crate::body;
use crate::state::State;
use axum::extract::{Query, Request, State as Given};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
struct InvokeQuery {
    #[serde(rename = "Qualifier")]
    qualifier: Option<String>,
}

/// Calls the function, with the invocation type in its headers.
pub(crate) async fn invoke(
    Given(state): Given<State>,
    Extension(principal): Extension<Principal>,
    request: Request,
) -> Response {
    respond(&state, &principal, request, |invocation| invocation).await
}

/// Calls the function without an answer, as old clients do.
pub(crate) async fn invoke_async(
    Given(state): Given<State>,
    Extension(principal): Extension<Principal>,
    request: Request,
) -> Response {
    let event = |invocation| Invocation { kind: InvocationType::Event, log: LogType::None, ..invocation };
    respond(&state, &principal, request, event).await
}

async fn respond(
    state: &State,
    principal: &Principal,
    request: Request,
    change: impl FnOnce(Invocation) -> Invocation,
) -> Response {
    let (log_type, (reply, log)) = match Invocation::read(request.headers()).map(change) {
        Ok(invocation) => (invocation.log, call(state, principal, invocation, request).await),
        Err(error) => (LogType::None, (Reply::Refused(error), String::new())),
    };
    reply.into_response(&principal.request_id, log_type, &log)
}

/// Describes the function, for clients that check it before a call.
pub(crate) async fn describe(
    Given(state): Given<State>,
    Extension(principal): Extension<Principal>,
    uri: Uri,
) -> Response {
    if let Err(error) = find(&state, &uri) {
        return Reply::Refused(error).into_response(&principal.request_id, LogType::None, "");
    }
    let name = &state.inner().lambda.function;
    let configuration = json!({
        "FunctionName": name,
        "FunctionArn": format!("arn:aws:lambda:local:000000000000:function:{name}"),
        "Version": "$LATEST",
        "State": "Active",
        "LastUpdateStatus": "Successful",
        "PackageType": "Image",
    });
    (StatusCode::OK, Json(json!({ "Configuration": configuration }))).into_response()
}

/// The reply to a call, and its log.
async fn call(
    state: &State,
    principal: &Principal,
    invocation: Invocation,
    request: Request,
) -> (Reply, String) {
    let refuse = |error: ServiceError| (Reply::Refused(error), String::new());
    if let Err(error) = find(state, request.uri()) {
        return refuse(error);
    }
    if !invocation.kind.does_work() {
        return (Reply::WouldAccept, String::new());
    }
    let payload = match body::read(request.into_body()).await {
        Ok(bytes) => payload(&bytes),
        Err(problem) => return refuse(ServiceError::from(&problem)),
    };
    let read = match payload {
        Ok(payload) => AgentRequest::read(&payload, None),
        Err(error) => return refuse(error),
    };
    let is_event = invocation.kind == InvocationType::Event;
    let reply = match read {
        Ok(request) => {
            let call = invocation.id.map(|id| named_call(principal, &id));
            match (Caller { state, principal, call, is_present: !is_event }).serve(request).await {
                Ok(answer) => Reply::Answered(answer),
                Err(problem) => return refuse(ServiceError::from(&problem)),
            }
        }
        Err(error) => Reply::Failed(FunctionError::from(error)),
    };
    let log = call_log(&reply, &principal.request_id);
    if !is_event {
        return (reply, log);
    }
    if let Reply::Failed(error) = &reply {
        // As with Lambda, the caller does not get the error of an event.
        tracing::warn!(error = %error.message, request = %principal.request_id, "an event was invalid");
    }
    (Reply::Accepted, log)
}

/// Refuses other functions than ours.
fn find(state: &State, uri: &Uri) -> Result<(), ServiceError> {
    let segment = uri.path().split("/functions/").nth(1).and_then(|rest| rest.split('/').next());
    let qualifier = Query::<InvokeQuery>::try_from_uri(uri).ok().and_then(|Query(query)| query.qualifier);
    let function = FunctionName::from_path(segment.unwrap_or_default())?.qualified(qualifier.as_deref())?;
    match function.name() == state.inner().lambda.function {
        true => Ok(()),
        false => Err(ServiceError::ResourceNotFound(function.name().to_owned())),
    }
}

/// The log of a call, in the form of Lambda.
fn call_log(reply: &Reply, request_id: &str) -> String {
    let line = match reply {
        Reply::Answered(answer) => answer.to_string(),
        Reply::Failed(error) => error.message.clone(),
        Reply::Accepted | Reply::WouldAccept | Reply::Refused(_) => String::new(),
    };
    format!("START RequestId: {request_id} Version: $LATEST\n{line}\nEND RequestId: {request_id}\n")
}
