//! Parameters that a launch did not give, and connections that the configuration does not have.

use tidemill_declare::model::JobFile;
use tidemill_declare::{Known, check_given, load_beside, read};

const JOB: &str = r#"job: a
parameters:
  day: { type: date, required: true }
  file: { type: string }
  target: { type: string, default: out }
steps:
  - name: copy
    chunk: 10
    read: { sql: { query: "select a from t where day = ${day}", key: a, connection: shop } }
    write: { jsonl: { path: "${target}/${file}.jsonl" } }
  - name: rest
    chunk: 10
    partitions: { by: file, pattern: "in/*.jsonl" }
    read: { jsonl: { path: "${file}" } }
    write: { jsonl: { path: "${file}.out" } }
"#;

fn job() -> JobFile {
    read("a.yaml", JOB).unwrap()
}

#[test]
fn a_launch_without_a_parameter_that_a_text_needs_is_refused_with_its_place() {
    let wrong = check_given(&job(), |name| name == "day").unwrap_err();

    let told: Vec<String> = wrong.problems().iter().map(|problem| problem.headline()).collect();
    // The partition has a file of its own.
    assert_eq!(told, ["a.yaml:10:40: the parameter \"file\" is needed here, and was not given"]);
    assert_eq!(check_given(&job(), |name| name != "target"), Ok(()));
}

#[test]
fn a_connection_that_the_configuration_does_not_have_is_refused() {
    let connections = ["shop".to_owned()];

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.yaml");
    std::fs::write(&path, JOB).unwrap();

    assert!(load_beside(&path, &Known { connections: &connections, ..Known::default() }).is_ok());
    let wrong = load_beside(&path, &Known::default()).unwrap_err();
    assert_eq!(wrong.problems()[0].fix, "add [connections.shop] with its url to the configuration");
}
