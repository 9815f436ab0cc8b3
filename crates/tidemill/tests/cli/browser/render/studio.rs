//! A worker that really works in this process, on a folder that stands for the NAS and with the real ffmpeg; only the farm
//! is ours, so that a test says how far a film is.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tempfile::TempDir;
use tidemill_domain::audit::Actor;
use tidemill_domain::render::answer::{RemoteJob, Report};
use tidemill_domain::render::mapping::MappingRow;
use tidemill_domain::render::output::Correction;
use tidemill_domain::render::path_map::PathLine;
use tidemill_domain::render::polling::Polling;
use tidemill_domain::render::retry_rules::Patience;
use tidemill_domain::render::{
    AllowList, LocalPath, NodePath, PathMap, Phase, Policy, Profile, RenderId, Trouble, Uid,
};
use tidemill_engine::render::{Asking, Backends, Farm, Places, Worker, WorkerOptions};
use tidemill_engine::{SystemClock, SystemIds};
use tidemill_nexrender::{FfmpegInspector, InspectorOptions, Mount, NasStorage, Place, StorageOptions};
use tidemill_store::Store;
use tidemill_store::render::NewRender;
use tokio::sync::watch;

/// A film of colour bars: two seconds of H.264, 640 by 360 pixels, 25 frames per second.
pub(super) const CLIP: &[u8] = include_bytes!("../../../../src/commands/demo/renders/clip.mp4");

pub(in super::super) const COMPOSITION: &str = "_MAIN Mini Chip Count";

const PAUSE: Duration = Duration::from_millis(100);

/// The folders of the NAS.
pub(in super::super) struct Nas {
    folder: TempDir,
}

impl Nas {
    pub(in super::super) fn new() -> Self {
        let nas = Self { folder: tempfile::tempdir().unwrap() };
        for name in ["output", ".staging", ".posters"] {
            std::fs::create_dir(nas.path().join(name)).unwrap();
        }
        nas
    }

    pub(in super::super) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// What a server has to know of them; and that it lives, however busy the machine is.
    pub(in super::super) fn settings(&self) -> [(&'static str, String); 3] {
        [
            ("TIDEMILL_RENDER_MOUNT", self.path().display().to_string()),
            ("TIDEMILL_RENDER_POSTER_FOLDER", self.posters().display().to_string()),
            ("TIDEMILL_PROCESS_LEASE", "60s".to_owned()),
        ]
    }

    /// Where pictures out of films are.
    pub(in super::super) fn posters(&self) -> PathBuf {
        self.path().join(".posters")
    }

    fn local(&self, name: &str) -> LocalPath {
        LocalPath::parse(&self.path().join(name).display().to_string()).unwrap()
    }

    fn places(&self) -> Places {
        let node = |path: &LocalPath| NodePath::parse(&path.to_string()).unwrap();
        let mount = LocalPath::parse(&self.path().display().to_string()).unwrap();
        let paths = PathMap::new(vec![PathLine { node: node(&mount), local: mount }]).unwrap();
        Places {
            staging: node(&self.local(".staging")),
            output: node(&self.local("output")),
            posters: Some(self.local(".posters")),
            paths,
            correction: Correction::Revision,
        }
    }
}

/// Renders as far as it is told.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct TestFarm {
    jobs: Arc<Mutex<BTreeMap<String, (RemoteJob, PathBuf)>>>,
}

impl TestFarm {
    fn jobs(&self) -> MutexGuard<'_, BTreeMap<String, (RemoteJob, PathBuf)>> {
        self.jobs.lock().unwrap()
    }

    fn report(&self, report: &Report) {
        for (job, _) in self.jobs().values_mut() {
            job.updated = Some(format!("{report:?}"));
            job.report = report.clone();
        }
    }

    /// All that it has is so far.
    pub(in super::super) fn render_to(&self, percent: f64) {
        self.report(&Report::At { phase: Phase::Rendering, percent: Some(percent) });
    }

    /// All that it has is done.
    pub(in super::super) fn finish(&self) {
        for (_, file) in self.jobs().values() {
            std::fs::write(file, CLIP).unwrap();
        }
        self.report(&Report::Finished);
    }
}

