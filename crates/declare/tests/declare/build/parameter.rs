//! Parameters: defaults that count, and those that were not given.

use super::Stand;
use tidemill_domain::code::Code;
use tidemill_domain::job::BatchStatus;
use tidemill_domain::job::launch::LaunchRefusal;
use tidemill_engine::job::JobError;
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![
    a_default_is_a_part_of_the_instance,
    a_restart_keeps_the_parameters_of_the_first_run,
];

const TEXT: &str = r#"
job: defaults
parameters:
  day: { type: date, default: 2026-11-15 }
  note: { type: string, identifying: false, default: none }
  extra: { type: string }
steps:
  - name: s
    chunk: 1
    read: { jsonl: { path: "@/in.jsonl" } }
    process: { map: { a: "parameters.note + string(parameters.extra == null)", day: "parameters.day" } }
    write: { jsonl: { path: "@/${day}.jsonl" } }
"#;

async fn a_default_is_a_part_of_the_instance(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    stand.write("in.jsonl", "{\"a\":1}\n");
    let job = stand.job(&[TEXT]);

    let run = stand.launch(&job, &[]).await.unwrap();

    assert!(run.is_completed(), "{:?}", run.end);
    assert_eq!(stand.content("2026-11-15.jsonl"), "{\"a\":\"nonetrue\",\"day\":\"2026-11-15\"}\n");
    let same = stand.launch(&job, &["day=2026-11-15"]).await.unwrap_err();
    assert!(
        matches!(&same, JobError::Refused { refusal: LaunchRefusal::AlreadyComplete(_), .. }),
        "the default and the same value given are one instance: {same}"
    );
    let other = stand.launch(&job, &["day=2026-11-16", "extra=x"]).await.unwrap();
    assert!(other.is_completed(), "{:?}", other.end);
    assert!(stand.content("2026-11-16.jsonl").contains("nonefalse"));
}

async fn a_restart_keeps_the_parameters_of_the_first_run(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    let failed = stand.launch(&stand.job(&[TEXT]), &[]).await.unwrap();
    assert_eq!(failed.end.status, BatchStatus::Failed, "there is no file yet");
    stand.write("in.jsonl", "{\"a\":1}\n");
    let changed = stand.job(&[&TEXT
        .replace("2026-11-15", "2027-01-01")
        .replace("extra: { type: string }", "extra: { type: string, default: new }")]);

    let launcher = stand.bench.launcher(&changed).unwrap().accept_change(true);
    let actor = tidemill_domain::audit::Actor::system();
    let running = launcher.restart(failed.end.execution, &actor).await.unwrap();
    let end = running.ended().await.unwrap();

    assert_eq!(end.status, BatchStatus::Completed, "{end:?}");
    assert!(stand.content("2026-11-15.jsonl").contains("nonetrue"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parameter_that_a_text_needs_has_to_be_given_by_whatever_way() {
    let stand = Stand::on(Scratch::memory()).await;
    stand.write("in.jsonl", "{\"a\":1}\n");
    let job = stand.job(&[&TEXT.replace("${day}", "${extra}")]);

    let refused = stand.launch(&job, &[]).await.unwrap_err();

    assert_eq!(
        (refused.code(), refused.to_string().contains("\"extra\" is missing")),
        (Code::BadJobParameters, true)
    );
    assert!(stand.launch(&job, &["extra=x"]).await.unwrap().is_completed());
}
