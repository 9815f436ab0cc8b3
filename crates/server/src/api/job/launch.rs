//! Launching a job: the answer comes as soon as the execution is recorded; it runs on after that.

use super::{checked, defined};
use crate::api::Body;
use crate::api::execution::Execution;
use crate::mutation::{self, Caller};
use crate::problem::Problem;
use axum::extract::Path;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value, json};
use tidemill_domain::audit::AuditEntry;
use tidemill_domain::code::Code;
use tidemill_domain::job::parameter::{ParameterSpec, ParameterType};
use tidemill_domain::job::{JobParameter, JobParameters};
use tidemill_engine::job::JobError;
use utoipa::ToSchema;

/// Most parameters of one launch.
const PARAMETERS_MAX: usize = 100;

/// A launch that is wanted.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LaunchJob {
    /// By name: a text, a number, or an object with `value`, and `type` and `identifying` if they are not as usual.
    #[serde(default)]
    #[schema(value_type = std::collections::HashMap<String, Object>, example = json!({ "date": "2026-11-15", "n": { "value": 1, "type": "long", "identifying": false } }))]
    parameters: Map<String, Value>,
    /// Go on with an instance although the definition of the job has changed since.
    #[serde(default)]
    accept_change: bool,
}

/// A parameter that is written out.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenOut {
    value: Value,
    #[serde(rename = "type")]
    kind: Option<String>,
    identifying: Option<bool>,
}

/// Launches a job in this server. The same identifying parameters mean the same instance: one that did not complete
/// goes on where it ended, one that is complete or running is refused.
#[utoipa::path(post, path = "/api/v1/jobs/{name}/executions", params(("name" = String, Path, description = "Its name")), request_body = LaunchJob, responses((status = 202, body = Execution), (status = 400, body = crate::problem::ProblemBody), (status = 404, body = crate::problem::ProblemBody), (status = 409, body = crate::problem::ProblemBody), (status = 503, body = crate::problem::ProblemBody)))]
pub(crate) async fn launch(
    caller: Caller,
    Path(name): Path<String>,
    Body(body): Body<LaunchJob>,
) -> Result<Response, Problem> {
    let name = checked(name)?;
    let parameters = parameters(&body.parameters, defined(&caller.state, &name)?.parameters())?;
    let what = format!("POST /api/v1/jobs/{name}/executions {}", json!(body));
    accept(LaunchRequest {
        caller,
        what,
        how: How::Launch,
        job: name,
        parameters,
        accept_change: body.accept_change,
        audit: None,
    })
    .await
}

/// A launch, with all that is needed to answer the request for it.
pub(crate) struct LaunchRequest {
    pub(crate) caller: Caller,
    /// The whole request as text.
    pub(crate) what: String,
    pub(crate) how: How,
    pub(crate) job: String,
    pub(crate) parameters: JobParameters,
    /// Whether another definition than that of the last execution is all right.
    pub(crate) accept_change: bool,
    /// What else is noted of it.
    pub(crate) audit: Option<AuditEntry>,
}

/// Whether the parameters are somebody's, or those of an earlier execution.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum How {
    Launch,
    Restart,
}

/// A launch that was accepted: the answer to its request, and the execution.
#[derive(Debug)]
pub(crate) struct Accepted {
    status: u16,
    body: String,
    pub(crate) id: Option<i64>,
}

/// Launches, and answers with the execution.
pub(crate) async fn accept(wanted: LaunchRequest) -> Result<Response, Problem> {
    let state = wanted.caller.state.clone();
    let Accepted { status, body, id } = launched(wanted).await?;
    let mut response = mutation::answer(status, body);
    let place =
        id.and_then(|id| HeaderValue::from_str(&state.path(&format!("/api/v1/executions/{id}"))).ok());
    if let Some(place) = place {
        response.headers_mut().insert(header::LOCATION, place);
    }
    Ok(response)
}

/// Launches.
pub(crate) async fn launched(wanted: LaunchRequest) -> Result<Accepted, Problem> {
    // A task of its own: a caller that hangs up in the middle must not leave an execution that nobody runs.
    match tokio::spawn(launch_to_the_end(wanted)).await {
        Ok(answer) => answer,
        Err(error) => {
            tracing::error!(%error, "a launch ended in a panic");
            Err(Problem::new(Code::Unexpected, "the server failed", "try again; if it stays so, report it"))
        }
    }
}

