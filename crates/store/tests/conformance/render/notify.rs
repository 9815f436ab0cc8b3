//! Notices of the end of a render: written in the transaction that ends it, for the channels that hear of it.

use super::{ann, bring_to, claim_by, execute, find, ordered, say};
use crate::Bench;
use serde_json::{Value, json};
use tidemill_domain::alert::Notice;
use tidemill_domain::alert::notify::Notify;
use tidemill_domain::render::notify::RENDER_END;
use tidemill_domain::render::{Failure, Phase, Profile, RenderId, Trouble, Work};
use tidemill_domain::time::Clock;
use tidemill_store::alert::Delivery;
use tidemill_store::render::{Notes, RenderChanged};
use tidemill_store::{Store, StoreOptions};

crate::on_both![
    an_end_is_queued_for_the_channels_of_the_configuration_and_of_the_profile,
    an_end_that_does_not_commit_is_not_queued,
    the_ends_of_one_render_are_delivered_in_their_order,
    a_row_that_makes_no_sense_is_told_as_failed,
    an_alert_does_not_wait_behind_the_ends_of_renders,
];

/// The same database, whose renders notify.
pub(super) async fn notifying(bench: &Bench, channels: &[&str]) -> Bench {
    let clock = Some(bench.clock.clone() as std::sync::Arc<dyn Clock>);
    let render_notify: Vec<Notify> = channels.iter().map(|text| text.parse().unwrap()).collect();
    let options = StoreOptions { clock, render_notify, ..StoreOptions::default() };
    let store = Store::open(bench.scratch.url().parse().unwrap(), &options).await.unwrap();
    Bench { store, clock: bench.clock.clone(), scratch: bench.scratch.same() }
}

async fn know(bench: &Bench, notify: &[&str]) {
    let profile = json!({
        "composition": "Chips", "template": "D:\\a.aep", "output_module": "H.264", "width": 1920, "height": 1080,
        "rate": "25", "notify": notify,
    });
    let profile: Profile = serde_json::from_value(profile).unwrap();
    profile.check().unwrap();
    let mut tx = bench.begin().await;
    tx.renders().save_profiles(&[profile], &ann()).await.unwrap();
    tx.commit().await.unwrap();
}

/// Oldest first.
async fn queued(bench: &Bench) -> Vec<Delivery> {
    let mut found = bench.begin().await.alerts().deliveries(20).await.unwrap();
    found.reverse();
    found.into_iter().map(|record| record.delivery).collect()
}

/// What the channels get.
pub(super) async fn bodies(bench: &Bench) -> Vec<Value> {
    queued(bench).await.iter().map(|delivery| serde_json::from_str(&delivery.body).unwrap()).collect()
}

async fn channels(bench: &Bench) -> Vec<String> {
    queued(bench).await.into_iter().map(|delivery| delivery.channel).collect()
}

async fn completed(bench: &Bench) -> RenderId {
    let claimed = bring_to(bench, Phase::Publishing).await;
    say(bench, &claimed, Work::Published).await;
    claimed.record.id()
}

