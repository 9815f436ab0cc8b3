//! Every operator action, as the API, the command line and the dashboard offer it: they refuse alike.

use crate::render::known;
use crate::serve::{Served, ask};
use crate::{Ran, Stage};
use serde_json::{Value, json};
use tidemill_domain::action::{Action, Reason};

/// A server and the command line on one database.
struct Site {
    stage: Stage,
    served: Served,
}

impl Site {
    fn new() -> Self {
        let stage = known(Stage::new());
        std::fs::create_dir_all(stage.path("jobs")).unwrap();
        std::fs::write(stage.path("jobs/hello.yaml"), HELLO).unwrap();
        let served = Served::start(&stage, &[]);
        Self { stage, served }
    }

    /// The codes that the three surfaces refuse an action with; `None` if it was done. An action without a form has two.
    fn refusals(&self, call: &Call) -> Vec<Option<String>> {
        let declared = call.action.declaration();
        let body = call.body().to_string();
        let headers = format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
        let path = call.path(declared.path);
        let (status, answer) = ask(&self.served.address, declared.method, &path, &headers, &body);
        let mut refusals = vec![(status >= 400).then(|| code(&answer))];
        let arguments = call.arguments();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let Ran { code: exit, stderr, .. } = self.stage.run(&arguments);
        refusals.push((exit != Some(0)).then(|| code(&stderr)));
        if let Some(page) = declared.page {
            let form = call.form();
            let headers = format!(
                "content-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\n",
                form.len()
            );
            let (status, answer) = ask(&self.served.address, "POST", &call.path(page), &headers, &form);
            refusals.push((status >= 400).then(|| code(&answer)));
        }
        refusals
    }
}

/// The first error code of an answer.
fn code(answer: &str) -> String {
    let mut places = answer.match_indices("TM").map(|(at, _)| &answer[at..]);
    let is_code = |text: &&str| text.len() >= 6 && text[2..6].bytes().all(|byte| byte.is_ascii_digit());
    places.find(is_code).map_or_else(|| format!("no code in {answer}"), |text| text[..6].to_owned())
}

/// An action on an object.
struct Call {
    action: Action,
    object: String,
}

impl Call {
    fn new(action: Action, object: impl ToString) -> Self {
        Self { action, object: object.to_string() }
    }

    /// The path with the object in its last place. A pool before a ticket is named like the one that tests create.
    fn path(&self, template: &str) -> String {
        let places = template.matches('{').count();
        let parts = template.split('/').scan(0, |seen, part| {
            *seen += usize::from(part.starts_with('{'));
            Some(match (part.starts_with('{'), *seen == places) {
                (true, true) => self.object.as_str(),
                (true, false) => {
                    if part == "{schema}" {
                        "public"
                    } else {
                        "etl"
                    }
                }
                _ => part,
            })
        });
        parts.collect::<Vec<_>>().join("/")
    }

    /// What the action needs besides its object and the reason, as fields of the API and as flags.
    fn parameters(&self) -> (Value, Vec<&'static str>) {
        match self.action {
            Action::EventRedirect => (json!({ "topic": "other" }), vec!["--to", "other"]),
            Action::EventEdit => (json!({ "payload": { "type": "tombstone" } }), vec!["--tombstone"]),
            Action::EventsReplay | Action::EventsSkip => (json!({ "filter": {} }), vec!["--matching"]),
            Action::EventsRedirect => (
                json!({ "topic": "other", "events": { "filter": {}, "reason": "a test" } }),
                vec!["--matching", "--to", "other"],
            ),
            Action::RowsReplay | Action::RowsSkip => (json!({ "ids": [1] }), vec!["1", "--table"]),
            Action::AlertSilence => (json!({ "rule": self.object, "minutes": 60 }), vec!["--for", "1h"]),
            Action::AlertUnsilence => (json!({ "rule": self.object }), vec![]),
            Action::RenderPrioritize => (json!({ "by": 1 }), vec!["--by", "1"]),
            Action::RendersCancel | Action::RendersRetry => {
                (json!({ "filter": { "composition": "none" } }), vec!["--composition", "none"])
            }
            Action::RendersPrioritize => {
                (json!({ "by": 1, "filter": { "late": true } }), vec!["--by", "1", "--late"])
            }
            _ => (json!({}), vec![]),
        }
    }

    fn body(&self) -> Value {
        let mut body = self.parameters().0;
        if self.action.declaration().reason == Reason::Required && body["events"].is_null() {
            body["reason"] = json!("a test");
        }
        body
    }