async fn launch_to_the_end(wanted: LaunchRequest) -> Result<Accepted, Problem> {
    let LaunchRequest { caller, what, how, job, parameters, accept_change, audit } = wanted;
    let launcher = caller.state.launcher().clone().accept_change(accept_change);
    let actor = caller.principal.actor();
    caller.principal.check_scope(&format!("job/{job}"))?;
    let mut launching = launcher.launching().await;
    let (status, body) = caller
        .once(&what, async |tx| {
            if let Some(entry) = &audit {
                tx.audit().record(entry).await?;
            }
            let id = match how {
                How::Launch => launching.launch(tx, &job, &parameters, &actor).await?,
                How::Restart => launching.restart(tx, &job, &parameters, &actor).await?,
            };
            let launched = tx.jobs().execution(id).await?.ok_or(JobError::UnknownExecution(id))?;
            Ok((StatusCode::ACCEPTED, json!(Execution::from(launched.execution))))
        })
        .await?;
    // A request that was answered before has launched nothing now; the execution reports to the database.
    drop(launching.committed());
    let id = serde_json::from_str::<Value>(&body).ok().and_then(|kept| kept["id"].as_i64());
    Ok(Accepted { status, body, id })
}

/// The parameters that were given, for a job that asks for these.
pub(crate) fn parameters(
    given: &Map<String, Value>,
    specs: &[ParameterSpec],
) -> Result<JobParameters, Problem> {
    let bad = |why: String| {
        let remedy = "give each as a text, a number, or an object with value, type and identifying";
        Problem::new(Code::BadJobParameters, why, remedy)
    };
    if given.len() > PARAMETERS_MAX {
        return Err(bad(format!("there are {} parameters; {PARAMETERS_MAX} are allowed", given.len())));
    }
    let mut parameters = JobParameters::new();
    for (name, value) in given {
        let spec = specs.iter().find(|spec| spec.name == *name);
        // Names may be as long as the body, so what is said of one is cut.
        let shown: String = name.chars().take(100).collect();
        let read = parameter(value, spec).map_err(|why| bad(format!("parameter {shown:?}: {why}")))?;
        parameters.insert(name.as_str(), read).map_err(|error| bad(error.to_string()))?;
    }
    Ok(parameters)
}

/// One parameter; the error says what is wrong without telling the value.
fn parameter(given: &Value, spec: Option<&ParameterSpec>) -> Result<JobParameter, String> {
    let written = match given {
        Value::Object(_) => serde_json::from_value::<WrittenOut>(given.clone()).map_err(|_| {
            "an object has value, and perhaps type and identifying, and nothing else".to_owned()
        })?,
        other => WrittenOut { value: other.clone(), kind: None, identifying: None },
    };
    let kind = match &written.kind {
        Some(word) => Some(word.parse().map_err(|_| {
            "there is no such type; there are string, long, double, date, time and datetime".to_owned()
        })?),
        None => spec.map(|spec| spec.kind),
    };
    let (text, usual) = match &written.value {
        Value::String(text) => (text.clone(), ParameterType::Text),
        // Read from JSON, it has become the nearest double: not what was written, unless that was meant.
        Value::Number(number) if is_beyond_long(number) && kind != Some(ParameterType::Double) => {
            return Err("the number does not fit into a long; give it as a text, or as a double".to_owned());
        }
        Value::Number(number) if number.is_f64() => (number.to_string(), ParameterType::Double),
        Value::Number(number) => (number.to_string(), ParameterType::Long),
        _ => return Err("the value is neither a text nor a number".to_owned()),
    };
    let value = ParameterType::read(kind.unwrap_or(usual), &text).map_err(|error| error.to_string())?;
    let is_identifying = written.identifying.or(spec.map(|spec| spec.is_identifying)).unwrap_or(true);
    Ok(JobParameter { value, is_identifying })
}

/// Whether a number is larger than any `long`.
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
