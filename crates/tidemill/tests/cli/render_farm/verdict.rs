//! What is wrong with what was ordered, and with the configuration: it is told by a code, and nothing is lost.

use super::inventory::Look;
use super::site::{COMPOSITION, Farm, Site, State, data, eventually};
use crate::serve::Served;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use tidemill_domain::render::RenderId;
use tidemill_testkit::PrivateNexrender;

fn titled(text: &str) -> Value {
    json!({ "single_fields": { "title": text } })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_rendered_fails_with_a_code_before_nexrender_hears_of_it() {
    let Some(farm) = Farm::shared() else { return };
    let Some(site) = Site::new(farm).await else { return };
    // By SQL, as a dashboard does that checks nothing.
    let good = titled("x");
    let faulty = [
        (COMPOSITION, json!({ "single_fields": { "title": "x", "subtitle": "y" } }), "TM1503"),
        (COMPOSITION, json!({ "single_fields": {} }), "TM1503"),
        (COMPOSITION, json!([1, 2]), "TM1501"),
        (COMPOSITION, titled(&"x".repeat(5_000_000)), "TM1502"),
        ("Unknown", good.clone(), "TM1547"),
        ("../../etc/passwd", good.clone(), "TM1547"),
        ("Cote d'Ivoire", good.clone(), "TM1506"),
    ];
    // A profile that no command of ours would have taken.
    let quoted = "insert into render_profile (composition, definition, updated_at, updated_by)
         select 'Cote d''Ivoire', replace(definition, '_MAIN Mini Chip Count', 'Cote d''Ivoire'), now(), 'somebody'
         from render_profile";
    site.execute(quoted).await;
    let mut ids = Vec::new();
    for (composition, data, _) in &faulty {
        ids.push(site.order_data(composition, data).await);
    }
    // A date is a date, and nothing else can be a folder.
    let bad_date = "update render_queue set broadcast_date = '../2026-11-15'";
    assert!(site.try_execute(bad_date).await.is_err());
    let worker = site.worker("one");
    let inventory = site.ended(&ids).await;

    for (id, (composition, _, code)) in ids.iter().zip(&faulty) {
        let state = &inventory.states[id];
        assert_eq!(
            (state.status.as_str(), state.error_code.as_deref()),
            ("failed", Some(*code)),
            "{composition}"
        );
        assert_eq!((site.posted(*id).len(), state.attempts), (0, 1), "{state:?}");
    }
    worker.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_the_composition_is_called_its_file_has_a_name_that_is_safe() {
    let Some(farm) = Farm::shared() else { return };
    let Some(site) = Site::new(farm).await else { return };
    let long = "가".repeat(250);
    let names = [
        ("파이널 테이블", "파이널 테이블"),
        ("Final/Day 1: A", "Final_Day 1_ A"),
        ("CON", "_CON"),
        ("..", "untitled"),
        ("../../up", ".._.._up"),
        (long.as_str(), "가가가"),
    ];
    let stage = site.stage();
    fs::write(stage.path("quote.yaml"), json!([site.profile("Cote d'Ivoire")]).to_string()).unwrap();
    stage.run(&["render", "profile", "import", "quote.yaml"]).fails("TM1505", 2);

    let mut ids = Vec::new();
    for (composition, _) in names {
        site.know(composition).await;
        ids.push(site.order_data(composition, &data("")).await);
    }
    // Somebody else has put a file where this one is to go.
    let taken = site.order("").await;
    site.execute(&format!("update render_queue set broadcast_date = '2026-11-16' where id = {taken}")).await;
    let theirs = site.nas.join(format!("output/2026-11-16/{COMPOSITION}_{taken}.mp4"));
    fs::create_dir(theirs.parent().unwrap()).unwrap();
    fs::write(&theirs, "theirs").unwrap();
    let worker = site.worker("one");
    site.until(taken, "failed", |state| state.status == "failed").await;
    let kept = fs::read_to_string(&theirs).unwrap();
    fs::remove_file(&theirs).unwrap();
    site.until_left(&[]).await;
    assert_eq!(site.posted(taken).len(), 0, "it is seen before anything is rendered");
    stage.run(&["render", "retry", &taken.to_string(), "--reason", "their file is gone"]).succeeds();
    ids.push(taken);
    let output = &site.nas.join("output");
    let inventory = site.ended_at(&ids, Look { shown: output, found: output, retried: Some(taken) }).await;

    assert_eq!(kept, "theirs");
    assert_eq!(inventory.statuses(), ["completed"; 7]);
    for (id, (_, begin)) in ids.iter().zip(names) {
        let path = inventory.states[id].output_file_path.clone().unwrap();
        let name = path.rsplit('/').next().unwrap();
        assert!(name.starts_with(begin) && name.ends_with(&format!("_{id}.mp4")), "{path}");
        assert_eq!(Path::new(&path).parent().and_then(Path::parent), Some(output.as_path()), "{path}");
    }
    // A plan says beforehand where each file goes.
    fs::write(stage.path("planned.json"), data("").to_string()).unwrap();
    for (id, (composition, _)) in ids.iter().zip(names) {
        let path = inventory.states[id].output_file_path.clone().unwrap();
        let date = Path::new(&path).parent().and_then(Path::file_name).unwrap().to_str().unwrap();
        let (id, named) = (id.to_string(), ["--composition", composition]);
        let plan = ["render", "plan", "planned.json", "--date", date, "--id", &id];
        let plan = stage.run(&[&plan[..], &named[..]].concat()).succeeds().stderr.clone();
        assert!(plan.contains(&path), "{path}: {plan}");
    }
    assert_eq!(site.renders(taken).len(), 1);
    worker.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_corrected_render_has_both_files_and_knows_the_one_before() {
    let Some(farm) = Farm::shared() else { return };
    let Some(site) = Site::new(farm).await else { return };
    for correction in ["revision", "replace"] {
        let id = site.order("").await;
        let worker = site.worker_with(correction, &[("TIDEMILL_RENDER_CORRECTION", correction)]);
        let first = site.until(id, "completed", State::has_ended).await.output_file_path.unwrap();
        let film = fs::read(&first).unwrap();
        let data = data("black").to_string();
        let correct =
            format!("update render_queue set gfx_data = '{data}', status = 'pending' where id = {id}");
        site.execute(&correct).await;
        let second = site.until(id, "completed", State::has_ended).await;
        worker.end();

        let plain = first.strip_suffix(".mp4").unwrap();
        let (before, after) = match correction {
            "revision" => (first.clone(), format!("{plain}_r2.mp4")),
            _ => (format!("{plain}_r1.mp4"), first.clone()),
        };
        assert_eq!(second.output_file_path.as_ref(), Some(&after), "{second:?}");
        assert!(fs::read(&before).unwrap() == film && Path::new(&after).exists(), "{correction}");
        let record = site.store.read().await.unwrap().renders().find(RenderId::new(id)).await.unwrap();
        assert_eq!(record.unwrap().previous_output_path, Some(before), "{correction}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_with_the_wrong_secret_or_address_burns_no_attempt() {
    let Some(farm) = Farm::shared() else { return };
    let Some(site) = Site::new(farm).await else { return };
    let elsewhere = format!("{}/nowhere", site.farm.ask(PrivateNexrender::url));
    let id = site.order("").await;
    let stranger = site.stage().with("NEXRENDER_SECRET", "sehr-geheim");
    let served = Served::start(&stranger, &[]);
    let lost = site.worker_with("lost", &[("NEXRENDER_API_URL", &elsewhere)]);
    lost.until_logged("TM1522").await;
    lost.until_logged("claims no more renders").await;
    let mut health = (0, String::new());
    let is_told = eventually(async || {
        health = served.get("/health", None);
        health.1.contains("TM1521").then_some(())
    });
    let is_told = is_told.await;
    assert!(is_told.is_some() && health.0 == 503, "{health:?}");

    let waiting = site.state(id).await;
    let right = site.worker("right");
    let inventory = site.ended(&[id]).await;

    assert_eq!((waiting.status.as_str(), waiting.attempts, waiting.epoch), ("pending", 0, 0));
    assert_eq!(inventory.outcomes[&id], ["completed"]);
    let secret = site.farm.ask(|farm| farm.secret().to_owned());
    for log in [lost.log(), fs::read_to_string(stranger.path("serve.log")).unwrap(), health.1] {
        assert!(!log.contains("geheim") && !log.contains(&secret), "{log}");
    }
    lost.end();
    right.end();
}