    fn arguments(&self) -> Vec<String> {
        let declared = self.action.declaration();
        let mut words: Vec<&str> = declared.command.split(' ').collect();
        words.extend(self.parameters().1);
        if !self.object.is_empty() {
            words.push(&self.object);
        }
        if declared.reason == Reason::Required {
            words.extend(["--reason", "a test"]);
        }
        words.into_iter().map(str::to_owned).collect()
    }

    fn form(&self) -> String {
        format!("reason=a+test&all=1&confirm={0}&rule={0}&hours=1&how=by&priority=1&form_token=", self.object)
    }
}

fn are_alike(refusals: &[Option<String>]) -> bool {
    refusals.iter().all(|refusal| *refusal == refusals[0])
}

/// An object of the action's noun that does not exist; empty for an action on all of them.
fn missing(action: Action) -> &'static str {
    match action {
        Action::SchedulePause | Action::ScheduleResume => "nothing",
        Action::PoolPause | Action::PoolResume | Action::PoolDelete => "nothing",
        Action::BreakerOpen | Action::BreakerClose => "nothing",
        Action::RowsReplay | Action::RowsSkip => "nothing",
        Action::LeaseRelease => "0193b1b0-0000-7000-8000-000000000000",
        Action::AlertSilence | Action::AlertUnsilence => "no_such_rule",
        Action::TokenDelete => "abcdefgh",
        Action::EventsReplay | Action::EventsSkip | Action::EventsRedirect | Action::RendersPoll => "",
        Action::RendersCancel | Action::RendersRetry | Action::RendersPrioritize => "",
        _ => "999",
    }
}

#[test]
fn every_action_is_on_api_command_line_and_page_and_refuses_what_does_not_exist_alike() {
    let site = Site::new();
    let mut differences = Vec::new();
    for action in Action::ALL {
        let mut refusals = site.refusals(&Call::new(action, missing(action)));
        match action {
            // The page takes what is gone for done: another click was quicker.
            Action::AlertUnsilence | Action::TokenDelete => {
                assert_eq!(refusals.pop(), Some(None), "{action}")
            }
            // The page has the number of events typed first, and the renders named by the question.
            Action::EventsReplay
            | Action::EventsSkip
            | Action::RendersCancel
            | Action::RendersRetry
            | Action::RendersPrioritize => {
                assert_eq!(refusals.pop(), Some(Some("TM0504".to_owned())), "{action}");
            }
            _ => {}
        }
        let is_refused = !missing(action).is_empty();
        if refusals[0].is_some() != is_refused || !are_alike(&refusals) {
            differences.push(format!("{action}: {refusals:?}"));
        }
    }
    assert_eq!(differences, Vec::<String>::new());
}

#[test]
fn every_surface_refuses_an_impossible_action_alike() {
    let site = Site::new();
    site.stage.run(&["job", "run", "hello", "-p", "day=1"]).succeeds();
    site.stage.run(&["pool", "create", "etl", "--max", "8"]).succeeds();
    let request = json!({ "pools": [{ "pool": "etl" }], "holder": { "dag_id": "d", "run_id": "r" } });
    let (status, granted) = site.served.post("/api/v1/requests", &request.to_string());
    assert_eq!(status, 200, "{granted}");
    site.stage.run(&["render", "submit", "ivey.json"]).succeeds();
    site.stage.run(&["render", "cancel", "1", "--reason", "a test"]).succeeds();
    site.stage.run(&["render", "submit", "ivey.json"]).succeeds();

    let mut differences = Vec::new();
    for (action, object) in [
        (Action::ExecutionStop, "1"),
        (Action::ExecutionRestart, "1"),
        (Action::ExecutionAbandon, "1"),
        (Action::ExecutionRecover, "1"),
        (Action::PoolDelete, "etl"),
        (Action::RenderCancel, "1"),
        (Action::RenderRecover, "1"),
        (Action::RenderPrioritize, "1"),
        (Action::RenderCorrect, "2"),
        (Action::RenderApprove, "2"),
        (Action::RenderReject, "2"),
    ] {
        let refusals = site.refusals(&Call::new(action, object));
        if refusals[0].is_none() || !are_alike(&refusals) {
            differences.push(format!("{action}: {refusals:?}"));
        }
    }
    assert_eq!(differences, Vec::<String>::new());
}

const HELLO: &str = "\
job: hello
parameters:
  day: { type: string }
steps:
  - name: say
    command: [\"true\"]
";
