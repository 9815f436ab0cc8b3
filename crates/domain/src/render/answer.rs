//! Reads nexrender's HTTP answers, in any of its dialects: a job, no job, or a failure.
//!
//! | | open-source server | source document | cloud |
//! |---|---|---|---|
//! | name | `uid` | `id` | `id` |
//! | state | `state` | `status` | `status` |
//! | progress | `renderProgress` | `progress` | `progress` |
//! | error | `error` | | `stats.error` |
//! | no such job | 200 without a body | 404 | 404 |
//!
//! The open-source server has no 404: an unknown path answers 204, and an unknown job 200 with an empty body.

mod absence;

pub use absence::{Absence, LearnedAbsence};

use super::document::COPY_MODULE;
use super::failure::{Failure, MESSAGE_CHARS_MAX, Trouble, classify};
use super::path::NodePath;
use super::phase::Phase;
use super::uid::Uid;
use serde_json::{Map, Value};

crate::words! {
    #[derive(Default)]
    pub enum Dialect {
        #[default]
        Auto = "auto",
        Oss = "oss",
        /// That of the source document and of the cloud.
        Cloud = "cloud",
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FarmCall {
    Submit,
    Look,
}

#[derive(Clone, PartialEq, Debug)]
pub struct RemoteJob {
    pub id: String,
    pub report: Report,
    /// Changes when something happens to the job; only compared, never read as a time.
    pub updated: Option<String>,
    /// Where it leaves its file, as nodes see it; none when the server does not report it.
    pub output: Option<String>,
}

impl RemoteJob {
    /// Whether it may leave its file at `staged`: another queue may have a job of the same name. Yes if either is unknown.
    pub fn may_leave(&self, staged: Option<&str>) -> bool {
        let Some((output, staged)) = self.output.as_deref().zip(staged) else { return true };
        match (NodePath::parse(output), NodePath::parse(staged)) {
            (Ok(output), Ok(staged)) => output.is_in(&staged) && staged.is_in(&output),
            _ => output == staged,
        }
    }
}

/// Whether nexrender describes another job than `document`. Compares only what both have: servers add fields.
pub fn is_another(body: &str, document: &Value) -> bool {
    let Ok(described) = serde_json::from_str::<Value>(body) else { return false };
    ["template", "assets", "actions"].into_iter().any(|part| {
        match (described.get(part), document.get(part)) {
            (Some(theirs), Some(ours)) => differs(theirs, ours),
            _ => false,
        }
    })
}

fn differs(theirs: &Value, ours: &Value) -> bool {
    match (theirs, ours) {
        (Value::String(theirs), Value::String(ours)) => theirs != ours,
        (Value::Array(theirs), Value::Array(ours)) => {
            theirs.len() < ours.len() || theirs.iter().zip(ours).any(|(theirs, ours)| differs(theirs, ours))
        }
        (Value::Object(theirs), Value::Object(ours)) => {
            ours.iter().any(|(name, ours)| theirs.get(name).is_some_and(|theirs| differs(theirs, ours)))
        }
        _ => false,
    }
}

/// How a farm speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Manner {
    pub dialect: Dialect,
    /// None if it is not known: then both count.
    pub absence: Option<Absence>,
}

impl From<Dialect> for Manner {
    fn from(dialect: Dialect) -> Self {
        let absence = match dialect {
            Dialect::Auto => None,
            Dialect::Oss => Some(Absence::Empty),
            Dialect::Cloud => Some(Absence::NotFound),
        };
        Self { dialect, absence }
    }
}

/// Whether an answer is about the job of this name. A proxy or a cache may answer with another one.
pub fn is_about(body: &str, name: &str) -> bool {
    has_name(body, |found| found == name)
}

/// Whether the answer to the submission of `document` is about another job than that of this name. A server that does
/// not keep names may choose another one, but not one of our form, and may not describe another job.
pub fn is_of_another(body: &str, name: &str, document: &Value, keeps_names: bool) -> bool {
    let has_our_form = |found: &str| found.parse::<Uid>().is_ok();
    !is_about(body, name) && (keeps_names || has_name(body, has_our_form) || is_another(body, document))
}

fn has_name(body: &str, is_it: impl Fn(&str) -> bool) -> bool {
    let Ok(Value::Object(fields)) = serde_json::from_str::<Value>(body) else { return false };
    ["uid", "id"].into_iter().any(|key| fields.get(key).and_then(Value::as_str).is_some_and(&is_it))
}

/// None means that nexrender has no such job.
pub fn read(call: FarmCall, status: u16, body: &str, manner: Manner) -> Result<Option<RemoteJob>, Trouble> {
    let trouble = |failure, message: String| Err(Trouble::new(failure, &message));
    if let (Some(absence), FarmCall::Look) = (Absence::of(status, body), call) {
        if manner.absence.is_none_or(|known| known == absence) {
            return Ok(None);
        }
        // It can only be a proxy's answer, which says nothing about the job.
        let message = format!("this nexrender answers otherwise if it has no such job ({status})");
        return trouble(Failure::NotNexrender, message);
    }
    match (status, call) {
        (401 | 403, _) => {
            trouble(Failure::WrongSecret, format!("nexrender answers {status}: {}", line(body)))
        }
        (204, _) => trouble(Failure::NotNexrender, "nexrender has no such path (204)".to_owned()),
        (200..=299, _) => job(body, manner.dialect).map(Some),
        (408 | 425 | 429 | 500.., _) => {
            trouble(Failure::NexrenderDown, format!("nexrender answers {status}: {}", line(body)))
        }
        (400..=499, FarmCall::Submit) if status != 404 && status != 405 => {
            trouble(Failure::Rejected, format!("nexrender refuses the job: {}", line(body)))
        }
        _ => trouble(Failure::NotNexrender, format!("not an answer of nexrender ({status})")),
    }
}

fn job(body: &str, dialect: Dialect) -> Result<RemoteJob, Trouble> {
    let not_nexrender = || Trouble::new(Failure::NotNexrender, "the answer is not a nexrender job");
    let Ok(Value::Object(fields)) = serde_json::from_str::<Value>(body) else { return Err(not_nexrender()) };
    let is_oss = match dialect {
        Dialect::Oss => true,
        Dialect::Cloud => false,
        Dialect::Auto => fields.contains_key("state"),
    };
    let names = if is_oss { ["uid", "id"] } else { ["id", "uid"] };
    let states = if is_oss { ["state", "status"] } else { ["status", "state"] };
    let (Some(id), Some(state)) = (text(&fields, &names), text(&fields, &states)) else {
        return Err(not_nexrender());
    };
    let stats = fields.get("stats").and_then(Value::as_object);
    let in_stats = |name: &str| stats.and_then(|stats| stats.get(name)).filter(|value| !value.is_null());
    let error = fields.get("error").filter(|value| !value.is_null()).or_else(|| in_stats("error"));
    let error = error.map(words);
    let percent = ["renderProgress", "progress"].iter().find_map(|name| fields.get(*name)?.as_f64());
    let report = understand(JobReport { uid: id, state, percent, error: error.as_deref() });
    let updated = text(&fields, &["updatedAt", "updated"])
        .or_else(|| in_stats("updatedAt").and_then(Value::as_str))
        .map(str::to_owned);
    Ok(RemoteJob { id: id.to_owned(), report, updated, output: output(&fields) })
}

/// Where our copy action leaves the file.
fn output(fields: &Map<String, Value>) -> Option<String> {
    let actions = fields.get("actions")?.get("postrender")?.as_array()?;
    let copy =
        actions.iter().find(|action| action.get("module").and_then(Value::as_str) == Some(COPY_MODULE))?;
    copy.get("output")?.as_str().map(str::to_owned)
}

fn text<'a>(fields: &'a Map<String, Value>, names: &[&str]) -> Option<&'a str> {
    names.iter().find_map(|name| fields.get(*name)?.as_str()).filter(|text| !text.is_empty())
}

