//! `emr` steps: what moto gets, and what a service gets that follows the public description of EMR and whose states move,
//! which moto's do not.

use crate::exact::{die_at, go_on, stage, start_mortal};
use crate::examples::Program;
use crate::job_reload::until;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tidemill_store::scratch::Scratch;
use tidemill_testkit::moto::{PYTHON, PrivateMoto};
use tidemill_testkit::{HttpService, Received, Reply, Signal, skip};

const ROLE: &str = "arn:aws:iam::123456789012:role/emr";
const HINT: &str = "/*+ PARALLEL(8) FULL(A) */";
const RUN: [&str; 3] = ["job", "run", "emr.yaml"];

/// The work that the service was asked for.
#[derive(Default)]
struct Work {
    /// The token of each job run, or the name of each step. The index is the id.
    known: Vec<String>,
    /// The names of job runs.
    names: Vec<Value>,
    /// What becomes of all of them; they run while there is nothing.
    end: Option<&'static str>,
    /// Ids.
    cancelled: BTreeSet<String>,
    /// How many of the next requests are refused for now.
    busy: usize,
    /// Whether a repeated token is refused, as after another grant.
    refuses_tokens: bool,
}

impl Work {
    fn state(&self, id: &str, completed: &'static str) -> &'static str {
        match self.end {
            _ if self.cancelled.contains(id) => "CANCELLED",
            Some("COMPLETED") => completed,
            end => end.unwrap_or("RUNNING"),
        }
    }

    fn refuses(&self, request: &Received) -> bool {
        let body: Value = serde_json::from_str(&request.body).unwrap_or_default();
        let is_known = |token: &str| self.known.iter().any(|known| known == token);
        self.refuses_tokens && body["clientToken"].as_str().is_some_and(is_known)
    }

    fn answer(&mut self, request: &Received) -> Value {
        let body: Value = serde_json::from_str(&request.body).unwrap_or_default();
        let (_, id) = request.target.rsplit_once('/').unwrap();
        let target = request.header("x-amz-target").unwrap_or_default();
        match (request.method.as_str(), target) {
            ("POST", "ElasticMapReduce.AddJobFlowSteps") => {
                self.known.push(body["Steps"][0]["Name"].as_str().unwrap().to_owned());
                json!({ "StepIds": [format!("s-{}", self.known.len() - 1)] })
            }
            ("POST", "ElasticMapReduce.ListSteps") => {
                let step = |(id, name): (usize, &String)| json!({ "Id": format!("s-{id}"), "Name": name });
                json!({ "Steps": self.known.iter().enumerate().map(step).rev().collect::<Vec<_>>() })
            }
            ("POST", "ElasticMapReduce.DescribeStep") => {
                let reason = json!({ "Message": "planted: the region is not known" });
                let state = self.state(body["StepId"].as_str().unwrap(), "COMPLETED");
                let status = json!({ "State": state, "StateChangeReason": reason });
                json!({ "Step": { "Id": body["StepId"], "Status": status } })
            }
            ("POST", "ElasticMapReduce.DescribeCluster") => {
                json!({ "Cluster": { "LogUri": "s3n://lake/logs/" } })
            }
            ("POST", "ElasticMapReduce.CancelSteps") => {
                self.cancelled.insert(body["StepIds"][0].as_str().unwrap().to_owned());
                json!({ "CancelStepsInfoList": [{ "StepId": body["StepIds"][0], "Status": "SUBMITTED" }] })
            }
            ("POST", "") => {
                let token = body["clientToken"].as_str().unwrap().to_owned();
                let found = self.known.iter().position(|known| *known == token);
                let id = found.unwrap_or_else(|| {
                    self.known.push(token);
                    self.names.push(body["name"].clone());
                    self.known.len() - 1
                });
                json!({ "applicationId": "00a", "jobRunId": format!("r{id}"), "arn": "arn" })
            }
            // The job run is on the second page.
            ("GET", _) if id == "jobruns?maxResults=50" => json!({ "jobRuns": [], "nextToken": "a=" }),
            ("GET", _) if id == "jobruns?maxResults=50&nextToken=a%3D" => {
                let run = |(id, name): (usize, &Value)| json!({ "id": format!("r{id}"), "name": name });
                json!({ "jobRuns": self.names.iter().enumerate().map(run).collect::<Vec<_>>() })
            }
            ("GET", _) => {
                let details = "planted: the region is not known";
                json!({ "jobRun": { "state": self.state(id, "SUCCESS"), "stateDetails": details } })
            }
            ("DELETE", _) => {
                self.cancelled.insert(id.to_owned());
                json!({ "applicationId": "00a", "jobRunId": "r0" })
            }
            other => panic!("nobody described {other:?}"),
        }
    }
}

struct Yard {
    _database: Scratch,
    service: HttpService,
    work: Arc<Mutex<Work>>,
    program: Program,
}

impl Yard {
    fn new(emr: &str, end: Option<&'static str>) -> Self {
        let work = Arc::new(Mutex::new(Work { end, ..Work::default() }));
        let asked = work.clone();
        let service = HttpService::start(move |request, _| {
            let mut work = asked.lock().unwrap();
            if work.busy > 0 {
                work.busy -= 1;
                return Reply::new(503, "");
            }
            if work.refuses(request) {
                let refusal = r#"{"message": "planted: the client token has other parameters"}"#;
                return Reply::new(409, refusal).with("x-amzn-errortype", "ConflictException");
            }
            Reply::new(200, work.answer(request).to_string())
        })
        .unwrap();
        let variables = [
            ("AWS_ENDPOINT_URL", service.url("/")),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", "test".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "hunter2".to_owned()),
        ];
        let database = Scratch::file();
        let program = program(&database, &variables, emr);
        Self { _database: database, service, work, program }
    }

