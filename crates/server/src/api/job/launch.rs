//! Launching a job: the server answers as soon as the execution is recorded; the job runs on.

use super::checked;
use crate::api::{Body, execution};
use crate::mutation::{self, Caller};
use crate::problem::Problem;
use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Map, Number, Value, json};
use tidemill_api::execution::Execution;
use tidemill_api::job::LaunchJob;
use tidemill_domain::audit::AuditEntry;
use tidemill_domain::code::Code;
use tidemill_domain::job::parameter::{ParameterSpec, ParameterType};
use tidemill_domain::job::{JobParameter, JobParameters};

const PARAMETERS_MAX: usize = 100;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ParameterObject {
    value: Value,
    #[serde(rename = "type")]
    kind: Option<String>,
    identifying: Option<bool>,
}

/// Launch a job in this server. The same identifying parameters name the same instance: an instance that did not complete
/// resumes where it ended; an instance that is running or complete is refused. `next` runs a new instance.
#[utoipa::path(post, path = "/api/v1/jobs/{name}/executions", operation_id = "launch_job", params(("name" = String, Path, description = "Name of the job")), request_body = LaunchJob, responses((status = 202, body = Execution)))]
pub(crate) async fn launch(
    caller: Caller,
    Path(name): Path<String>,
    Body(body): Body<LaunchJob>,
) -> Result<Response, Problem> {
    let jobs = caller.state.launcher().jobs();
    let parameters = parameters(&body.parameters, jobs.get(checked(&name)?)?.parameters())?;
    respond(LaunchRequest {
        what: format!("POST /api/v1/jobs/{name}/executions {}", json!(body)),
        caller,
        kind: if body.next { LaunchKind::Next } else { LaunchKind::Launch },
        job: name,
        parameters,
        accept_change: body.accept_change,
        audit: None,
    })
    .await
}

