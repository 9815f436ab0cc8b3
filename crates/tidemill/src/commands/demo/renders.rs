//! Renders of the demo, by a renderer inside this process. The first film comes out damaged, and the worker is lost while
//! it renders. Then the files on disk are compared with the database.

mod boxes;

use super::{LEASE, PAUSE, STOP_TIME, Stage, Verdicts, unexpected, until};
use crate::report::Result;
use boxes::BoxInspector;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::render::answer::{RemoteJob, Report};
use tidemill_domain::render::mapping::MappingRow;
use tidemill_domain::render::output::Correction;
use tidemill_domain::render::path_map::PathLine;
use tidemill_domain::render::polling::Polling;
use tidemill_domain::render::retry_rules::Patience;
use tidemill_domain::render::{
    self, AllowList, LocalPath, NodePath, PathMap, Phase, Policy, Profile, Status, Trouble, Uid,
};
use tidemill_engine::SystemClock;
use tidemill_engine::render::{Asking, Backends, Farm, Places, Worker, WorkerOptions};
use tidemill_nexrender::{Mount, NasStorage, Place, StorageOptions};
use tidemill_store::Store;
use tidemill_store::render::{NewRender, RenderFilter, RenderRecord};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Colour bars: two seconds of H.264, 640 by 360 pixels, 25 frames per second.
const CLIP: &[u8] = include_bytes!("renders/clip.mp4");

const COMPOSITION: &str = "Demo Chip Count";
const PLAYERS: [&str; 4] = ["PHIL IVEY", "DANIEL NEGREANU", "홍진호", "VANESSA SELBST"];
const PLAYERS_OF_ROUND: [&str; 3] = ["FEDOR HOLZ", "LIV BOEREE", "임요환"];

pub(super) async fn perform(stage: &Stage<'_>, verdicts: &mut Verdicts) -> Result<()> {
    let (nas, actor) = (Nas::create(&stage.setup.folder)?, stage.context.actor());
    save_profile(stage.store, &actor).await?;
    submit(stage.store, &actor, &PLAYERS).await?;
    let farm = DemoFarm::with_one_damaged();
    stage.context.note(&format!(
        "{} films are rendered; the first comes out damaged, and the worker is lost while it renders",
        PLAYERS.len()
    ));
    let lost = Films::start(stage, &nas, &farm, "renderer-1")?;
    until("a film to be rendered", async || Ok(farm.is_rendering().then_some(()))).await?;
    // As if it was killed: it releases nothing.
    lost.working.abort();
    let films = Films::start(stage, &nas, &farm, "renderer-2")?;
    let ended = films.until_all_ended().await;
    films.end().await;
    ended?;
    judge(stage.store, &nas, &farm, verdicts).await
}

async fn save_profile(store: &Store, actor: &Actor) -> Result<()> {
    let profile: Profile = serde_json::from_value(json!({
        "composition": COMPOSITION,
        "template": "/templates/demo.aep",
        "output_module": "H.264",
        "width": 640,
        "height": 360,
        "rate": "25",
        "duration": "2s",
        // The demo has no decoder.
        "pixel_formats": [],
        "decoding": "off",
    }))
    .map_err(unexpected)?;
    let mapping: MappingRow = serde_json::from_value(json!({
        "composition": COMPOSITION,
        "field_name": "Slot 1 - name",
        "layer_name": "Name 1",
    }))
    .map_err(unexpected)?;
    let mut tx = store.begin().await?;
    tx.renders().save_profiles(&[profile], actor).await?;
    tx.renders().save_field_mappings(&[mapping], actor).await?;
    Ok(tx.commit().await?)
}

async fn submit(store: &Store, actor: &Actor, players: &[&str]) -> Result<()> {
    let mut tx = store.begin().await?;
    for (number, player) in (1..).zip(players) {
        let render = NewRender {
            composition: Some(COMPOSITION.to_owned()),
            data: json!({ "slots": [{ "slot_number": 1, "fields": { "name": player } }] }),
            cue_item: Some(format!("cue-{number}")),
            priority: 0,
            deadline: None,
            broadcast_date: None,
        };
        tx.renders().submit(&render, actor).await?;
    }
    Ok(tx.commit().await?)
}

/// Folders in place of a NAS.
struct Nas {
    output: LocalPath,
    staging: LocalPath,
    places: Places,
}

