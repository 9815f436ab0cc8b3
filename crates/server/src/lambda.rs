//! The invoke endpoint of AWS Lambda: a program that calls the function `emr-batch-agent` with an AWS SDK calls
//! Tidemill when its endpoint URL points here.
//!
//! Reading order: [`name`] (the function), [`signature`] (the caller), [`invocation`] (the headers), [`reply`] (the answer),
//! and this file. These other files have only pure functions of the request. [`function`] is Tidemill as a function that
//! AWS Lambda itself runs.

pub mod function;
pub mod invocation;
pub mod name;
pub mod reply;
pub mod signature;

use crate::api::pool::emr_agent::{BadField, Call, Request as AgentRequest};
use crate::api::pool::sdk_call;
use crate::api::read_body;
use crate::mutation::Caller;
use crate::problem::Problem;
use crate::state::State;
use axum::Json;
use axum::extract::{Query, Request};
use axum::http::Uri;
use axum::response::{IntoResponse, Response};
use invocation::{Invocation, InvocationType, LogType, payload};
use name::FunctionName;
use reply::{Reply, ServiceError};
use serde::Deserialize;
use serde_json::{Value, json};
use signature::AccessKey;

pub const FUNCTION: &str = "emr-batch-agent";

#[derive(Clone, Debug)]
pub struct LambdaOptions {
    /// The only function.
    pub function: String,
    pub signature: SignatureMode,
    pub keys: Vec<CallerKey>,
}

impl Default for LambdaOptions {
    fn default() -> Self {
        Self { function: FUNCTION.to_owned(), signature: SignatureMode::default(), keys: Vec::new() }
    }
}

tidemill_domain::words! {
    /// Whether calls have to be signed.
    #[derive(Default)]
    pub enum SignatureMode {
        /// A signature is one way to authenticate, if the server requires authentication.
        #[default]
        Off = "off",
        /// Every call must be signed.
        Verify = "verify",
    }
}

/// A key of a caller that may request units.
#[derive(Clone, Debug)]
pub struct CallerKey {
    /// Name of the caller in the audit log.
    pub name: String,
    pub key: AccessKey,
}

#[derive(Deserialize)]
struct InvokeQuery {
    #[serde(rename = "Qualifier")]
    qualifier: Option<String>,
}

/// Calls the function, with the invocation type in its headers.
pub(crate) async fn invoke(caller: Caller, request: Request) -> Response {
    respond(&caller, request, |invocation| invocation).await
}

/// Calls the function without an answer, as old clients do.
pub(crate) async fn invoke_async(caller: Caller, request: Request) -> Response {
    let event = |invocation| Invocation { kind: InvocationType::Event, log: LogType::None, ..invocation };
    respond(&caller, request, event).await
}

async fn respond(
    caller: &Caller,
    request: Request,
    change: impl FnOnce(Invocation) -> Invocation,
) -> Response {
    let (log_type, (reply, log)) = match Invocation::read(request.headers()).map(change) {
        Ok(invocation) => (invocation.log, call(caller, invocation, request).await),
        Err(error) => (LogType::None, (Reply::Refused(error), String::new())),
    };
    reply.into_response(&caller.principal.request_id, log_type, &log)
}

/// Describes the function, for clients that check it before a call.
pub(crate) async fn describe(caller: Caller, uri: Uri) -> Response {
    if let Err(error) = find(&caller.state, &uri) {
        return Reply::Refused(error).into_response(&caller.principal.request_id, LogType::None, "");
    }
    let name = &caller.state.inner().lambda.function;
    let configuration = json!({
        "FunctionName": name,
        "FunctionArn": format!("arn:aws:lambda:local:000000000000:function:{name}"),
        "Version": "$LATEST",
        "State": "Active",
        "LastUpdateStatus": "Successful",
        "PackageType": "Image",
    });
    Json(json!({ "Configuration": configuration })).into_response()
}

/// The reply to a call, and its log.
async fn call(caller: &Caller, invocation: Invocation, request: Request) -> (Reply, String) {
    let (state, principal) = (&caller.state, &caller.principal);
    let refuse = |error: ServiceError| (Reply::Refused(error), String::new());
    if let Err(error) = find(state, request.uri()) {
        return refuse(error);
    }
    if !invocation.kind.does_work() {
        return (Reply::WouldAccept, String::new());
    }
    let payload = match read_body(request.into_body()).await {
        Ok(bytes) => payload(&bytes),
        Err(problem) => return refuse(ServiceError::from(&problem)),
    };
    let payload = match payload {
        Ok(payload) => payload,
        Err(error) => return refuse(error),
    };
    let is_event = invocation.kind == InvocationType::Event;
    let call = invocation.id.map(|id| sdk_call(principal, &id, &payload.to_string()));
    let reply = match run(Call { state, principal, call, is_present: !is_event }, &payload).await {
        Ok(answer) => Reply::Answered(answer),
        Err(Failed::Invalid(error)) => Reply::Failed(error),
        Err(Failed::Refused(problem)) => return refuse(ServiceError::from(&problem)),
    };
    let log = call_log(&reply, &principal.request_id);
    if !is_event {
        return (reply, log);
    }
    if let Reply::Failed(error) = &reply {
        // As with Lambda, the caller does not get the error of an event.
        tracing::warn!(%error, request = %principal.request_id, "an event was invalid");
    }
    (Reply::Accepted, log)
}

/// Why the function has no answer.
enum Failed {
    /// The payload is invalid.
    Invalid(BadField),
    Refused(Problem),
}

/// The function itself.
async fn run(call: Call<'_>, payload: &Value) -> Result<Value, Failed> {
    let request = AgentRequest::read(payload, None).map_err(Failed::Invalid)?;
    call.serve(request).await.map_err(Failed::Refused)
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

fn call_log(reply: &Reply, request_id: &str) -> String {
    let line = match reply {
        Reply::Answered(answer) => answer.to_string(),
        Reply::Failed(error) => error.to_string(),
        Reply::Accepted | Reply::WouldAccept | Reply::Refused(_) => String::new(),
    };
    format!("START RequestId: {request_id} Version: $LATEST\n{line}\nEND RequestId: {request_id}\n")
}
