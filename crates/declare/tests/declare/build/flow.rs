//! Decisions, flows, splits, and jobs within jobs.

use super::Stand;
use tidemill_domain::job::BatchStatus;
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![
    a_decision_chooses_by_parameters_and_by_what_happened,
    a_decision_chooses_by_what_was_counted_also_when_the_step_is_passed_over,
    a_job_runs_another_with_parameters_of_its_own_or_those_of_the_same_name,
];

/// A step that copies lines.
fn copy(name: &str, from: &str, to: &str) -> String {
    format!(
        "- name: {name}\n    chunk: 10\n    read: {{ jsonl: {{ path: \"@/{from}\" }} }}\n    write: {{ jsonl: {{ path: \"@/{to}\" }} }}\n"
    )
}

fn names(run: &tidemill_engine::testing::TestRun) -> Vec<String> {
    run.steps().map(|step| step.name.clone()).collect()
}

async fn a_decision_chooses_by_parameters_and_by_what_happened(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    stand.write("in.jsonl", "{\"a\":1}\n");
    let text = format!(
        "job: choose\nparameters: {{ full: {{ type: string }}, n: {{ type: long }} }}\nsteps:\n  {load}    on: {{ FAILED: to(which), \"*\": next }}\n  - name: which\n    decide: \"last.exit_code == 'COMPLETED' && parameters.full == 'yes' ? 'FULL' : 'PART'\"\n    on: {{ FULL: to(full), \"*\": to(part) }}\n  {full}    on: {{ \"*\": end(ALL_OF_IT) }}\n  {part}",
        load = copy("load", "in.jsonl", "out-${n}.jsonl"),
        full = copy("full", "in.jsonl", "full-${n}.jsonl"),
        part = copy("part", "in.jsonl", "part-${n}.jsonl"),
    );

    let full = stand.run(&text, &["full=yes", "n=1"]).await;
    let part = stand.run(&text, &["full=no", "n=2"]).await;
    stand.write("out-3.jsonl", "in the way");
    let failed = stand.run(&text, &["full=yes", "n=3"]).await;

    assert!(full.is_completed() && part.is_completed(), "{:?} {:?}", full.end, part.end);
    assert_eq!(
        (names(&full), full.end.exit.code.as_str()),
        (vec!["load".into(), "full".into()], "ALL_OF_IT")
    );
    assert_eq!(names(&part), ["load", "part"]);
    assert_eq!(names(&failed), ["load", "part"], "{:?}", failed.end);
}

