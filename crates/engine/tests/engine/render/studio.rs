//! A queue on each database, with a composition that is known, a world that the test moves, and workers.

use super::world::Fake;
use serde_json::json;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::render::document::AllowList;
use tidemill_domain::render::mapping::MappingRow;
use tidemill_domain::render::output::Correction;
use tidemill_domain::render::path_map::PathLine;
use tidemill_domain::render::polling::Polling;
use tidemill_domain::render::{LocalPath, NodePath, PathMap, Phase, Policy, Profile, RenderId, Status};
use tidemill_domain::time::FakeClock;
use tidemill_engine::SystemIds;
use tidemill_engine::render::{Places, Worker, WorkerOptions};
use tidemill_store::Store;
use tidemill_store::render::{NewRender, RenderRecord};
use tidemill_store::scratch::Scratch;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Far longer than anything here takes, so that a hang is seen.
pub(super) const SOON: Duration = Duration::from_secs(120);

/// Longer than a test moves the clock while a worker is at work: to such a jump it would be a stranger, as after a SIGSTOP.
const LEASE: Duration = Duration::from_secs(600);

/// Longer than a lease: for when the worker is gone.
pub(super) const LEASE_AND_MORE: Duration = Duration::from_secs(601);

/// Longer than a render waits that has failed once.
pub(super) const WAIT_AND_MORE: Duration = Duration::from_secs(61);

const STEP: Duration = Duration::from_millis(5);

/// The composition that is known.
pub(super) const MINI: &str = "Mini";

pub(super) struct Studio {
    pub(super) store: Store,
    pub(super) clock: Arc<FakeClock>,
    pub(super) fake: Fake,
    scratch: Scratch,
}

impl Studio {
    /// Where it makes no difference which database it is.
    pub(super) async fn any() -> Self {
        Self::on(Scratch::file()).await
    }

    pub(super) async fn on(scratch: Scratch) -> Self {
        let clock = Arc::new(FakeClock::at("2026-11-15T02:00:00Z".parse().unwrap()));
        let store = scratch.store(Some(clock.clone())).await.unwrap();
        let studio = Self { store, clock, fake: Fake::default(), scratch };
        studio.know(MINI, None).await;
        // The names of staged files are then known.
        studio.run_sql("update render_revision set queue = ''").await;
        studio
    }

    /// From now on a composition is known.
    pub(super) async fn know(&self, composition: &str, name_in_template: Option<&str>) {
        self.know_with(composition, name_in_template, &[]).await;
    }

    /// The same, published at these targets.
    pub(super) async fn know_with(
        &self,
        composition: &str,
        name_in_template: Option<&str>,
        targets: &[&str],
    ) {
        let profile: Profile = serde_json::from_value(json!({
            "composition": composition, "name_in_template": name_in_template,
            "template": "D:\\templates\\mini.aep", "output_module": "H.264",
            "width": 1920, "height": 1080, "rate": "30", "duration": "2s", "bytes_min": 1,
            "targets": targets,
        }))
        .unwrap();
        let row: MappingRow = serde_json::from_value(
            json!({ "composition": composition, "field_name": "Single - title", "layer_name": "Title" }),
        )
        .unwrap();
        let mut tx = self.store.begin().await.unwrap();
        tx.renders().save_profiles(&[profile], &Actor::system()).await.unwrap();
        tx.renders().save_field_mappings(&[row], &Actor::system()).await.unwrap();
        tx.commit().await.unwrap();
    }

    /// Somebody wants a render.
    pub(super) async fn order(&self) -> RenderId {
        self.order_with(json!({ "single_fields": { "title": "FINAL TABLE" } })).await
    }

    pub(super) async fn order_with(&self, data: serde_json::Value) -> RenderId {
        self.order_of(MINI, data).await
    }

    pub(super) async fn order_of(&self, composition: &str, data: serde_json::Value) -> RenderId {
        let new = NewRender {
            composition: Some(composition.to_owned()),
            data,
            cue_item: None,
            priority: 0,
            deadline: None,
            broadcast_date: None,
        };
        let mut tx = self.store.begin().await.unwrap();
        let submitted = tx.renders().submit(&new, &Actor::system()).await.unwrap();
        tx.commit().await.unwrap();
        submitted.id()
    }

    pub(super) async fn record(&self, id: RenderId) -> RenderRecord {
        let mut tx = self.store.read().await.unwrap();
        let record = tx.renders().find(id).await.unwrap().unwrap();
        tx.rollback().await.unwrap();
        record
    }

    /// Waits until the render is as it should be.
    pub(super) async fn until(&self, id: RenderId, is_so: impl Fn(&RenderRecord) -> bool) -> RenderRecord {
        let last = std::sync::Mutex::new(None);
        let reached = async {
            loop {
                let record = self.record(id).await;
                if is_so(&record) {
                    return record;
                }
                *last.lock().unwrap() = Some(record);
                tokio::time::sleep(STEP).await;
            }
        };
        match tokio::time::timeout(SOON, reached).await {
            Ok(record) => record,
            Err(_) => panic!("the render stays {:#?}", last.lock().unwrap()),
        }
    }

