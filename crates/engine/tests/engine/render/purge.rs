//! Old renders go with their files, while others may want them again.

use super::studio::{SOON, Studio, options, until};
use super::world::Fake;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::render::retention::{Films, Kept, Retention};
use tidemill_domain::render::path_map::PathLine;
use tidemill_domain::render::{LocalPath, NodePath, PathMap, RenderId, Status};
use tidemill_engine::render::{Correction, RenderFiles, RenderPurge, RenderPurgeReport};
use tidemill_store::Store;
use tidemill_store::render::RenderChanged;
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![a_render_that_is_corrected_while_others_are_deleted_keeps_its_film];

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
    }
}

async fn purge(store: Store, files: RenderFiles) -> RenderPurgeReport {
    let retention = Retention { older_than: Duration::ZERO, films: Films::Delete { bytes_max: None } };
    let actor = Actor::system();
    let purge = RenderPurge { store: &store, retention, files: Some(&files), actor: &actor, is_dry: false };
    purge.run().await.unwrap()
}

async fn correct(studio: &Studio, id: RenderId) {
    let mut tx = studio.store.begin().await.unwrap();
    let done = Correction::default().apply(&mut tx, id, None, &Actor::system(), None).await.unwrap();
    assert!(matches!(done.changed, RenderChanged::Done { .. }), "{done:?}");
    tx.commit().await.unwrap();
}

async fn a_render_that_is_corrected_while_others_are_deleted_keeps_its_film(scratch: Scratch) {
    let studio = Studio::on(scratch).await;
    let worker = studio.worker().await;
    let (mut ids, films) = (Vec::new(), Fake::default());
    for _ in 0..2 {
        let id = studio.order().await;
        studio.until_status(id, Status::Completed).await;
        studio.clock.advance(Duration::from_secs(1));
        films.state().staged.insert(format!("/nas/output/2026-11-15/Mini_{id}.mp4"), b"film".to_vec());
        ids.push(id);
    }
    worker.stop().await;
    studio.run_sql("delete from render_leftover").await;

    // The first film takes long to be deleted.
    films.close("discard");
    let purging = tokio::spawn(purge(studio.another_store().await, files(&films)));
    until(|| films.calls("discard") == 1).await;
    correct(&studio, ids[1]).await;
    films.open("discard");
    let report = tokio::time::timeout(SOON, purging).await.unwrap().unwrap();

    assert_eq!((report.renders, report.kept.get(&Kept::Changed)), (1, Some(&1)), "{report:?}");
    let left: Vec<String> = films.state().staged.keys().cloned().collect();
    assert_eq!(left, ["/nas/output/2026-11-15/Mini_2.mp4"], "it stays until the new one is there");
    assert_eq!(studio.record(ids[1]).await.render.status, Status::Pending);
}