impl Nas {
    fn create(folder: &Path) -> Result<Self> {
        let mount = LocalPath::parse(&folder.join("nas").display().to_string()).map_err(unexpected)?;
        let output = mount.join("output").map_err(unexpected)?;
        let staging = mount.join(".staging").map_err(unexpected)?;
        for path in [&output, &staging] {
            std::fs::create_dir_all(path.to_string()).map_err(unexpected)?;
        }
        let node = |path: &LocalPath| NodePath::parse(&path.to_string()).map_err(unexpected);
        let line = PathLine { node: node(&mount)?, local: mount.clone() };
        let paths = PathMap::new(vec![line]).map_err(unexpected)?;
        let places = Places {
            staging: node(&staging)?,
            output: node(&output)?,
            posters: None,
            paths,
            correction: Correction::Revision,
        };
        Ok(Self { output, staging, places })
    }

    fn worker(&self, stage: &Stage<'_>, farm: &DemoFarm, name: &str) -> Result<Worker> {
        let patience = Patience::new(None, Some(Duration::from_millis(200))).map_err(unexpected)?;
        let policy = Policy { lease_for: LEASE, ..Policy::new(patience) };
        let templates = NodePath::parse("/templates").map_err(unexpected)?;
        let options = WorkerOptions {
            capacity: NonZeroUsize::new(2).unwrap_or(NonZeroUsize::MIN),
            polling: Polling { busy: PAUSE, default: PAUSE, idle: PAUSE },
            allow: AllowList { template_folders: vec![templates], ..AllowList::default() },
            farm_pause: PAUSE,
            renew_pause: LEASE / 4,
            reap_pause: PAUSE,
            quiet: PAUSE,
            ..WorkerOptions::new(stage.server, name, policy, self.places.clone())
        };
        let clock = Arc::new(SystemClock::new());
        let local = |folder: &LocalPath| Place { folder: folder.clone(), mount: Mount::Local };
        let storage =
            NasStorage::new(StorageOptions::new(local(&self.staging), local(&self.output)), clock.clone());
        let backends = Backends {
            farm: Arc::new(farm.clone()),
            inspector: Arc::new(BoxInspector),
            storage: Arc::new(storage),
        };
        Ok(Worker::new(stage.store.clone(), clock, backends, options))
    }

    /// The number of files in the output folder, which has a folder for each day.
    fn count_files(&self) -> std::io::Result<usize> {
        let mut count = 0;
        for day in std::fs::read_dir(self.output.to_string())? {
            count += std::fs::read_dir(day?.path())?.count();
        }
        Ok(count)
    }
}

/// Compares the files on disk with the database.
async fn judge(store: &Store, nas: &Nas, farm: &DemoFarm, verdicts: &mut Verdicts) -> Result<()> {
    let renders = store.read().await?.renders().list(&RenderFilter::default(), None, 100).await?;
    let is_whole = |record: &&RenderRecord| {
        let file = record.output_path.as_ref().and_then(|path| std::fs::read(path).ok());
        record.render.status == Status::Completed && file.is_some_and(|bytes| bytes == CLIP)
    };
    let whole = renders.iter().filter(is_whole).count();
    let files = nas.count_files().map_err(unexpected)?;
    let damaged: u32 = renders.iter().map(|record| record.render.counts.render).sum();
    let again = farm.jobs().submitted.saturating_sub(PLAYERS.len());
    verdicts.add(
        whole == PLAYERS.len() && files == whole && damaged == 1 && again == 1,
        format!(
            "{whole} of {} films rendered, checked and published; {damaged} damaged file was refused and rendered again; the \
             next worker took over the running renders: {} renders repeated",
            PLAYERS.len(),
            again.saturating_sub(damaged as usize),
        ),
    );
    Ok(())
}

/// A worker that renders until it is stopped.
pub(super) struct Films {
    store: Store,
    actor: Actor,
    stop: watch::Sender<bool>,
    working: JoinHandle<()>,
}

impl Films {
    fn start(stage: &Stage<'_>, nas: &Nas, farm: &DemoFarm, name: &str) -> Result<Self> {
        let worker = nas.worker(stage, farm, name)?;
        let (stop, stopped) = watch::channel(false);
        let working = tokio::spawn(async move { worker.run(stopped).await });
        Ok(Self { store: stage.store.clone(), actor: stage.context.actor(), stop, working })
    }

    /// The worker after the verification: some films come out damaged or fail, and are rendered again.
    pub(super) fn start_slow(stage: &Stage<'_>) -> Result<Self> {
        Self::start(stage, &Nas::create(&stage.setup.folder)?, &DemoFarm::slow(), "renderer-3")
    }

    pub(super) async fn play(&self) -> Result<()> {
        submit(&self.store, &self.actor, &PLAYERS_OF_ROUND).await?;
        self.until_all_ended().await
    }

    async fn until_all_ended(&self) -> Result<()> {
        until("all films to be rendered", async || {
            let counts = self.store.read().await?.renders().counts().await?;
            Ok(counts.by_status.keys().all(|status| status.is_terminal()).then_some(()))
        })
        .await
    }

