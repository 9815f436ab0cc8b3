//! What a launch can reach: which files by its parameters, and which of our secrets by the programs of its steps.

use crate::Stage;
use crate::serve::Served;
use std::fs;
use std::time::Duration;
use tidemill_testkit::moto::{self, PrivateMoto};
use tidemill_testkit::skip;

/// Copies a file that `path` names; the first parameter is no path, the second may be any.
const COPY: &str = r#"job: copy
parameters:
  name: { type: string, default: a }
  file: { type: string, default: in.jsonl, allow: path }
  region: { type: string, default: north, one_of: [north, south] }
steps:
  - name: copy
    chunk: 1
    read: { jsonl: { path: "${file}" } }
    write: { jsonl: { path: "out/${name}.jsonl" } }
"#;

/// A stage with the job in a folder, and a file that lies outside of everything.
fn stage() -> (Stage, tempfile::TempDir) {
    let stage = Stage::new();
    for folder in ["jobs", "out"] {
        fs::create_dir(stage.path(folder)).unwrap();
    }
    fs::write(stage.path("jobs/copy.yaml"), COPY).unwrap();
    fs::write(stage.path("in.jsonl"), "{\"a\":1}\n").unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    fs::write(elsewhere.path().join("secret.jsonl"), "{\"s\":1}\n").unwrap();
    (stage, elsewhere)
}