async fn an_end_is_queued_for_the_channels_of_the_configuration_and_of_the_profile(bench: Bench) {
    let bench = notifying(&bench, &["failed:pager", "hook"]).await;
    let claimed = bring_to(&bench, Phase::Publishing).await;
    let notes = Notes { output_path: Some("\\\\NAS\\Chips_1.mp4"), ..Notes::default() };
    assert_eq!(channels(&bench).await, [] as [&str; 0], "only ends are told");
    super::say_with(&bench, claimed.record.id(), claimed.fence, Work::Published, notes).await.unwrap();
    know(&bench, &["completed:playout", "failed:hook"]).await;

    completed(&bench).await;
    let claimed = bring_to(&bench, Phase::Rendering).await;
    let missing = Work::Failed(Trouble::new(Failure::TemplateMissing, "PHIL IVEY"));
    say(&bench, &claimed, missing).await;
    let id = ordered(&bench).await;
    let mut tx = bench.begin().await;
    let _done = tx.renders().cancel(id, &ann(), None).await.unwrap();
    tx.commit().await.unwrap();

    assert_eq!(channels(&bench).await, ["hook", "hook", "playout", "hook", "pager", "hook"]);
    let queued = queued(&bench).await;
    let body = |index: usize| serde_json::from_str::<Value>(&queued[index].body).unwrap();
    assert_eq!((queued[0].rule.as_str(), queued[0].notice), (RENDER_END, Notice::Resolved));
    assert_eq!(
        (&body(0)["status"], &body(0)["output"]),
        (&json!("completed"), &json!("\\\\NAS\\Chips_1.mp4"))
    );
    assert_eq!((&body(4)["status"], &body(4)["error_code"]), (&json!("failed"), &json!("TM1524")));
    assert!(!queued[4].body.contains("IVEY"), "a message may contain data: {}", queued[4].body);
    assert_eq!((&body(5)["status"], queued[5].notice), (&json!("cancelled"), Notice::Fired));
    know(&bench, &["waiting:kim"]).await;
    let claimed = bring_to(&bench, Phase::Validating).await;
    say(&bench, &claimed, Work::NeedsApproval).await;
    assert_eq!(channels(&bench).await[6..], ["hook", "kim"]);
}

async fn an_end_that_does_not_commit_is_not_queued(bench: Bench) {
    let bench = notifying(&bench, &["hook"]).await;
    let claimed = bring_to(&bench, Phase::Publishing).await;
    let mut tx = bench.begin().await;
    let (id, work) = (claimed.record.id(), Work::Published);
    tx.renders().work(id, claimed.fence, work, Notes::default(), &super::policy()).await.unwrap();
    tx.rollback().await.unwrap();

    assert_eq!(channels(&bench).await, [] as [&str; 0]);
}

async fn the_ends_of_one_render_are_delivered_in_their_order(bench: Bench) {
    let bench = notifying(&bench, &["hook"]).await;
    let id = completed(&bench).await;
    let revision = find(&bench, id).await.revision;
    let mut tx = bench.begin().await;
    let data = json!({ "single_fields": { "table_id": "x" } });
    let corrected = tx.renders().correct(id, revision, &data, &ann(), None).await.unwrap();
    assert!(matches!(corrected, RenderChanged::Done { .. }), "{corrected:?}");
    let _done = tx.renders().cancel(id, &ann(), None).await.unwrap();
    tx.commit().await.unwrap();
    let other = completed(&bench).await;

    let due = bench.begin().await.alerts().due_deliveries(10).await.unwrap();

    let due: Vec<_> = due.iter().map(|delivery| (delivery.subject.as_str(), delivery.notice)).collect();
    let subject = |id: RenderId| format!("render/{id}");
    assert_eq!(due, [(subject(id).as_str(), Notice::Resolved), (&subject(other), Notice::Resolved)]);
    assert_eq!(queued(&bench).await.len(), 3);
}

async fn a_row_that_makes_no_sense_is_told_as_failed(bench: Bench) {
    let bench = notifying(&bench, &["hook"]).await;
    let id = ordered(&bench).await;
    execute(&bench, "update render_queue set attempts = -1").await;

    assert!(claim_by(&bench.store, 1, 1).await.claimed.is_empty());

    let told = queued(&bench).await.remove(0);
    assert!(told.body.contains("\"status\":\"failed\""), "{}", told.body);
    assert_eq!(told.subject.as_str(), format!("render/{id}"));
}

async fn an_alert_does_not_wait_behind_the_ends_of_renders(bench: Bench) {
    let bench = notifying(&bench, &["hook"]).await;
    completed(&bench).await;
    completed(&bench).await;
    let later = "insert into tidemill_alert_delivery
                     (rule, subject, notice, channel, body, created_at, attempt, run_after)
                 select 'nas_away', 'render/nas', 'fired', channel, body, created_at, attempt, run_after
                 from tidemill_alert_delivery limit 1";
    execute(&bench, later).await;

    let due = bench.begin().await.alerts().due_deliveries(2).await.unwrap();

    let rules: Vec<&str> = due.iter().map(|delivery| delivery.rule.as_str()).collect();
    assert_eq!(rules, ["nas_away", RENDER_END]);
}