/// An error as one text. Old workers send an object, some a list, and with some options the whole log.
fn words(error: &Value) -> String {
    let words = match error {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(words).collect::<Vec<_>>().join("\n\n"),
        other => other.to_string(),
    };
    words.chars().take(MESSAGE_CHARS_MAX).collect()
}

/// The first line of a body: a stack trace follows.
fn line(body: &str) -> String {
    crate::job::command::readable(body.trim().lines().next().unwrap_or_default().as_bytes(), 300)
}

/// What nexrender reports about a job: all words of its three dialects, as phases of ours. Unknown words change nothing.
#[derive(Clone, PartialEq, Debug)]
pub enum Report {
    /// `percent` is as reported.
    At { phase: Phase, percent: Option<f64> },
    /// Done, but the file may be bad.
    Finished,
    /// With nexrender's message.
    Failed { failure: Failure, message: String },
    /// Cancelled in nexrender.
    Cancelled,
    /// nexrender has no such job.
    Lost,
    /// The caller warns once; the timeouts continue.
    Unknown { word: String },
}

impl Report {
    /// Whether nexrender knows how the job ended.
    pub const fn is_end(&self) -> bool {
        matches!(self, Self::Finished | Self::Failed { .. } | Self::Cancelled)
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct JobReport<'a> {
    pub uid: &'a str,
    pub state: &'a str,
    pub percent: Option<f64>,
    pub error: Option<&'a str>,
}

/// An error text counts only in the state `error`: nodes also send one shortly before they continue or fail.
pub fn understand(job: JobReport<'_>) -> Report {
    match job.state {
        "created" | "queued" | "picked" | "pending" => at(Phase::WaitingForNode, job),
        "started"
        | "render:setup"
        | "render:predownload"
        | "render:download"
        | "render:postdownload"
        | "render:prerender"
        | "render:script" => at(Phase::NodePreparing, job),
        "render:dorender" | "rendering" => at(Phase::Rendering, job),
        "render:postrender" | "render:cleanup" | "encoding" => at(Phase::Encoding, job),
        "finished" => Report::Finished,
        "error" => {
            let message = job.error.unwrap_or("nexrender gave no reason").to_owned();
            Report::Failed { failure: classify(&message, job.uid), message }
        }
        "cancelled" | "manually_cancelled" => Report::Cancelled,
        other => Report::Unknown { word: other.chars().take(64).collect() },
    }
}

fn at(phase: Phase, job: JobReport<'_>) -> Report {
    Report::At { phase, percent: job.percent }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn looked(status: u16, body: &str) -> Result<Option<RemoteJob>, Failure> {
        read(FarmCall::Look, status, body, Dialect::Auto.into()).map_err(|trouble| trouble.failure)
    }

    fn at(phase: Phase, percent: f64) -> Report {
        Report::At { phase, percent: Some(percent) }
    }

    #[test]
    fn the_three_dialects_say_the_same() {
        let oss = r#"{"uid":"rq-1-1","state":"render:dorender","renderProgress":45,"error":null,
            "updatedAt":"2026-11-15T00:18:13.430Z","id":"other"}"#;
        let document = r#"{"id":"job_abc","uid":"uid_xyz","status":"rendering","progress":45,"updated":"t"}"#;
        let cloud =
            r#"{"id":"job_abc","status":"render:dorender","progress":45.0,"stats":{"updatedAt":"t"}}"#;

        for (body, id) in [(oss, "rq-1-1"), (document, "job_abc"), (cloud, "job_abc")] {
            let job = looked(200, body).unwrap().unwrap();
            assert_eq!((job.id.as_str(), job.report), (id, at(Phase::Rendering, 45.0)), "{body}");
            assert!(job.updated.is_some());
        }
    }

