//! Cancelled at every time: before anybody has it, before a node has it, while a node renders it, and too late.

use super::site::{COMPOSITION, Farm, Site};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_render_can_be_cancelled_until_its_file_is_published() {
    let Some(farm) = Farm::own(1) else { return };
    let Some(site) = Site::new(farm).await else { return };
    let site = site.with("TIDEMILL_RENDER_CAPACITY", "2");
    let stage = site.stage();
    let cancel = |id: i64| stage.run(&["render", "cancel", &id.to_string(), "--reason", "wrong name"]);
    let by_sql = |id: i64| format!("update render_queue set status = 'cancelled' where id = {id}");
    let worker = site.worker("one");
    let published = site.order("").await;
    site.ended(&[published]).await;

    // One node, two places: one renders, one waits for the node, one for a worker.
    let rendering = site.order("gate=cancel").await;
    site.until(rendering, "rendering", |state| state.phase == "rendering").await;
    let queued = site.order("").await;
    site.until(queued, "queued", |state| state.phase == "waiting_for_node").await;
    let pending = site.order("").await;

    cancel(published).fails("TM1511", 5);
    let refused = site.try_execute(&by_sql(published)).await.unwrap_err();
    assert!(refused.contains("too late to cancel"), "{refused}");
    site.execute(&by_sql(pending)).await;
    cancel(queued).succeeds();
    site.execute(&by_sql(rendering)).await;
    for id in [pending, queued, rendering] {
        site.until(id, "cancelled", |state| state.status == "cancelled" && !state.is_held).await;
    }
    // Nobody can stop the node, and its job is left there until it ends.
    site.until_left(&[rendering]).await;
    assert_eq!(site.renders(rendering).len(), 1);
    site.farm.open_gate("cancel");
    let ids = [published, rendering, queued, pending];
    let inventory = site.ended(&ids).await;

    assert_eq!(inventory.statuses(), ["completed", "cancelled", "cancelled", "cancelled"]);
    assert_eq!((site.posted(queued).len(), site.renders(queued).len()), (1, 0));
    assert_eq!((site.posted(pending).len(), site.renders(pending).len()), (0, 0));
    assert!(inventory.states[&published].output_file_path.as_ref().unwrap().contains(COMPOSITION));
    worker.end();
}
