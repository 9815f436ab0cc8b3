//! Old renders go with their files, while others may want them again.

use super::studio::{MINI, SOON, Studio, options, until};
use super::world::Fake;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::render::path_map::PathLine;
use tidemill_domain::render::retention::{Films, Kept, Retention};
use tidemill_domain::render::{LocalPath, NodePath, PathMap, RenderId, Status, Targets};
use tidemill_engine::EngineError;
use tidemill_engine::render::{Correction, RenderFiles, RenderPurge, RenderPurgeReport};
use tidemill_store::Store;
use tidemill_store::render::RenderChanged;
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![
    a_render_that_is_corrected_while_others_are_deleted_keeps_its_film,
    objects_of_former_targets_go_with_their_render,
];

/// Files of nodes in one world, and published ones in another.
fn files(films: &Fake) -> RenderFiles {
    let mut places = options("one").places;
    places.paths = PathMap::new(vec![PathLine {
        node: NodePath::parse("\\\\NAS\\broadcast").unwrap(),
        local: LocalPath::parse("/nas").unwrap(),
    }])
    .unwrap();
    RenderFiles {
        places,
        staging: Arc::new(Fake::default()),
        posters: Arc::new(Fake::default()),
        films: Arc::new(films.clone()),
        targets: Targets::default(),
    }
}

async fn purge(store: Store, files: RenderFiles) -> Result<RenderPurgeReport, EngineError> {
    let retention = Retention { older_than: Duration::ZERO, films: Films::Delete { bytes_max: None } };
    let actor = Actor::system();
    RenderPurge { store: &store, retention, files: Some(&files), actor: &actor, is_dry: false }.run().await
}

/// Renders that have ended, with their films.
async fn completed(studio: &Studio, films: &Fake, count: usize) -> Vec<RenderId> {
    let worker = studio.worker().await;
    let mut ids = Vec::new();
    for _ in 0..count {
        let id = studio.order().await;
        studio.until_status(id, Status::Completed).await;
        studio.clock.advance(Duration::from_secs(1));
        films.state().staged.insert(format!("/nas/output/2026-11-15/Mini_{id}.mp4"), b"film".to_vec());
        ids.push(id);
    }
    worker.stop().await;
    studio.run_sql("delete from render_leftover").await;
    ids
}

fn left(films: &Fake) -> Vec<String> {
    films.state().staged.keys().cloned().collect()
}

async fn correct(studio: &Studio, id: RenderId) {
    let mut tx = studio.store.begin().await.unwrap();
    let done = Correction::default().apply(&mut tx, id, None, &Actor::system(), None).await.unwrap();
    assert!(matches!(done.changed, RenderChanged::Done { .. }), "{done:?}");
    tx.commit().await.unwrap();
}

async fn a_render_that_is_corrected_while_others_are_deleted_keeps_its_film(scratch: Scratch) {
    let studio = Studio::on(scratch).await;
    let films = Fake::default();
    let ids = completed(&studio, &films, 2).await;

    // The first film takes long to be deleted.
    films.close("discard");
    let purging = tokio::spawn(purge(studio.another_store().await, files(&films)));
    until(|| films.calls("discard") == 1).await;
    correct(&studio, ids[1]).await;
    films.open("discard");
    let report = tokio::time::timeout(SOON, purging).await.unwrap().unwrap().unwrap();

    assert_eq!((report.renders, report.kept.get(&Kept::Changed)), (1, Some(&1)), "{report:?}");
    assert_eq!(left(&films), ["/nas/output/2026-11-15/Mini_2.mp4"], "it stays until the new one is there");
    assert_eq!(studio.record(ids[1]).await.render.status, Status::Pending);
}

async fn objects_of_former_targets_go_with_their_render(scratch: Scratch) {
    let studio = Studio::on(scratch).await;
    studio.know_with(MINI, None, &["nas", "archive"]).await;
    let worker = studio.worker().await;
    let id = studio.order().await;
    assert_eq!(studio.until_status(id, Status::Completed).await.objects().len(), 1);

    studio.know_with(MINI, None, &["nas"]).await;
    correct(&studio, id).await;
    let second = studio.until_status(id, Status::Completed).await;
    worker.stop().await;
    assert_eq!((second.output_revision, second.objects()), (2, Vec::new()), "it is on the NAS only");
    studio.run_sql("delete from render_leftover").await;
    studio.clock.advance(Duration::from_secs(1));
    let files = RenderFiles { targets: options("one").targets, ..files(&studio.fake) };
    let report = purge(studio.another_store().await, files).await.unwrap();

    assert_eq!((report.renders, report.troubles), (1, Vec::new()));
    assert_eq!(studio.fake.state().objects.len(), 0);
}

/// SQLite only: the trigger stands for a foreign key of another program's table, or for a right that a role does not have.
#[tokio::test]
async fn rows_that_cannot_go_keep_their_films() {
    let studio = Studio::any().await;
    let films = Fake::default();
    completed(&studio, &films, 1).await;
    studio
        .run_sql(
            "create trigger theirs before delete on render_queue begin select raise(abort, 'needed'); end",
        )
        .await;

    let refused = purge(studio.another_store().await, files(&films)).await;

    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(left(&films), ["/nas/output/2026-11-15/Mini_1.mp4"]);
}