    #[test]
    fn a_job_that_is_not_there_is_lost_and_a_server_that_is_broken_is_down() {
        assert_eq!(looked(200, ""), Ok(None));
        assert_eq!(looked(200, " \n"), Ok(None));
        assert_eq!(looked(404, "Not Found"), Ok(None));
        assert_eq!(looked(500, "Internal Server Error"), Err(Failure::NexrenderDown));
        assert_eq!(looked(429, ""), Err(Failure::NexrenderDown));
    }

    #[test]
    fn what_only_configuration_can_mend_is_told_apart() {
        assert_eq!(looked(403, "Wrong or no authentication secret provided."), Err(Failure::WrongSecret));
        assert_eq!(looked(204, ""), Err(Failure::NotNexrender));
        assert_eq!(looked(200, "<html>hello</html>"), Err(Failure::NotNexrender));
        assert_eq!(looked(200, "[]"), Err(Failure::NotNexrender));
        assert_eq!(looked(302, ""), Err(Failure::NotNexrender));
        let submitted = read(FarmCall::Submit, 404, "", Dialect::Auto.into()).unwrap_err();
        assert_eq!(submitted.failure, Failure::NotNexrender);
    }

    #[test]
    fn the_open_server_never_says_404_so_somebody_else_does() {
        let said = |dialect: Dialect| {
            read(FarmCall::Look, 404, "Not Found", dialect.into()).map_err(|trouble| trouble.failure)
        };

        assert_eq!(said(Dialect::Oss), Err(Failure::NotNexrender));
        assert_eq!((said(Dialect::Auto), said(Dialect::Cloud)), (Ok(None), Ok(None)));
        assert_eq!(read(FarmCall::Look, 200, "", Dialect::Oss.into()), Ok(None));
        let empty = read(FarmCall::Look, 200, "", Dialect::Cloud.into()).unwrap_err();
        assert_eq!(empty.failure, Failure::NotNexrender);
    }

