//! Alerts and their silences.

use crate::api::{List, QueryString, Read, limit};
use crate::operate::{ActionBody, ActionRequest, Outcome, Parameters};
use crate::problem::Problem;
use axum::Json;
use axum::http::StatusCode;
use serde_json::json;
use std::time::Duration;
use tidemill_api::alert::{Alert, CreateSilence, EndSilence, Silence};
use tidemill_api::{Limit, Page};
use tidemill_domain::alert::Subject;
use tidemill_domain::alert::rule::Rule;
use tidemill_domain::alert::silence::{SilenceRequest, check_rule};
use tidemill_domain::code::Code;
use tidemill_store::Tx;

/// List the alerts, firing ones first.
#[utoipa::path(get, path = "/api/v1/alerts", operation_id = "list_alerts", params(Limit), responses((status = 200, body = Page<Alert>)))]
pub(crate) async fn list(QueryString(query): QueryString<Limit>, Read(mut tx): Read) -> List<Alert> {
    let records = tx.alerts().list(limit(query.limit)?).await?;
    Ok(Json(Page::whole(&records)))
}

impl ActionBody for CreateSilence {
    fn read(&self) -> Result<(Option<&str>, Parameters), Problem> {
        Ok((None, Parameters::Silence(self.clone())))
    }
}

impl ActionBody for EndSilence {
    fn read(&self) -> Result<(Option<&str>, Parameters), Problem> {
        Ok((None, Parameters::EndSilence(self.clone())))
    }
}

pub(crate) async fn silence(request: &ActionRequest<'_>, tx: &mut Tx) -> Outcome {
    let Parameters::Silence(body) = &request.parameters else { return Err(request.mistaken()) };
    request.check_scope(&format!("alert/{}", body.rule))?;
    let rules = &request.caller.state.inner().parts.rules;
    check_rule(&body.rule, rules.iter().map(Rule::name))
        .map_err(|unknown| Problem::new(unknown.code(), unknown.to_string(), unknown.fix()))?;
    let new = SilenceRequest {
        rule: body.rule.clone(),
        subject: subject(body.subject.as_deref())?,
        length: Duration::from_secs(u64::from(body.minutes) * 60),
        reason: body.reason.clone(),
        actor: request.actor(),
    };
    match tx.alerts().silence(&new).await? {
        Ok(silence) => Ok((StatusCode::CREATED, json!(Silence::from(&silence)))),
        Err(bad) => Err(Problem::bad_request(bad.to_string(), "correct it and send it again")),
    }
}

pub(crate) async fn unsilence(request: &ActionRequest<'_>, tx: &mut Tx) -> Outcome {
    let Parameters::EndSilence(body) = &request.parameters else { return Err(request.mistaken()) };
    request.check_scope(&format!("alert/{}", body.rule))?;
    let subject = subject(body.subject.as_deref())?;
    if !tx.alerts().unsilence(&body.rule, subject.as_ref(), &request.actor()).await? {
        let what = "there is no silence of exactly this rule and subject";
        return Err(Problem::new(Code::NotSilenced, what, "list the alerts to see their silences"));
    }
    Ok((StatusCode::OK, json!({ "ended": true })))
}

fn subject(text: Option<&str>) -> Result<Option<Subject>, Problem> {
    text.map(Subject::new)
        .transpose()
        .map_err(|error| Problem::bad_request(error.to_string(), "use a subject from the list of alerts"))
}
