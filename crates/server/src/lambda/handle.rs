//! The routes of the invoke endpoint.

use super::invocation::{Invocation, InvocationType, LogType, payload};
use super::name::FunctionName;
use super::reply::{FunctionError, Reply, ServiceError};
use crate::access::Principal;
use crate::api::pool::emr_agent::{Caller, Request as QueryString};
use crate::api::pool::named_call;
use crate::body;
use crate::state::State;
use axum::extract::{Query, Request, State as Given};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::json;

/// What may stand behind the `?`.
#[derive(Deserialize)]
struct Asking {
    #[serde(rename = "Qualifier")]
    qualifier: Option<String>,
}

/// Calls the function, in one of the three ways that its headers say.
pub(crate) async fn invoke(
    Given(state): Given<State>,
    Extension(principal): Extension<Principal>,
    request: Request,
) -> Response {
    let asked = Invocation::read(request.headers());
    let log_type = asked.as_ref().map_or(LogType::None, |asked| asked.log);
    let (reply, log) = match asked {
        Ok(asked) => call(&state, &principal, asked, request).await,
        Err(error) => (Reply::Refused(error), String::new()),
    };
    reply.into_response(&principal.request_id, log_type, &log)
}

/// Calls the function for its effect only, as old clients do.
pub(crate) async fn invoke_async(
    Given(state): Given<State>,
    Extension(principal): Extension<Principal>,
    request: Request,
) -> Response {
    let (reply, _) = match Invocation::read(request.headers()) {
        Ok(asked) => {
            let asked = Invocation { kind: InvocationType::Event, ..asked };
            call(&state, &principal, asked, request).await
        }
        Err(error) => (Reply::Refused(error), String::new()),
    };
    reply.into_response(&principal.request_id, LogType::None, "")
}

/// Tells those who look before they call that the function is there.
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

/// What became of a call, and what the function has to tell about it.
async fn call(state: &State, principal: &Principal, asked: Invocation, request: Request) -> (Reply, String) {
    let refuse = |error: ServiceError| (Reply::Refused(error), String::new());
    if let Err(error) = find(state, request.uri()) {
        return refuse(error);
    }
    if !asked.kind.does_work() {
        return (Reply::WouldAccept, String::new());
    }
    let payload = match body::read(request.into_body()).await {
        Ok(bytes) => payload(&bytes),
        Err(problem) => return refuse(ServiceError::from(&problem)),
    };
    let read = match payload {
        Ok(payload) => QueryString::read(&payload, None),
        Err(error) => return refuse(error),
    };
    let is_event = asked.kind == InvocationType::Event;
    let reply = match read {
        Ok(request) => {
            let call = asked.id.map(|id| named_call(principal, &id));
            match (Caller { state, principal, call, is_present: !is_event }).serve(request).await {
                Ok(answer) => Reply::Answered(answer),
                Err(problem) => return refuse(ServiceError::from(&problem)),
            }
        }
        Err(error) => Reply::Failed(FunctionError::from(error)),
    };
    let log = told(&reply, &principal.request_id);
    if !is_event {
        return (reply, log);
    }
    if let Reply::Failed(error) = &reply {
        // The caller hears nothing of it: so it is with Lambda.
        tracing::warn!(error = %error.message, request = %principal.request_id, "an event was not understood");
    }
    (Reply::Accepted, log)
}

/// Refuses every function but ours.
fn find(state: &State, uri: &Uri) -> Result<(), ServiceError> {
    let segment = uri.path().split("/functions/").nth(1).and_then(|rest| rest.split('/').next());
    let asking = Query::<Asking>::try_from_uri(uri).ok().and_then(|Query(asking)| asking.qualifier);
    let function = FunctionName::from_path(segment.unwrap_or_default())?.qualified(asking.as_deref())?;
    match function.name() == state.inner().lambda.function {
        true => Ok(()),
        false => Err(ServiceError::ResourceNotFound(function.name().to_owned())),
    }
}

/// The log of one call, in the form that clients of Lambda know.
fn told(reply: &Reply, request_id: &str) -> String {
    let line = match reply {
        Reply::Answered(answer) => answer.to_string(),
        Reply::Failed(error) => error.message.clone(),
        Reply::Accepted | Reply::WouldAccept | Reply::Refused(_) => String::new(),
    };
    format!("START RequestId: {request_id} Version: $LATEST\n{line}\nEND RequestId: {request_id}\n")
}
