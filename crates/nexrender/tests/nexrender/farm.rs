//! The client on the real nexrender.

use crate::clip::{local, profile};
use crate::site::{SOON, client, client_at, job, jobs_posted, nexrender, uid};
use serde_json::json;
use std::time::Duration;
use tidemill_domain::render::answer::RemoteJob;
use tidemill_domain::render::check::check;
use tidemill_domain::render::{Failure, Phase, Probe, Report, Trouble};
use tidemill_engine::render::{Farm, Inspector};
use tidemill_nexrender::{FfmpegInspector, InspectorOptions, NexrenderFarm};

/// Asks until the job has ended; all that was said on the way.
async fn watch(farm: &NexrenderFarm, id: &str) -> Vec<Report> {
    let mut said = Vec::new();
    let watching = async {
        loop {
            let report = farm.look(id).await.unwrap().expect("the job is known").report;
            if said.last() != Some(&report) {
                said.push(report.clone());
            }
            if !matches!(report, Report::At { .. }) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(SOON, watching).await.expect("the job ends");
    said
}

async fn inspect(file: &std::path::Path) -> Probe {
    let inspector = FfmpegInspector::new(InspectorOptions::default());
    inspector.inspect(&local(file), &profile()).await.unwrap()
}

#[tokio::test]
async fn a_job_is_followed_until_its_file_is_there() {
    let Some(nexrender) = nexrender(1) else { return };
    let farm = client(&nexrender);
    let output = nexrender.output().join("rq-1-1.mp4");
    let document = job(&nexrender, uid(1), "secs=5,size=320x180,pace=0.3", &output);

    let submitted = farm.submit(uid(1), &document).await.unwrap();
    let said = watch(&farm, &submitted.id).await;

    assert_eq!(submitted.id, "rq-1-1");
    assert_eq!(said.last(), Some(&Report::Finished), "{said:?}");
    let has_progress = |report: &Report| matches!(report, Report::At { phase: Phase::Rendering, percent: Some(percent) } if *percent > 0.0);
    assert!(said.iter().any(has_progress), "{said:?}");
    let verdict = check(&inspect(&output).await, &profile());
    assert!(verdict.is_good(), "{}", verdict.message());
    // What nodes add to a job makes no other one of it.
    let again = farm.submit(uid(1), &document).await.unwrap();
    assert_eq!((again.report, jobs_posted(&nexrender)), (Report::Finished, 1));

    farm.remove("rq-1-1").await.unwrap();
    assert_eq!(farm.look("rq-1-1").await.unwrap(), None);
}

#[tokio::test]
async fn a_layer_that_is_missing_is_told_from_a_failure_that_may_pass() {
    let Some(nexrender) = nexrender(1) else { return };
    let farm = client(&nexrender);
    let output = nexrender.output().join("never.mp4");
    let failure_of = |said: Vec<Report>| match said.last() {
        Some(Report::Failed { failure, .. }) => Some(*failure),
        _ => None,
    };

    for (number, stub, failure) in [(2, "nxerr", Failure::TemplateNotFit), (3, "fail", Failure::RenderFailed)]
    {
        let submitted = farm.submit(uid(number), &job(&nexrender, uid(number), stub, &output)).await.unwrap();
        let said = watch(&farm, &submitted.id).await;
        assert_eq!(failure_of(said.clone()), Some(failure), "{said:?}");
    }
}

#[tokio::test]
async fn a_name_is_posted_once_however_often_it_is_submitted() {
    let Some(nexrender) = nexrender(0) else { return };
    let farm = client(&nexrender);
    let document = job(&nexrender, uid(4), "", &nexrender.output().join("x.mp4"));

    let first = farm.submit(uid(4), &document).await.unwrap();
    let second = farm.submit(uid(4), &document).await.unwrap();

    assert_eq!(first.id, second.id);
    assert!(matches!(second.report, Report::At { phase: Phase::WaitingForNode, .. }), "{:?}", second.report);
    assert_eq!(jobs_posted(&nexrender), 1);

    assert_eq!(farm.look("rq-99-1").await, Ok(None));
    farm.remove("rq-99-1").await.unwrap();
    farm.remove("").await.unwrap();
    assert!(farm.look("rq-4-1").await.unwrap().is_some(), "removing nothing has removed something");
    farm.remove("rq-4-1").await.unwrap();
    assert_eq!(farm.look("rq-4-1").await, Ok(None));
}

#[tokio::test]
async fn a_job_of_another_queue_under_the_same_name_is_neither_adopted_nor_removed() {
    let Some(nexrender) = nexrender(0) else { return };
    let farm = client(&nexrender);
    let theirs = job(&nexrender, uid(4), "", &nexrender.output().join("theirs.mp4"));
    let elsewhere = job(&nexrender, uid(4), "", &nexrender.output().join("ours.mp4"));
    let another_film = job(&nexrender, uid(4), "secs=9", &nexrender.output().join("theirs.mp4"));
    farm.submit(uid(4), &theirs).await.unwrap();

    for ours in [elsewhere, another_film] {
        let refused = farm.submit(uid(4), &ours).await.unwrap_err();
        assert_eq!(refused.failure, Failure::NameTaken);
        assert!(refused.message.contains("rq-4-1"), "{}", refused.message);
    }

    let still = farm.look("rq-4-1").await.unwrap().unwrap();
    assert_eq!(still.output, Some(nexrender.output().join("theirs.mp4").display().to_string()));
    assert_eq!(jobs_posted(&nexrender), 1);
}

#[tokio::test]
async fn what_only_configuration_can_mend_is_told_apart() {
    let Some(nexrender) = nexrender(0) else { return };
    let document = job(&nexrender, uid(5), "", &nexrender.output().join("x.mp4"));
    let stranger = client_at(&nexrender.url(), "wrong");
    let lost = client_at(&format!("{}/nowhere", nexrender.url()), nexrender.secret());
    let by_full_path = client_at(&format!("{}/api/v1/", nexrender.url()), nexrender.secret());

    for farm in [&client(&nexrender), &by_full_path] {
        assert_eq!(farm.check().await, Ok(()));
    }
    let failures = |checked: Result<(), Trouble>, submitted: Result<RemoteJob, Trouble>| {
        (checked.unwrap_err().failure, submitted.unwrap_err().failure)
    };
    assert_eq!(
        failures(stranger.check().await, stranger.submit(uid(5), &document).await),
        (Failure::WrongSecret, Failure::WrongSecret)
    );
    assert_eq!(
        failures(lost.check().await, lost.submit(uid(5), &document).await),
        (Failure::NotNexrender, Failure::NotNexrender)
    );
    assert_eq!(stranger.remove("rq-5-1").await.unwrap_err().failure, Failure::WrongSecret);

    let refused = client(&nexrender).submit(uid(5), &json!({"assets": []})).await.unwrap_err();
    assert_eq!(refused.failure, Failure::Rejected);
    assert!(refused.message.contains("template"), "{}", refused.message);
    assert_eq!(client(&nexrender).look("rq-5-1").await, Ok(None));
}

#[tokio::test]
async fn a_server_that_was_killed_is_down_and_comes_back_with_its_jobs() {
    let Some(mut nexrender) = nexrender(0) else { return };
    let farm = client(&nexrender);
    let document = job(&nexrender, uid(6), "", &nexrender.output().join("x.mp4"));
    farm.submit(uid(6), &document).await.unwrap();
    // It answers before it writes, and has written when it answers again.
    assert!(farm.look("rq-6-1").await.unwrap().is_some());

    nexrender.kill_server();
    let down = farm.look("rq-6-1").await.unwrap_err();
    let not_checked = farm.check().await.unwrap_err();
    let not_taken = farm.submit(uid(7), &document).await.unwrap_err();
    nexrender.restart_server().unwrap();
    let again = farm.look("rq-6-1").await.unwrap();
    nexrender.forget_jobs().unwrap();
    nexrender.restart_server().unwrap();
    let forgotten = farm.look("rq-6-1").await.unwrap();

    for trouble in [&down, &not_checked, &not_taken] {
        assert_eq!(trouble.failure, Failure::NexrenderDown);
        assert!(trouble.message.contains("no connection to http://127.0.0.1:"), "{}", trouble.message);
    }
    assert!(again.is_some() && forgotten.is_none());
}