/// The execution with this id, once it has ended.
fn ended(served: &Served, id: u64) -> serde_json::Value {
    for _ in 0..1500 {
        let (_, body) = served.get(&format!("/api/v1/executions/{id}"), None);
        let execution: serde_json::Value = serde_json::from_str(&body).unwrap();
        if execution.to_string().contains("FAILED") || execution.to_string().contains("COMPLETED") {
            return execution;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("execution {id} does not end");
}

#[test]
fn a_launch_over_http_reaches_no_file_that_the_job_file_does_not_allow() {
    let (stage, elsewhere) = stage();
    let secret = elsewhere.path().join("secret.jsonl").display().to_string();
    let served = Served::start(&stage, &["--jobs", "jobs"]);
    let launch = |parameters: serde_json::Value| {
        let body = serde_json::json!({ "parameters": parameters }).to_string();
        served.post("/api/v1/jobs/copy/executions", &body)
    };

    for parameters in [
        serde_json::json!({ "name": "../../../../tmp/x" }),
        serde_json::json!({ "name": ".." }),
        serde_json::json!({ "region": "west" }),
    ] {
        let (status, body) = launch(parameters.clone());
        assert!((400..500).contains(&status) && body.contains("TM1007"), "{parameters}: {status} {body}");
    }
    // The job file allows a path, and the server still keeps it within its own folders.
    let (status, body) = launch(serde_json::json!({ "name": "b", "file": secret }));
    assert_eq!(status, 202, "{body}");
    let failed = ended(&served, 1);
    let why = failed["execution"]["exit_description"].as_str().unwrap();
    assert!(why.contains("lies outside of the folders that this job may use here (jobs, .)"), "{failed}");
    assert!(!stage.path("out/b.jsonl").exists());
    // Neither does whoever restarts it at the command line lend the right to do so.
    let restarted = stage.run(&["job", "restart", "1", "--file", "jobs/copy.yaml"]);
    assert!(restarted.fails("TM1027", 10).stderr.contains("jobs.roots"), "{restarted:#?}");

    let (status, body) = launch(serde_json::json!({ "name": "c" }));
    assert_eq!(status, 202, "{body}");
    let done = ended(&served, 3);
    assert_eq!(fs::read_to_string(stage.path("out/c.jsonl")).unwrap(), "{\"a\":1}\n", "{done}");
}

#[test]
fn whoever_runs_a_job_at_the_command_line_names_any_file_unless_roots_are_set() {
    let (stage, elsewhere) = stage();
    let file = format!("file={}", elsewhere.path().join("secret.jsonl").display());
    let run = |stage: &Stage, name: &str| {
        stage.run(&["job", "run", "jobs/copy.yaml", "-p", &format!("name={name}"), "-p", &file])
    };

    run(&stage, "a").succeeds();
    assert_eq!(fs::read_to_string(stage.path("out/a.jsonl")).unwrap(), "{\"s\":1}\n");
    let refused = run(&stage, "../b");
    assert!(refused.fails("TM1007", 2).stderr.contains("`allow: path`"), "{refused:#?}");
    let confined = stage.with("TIDEMILL_JOBS_ROOTS", "out;in");
    let refused = run(&confined, "c");
    assert!(refused.fails("TM1027", 10).stderr.contains("(out, in)"), "{refused:#?}");
    let wide = confined.with("TIDEMILL_JOBS_ROOTS", &format!("out;{}", elsewhere.path().display()));
    run(&wide, "d").succeeds();
}

/// Copies an object of the day, in a folder that anybody may name.
const LAKE: &str = r#"job: lake
parameters:
  day: { type: string, required: true }
  folder: { type: string, default: in, allow: path }
steps:
  - name: copy
    chunk: 1
    read: { csv: { path: "s3://lake/${folder}/${day}.csv" } }
    write: { jsonl: { path: "out/${day}.jsonl" } }
"#;

#[test]
fn a_root_in_a_bucket_limits_the_objects_that_a_launch_reaches() {
    let Some(python) = skip::require("moto", std::env::var_os(moto::PYTHON)) else { return };
    let server = PrivateMoto::start(&python).unwrap();
    for key in ["in/mon.csv", "in/tue.csv", "inside/mon.csv", "other/mon.csv"] {
        server.put(key, b"id\n1\n").unwrap();
    }
    let (stage, _elsewhere) = stage();
    let stage = server.variables().iter().fold(stage, |stage, (name, value)| stage.with(name, value));
    let stage = stage.with("TIDEMILL_JOBS_ROOTS", "s3://lake/in;out");
    fs::write(stage.path("jobs/lake.yaml"), LAKE).unwrap();
    let served = Served::start(&stage, &["--jobs", "jobs"]);
    let launch = |parameters: serde_json::Value| {
        let body = serde_json::json!({ "parameters": parameters }).to_string();
        served.post("/api/v1/jobs/lake/executions", &body)
    };
    let run = |day: &str, folder: &str| {
        let (day, folder) = (format!("day={day}"), format!("folder={folder}"));
        stage.run(&["job", "run", "jobs/lake.yaml", "-p", &day, "-p", &folder])
    };

    let (status, body) = launch(serde_json::json!({ "day": "../other/mon" }));
    assert!((400..500).contains(&status) && body.contains("TM1007"), "{status} {body}");
    let (status, body) = launch(serde_json::json!({ "day": "mon", "folder": "inside" }));
    assert_eq!(status, 202, "{body}");
    let failed = ended(&served, 1);
    let why = failed["execution"]["exit_description"].as_str().unwrap();
    assert!(
        why.contains("lies outside of the folders that this job may use here (s3://lake/in, out)"),
        "{failed}"
    );
    assert_eq!(launch(serde_json::json!({ "day": "mon" })).0, 202);
    let done = ended(&served, 2);
    assert_eq!(fs::read_to_string(stage.path("out/mon.jsonl")).unwrap(), "{\"id\":\"1\"}\n", "{done}");
    // At the command line, the same roots hold.
    let refused = run("mon", "in/../other");
    assert!(refused.fails("TM1027", 10).stderr.contains("s3://lake/in"), "{refused:#?}");
    run("tue", "in").succeeds();
}

/// Variables that hold secrets, under the names of others and under one that the configuration names.
fn with_secrets(stage: Stage) -> Stage {
    fs::write(
        stage.path("tidemill.toml"),
        "[connections.shop]\nurl = \"postgres://u@127.0.0.1:1/x\"\npassword = \"env:SHOP_PW\"\n",
    )
    .unwrap();
    stage
        .with("TIDEMILL_DATABASE_URL", "sqlite://own.db")
        .with("SPRING_DATASOURCE_PASSWORD", "geheim-1")
        .with("NEXRENDER_SECRET", "geheim-2")
        .with("SHOP_PW", "geheim-3")
        .with("TIDEMILL_OUTBOX_KAFKA_SASL_PASSWORD", "geheim-4")
        .with("SPRING_DATASOURCE_URL", "jdbc:postgresql://h/d?user=u&password=geheim-5")
        .with("PLAIN", "plain")
}

/// The variables of an environment that have secrets in them. What else is there is nobody's business.
fn secrets_in(environment: &str) -> Vec<String> {
    assert!(environment.contains("PLAIN=plain"), "the rest is passed on");
    environment.lines().filter(|line| line.contains("geheim")).map(str::to_owned).collect()
}

#[test]
fn no_program_of_a_step_and_none_of_run_finds_our_secrets() {
    let stage = with_secrets(Stage::new());
    fs::write(
        stage.path("env.yaml"),
        "job: env\nsteps:\n  - { name: all, command: [sh, -c, 'env > all'] }\n  \
         - { name: some, command: [sh, -c, 'env > some'], env: { pass: [NEXRENDER_SECRET] } }\n",
    )
    .unwrap();

    stage.run(&["job", "run", "env.yaml"]).succeeds();

    let told = |file: &str| secrets_in(&fs::read_to_string(stage.path(file)).unwrap());
    assert_eq!(told("all"), [""; 0]);
    assert_eq!(told("some"), ["NEXRENDER_SECRET=geheim-2"]);
    stage.run(&["pool", "create", "etl", "--max", "4"]).succeeds();
    let ran = stage.run(&["run", "--pool", "etl", "--units", "1", "--", "env"]);
    assert_eq!(secrets_in(&ran.succeeds().stdout), [""; 0]);
}