    pub(super) async fn end(self) {
        self.stop.send_replace(true);
        let _abandoned = tokio::time::timeout(STOP_TIME, self.working).await;
    }
}

/// Steps of a render, and how long a step takes during and after the verification.
const STEPS: u32 = 10;
const STEP_QUICK: Duration = Duration::from_millis(150);
const STEP_SLOW: Duration = Duration::from_millis(500);

/// The film that a job writes, or the failure that it reports.
type Outcome = Result<&'static [u8], &'static str>;

/// The renderer of the demo. It accepts jobs like nexrender, and writes a real film after a while. A damaged film is
/// reported as a success, as it happens with nexrender.
#[derive(Clone, Debug)]
struct DemoFarm {
    jobs: Arc<Mutex<Jobs>>,
    step: Duration,
    /// The outcome of each job; numbers start at 1.
    outcome: fn(usize) -> Outcome,
}

#[derive(Debug, Default)]
struct Jobs {
    by_name: HashMap<String, RemoteJob>,
    submitted: usize,
}

impl DemoFarm {
    fn with_one_damaged() -> Self {
        let outcome = |number| Ok(if number == 1 { damaged() } else { CLIP });
        Self { jobs: Arc::default(), step: STEP_QUICK, outcome }
    }

    /// Slow renders; of every five jobs one is damaged and one fails.
    fn slow() -> Self {
        let outcome = |number| match number % 5 {
            1 => Ok(damaged()),
            3 => Err("aerender ended with 14: After Effects error: could not allocate a frame"),
            _ => Ok(CLIP),
        };
        Self { jobs: Arc::default(), step: STEP_SLOW, outcome }
    }

    fn jobs(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_rendering(&self) -> bool {
        let is_rendering = |job: &RemoteJob| matches!(job.report, Report::At { phase: Phase::Rendering, .. });
        self.jobs().by_name.values().any(is_rendering)
    }

    fn report(&self, name: &str, report: Report) {
        if let Some(job) = self.jobs().by_name.get_mut(name) {
            job.updated = Some(format!("{report:?}"));
            job.report = report;
        }
    }

    fn take(&self, name: &str, document: &Value) -> Result<RemoteJob, Trouble> {
        let refused = |why: &str| Trouble::new(render::Failure::Rejected, why);
        let output = document["actions"]["postrender"][0]["output"].as_str();
        let output = PathBuf::from(output.ok_or_else(|| refused("the job has no output path"))?);
        let mut jobs = self.jobs();
        if let Some(known) = jobs.by_name.get(name) {
            return Ok(known.clone());
        }
        jobs.submitted += 1;
        let outcome = (self.outcome)(jobs.submitted);
        let report = Report::At { phase: Phase::WaitingForNode, percent: None };
        let job = RemoteJob { id: name.to_owned(), report, updated: None, output: None };
        jobs.by_name.insert(name.to_owned(), job.clone());
        tokio::spawn(run_job(self.clone(), name.to_owned(), output, outcome));
        Ok(job)
    }
}

fn damaged() -> &'static [u8] {
    &CLIP[..CLIP.len() * 3 / 4]
}

async fn run_job(farm: DemoFarm, name: String, output: PathBuf, outcome: Outcome) {
    for step in 0..STEPS {
        let percent = f64::from(step) * 100.0 / f64::from(STEPS);
        farm.report(&name, Report::At { phase: Phase::Rendering, percent: Some(percent) });
        tokio::time::sleep(farm.step).await;
    }
    let write = |film| std::fs::write(&output, film).map_err(|error| error.to_string());
    let report = match outcome.map_err(str::to_owned).and_then(write) {
        Ok(()) => Report::Finished,
        Err(message) => Report::Failed { failure: render::Failure::RenderFailed, message },
    };
    farm.report(&name, report);
}

impl Farm for DemoFarm {
    fn name(&self) -> String {
        "the renderer of the demo".to_owned()
    }

    fn check(&self) -> Asking<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn look<'a>(&'a self, job: &'a str) -> Asking<'a, Option<RemoteJob>> {
        Box::pin(async move { Ok(self.jobs().by_name.get(job).cloned()) })
    }

    fn submit<'a>(&'a self, uid: Uid, document: &'a Value) -> Asking<'a, RemoteJob> {
        Box::pin(async move { self.take(&uid.to_string(), document) })
    }

    fn remove<'a>(&'a self, job: &'a str) -> Asking<'a, ()> {
        Box::pin(async move {
            self.jobs().by_name.remove(job);
            Ok(())
        })
    }
}
