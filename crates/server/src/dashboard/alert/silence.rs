//! Silencing, and ending a silence.

use crate::access::Principal;
use crate::dashboard::form::{self, Fields};
use crate::mutation;
use crate::problem::Problem;
use crate::state::State;
use axum::Extension;
use axum::extract::State as Given;
use axum::http::StatusCode;
use axum::response::Redirect;
use serde::Deserialize;
use serde_json::json;
use std::time::Duration;
use tidemill_domain::alert::Subject;
use tidemill_domain::alert::silence::SilenceRequest;

/// The form for a silence.
#[derive(Debug, Deserialize)]
pub(crate) struct Silencing {
    rule: String,
    #[serde(default)]
    subject: String,
    hours: u32,
    reason: String,
    #[serde(default)]
    form_token: String,
    #[serde(default)]
    key: String,
}

/// The form for the end of one.
#[derive(Debug, Deserialize)]
pub(crate) struct Unsilencing {
    rule: String,
    #[serde(default)]
    subject: String,
    #[serde(default)]
    form_token: String,
    #[serde(default)]
    key: String,
}

fn subject(text: &str) -> Result<Option<Subject>, Problem> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let bad = |error: tidemill_domain::alert::NotASubject| {
        Problem::bad_request(error.to_string(), "correct the form")
    };
    Subject::new(text).map(Some).map_err(bad)
}

pub(crate) async fn silence(
    Given(state): Given<State>,
    Extension(principal): Extension<Principal>,
    Fields(fields): Fields<Silencing>,
) -> Result<Redirect, Problem> {
    form::check(&principal, &fields.form_token)?;
    let request = SilenceRequest {
        rule: fields.rule.trim().to_owned(),
        subject: subject(&fields.subject)?,
        length: Duration::from_secs(u64::from(fields.hours) * 3600),
        reason: fields.reason,
        actor: principal.actor(),
    };
    let what =
        format!("silence {} {:?} {:?} {}", request.rule, request.subject, request.length, request.reason);
    let object = format!("alert/{}", request.rule);
    mutation::run(&state, &principal, &object, &form::key_header(&fields.key), &what, async |tx| {
        match tx.alerts().silence(&request).await? {
            Ok(silence) => Ok((StatusCode::OK, json!({ "silence": silence.id }))),
            Err(bad) => Err(Problem::bad_request(bad.to_string(), "correct the form")),
        }
    })
    .await?;
    Ok(Redirect::to(&state.path("/alerts")))
}

/// Ends a silence. One that is over already is no problem: what was wanted is so.
pub(crate) async fn unsilence(
    Given(state): Given<State>,
    Extension(principal): Extension<Principal>,
    Fields(fields): Fields<Unsilencing>,
) -> Result<Redirect, Problem> {
    form::check(&principal, &fields.form_token)?;
    let subject = subject(&fields.subject)?;
    let what = format!("unsilence {} {subject:?}", fields.rule);
    let object = format!("alert/{}", fields.rule);
    mutation::run(&state, &principal, &object, &form::key_header(&fields.key), &what, async |tx| {
        let ended = tx.alerts().unsilence(&fields.rule, subject.as_ref(), &principal.actor()).await?;
        Ok((StatusCode::OK, json!({ "ended": ended })))
    })
    .await?;
    Ok(Redirect::to(&state.path("/alerts")))
}