async fn a_decision_chooses_by_what_was_counted_also_when_the_step_is_passed_over(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    stand.write("in-1.jsonl", "{\"a\":1}\n[]\n");
    stand.write("in-2.jsonl", "{\"a\":1}\n{\"a\":2}\n");
    let text = format!(
        "job: count\nparameters: {{ n: {{ type: long }} }}\nsteps:\n  {load}    process: {{ filter: \"row.a == 1\" }}\n    skip: {{ limit: 1, on: parse }}\n  - name: which\n    decide: \"last.skipped > 0 ? 'SOME' : string(last.read) + string(last.written) + string(last.filtered)\"\n    on: {{ SOME: to(some), \"211\": to(none), \"*\": fail }}\n  {some}    on: {{ COMPLETED: end, \"*\": fail }}\n  {none}",
        load = copy("load", "in-${n}.jsonl", "out-${n}.jsonl"),
        some = copy("some", "out-${n}.jsonl", "some-${n}.jsonl"),
        none = copy("none", "out-${n}.jsonl", "none-${n}.jsonl"),
    );
    stand.write("some-1.jsonl", "in the way");

    let some = stand.run(&text, &["n=1"]).await;
    std::fs::remove_file(stand.path().join("some-1.jsonl")).unwrap();
    let again = stand.run(&text, &["n=1"]).await;
    let none = stand.run(&text, &["n=2"]).await;

    assert_eq!((names(&some), some.end.status), (vec!["load".into(), "some".into()], BatchStatus::Failed));
    assert_eq!((names(&again), again.is_completed()), (vec!["some".into()], true), "{:?}", again.end);
    assert_eq!(
        (names(&none), none.is_completed()),
        (vec!["load".into(), "none".into()], true),
        "{:?}",
        none.end
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flow_counts_nothing_of_its_own() {
    let stand = Stand::on(Scratch::file()).await;
    stand.write("in.jsonl", "{\"a\":1}\n");
    let step = copy("a", "in.jsonl", "a.jsonl").replace("\n  ", "\n      ");
    let text = format!(
        "job: within\nsteps:\n  - name: inner\n    flow:\n      {step}  - name: which\n    decide: \"last.skipped == null ? last.status : 'COUNTED'\"\n    on: {{ COMPLETED: end(NOT_COUNTED), \"*\": fail }}\n",
    );

    let run = stand.run(&text, &[]).await;

    assert_eq!((run.is_completed(), run.end.exit.code.as_str()), (true, "NOT_COUNTED"), "{:?}", run.end);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flows_and_splits_run_all_of_their_steps() {
    let stand = Stand::on(Scratch::file()).await;
    stand.write("in.jsonl", "{\"a\":1}\n");
    let indented = |step: String| step.replace("\n  ", "\n      ");
    let text = format!(
        "job: wide\nsteps:\n  - name: inner\n    flow:\n      {a}  - name: both\n    split:\n      - [{b}]\n      - [{c}]\n",
        a = indented(copy("a", "in.jsonl", "a.jsonl")),
        b = "{ name: b, chunk: 1, read: { jsonl: { path: \"@/a.jsonl\" } }, write: { jsonl: { path: \"@/b.jsonl\" } } }",
        c = "{ name: c, chunk: 1, read: { jsonl: { path: \"@/a.jsonl\" } }, write: { jsonl: { path: \"@/c.jsonl\" } } }",
    );

    let run = stand.run(&text, &[]).await;

    assert!(run.is_completed(), "{:?}", run.end);
    assert_eq!(stand.content("b.jsonl"), stand.content("in.jsonl"));
    assert_eq!(stand.content("c.jsonl"), stand.content("in.jsonl"));
}

async fn a_job_runs_another_with_parameters_of_its_own_or_those_of_the_same_name(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    stand.write("in.jsonl", "{\"a\":1}\n");
    let inner = format!(
        "job: inner\nparameters: {{ day: {{ type: date, required: true }}, to: {{ type: string, default: x }} }}\nsteps:\n  {}",
        copy("copy", "in.jsonl", "${day}-${to}.jsonl"),
    );
    let outer = "job: outer\nparameters: { day: { type: date }, other: { type: long } }\nsteps:\n  - name: same\n    job: inner\n  - name: told\n    job: inner\n    parameters: { day: \"2020-01-01\", to: \"n${other}\" }\n";
    let job = stand.job(&[outer, &inner]);

    let run = stand.launch(&job, &["day=2026-11-15", "other=7"]).await.unwrap();

    assert!(run.is_completed(), "{:?}", run.end);
    assert_eq!(stand.content("2026-11-15-x.jsonl"), stand.content("2020-01-01-n7.jsonl"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_no_text_fails_the_job() {
    let stand = Stand::on(Scratch::memory()).await;
    stand.write("in.jsonl", "{\"a\":1}\n");
    let text = format!(
        "job: wrong\nsteps:\n  - name: which\n    decide: \"1 + 1\"\n    on: {{ \"*\": next }}\n  {}",
        copy("never", "in.jsonl", "out.jsonl")
    );

    let run = stand.run(&text, &[]).await;

    assert_eq!(run.end.status, BatchStatus::Failed);
    assert!(run.end.exit.description.contains("it has to be a text and is int"), "{:?}", run.end.exit);
}