pub(crate) struct LaunchRequest {
    pub(crate) caller: Caller,
    /// The whole request as text.
    pub(crate) what: String,
    pub(crate) kind: LaunchKind,
    pub(crate) job: String,
    pub(crate) parameters: JobParameters,
    /// Launch even if the definition has changed since the last execution.
    pub(crate) accept_change: bool,
    /// Recorded in the transaction of the launch.
    pub(crate) audit: Option<AuditEntry>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LaunchKind {
    Launch,
    /// As a new instance, with the next `run.id`.
    Next,
    /// With the parameters of an earlier execution.
    Restart,
}

#[derive(Debug)]
pub(crate) struct LaunchAnswer {
    status: u16,
    body: String,
    id: Option<i64>,
}

impl LaunchAnswer {
    /// The id of the new execution.
    pub(crate) fn id(&self) -> Result<i64, Problem> {
        let detail = "the server launched the job but returned no execution id";
        self.id.ok_or_else(|| Problem::new(Code::Unexpected, detail, "report it"))
    }
}

pub(crate) async fn respond(request: LaunchRequest) -> Result<Response, Problem> {
    let state = request.caller.state.clone();
    let LaunchAnswer { status, body, id } = launch_job(request).await?;
    let place = id.map(|id| [(header::LOCATION, state.path(&format!("/api/v1/executions/{id}")))]);
    Ok((place, mutation::answer(status, body)).into_response())
}

/// Launches. The server runs every change in its own task, so the execution gets its runner even if the client disconnects.
pub(crate) async fn launch_job(request: LaunchRequest) -> Result<LaunchAnswer, Problem> {
    let LaunchRequest { caller, what, kind, job, parameters, accept_change, audit } = request;
    let launcher = caller.state.launcher().clone().accept_change(accept_change);
    let actor = caller.principal.actor();
    caller.principal.check_scope(&format!("job/{job}"))?;
    let mut launching = launcher.launching().await;
    let (status, body) = caller
        .once(&what, async |tx| {
            if let Some(entry) = &audit {
                tx.audit().record(entry).await?;
            }
            let id = match kind {
                LaunchKind::Launch => launching.launch(tx, &job, &parameters, &actor).await?,
                LaunchKind::Next => launching.launch_next(tx, &job, &parameters, &actor).await?,
                LaunchKind::Restart => launching.restart(tx, &job, &parameters, &actor).await?,
            };
            let launched = execution::find(tx, id).await?;
            Ok((StatusCode::ACCEPTED, json!(Execution::from(&launched.execution))))
        })
        .await?;
    // A repeated request launched nothing now. The execution reports to the database, so it is not awaited here.
    drop(launching.committed());
    let id = serde_json::from_str::<Value>(&body).ok().and_then(|kept| kept["id"].as_i64());
    Ok(LaunchAnswer { status, body, id })
}

/// The parameters of a launch, read with the types that the job declares.
pub(crate) fn parameters(
    given: &Map<String, Value>,
    specs: &[ParameterSpec],
) -> Result<JobParameters, Problem> {
    let bad = |why: String| {
        let remedy = "pass each as a string, a number, or an object with value, type and identifying";
        Problem::new(Code::BadJobParameters, why, remedy)
    };
    if given.len() > PARAMETERS_MAX {
        return Err(bad(format!("there are {} parameters; {PARAMETERS_MAX} are allowed", given.len())));
    }
    let mut parameters = JobParameters::new();
    for (name, value) in given {
        let spec = specs.iter().find(|spec| spec.name == *name);
        // A name can be as long as the body, so the message shortens it.
        let shown: String = name.chars().take(100).collect();
        let read = parameter(value, spec).map_err(|why| bad(format!("parameter {shown:?}: {why}")))?;
        parameters.insert(name.as_str(), read).map_err(|error| bad(error.to_string()))?;
    }
    Ok(parameters)
}

/// One parameter. The error never contains the value, which may be a secret.
fn parameter(given: &Value, spec: Option<&ParameterSpec>) -> Result<JobParameter, String> {
    let written = match given {
        Value::Object(_) => serde_json::from_value::<ParameterObject>(given.clone())
            .map_err(|_| "an object has only value, type and identifying".to_owned())?,
        other => ParameterObject { value: other.clone(), kind: None, identifying: None },
    };
    let kind = match &written.kind {
        Some(word) => Some(
            word.parse()
                .map_err(|_| "unknown type; use string, long, double, date, time or datetime".to_owned())?,
        ),
        None => spec.map(|spec| spec.kind),
    };
    let (text, usual) = match &written.value {
        Value::String(text) => (text.clone(), ParameterType::Text),
        // JSON has already rounded it to the nearest double, so it is accepted only as a double.
        Value::Number(number) if is_beyond_long(number) && kind != Some(ParameterType::Double) => {
            return Err("the number does not fit into a long; pass it as a string or as a double".to_owned());
        }
        Value::Number(number) if number.is_f64() => (number.to_string(), ParameterType::Double),
        Value::Number(number) => (number.to_string(), ParameterType::Long),
        _ => return Err("the value is neither a string nor a number".to_owned()),
    };
    let value = ParameterType::read(kind.unwrap_or(usual), &text).map_err(|error| error.to_string())?;
    let is_identifying = written.identifying.or(spec.map(|spec| spec.is_identifying)).unwrap_or(true);
    Ok(JobParameter { value, is_identifying })
}

fn is_beyond_long(number: &Number) -> bool {
    number.as_f64().is_some_and(|number| number.abs() > i64::MAX as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(given: Value, specs: &[ParameterSpec]) -> Result<JobParameters, String> {
        parameters(given.as_object().unwrap(), specs).map_err(|problem| problem.detail().to_owned())
    }

    #[test]
    fn a_parameter_is_a_text_a_number_or_written_out() {
        let given = json!({
            "text": "7", "long": 7, "double": 1.5,
            "day": { "value": "2026-11-15", "type": "date" },
            "aside": { "value": 7, "type": "long", "identifying": false },
            "far": { "value": 1e30, "type": "double" },
        });

        let expected = JobParameters::new().with("text", "7").with("long", 7).with("double", 1.5);
        let day = ParameterType::Date.read("2026-11-15").unwrap();
        let expected = expected.with("day", day).with_non_identifying("aside", 7).with("far", 1e30);
        assert_eq!(read(given, &[]), Ok(expected));
    }

    #[test]
    fn what_is_not_said_is_taken_from_what_the_job_asks_for() {
        let spec = ParameterSpec {
            name: "n".into(),
            kind: ParameterType::Long,
            is_required: true,
            is_identifying: false,
            accepted: Default::default(),
        };

        assert_eq!(read(json!({ "n": "7" }), &[spec]), Ok(JobParameters::new().with_non_identifying("n", 7)));
    }

    #[test]
    fn what_is_not_understood_is_refused_without_telling_the_value() {
        for wrong in [
            json!({ "n": null }),
            json!({ "n": ["s3cret"] }),
            json!({ "n": 99_999_999_999_999_999_999_999.0 }),
            json!({ "n": u64::MAX }),
            json!({ "n": { "value": "s3cret", "type": "long" } }),
            json!({ "n": { "value": 1, "type": "number" } }),
            json!({ "n": { "value": 1, "kind": "long" } }),
            json!({ "": "s3cret" }),
            json!({ "n": "s3cret".repeat(1000) }),
        ] {
            let why = read(wrong.clone(), &[]).unwrap_err();
            assert!(!why.contains("s3cret"), "{wrong}: {why}");
        }
        let many: Map<String, Value> = (0..101).map(|n| (n.to_string(), json!(1))).collect();
        assert!(parameters(&many, &[]).is_err());
    }
}