    pub(super) async fn until_status(&self, id: RenderId, status: Status) -> RenderRecord {
        self.until(id, |record| record.render.status == status).await
    }

    pub(super) async fn until_phase(&self, id: RenderId, phase: Phase) -> RenderRecord {
        self.until(id, |record| record.render.phase == phase).await
    }

    pub(super) async fn cancel(&self, id: RenderId) {
        let mut tx = self.store.begin().await.unwrap();
        let _ordered = tx.renders().cancel(id, &Actor::system(), None).await.unwrap();
        tx.commit().await.unwrap();
    }

    pub(super) async fn run_sql(&self, sql: &str) {
        let mut tx = self.store.begin().await.unwrap();
        tx.execute_for_test(sql).await.unwrap();
        tx.commit().await.unwrap();
    }

    /// A worker with connections of its own.
    pub(super) async fn worker(&self) -> Running {
        self.worker_with(|_| {}).await
    }

    pub(super) async fn worker_named(&self, name: &str) -> Running {
        let store = self.another_store().await;
        Running::start(Worker::new(store, self.clock.clone(), self.fake.backends(), options(name)))
    }

    pub(super) async fn worker_with(&self, adapt: impl FnOnce(&mut WorkerOptions)) -> Running {
        let store = self.another_store().await;
        let mut options = options("one");
        adapt(&mut options);
        Running::start(Worker::new(store, self.clock.clone(), self.fake.backends(), options))
    }

    pub(super) async fn another_store(&self) -> Store {
        self.scratch.store(Some(self.clock.clone())).await.unwrap()
    }
}

/// Those of a worker in a hurry.
pub(super) fn options(name: &str) -> WorkerOptions {
    let line = |node, local| PathLine {
        node: NodePath::parse(node).unwrap(),
        local: LocalPath::parse(local).unwrap(),
    };
    let places = Places {
        staging: NodePath::parse("\\\\NAS\\broadcast\\.staging").unwrap(),
        output: NodePath::parse("\\\\NAS\\broadcast\\output").unwrap(),
        posters: Some(LocalPath::parse("/posters").unwrap()),
        paths: PathMap::new(vec![line("\\\\NAS\\broadcast\\.staging", "/staging")]).unwrap(),
        correction: Correction::Revision,
    };
    let policy = Policy { lease_for: LEASE, ..Policy::standard().unwrap() };
    let mut options = WorkerOptions::new(SystemIds.process(), name, policy, places);
    let pause = Duration::from_millis(10);
    options.targets.add("archive", "s3://films/main").unwrap();
    options.capacity = NonZeroUsize::new(2).unwrap();
    options.polling = Polling { busy: pause * 3, default: pause * 3, idle: pause * 3 };
    options.allow = AllowList {
        template_folders: vec![NodePath::parse("D:\\templates").unwrap()],
        ..AllowList::default()
    };
    // The farm says nothing new while a test moves the clock.
    options.clocks.stall_timeout = LEASE * 100;
    options.clocks.max_render_time = LEASE * 100;
    options.farm_pause = pause;
    options.farm_grace = Duration::ZERO;
    options.renew_pause = pause;
    options.reap_pause = pause;
    options.check_pause = pause;
    options.quiet = Duration::from_millis(1);
    options.settle_for = Duration::ZERO;
    options.drain_for = Duration::from_millis(300);
    options
}

/// A worker that runs.
pub(super) struct Running {
    pub(super) handle: Worker,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Running {
    pub(super) fn start(worker: Worker) -> Self {
        let (stop, stopped) = watch::channel(false);
        Self { handle: worker.clone(), stop, task: tokio::spawn(async move { worker.run(stopped).await }) }
    }

    pub(super) async fn stop(self) {
        self.stop.send_replace(true);
        tokio::time::timeout(SOON, self.task).await.expect("an end").unwrap();
    }

    /// As if it were killed: it says nothing to anybody.
    pub(super) async fn kill(self) {
        self.task.abort();
        let _aborted = self.task.await;
    }

    /// Waits until it is as it should be.
    pub(super) async fn until(&self, is_so: impl Fn(&tidemill_engine::render::Health) -> bool) {
        let reached = async {
            while !is_so(&self.handle.health()) {
                tokio::time::sleep(STEP).await;
            }
        };
        let waited = tokio::time::timeout(SOON, reached).await;
        assert!(waited.is_ok(), "the worker stays {:#?}", self.handle.health());
    }
}

/// Waits until something is so.
pub(super) async fn until(is_so: impl Fn() -> bool) {
    let reached = async {
        while !is_so() {
            tokio::time::sleep(STEP).await;
        }
    };
    tokio::time::timeout(SOON, reached).await.expect("it becomes so");
}
