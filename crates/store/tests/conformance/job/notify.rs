//! Notices of the end of an execution: written in the transaction that ends it, whoever ends it.

use super::{ann, day, end, lose_all, request, try_launch};
use crate::Bench;
use std::time::Duration;
use tidemill_domain::alert::Notice;
use tidemill_domain::job::BatchStatus;
use tidemill_domain::job::lifecycle::OnCrash;
use tidemill_domain::job::notify::{JOB_END, Notify, NotifyOn};
use tidemill_store::job::{EndRecorded, LaunchRequest, Launched};

crate::on_both![
    an_end_is_queued_for_the_channels_that_hear_of_it,
    an_end_that_does_not_commit_is_not_queued,
    a_lost_execution_notifies_unless_it_is_restarted,
    an_execution_whose_end_is_unknown_notifies_once,
    an_execution_that_is_not_restarted_in_time_notifies_once,
    an_execution_that_is_restarted_does_not_notify,
    an_execution_that_is_abandoned_instead_of_restarted_notifies,
];

fn notifies() -> Vec<Notify> {
    let one = |on, to: &str| Notify { on, to: to.to_owned() };
    vec![one(NotifyOn::Failed, "ops"), one(NotifyOn::Always, "hook"), one(NotifyOn::Stopped, "desk")]
}

async fn launched(bench: &Bench, process: u128, on_crash: OnCrash) -> Launched {
    let by = bench.process(process).await;
    let (parameters, actor, notify) = (day(&process.to_string()), ann(), notifies());
    let request = LaunchRequest { notify: &notify, on_crash, ..request(&parameters, by, &actor) };
    let launched = try_launch(bench, &request).await.unwrap();
    let (lease, fence) = (&launched.lease, launched.granted.fence);
    let mut tx = bench.begin().await;
    assert!(tx.jobs().begin_execution(launched.execution, lease, fence).await.unwrap());
    tx.commit().await.unwrap();
    launched
}

/// The channels that have a notice waiting, oldest first.
async fn queued(bench: &Bench) -> Vec<String> {
    let mut found = bench.begin().await.alerts().deliveries(10).await.unwrap();
    found.reverse();
    found.into_iter().map(|record| record.delivery.channel).collect()
}

async fn an_end_is_queued_for_the_channels_that_hear_of_it(bench: Bench) {
    let failed = launched(&bench, 1, OnCrash::Fail).await;
    let completed = launched(&bench, 2, OnCrash::Fail).await;

    assert!(end(&bench, &failed, BatchStatus::Failed).await);
    assert!(end(&bench, &completed, BatchStatus::Completed).await);
    assert!(!end(&bench, &completed, BatchStatus::Completed).await);

    assert_eq!(queued(&bench).await, ["hook", "ops", "hook"]);
    let found = bench.begin().await.alerts().deliveries(1).await.unwrap().remove(0);
    let body: serde_json::Value = serde_json::from_str(&found.delivery.body).unwrap();
    assert_eq!((found.delivery.rule.as_str(), found.delivery.subject.as_str()), (JOB_END, "job/load"));
    assert_eq!(found.delivery.notice, Notice::Resolved);
    assert_eq!(
        (&body["execution"], &body["status"]),
        (&completed.execution.get().into(), &"COMPLETED".into())
    );
    assert_eq!(body["summary"], format!("job load completed: execution {}", completed.execution));
}

async fn an_end_that_does_not_commit_is_not_queued(bench: Bench) {
    let launched = launched(&bench, 1, OnCrash::Fail).await;
    let (lease, fence, status) = (&launched.lease, launched.granted.fence, BatchStatus::Failed);
    let mut tx = bench.begin().await;
    let exit = tidemill_domain::job::ExitStatus::new("FAILED");
    let ended = tx.jobs().end_execution(launched.execution, lease, fence, status, &exit).await.unwrap();
    assert_eq!(ended, EndRecorded::Done);

    drop(tx);

    assert!(queued(&bench).await.is_empty());
}

async fn a_lost_execution_notifies_unless_it_is_restarted(bench: Bench) {
    launched(&bench, 1, OnCrash::Restart { limit: 1 }).await;
    lose_all(&bench).await;
    assert!(queued(&bench).await.is_empty(), "it goes on");

    launched(&bench, 2, OnCrash::Fail).await;
    lose_all(&bench).await;

    assert_eq!(queued(&bench).await, ["hook", "ops"]);
}

async fn an_execution_whose_end_is_unknown_notifies_once(bench: Bench) {
    let launched = launched(&bench, 1, OnCrash::Fail).await;
    end(&bench, &launched, BatchStatus::Unknown).await;
    assert_eq!(queued(&bench).await, ["hook", "ops"]);

    let mut tx = bench.begin().await;
    let _changed = tx.jobs().recover_execution(launched.execution, &ann(), "it is gone").await.unwrap();
    let _changed = tx.jobs().abandon_execution(launched.execution, &ann(), "no use").await.unwrap();
    tx.commit().await.unwrap();

    assert_eq!(queued(&bench).await, ["hook", "ops"]);
}

async fn notify_overdue(bench: &Bench) {
    let mut tx = bench.begin().await;
    tx.jobs().notify_overdue_restarts(Duration::from_secs(60)).await.unwrap();
    tx.commit().await.unwrap();
}

async fn an_execution_that_is_not_restarted_in_time_notifies_once(bench: Bench) {
    let launched = launched(&bench, 1, OnCrash::Restart { limit: 1 }).await;
    lose_all(&bench).await;
    notify_overdue(&bench).await;
    assert!(queued(&bench).await.is_empty(), "it may go on");

    bench.advance(Duration::from_secs(61));
    notify_overdue(&bench).await;
    notify_overdue(&bench).await;

    assert_eq!(queued(&bench).await, ["hook", "ops"]);
    let mut tx = bench.begin().await;
    let due = tx.jobs().take_due_restart(&[("load", None)]).await.unwrap();
    assert_eq!(due.map(|due| due.execution), Some(launched.execution), "it can still be restarted");
    tx.jobs().notify_end(launched.execution).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(queued(&bench).await, ["hook", "ops"]);
}

async fn an_execution_that_is_restarted_does_not_notify(bench: Bench) {
    let lost = launched(&bench, 1, OnCrash::Restart { limit: 1 }).await;
    lose_all(&bench).await;

    let (parameters, actor, by) = (day("1"), ann(), bench.process(2).await);
    try_launch(&bench, &request(&parameters, by, &actor)).await.unwrap();
    bench.advance(Duration::from_secs(61));
    notify_overdue(&bench).await;
    let mut tx = bench.begin().await;
    let _changed = tx.jobs().abandon_execution(lost.execution, &actor, "it went on").await.unwrap();
    tx.commit().await.unwrap();

    assert!(queued(&bench).await.is_empty());
}

async fn an_execution_that_is_abandoned_instead_of_restarted_notifies(bench: Bench) {
    let lost = launched(&bench, 1, OnCrash::Restart { limit: 1 }).await;
    lose_all(&bench).await;

    let mut tx = bench.begin().await;
    let _changed = tx.jobs().abandon_execution(lost.execution, &ann(), "no use").await.unwrap();
    tx.commit().await.unwrap();

    assert_eq!(queued(&bench).await, ["hook", "ops"]);
    let found = bench.begin().await.alerts().deliveries(1).await.unwrap().remove(0);
    assert!(found.delivery.body.contains("\"status\":\"ABANDONED\""), "{}", found.delivery.body);
}
