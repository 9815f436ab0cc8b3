//! A database that cannot be used: the caller learns why, and the function goes on when it can be used.

use crate::emulator::Emulator;
use crate::{LONG, acquire, emulator};
use serde_json::json;
use tidemill_store::scratch::Scratch;
use tidemill_store::{Init, Store};

fn check_error(emulator: &Emulator, kind: &str, parts: &[&str]) {
    let error = emulator.invoke(&acquire("run-1", 8));
    let message = error["errorMessage"].as_str().unwrap_or_default();
    let is_told = parts.iter().all(|part| message.contains(part));
    assert!(error["errorType"] == kind && is_told, "{error}\n{}", emulator.log());
    assert!(!message.contains("geheim"), "{error}");
}

#[test]
fn a_database_out_of_reach_is_an_error_that_says_so() {
    let Some(program) = emulator() else { return };
    // Nobody listens at port 1.
    let url = "postgres://tidemill:geheim@127.0.0.1:1/app";
    let emulator = Emulator::start(&program, LONG, &[("TIDEMILL_DATABASE_URL", url)]);

    check_error(&emulator, "TM0202", &["postgres://127.0.0.1:1/app cannot be reached; "]);
    let first = emulator.function();
    check_error(&emulator, "TM0202", &["cannot be reached"]);

    assert_eq!(emulator.function(), first, "the function ended");
    assert!(!emulator.log().contains("geheim"), "{}", emulator.log());
}

#[test]
fn a_function_without_a_database_says_which_variable_is_missing() {
    let Some(program) = emulator() else { return };
    let emulator = Emulator::start(&program, LONG, &[]);

    check_error(&emulator, "TM0201", &["the function has no database", "TIDEMILL_DATABASE_URL"]);
}

#[tokio::test]
async fn a_database_without_the_schema_is_not_migrated() {
    let (Some(program), Some(scratch)) = (emulator(), Scratch::postgres().await) else { return };
    let emulator = Emulator::start(&program, LONG, &[("TIDEMILL_DATABASE_URL", scratch.url())]);

    for _ in 0..2 {
        check_error(&emulator, "TM0206", &["tidemill db migrate"]);
    }

    let store = Store::open(scratch.url().parse().unwrap(), &Default::default()).await.unwrap();
    assert!(store.initialise(Init::Never).await.is_err());
    store.initialise(Init::Always).await.unwrap();
    let status = emulator.invoke(&json!({ "action": "status" }));
    assert_eq!(status["sources"], json!({}), "the same function works as soon as it can: {status}");
}