impl Farm for TestFarm {
    fn name(&self) -> String {
        "the farm of the test".to_owned()
    }

    fn check(&self) -> Asking<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn look<'a>(&'a self, job: &'a str) -> Asking<'a, Option<RemoteJob>> {
        Box::pin(async move { Ok(self.jobs().get(job).map(|(job, _)| job.clone())) })
    }

    fn submit<'a>(&'a self, uid: Uid, document: &'a Value) -> Asking<'a, RemoteJob> {
        Box::pin(async move {
            let file = document["actions"]["postrender"][0]["output"].as_str().unwrap();
            let report = Report::At { phase: Phase::WaitingForNode, percent: None };
            let job = RemoteJob { id: uid.to_string(), report, updated: None, output: None };
            self.jobs().entry(uid.to_string()).or_insert_with(|| (job.clone(), file.into()));
            Ok::<_, Trouble>(job)
        })
    }

    fn remove<'a>(&'a self, job: &'a str) -> Asking<'a, ()> {
        Box::pin(async move {
            self.jobs().remove(job);
            Ok(())
        })
    }
}

/// What is known of the composition.
pub(in super::super) async fn describe(store: &Store) {
    let profile: Profile = serde_json::from_value(json!({
        "composition": COMPOSITION,
        "template": "/templates/cyprusdesign.aep",
        "output_module": "H.264 - Match Render Settings - 15 Mbps",
        "width": 640,
        "height": 360,
        "rate": "25",
        "duration": "2s",
    }))
    .unwrap();
    let row: MappingRow = serde_json::from_value(json!({
        "composition": COMPOSITION,
        "field_name": "Slot 1 - name",
        "layer_name": "Name 1",
    }))
    .unwrap();
    let mut tx = store.begin().await.unwrap();
    tx.renders().save_profiles(&[profile], &Actor::system()).await.unwrap();
    tx.renders().save_field_mappings(&[row], &Actor::system()).await.unwrap();
    tx.commit().await.unwrap();
}

/// Orders a film.
pub(in super::super) async fn order(store: &Store, composition: &str, cue: &str, priority: i32) -> RenderId {
    let new = NewRender {
        composition: Some(composition.to_owned()),
        data: json!({ "slots": [{ "slot_number": 1, "fields": { "name": "PHIL IVEY" } }] }),
        cue_item: Some(cue.to_owned()),
        priority,
        deadline: None,
        broadcast_date: None,
    };
    let mut tx = store.begin().await.unwrap();
    let submitted = tx.renders().submit(&new, &Actor::system()).await.unwrap();
    tx.commit().await.unwrap();
    submitted.id()
}

/// Lets a worker work until the sender is dropped or says so.
pub(in super::super) fn start_worker(store: &Store, nas: &Nas, farm: &TestFarm) -> watch::Sender<bool> {
    let patience = Patience::new(None, Some(Duration::from_secs(600))).unwrap();
    let policy = Policy { lease_for: Duration::from_secs(20), ..Policy::new(patience) };
    let options = WorkerOptions {
        capacity: NonZeroUsize::MIN,
        polling: Polling { busy: PAUSE, default: PAUSE, idle: PAUSE },
        allow: AllowList {
            template_folders: vec![NodePath::parse("/templates").unwrap()],
            ..AllowList::default()
        },
        farm_pause: PAUSE,
        renew_pause: PAUSE * 5,
        reap_pause: PAUSE * 5,
        quiet: PAUSE,
        ..WorkerOptions::new(SystemIds.process(), "renderer-1", policy, nas.places())
    };
    let clock = Arc::new(SystemClock::new());
    let place = |name: &str| Place { folder: nas.local(name), mount: Mount::Local };
    let storage = NasStorage::new(StorageOptions::new(place(".staging"), place("output")), clock.clone());
    let world = Backends {
        farm: Arc::new(farm.clone()),
        inspector: Arc::new(FfmpegInspector::new(InspectorOptions::default())),
        storage: Arc::new(storage),
    };
    let worker = Worker::new(store.clone(), clock, world, options);
    let (stop, told) = watch::channel(false);
    tokio::spawn(worker.run(told));
    stop
}
