//! The description of the API, read by programs that others wrote: a validator, and a generator of clients.

use crate::airflow::run_python;
use crate::serve::Served;
use crate::{Stage, workspace};
use serde_json::json;
use std::path::PathBuf;
use tidemill_testkit::skip;

/// The variable that names a Python with openapi-spec-validator and openapi-python-client.
const OPENAPI_PYTHON: &str = "TIDEMILL_TEST_OPENAPI_PYTHON";

#[test]
fn the_description_is_valid_and_a_generated_client_can_call_the_server() {
    let Some(python) = skip::require("openapi", std::env::var_os(OPENAPI_PYTHON)).map(PathBuf::from) else {
        return;
    };
    let stage = Stage::new();
    let served = Served::start(&stage, &[]);
    let url = format!("http://{}", served.address);
    let folder = stage.path("generated");
    std::fs::create_dir(&folder).unwrap();

    let program = workspace().join("crates/tidemill/tests/cli/openapi/generated_client.py");
    let told = run_python(&stage, &python, &program, &[], &[&url, folder.to_str().unwrap()]);

    assert_eq!((&told["faults"], &told["warnings"]), (&json!([]), &json!(0)));
    assert_ne!(told["planted_faults"], 0, "a description without a required field passed");
    assert_eq!(told["created"], json!([201, "etl"]));
    assert_eq!(told["granted"], json!([200, 4]));
    assert_eq!(told["refused"], json!([404, true]));
    assert_eq!(told["listed"], json!([["etl", 4]]));
}
