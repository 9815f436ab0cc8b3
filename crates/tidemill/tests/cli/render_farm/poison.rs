//! Something before nexrender that refuses one render, or answers wrongly for a moment.

use super::door::{Door, said};
use super::site::{Farm, Site, eventually};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_render_that_alone_is_refused_or_garbled_fails_and_the_others_complete() {
    let Some(farm) = Farm::shared() else { return };
    let Some(site) = Site::new(farm).await else { return };
    let door = Door::before(&site.farm);
    let site = site.with("NEXRENDER_API_URL", &door.url).with("MAX_RETRIES", "1");
    let poison = [site.order("").await, site.order("").await];
    let good = [site.order("").await, site.order("").await];
    let answers = [said(403, "no"), said(200, "hello")];
    let rules: Vec<_> = poison.iter().map(|id| format!("rq-{id}-")).zip(answers).collect();
    door.set(move |request| {
        let rule = rules.iter().find(|(job, _)| request.contains(job.as_str()));
        rule.map(|(_, answer)| answer.clone())
    });

    let worker = site.worker("one");
    for id in poison {
        let state = site.until(id, "failed", |state| state.status == "failed").await;
        assert_eq!((state.error_code.as_deref(), state.attempts), (Some("TM1553"), 2), "{state:?}");
        assert_eq!(site.posted(id), [] as [String; 0]);
    }
    for id in good {
        site.until(id, "completed", |state| state.status == "completed").await;
    }
    assert!(!worker.log().contains("claims no more renders"), "{}", worker.log());
    // Whether nexrender has jobs of them is not known before.
    door.set(|_| None);
    let inventory = site.ended(&[poison[0], poison[1], good[0], good[1]]).await;

    assert_eq!(inventory.statuses(), ["failed", "failed", "completed", "completed"]);
    worker.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_answers_in_the_middle_of_a_render_cause_no_second_job() {
    let Some(farm) = Farm::shared() else { return };
    let Some(site) = Site::new(farm).await else { return };
    let door = Door::before(&site.farm);
    let site = site.with("NEXRENDER_API_URL", &door.url);
    let id = site.order("gate=wrong-answers").await;
    let worker = site.worker("one");
    site.until(id, "rendering", |state| state.phase == "rendering").await;

    let foreign = r#"{"uid":"rq-9-9","state":"finished"}"#;
    let answers = VecDeque::from([said(404, "Not Found"), said(200, ""), said(200, foreign)]);
    let answers = Arc::new(Mutex::new(answers));
    let (left, job) = (answers.clone(), format!("/jobs/rq-{id}-"));
    door.set(move |request| match request.contains(&job) {
        true => left.lock().unwrap().pop_front(),
        false => None,
    });
    let told = eventually(async || answers.lock().unwrap().is_empty().then_some(()));
    assert!(told.await.is_some(), "{}", worker.log());
    site.farm.open_gate("wrong-answers");
    let inventory = site.ended(&[id]).await;

    assert_eq!(inventory.statuses(), ["completed"]);
    assert_eq!(inventory.outcomes[&id], ["completed"], "{}", worker.log());
    assert_eq!((site.posted(id).len(), site.renders(id).len()), (1, 1));
    assert!(!worker.log().contains("claims no more renders"), "{}", worker.log());
    worker.end();
}
