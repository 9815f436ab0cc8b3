//! Alerts and their silences.

use crate::api::{QueryString, limit};
use crate::operate::{ActionBody, ActionRequest, Outcome, Parameters};
use crate::problem::Problem;
use crate::state::State;
use axum::Json;
use axum::extract::State as Given;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::time::Duration;
use tidemill_domain::alert::Subject;
use tidemill_domain::alert::silence::{Silence as Stored, SilenceRequest};
use tidemill_store::Tx;
use tidemill_store::alert::AlertRecord;
use utoipa::{IntoParams, ToSchema};

/// What to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ListAlerts {
    /// At most so many; 50 when not given, 500 at most.
    limit: Option<u32>,
}

/// An alert.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Alert {
    /// Its rule.
    rule: String,
    /// What it is about.
    subject: String,
    /// `inactive`, `pending`, `firing` or `resolved`.
    state: String,
    /// `info`, `warning` or `critical`.
    severity: String,
    /// The value that was seen last.
    value: Option<f64>,
    /// When that was.
    updated_at: String,
    /// Until when nobody is told, if it is silenced.
    silenced_until: Option<String>,
}

/// A list of alerts.
#[derive(Debug, Serialize, ToSchema)]
pub struct Alerts {
    /// The firing first.
    items: Vec<Alert>,
}

/// A silence that is wanted.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateSilence {
    /// Which rule.
    rule: String,
    /// Which subject of it; all when not given.
    subject: Option<String>,
    /// For how long.
    minutes: u32,
    /// Why; it is shown to everybody who sees the alert.
    reason: String,
}

/// A silence that is to end.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EndSilence {
    /// Which rule.
    rule: String,
    /// Which subject of it; the silence of all when not given.
    subject: Option<String>,
}

/// A silence.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Silence {
    /// Which rule.
    rule: String,
    /// Which subject of it.
    subject: Option<String>,
    /// Until when.
    until: String,
    /// Why.
    reason: String,
    /// Who wanted it.
    by: String,
}

impl From<AlertRecord> for Alert {
    fn from(record: AlertRecord) -> Self {
        Self {
            rule: record.rule,
            subject: record.subject.as_str().to_owned(),
            state: record.state.as_str().to_owned(),
            severity: record.severity.as_str().to_owned(),
            value: record.value,
            updated_at: record.updated_at.to_string(),
            silenced_until: record.silence.map(|silence| silence.until.to_string()),
        }
    }
}

impl From<Stored> for Silence {
    fn from(silence: Stored) -> Self {
        Self {
            rule: silence.rule,
            subject: silence.subject.map(|subject| subject.as_str().to_owned()),
            until: silence.until.to_string(),
            reason: silence.reason,
            by: silence.by,
        }
    }
}

fn subject(text: Option<&String>) -> Result<Option<Subject>, Problem> {
    let checked = text.map(|text| Subject::new(text)).transpose();
    checked.map_err(|error| {
        Problem::bad_request(error.to_string(), "use the subject as the list of alerts names it")
    })
}

/// The alerts that are or were breached.
#[utoipa::path(get, path = "/api/v1/alerts", params(ListAlerts), responses((status = 200, body = Alerts)))]
pub(crate) async fn list(
    Given(state): Given<State>,
    QueryString(asked): QueryString<ListAlerts>,
) -> Result<Json<Alerts>, Problem> {
    let mut tx = state.read().await?;
    let records = tx.alerts().list(limit(asked.limit)?).await?;
    Ok(Json(Alerts { items: records.into_iter().map(Alert::from).collect() }))
}

impl ActionBody for CreateSilence {
    fn reason(&self) -> Option<&str> {
        None
    }

    fn parameters(&self) -> Result<Parameters, Problem> {
        let Self { rule, subject, reason, .. } = self.clone();
        let length = Duration::from_secs(u64::from(self.minutes) * 60);
        Ok(Parameters::Silence { rule, subject, length, reason })
    }
}

impl ActionBody for EndSilence {
    fn reason(&self) -> Option<&str> {
        None
    }

    fn parameters(&self) -> Result<Parameters, Problem> {
        let Self { rule, subject } = self.clone();
        Ok(Parameters::EndOfSilence { rule, subject })
    }
}

pub(crate) async fn silence(request: &ActionRequest<'_>, tx: &mut Tx) -> Outcome {
    let Parameters::Silence { rule, subject: about, length, reason } = &request.parameters else {
        return Err(request.mistaken());
    };
    request.check_scope(&format!("alert/{rule}"))?;
    let wanted = SilenceRequest {
        rule: rule.clone(),
        subject: subject(about.as_ref())?,
        length: *length,
        reason: reason.clone(),
        actor: request.actor(),
    };
    match tx.alerts().silence(&wanted).await? {
        Ok(silence) => Ok((StatusCode::CREATED, json!(Silence::from(silence)))),
        Err(bad) => Err(Problem::bad_request(bad.to_string(), "correct it, and send it again")),
    }
}

pub(crate) async fn unsilence(request: &ActionRequest<'_>, tx: &mut Tx) -> Outcome {
    let Parameters::EndOfSilence { rule, subject: about } = &request.parameters else {
        return Err(request.mistaken());
    };
    request.check_scope(&format!("alert/{rule}"))?;
    if !tx.alerts().unsilence(rule, subject(about.as_ref())?.as_ref(), &request.actor()).await? {
        return Err(Problem::not_found("a silence of this rule and subject"));
    }
    Ok((StatusCode::OK, json!({ "ended": true })))
}
