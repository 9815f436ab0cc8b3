//! A table of renders: one that fails at the farm is rendered again alone, and the batch is whole.

use super::inventory::Look;
use super::site::{COMPOSITION, Farm, Site, State, data};
use crate::pool::json_of;
use serde_json::{Value, json};
use std::fs;
use tidemill_testkit::PrivateNexrender;

/// A composition whose template nobody has put there yet.
const LATE: &str = "Late";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_failed_render_of_a_batch_is_rendered_again_and_then_all_are_completed() {
    let Some(farm) = Farm::shared() else { return };
    let Some(site) = Site::new(farm).await else { return };
    let template = site.farm.ask(PrivateNexrender::templates).join("late.aep");
    site.know(LATE).await;
    let mut profile = site.profile(LATE);
    profile["template"] = json!(template);
    site.save_profile(profile).await;
    let stage = site.stage();
    let title = data("")["single_fields"]["title"].as_str().unwrap().to_owned();
    let row = |composition: &str, cue: &str| format!("{composition};{cue};{title}\n");
    let rows = [row(COMPOSITION, "cue-1"), row(LATE, "cue-2"), row(COMPOSITION, "cue-3")].concat();
    fs::write(stage.path("rows.csv"), format!("composition;cue_item;Title\n{rows}")).unwrap();

    let submit = ["render", "submit", "--csv", "rows.csv", "--map", "Title=Single - title", "-o", "json"];
    let ordered = json_of(&stage.run(&submit));
    let ids: Vec<i64> =
        ordered["rows"].as_array().unwrap().iter().map(|row| row["id"].as_i64().unwrap()).collect();
    let batch = ordered["batch"].as_i64().unwrap().to_string();
    let failed = ids[1];
    let worker = site.worker("one");
    for id in &ids {
        site.until(*id, "ended", State::has_ended).await;
    }
    let first = told(&json_of(&stage.run(&["render", "batch", &batch, "-o", "json"])));
    let state = site.state(failed).await;
    fs::write(&template, "RIFX").unwrap();
    let reason = "the template is there now";
    let retry = ["render", "retry", "--batch", &batch, "--status", "failed", "--reason", reason];
    stage.run(&retry).succeeds();
    site.until(failed, "completed", |state| state.status == "completed").await;
    let output = &site.nas.join("output");
    let look = Look { shown: output, found: output, retried: Some(failed) };
    let inventory = site.ended_at(&ids, look).await;
    let last = json_of(&stage.run(&["render", "batch", &batch, "-o", "json"]));

    assert_eq!((state.status.as_str(), state.error_code.as_deref()), ("failed", Some("TM1524")), "{state:?}");
    assert_eq!(first, [3, 2, 1], "of all, completed, failed");
    assert_eq!(inventory.statuses(), ["completed"; 3]);
    assert_eq!((told(&last), last["ended_at"].is_string()), ([3, 3, 0], true), "{last}");
    // Nothing is rendered for the first time without a template.
    for (id, posted) in ids.iter().zip([1, 2, 1]) {
        assert_eq!((site.posted(*id).len(), site.renders(*id).len()), (posted, 1), "{inventory:#?}");
    }
    worker.end();
}

/// How many renders a batch has, how many of them are completed, and how many have failed.
fn told(batch: &Value) -> [u64; 3] {
    ["renders", "completed", "failed"].map(|name| batch[name].as_u64().unwrap())
}