    #[test]
    fn a_farm_that_has_said_how_it_lacks_a_job_is_not_believed_to_say_it_otherwise() {
        let said = |absence, status| {
            let manner = Manner { dialect: Dialect::Auto, absence: Some(absence) };
            read(FarmCall::Look, status, "", manner).map_err(|trouble| trouble.failure)
        };

        assert_eq!((said(Absence::Empty, 200), said(Absence::NotFound, 404)), (Ok(None), Ok(None)));
        for (absence, status) in [(Absence::Empty, 404), (Absence::NotFound, 200)] {
            assert_eq!(said(absence, status), Err(Failure::NotNexrender), "{absence:?}");
        }
    }

    #[test]
    fn an_answer_about_another_job_is_not_about_ours() {
        assert!(is_about(r#"{"uid":"rq-1-1","state":"queued"}"#, "rq-1-1"));
        assert!(is_about(r#"{"id":"job_abc","uid":"uid_xyz","status":"queued"}"#, "job_abc"));
        for body in [r#"{"uid":"rq-1-2","state":"finished"}"#, r#"{"state":"finished"}"#, "[]", ""] {
            assert!(!is_about(body, "rq-1-1"), "{body}");
        }
    }

    #[test]
    fn an_answer_to_a_submission_is_ours_unless_it_has_another_name_of_ours_or_another_job() {
        let document = serde_json::json!({ "template": { "src": "a" } });
        let is_of_another = |body: &str, keeps| is_of_another(body, "rq-1-1", &document, keeps);

        for keeps_names in [true, false] {
            assert!(!is_of_another(r#"{"uid":"rq-1-1","state":"queued"}"#, keeps_names));
            assert!(is_of_another(r#"{"uid":"rq-9-9","state":"queued"}"#, keeps_names));
            assert!(is_of_another(r#"{"id":"rq-1-2","status":"queued"}"#, keeps_names));
            assert!(is_of_another(r#"{"id":"job_abc","template":{"src":"b"}}"#, keeps_names));
        }
        let chosen = r#"{"id":"job_abc","uid":"uid_xyz","status":"queued","template":{"src":"a"}}"#;
        assert_eq!((is_of_another(chosen, false), is_of_another(chosen, true)), (false, true));
    }

    #[test]
    fn a_refused_job_has_the_first_line_of_the_reason() {
        let body =
            "AssertionError [ERR_ASSERTION]: job must have template\n    at Object.validate (job.js:1)";
        let trouble = read(FarmCall::Submit, 400, body, Dialect::Auto.into()).unwrap_err();

        assert_eq!(trouble.failure, Failure::Rejected);
        assert!(trouble.message.ends_with("job must have template"), "{}", trouble.message);
    }

    #[test]
    fn a_job_is_known_by_what_it_shows_and_where_its_file_goes() {
        let document = |name: &str, output: &str| {
            serde_json::json!({
                "uid": "rq-1-1",
                "template": { "src": "file:///D:/a.aep", "composition": "Mini", "continueOnMissing": false },
                "assets": [{ "type": "data", "layerName": "Name 1", "value": name }],
                "actions": { "postrender": [{ "module": COPY_MODULE, "output": output }] },
            })
        };
        let ours = document("PHIL IVEY", "//NAS/a/rq-1-1.mp4");
        let mut described = ours.clone();
        described["state"] = "queued".into();
        described["template"]["dest"] = "D:/cache/template.aep".into();
        let job = looked(200, &described.to_string()).unwrap().unwrap();

        assert!(!is_another(&described.to_string(), &ours));
        assert!(!is_another(r#"{"uid":"rq-1-1","state":"queued"}"#, &ours), "who says nothing is believed");
        assert!(is_another(&described.to_string(), &document("DANIEL", "//NAS/a/rq-1-1.mp4")));
        assert!(is_another(&described.to_string(), &document("PHIL IVEY", "//NAS/b/rq-1-1.mp4")));
        assert!(
            job.may_leave(Some("\\\\nas\\A\\rq-1-1.mp4")) && !job.may_leave(Some("\\\\NAS\\b\\rq-1-1.mp4"))
        );
        assert!(job.may_leave(None) && RemoteJob { output: None, ..job }.may_leave(Some("/anywhere")));
    }

    #[test]
    fn an_error_of_any_shape_becomes_a_text() {
        for (error, expected) in [
            (r#""AESend failed""#, "AESend failed"),
            (r#"["one","two"]"#, "one\n\ntwo"),
            (r#"{"errno":-2,"code":"ENOENT"}"#, r#"{"errno":-2,"code":"ENOENT"}"#),
            ("null", "nexrender gave no reason"),
        ] {
            let body = format!(r#"{{"uid":"a","state":"error","error":{error}}}"#);
            let Report::Failed { message, .. } = looked(200, &body).unwrap().unwrap().report else {
                panic!("it has failed")
            };
            assert_eq!(message, expected);
        }
    }

    proptest! {
        #[test]
        fn any_answer_is_understood_without_a_panic(status: u16, body in "\\PC{0,80}", submit: bool) {
            let asked = if submit { FarmCall::Submit } else { FarmCall::Look };
            let answer = read(asked, status, &body, Dialect::Auto.into());
            if submit {
                prop_assert!(!matches!(answer, Ok(None)), "whoever submits hears of a job or of trouble");
            }
        }
    }

    fn said(state: &str) -> JobReport<'_> {
        JobReport { uid: "rq-1-1", state, percent: Some(45.0), error: None }
    }

    #[test]
    fn every_word_of_the_three_dialects_is_known() {
        let check = |phase, words: &[&str]| {
            for word in words {
                assert_eq!(understand(said(word)), Report::At { phase, percent: Some(45.0) }, "{word}");
            }
        };

        check(Phase::WaitingForNode, &["created", "queued", "picked", "pending"]);
        check(
            Phase::NodePreparing,
            &[
                "started",
                "render:setup",
                "render:predownload",
                "render:download",
                "render:postdownload",
                "render:prerender",
                "render:script",
            ],
        );
        check(Phase::Rendering, &["render:dorender", "rendering"]);
        check(Phase::Encoding, &["render:postrender", "render:cleanup", "encoding"]);
        assert_eq!(understand(said("finished")), Report::Finished);
        assert_eq!(understand(said("manually_cancelled")), Report::Cancelled);
    }

    #[test]
    fn an_error_without_a_text_is_one_that_may_pass() {
        let Report::Failed { failure, message } = understand(said("error")) else { panic!("it has failed") };

        assert_eq!((failure, message.as_str()), (Failure::RenderFailed, "nexrender gave no reason"));
    }

    #[test]
    fn a_finished_job_with_an_error_text_is_finished() {
        let said = JobReport { error: Some("a warning"), ..said("finished") };

        assert_eq!(understand(said), Report::Finished);
    }

    proptest! {
        #[test]
        fn any_word_is_understood_or_named(state in "\\PC{0,100}", percent: f64, error: Option<String>) {
            let said = JobReport { uid: "rq-1-1", state: &state, percent: Some(percent), error: error.as_deref() };
            match understand(said) {
                Report::At { phase, .. } => prop_assert!(phase.is_remote()),
                Report::Unknown { word } => prop_assert!(state.starts_with(&word)),
                Report::Failed { .. } => prop_assert_eq!(state, "error"),
                Report::Finished | Report::Cancelled | Report::Lost => {}
            }
        }
    }

    #[test]
    fn an_error_text_counts_only_in_the_state_error() {
        use crate::render::Phase;
        use crate::render::answer::{JobReport, Report, understand};
        let report =
            JobReport { uid: "rq-1-1", state: "started", percent: None, error: Some("half a second before") };
        assert_eq!(understand(report), Report::At { phase: Phase::NodePreparing, percent: None });
    }
}