    /// The bodies of the requests with this method, and with this end of the target.
    fn sent(&self, method: &str, target: &str) -> Vec<Value> {
        let received = self.service.received();
        let is_it = |request: &&Received| {
            request.method == method && request.header("x-amz-target").unwrap_or_default().ends_with(target)
        };
        let bodies = received.iter().filter(is_it);
        bodies.map(|request| serde_json::from_str(&request.body).unwrap_or_default()).collect()
    }
}

/// The program with a pool and a job of one `emr` step.
fn program(database: &Scratch, variables: &[(&'static str, String)], emr: &str) -> Program {
    let stage = stage(database.url()).with("TIDEMILL_DATABASE_INIT", "always");
    let stage = variables.iter().fold(stage, |stage, (name, value)| stage.with(name, value));
    let job = format!(
        "job: load\nsteps:\n  - name: extract\n    pool: {{ name: adw, hint: \"{HINT}\" }}\n    \
         emr: {{ {emr}, app: \"s3://lake/jobs/extract.py\", args: [--day, mon] }}\n"
    );
    fs::write(stage.path("emr.yaml"), job).unwrap();
    stage.run(&["pool", "create", "adw", "--max", "10"]).succeeds();
    Program::tidemill(stage)
}

fn serverless(application: &str) -> String {
    format!("application: {application}, role: \"{ROLE}\", logs: \"s3://lake/logs/\"")
}

fn properties(run: &Value) -> &Value {
    &run["configurationOverrides"]["applicationConfiguration"][0]["properties"]
}

#[test]
fn a_job_run_gets_the_grant_and_a_restart_after_a_crash_repeats_its_token() {
    let yard = Yard::new(&serverless("00a"), Some("COMPLETED"));

    die_at(&yard.program, &RUN, "remote_before_id:1");
    go_on(&yard.program, &RUN).succeeds();

    let started = yard.sent("POST", "");
    assert_eq!(started.len(), 2, "{started:#?}");
    assert_eq!(started[0]["clientToken"], started[1]["clientToken"]);
    // The service refuses a token that comes with another request.
    assert_eq!(started[0]["name"], started[1]["name"]);
    assert_eq!(yard.work.lock().unwrap().known.len(), 1);
    let driver = &started[0]["jobDriver"]["sparkSubmit"];
    assert_eq!(driver["entryPoint"], "s3://lake/jobs/extract.py");
    assert_eq!(driver["entryPointArguments"], json!(["--day", "mon"]));
    assert_eq!(properties(&started[0])["spark.tidemill.parallelism"], "8");
    assert_eq!(properties(&started[0])["spark.tidemill.hint"], HINT);
    assert_eq!(properties(&started[0])["spark.executor.instances"], "2");
    assert_eq!(properties(&started[0])["spark.dynamicAllocation.initialExecutors"], "2");
    let shown = yard.program.run(&["executions", "2", "-o", "json"]);
    assert!(shown.succeeds().stdout.contains("s3://lake/logs/applications/00a/jobs/r0/"), "{shown:#?}");
}

#[test]
fn a_job_run_is_found_by_its_name_if_its_token_is_refused() {
    let yard = Yard::new(&serverless("00a"), Some("COMPLETED"));

    die_at(&yard.program, &RUN, "remote_before_id:1");
    yard.work.lock().unwrap().refuses_tokens = true;
    go_on(&yard.program, &RUN).succeeds();

    assert_eq!((yard.sent("POST", "").len(), yard.work.lock().unwrap().known.len()), (2, 1));
    let shown = yard.program.run(&["executions", "2", "-o", "json"]);
    assert!(shown.succeeds().stdout.contains("s3://lake/logs/applications/00a/jobs/r0/"), "{shown:#?}");
}

#[test]
fn work_that_has_completed_is_not_started_again_after_a_crash() {
    for (emr, asks) in [(serverless("00a"), ""), ("cluster: j-1".to_owned(), ".AddJobFlowSteps")] {
        let yard = Yard::new(&emr, Some("COMPLETED"));

        die_at(&yard.program, &RUN, "remote_after_end:1");
        go_on(&yard.program, &RUN).succeeds();

        assert_eq!(yard.sent("POST", asks).len(), 1, "{emr}");
    }
}

#[test]
fn work_that_a_dead_run_has_cancelled_starts_anew() {
    let yard = Yard::new("cluster: j-1, timeout: 200ms", None);

    die_at(&yard.program, &RUN, "remote_after_cancel:1");
    yard.work.lock().unwrap().end = Some("COMPLETED");
    go_on(&yard.program, &RUN).succeeds();

    let work = yard.work.lock().unwrap();
    assert_eq!((work.cancelled.len(), work.known.len()), (1, 2), "{:?}", work.known);
}

#[test]
fn a_restart_after_a_crash_finds_the_step_on_the_cluster() {
    let yard = Yard::new("cluster: j-1", Some("COMPLETED"));

    die_at(&yard.program, &RUN, "remote_before_id:1");
    go_on(&yard.program, &RUN).succeeds();

    let added = yard.sent("POST", ".AddJobFlowSteps");
    assert_eq!(added.len(), 1, "{added:#?}");
    let words = added[0]["Steps"][0]["HadoopJarStep"]["Args"].as_array().unwrap().clone();
    let words: Vec<&str> = words.iter().map(|word| word.as_str().unwrap()).collect();
    assert_eq!((words[0], words[words.len() - 2..].to_vec()), ("spark-submit", vec!["--day", "mon"]));
    let hint = format!("spark.tidemill.hint={HINT}");
    for conf in [hint.as_str(), "spark.tidemill.parallelism=8", "spark.submit.deployMode=cluster"] {
        assert!(words.contains(&conf), "{conf}: {words:?}");
    }
    let shown = yard.program.run(&["executions", "2", "-o", "json"]);
    assert!(shown.succeeds().stdout.contains("s3://lake/logs/j-1/steps/s-0/"), "{shown:#?}");
}

#[test]
fn work_that_has_started_is_not_started_again() {
    let yard = Yard::new("cluster: j-1", Some("COMPLETED"));

    die_at(&yard.program, &RUN, "remote_after_start:1");
    go_on(&yard.program, &RUN).succeeds();

    // It is not looked for: the first run knew that it was new, and the second one knows its id.
    assert_eq!((yard.sent("POST", ".ListSteps").len(), yard.sent("POST", ".AddJobFlowSteps").len()), (0, 1));
}

#[test]
fn an_application_that_fails_says_why_and_a_restart_starts_it_anew() {
    for (emr, asks) in [(serverless("00a"), ""), ("cluster: j-1".to_owned(), ".AddJobFlowSteps")] {
        let yard = Yard::new(&emr, Some("FAILED"));

        let failed = yard.program.run(&RUN);
        yard.work.lock().unwrap().end = Some("COMPLETED");
        yard.program.run(&RUN).succeeds();

        let told = &failed.fails("TM1029", 10).stderr;
        assert!(
            told.contains("planted: the region is not known") && told.contains("s3://lake/logs/"),
            "{told}"
        );
        assert!(!told.contains("hunter2"), "{told}");
        assert_eq!((yard.sent("POST", asks).len(), yard.work.lock().unwrap().known.len()), (2, 2), "{emr}");
    }
}

#[test]
fn a_service_that_is_busy_is_asked_again() {
    let yard = Yard::new(&serverless("00a"), Some("COMPLETED"));
    yard.work.lock().unwrap().busy = 1;

    yard.program.run(&RUN).succeeds();

    assert_eq!((yard.sent("POST", "").len(), yard.work.lock().unwrap().known.len()), (2, 1));
}

#[test]
fn work_that_takes_too_long_is_cancelled_and_the_step_fails() {
    let yard = Yard::new("cluster: j-1, timeout: 200ms", None);

    let failed = yard.program.run(&RUN);

    assert!(failed.fails("TM1029", 10).stderr.contains("did not end within 200ms"), "{failed:#?}");
    assert!(!yard.work.lock().unwrap().cancelled.is_empty());
}

#[test]
fn a_stop_cancels_the_work_and_waits_for_its_end() {
    for (emr, method, target) in
        [(serverless("00a"), "DELETE", ""), ("cluster: j-1".to_owned(), "POST", ".CancelSteps")]
    {
        let yard = Yard::new(&emr, None);
        let mut running = start_mortal(&yard.program, "run.log", &RUN);
        until("the work runs", || (yard.work.lock().unwrap().known.len() == 1).then_some(()));

        running.signal(Signal::TERM).unwrap();

        let ended = running.wait_deadline(Duration::from_secs(180)).expect("it stops");
        assert_eq!(ended.code(), Some(11), "{emr}");
        assert!(!yard.work.lock().unwrap().cancelled.is_empty(), "{emr}");
        assert!(!yard.sent(method, target).is_empty(), "{emr}");
    }
}

#[test]
fn moto_runs_an_application_of_emr_serverless_and_knows_no_other() {
    let Some(python) = skip::require("moto", std::env::var_os(PYTHON)) else { return };
    let moto = PrivateMoto::start(&python).unwrap();
    let create = "import boto3; print(boto3.client('emr-serverless').create_application(\
                  name='a', releaseLabel='emr-7.0.0', type='SPARK', clientToken='t')['applicationId'], end='')";
    let application = moto.python(create, &[]).unwrap();
    let database = Scratch::file();
    let there = program(&database, &moto.variables(), &serverless(&application));

    there.run(&RUN).succeeds();
    let list = format!(
        "import boto3, json; emr = boto3.client('emr-serverless'); \
         runs = emr.list_job_runs(applicationId='{application}')['jobRuns']; \
         found = emr.get_job_run(applicationId='{application}', jobRunId=runs[0]['id'])['jobRun']; \
         print(json.dumps([len(runs), found['name'], found['configurationOverrides']]))"
    );
    let found: Value = serde_json::from_str(&moto.python(&list, &[]).unwrap()).unwrap();
    assert_eq!(found[0], json!(1));
    assert!(found[1].as_str().unwrap().starts_with("load extract execution 1 (tidemill-"), "{found}");
    let run = json!({ "configurationOverrides": found[2] });
    assert_eq!(properties(&run)["spark.tidemill.hint"], HINT);

    let database = Scratch::file();
    let gone = program(&database, &moto.variables(), &serverless("00gone")).run(&RUN);
    assert!(gone.fails("TM1029", 10).stderr.contains("check its name"), "{gone:#?}");
}

#[test]
fn moto_adds_a_step_to_a_cluster() {
    let Some(python) = skip::require("moto", std::env::var_os(PYTHON)) else { return };
    let moto = PrivateMoto::start(&python).unwrap();
    let create = "import boto3; print(boto3.client('emr').run_job_flow(\
                  Name='c', ReleaseLabel='emr-7.0.0', JobFlowRole='r', ServiceRole='s', Instances={\
                  'InstanceCount': 1, 'MasterInstanceType': 'm5.xlarge', 'KeepJobFlowAliveWhenNoSteps': True\
                  })['JobFlowId'], end='')";
    let cluster = moto.python(create, &[]).unwrap();
    let database = Scratch::file();
    let program = program(&database, &moto.variables(), &format!("cluster: {cluster}"));
    let list = format!(
        "import boto3, json; steps = boto3.client('emr').list_steps(ClusterId='{cluster}')['Steps']; \
         print(json.dumps([[step['Name'], step['Config']['Args']] for step in steps]))"
    );
    let steps = || -> Vec<Value> { serde_json::from_str(&moto.python(&list, &[]).unwrap()).unwrap() };

    // moto moves no step to its end.
    let mut running = start_mortal(&program, "run.log", &RUN);
    let found = until("a step", || steps().into_iter().next());
    running.signal(Signal::KILL).unwrap();

    let name = found[0].as_str().unwrap();
    assert!(name.starts_with("load extract execution 1 (tidemill-"), "{found}");
    assert!(found[1].as_array().unwrap().contains(&json!(format!("spark.tidemill.hint={HINT}"))), "{found}");
}
