//! Renders of the demo: a few films, by a renderer within this process. One film is spoilt at first, and the worker is
//! dropped in the middle of its work; what is on the disk in the end is compared with what the rows say.

mod boxes;
mod farm;

use super::until;
use super::verdict::Verdicts;
use crate::context::Context;
use crate::report::Failure;
use boxes::BoxInspector;
use farm::DemoFarm;
use serde_json::json;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::process::ProcessId;
use tidemill_domain::render::mapping::MappingRow;
use tidemill_domain::render::path::BadPath;
use tidemill_domain::render::path_map::PathLine;
use tidemill_domain::render::polling::Polling;
use tidemill_domain::render::retry_rules::Patience;
use tidemill_domain::render::{AllowList, LocalPath, NodePath, PathMap, Policy, Profile, RenderId, Status};
use tidemill_engine::SystemClock;
use tidemill_engine::render::{Backends, Places, Worker, WorkerOptions};
use tidemill_nexrender::{Mount, NasStorage, Place, ShelfOptions};
use tidemill_store::Store;
use tidemill_store::render::{NewRender, RenderFilter, RenderRecord};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A film of colour bars: two seconds of H.264, 640 by 360 pixels, 25 frames per second.
const CLIP: &[u8] = include_bytes!("renders/clip.mp4");

const COMPOSITION: &str = "Demo Chip Count";
const PLAYERS: [&str; 4] = ["PHIL IVEY", "DANIEL NEGREANU", "홍진호", "VANESSA SELBST"];
/// Short, so that nobody has to wait for long.
const LEASE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(100);

pub(super) async fn perform(
    store: &Store,
    folder: &Path,
    process: ProcessId,
    context: &Context,
    verdicts: &mut Verdicts,
) -> Result<(), Failure> {
    let nas = Nas::make(folder)?;
    describe(store, &context.actor()).await?;
    submit(store, &context.actor(), &PLAYERS).await?;
    let farm = DemoFarm::with_one_spoilt();
    context.note(&format!(
        "{} films are rendered; the first is spoilt, and the worker is dropped in the middle of its work",
        PLAYERS.len()
    ));
    let first = nas.worker(store, &farm, process, "renderer-1")?;
    let (_never, told) = watch::channel(false);
    let working = tokio::spawn(async move { first.run(told).await });
    until("a film to be rendered", async || Ok(farm.is_rendering().then_some(()))).await?;
    // As if it had been killed: it gives nothing back.
    working.abort();
    let second = nas.worker(store, &farm, process, "renderer-2")?;
    let (stop, told) = watch::channel(false);
    let working = tokio::spawn(async move { second.run(told).await });
    let ended = until("all films to be rendered", async || {
        let is_over = renders(store).await?.iter().all(|record| record.render.status.is_terminal());
        Ok(is_over.then_some(()))
    })
    .await;
    stop.send_replace(true);
    let _panicked = working.await;
    ended?;
    judge(store, &nas, &farm, verdicts).await
}

async fn describe(store: &Store, actor: &Actor) -> Result<(), Failure> {
    let bad = |error: serde_json::Error| Failure::unexpected("a profile of the demo is not accepted", &error);
    let profile: Profile = serde_json::from_value(json!({
        "composition": COMPOSITION,
        "template": "/templates/demo.aep",
        "output_module": "H.264",
        "width": 640,
        "height": 360,
        "rate": "25",
        "duration": "2s",
        // What only a decoder can see is not looked at here.
        "pixel_formats": [],
        "decoding": "off",
    }))
    .map_err(bad)?;
    let row: MappingRow = serde_json::from_value(json!({
        "composition": COMPOSITION,
        "field_name": "Slot 1 - name",
        "layer_name": "Name 1",
    }))
    .map_err(bad)?;
    let mut tx = store.begin().await?;
    tx.renders().save_profiles(&[profile], actor).await?;
    tx.renders().save_field_mappings(&[row], actor).await?;
    tx.commit().await?;
    Ok(())
}

async fn submit(store: &Store, actor: &Actor, players: &[&str]) -> Result<(), Failure> {
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
    tx.commit().await?;
    Ok(())
}

/// The folders that stand for a NAS.
struct Nas {
    output: LocalPath,
    staging: LocalPath,
    places: Places,
}

impl Nas {
    fn make(folder: &Path) -> Result<Self, Failure> {
        let bad =
            |error: BadPath| Failure::unexpected("the folder for temporary files cannot be used", &error);
        let mount = LocalPath::parse(&folder.join("nas").display().to_string()).map_err(bad)?;
        let output = mount.join("output").map_err(bad)?;
        let staging = mount.join(".staging").map_err(bad)?;
        for path in [&output, &staging] {
            std::fs::create_dir_all(path.to_string())
                .map_err(|error| Failure::unexpected("the folders of the demo could not be made", &error))?;
        }
        let node = |path: &LocalPath| NodePath::parse(&path.to_string()).map_err(bad);
        let line = PathLine { node: node(&mount)?, local: mount.clone() };
        let paths = PathMap::new(vec![line])
            .map_err(|error| Failure::unexpected("the folders of the demo are not mapped", &error))?;
        let places = Places { staging: node(&staging)?, output: node(&output)?, posters: None, paths };
        Ok(Self { output, staging, places })
    }

    fn worker(
        &self,
        store: &Store,
        farm: &DemoFarm,
        process: ProcessId,
        name: &str,
    ) -> Result<Worker, Failure> {
        let bad = |error| Failure::unexpected("the patience of the demo is not accepted", &error);
        let patience = Patience::new(None, Some(Duration::from_millis(200))).map_err(bad)?;
        let policy = Policy { lease_for: LEASE, ..Policy::new(patience) };
        let templates = NodePath::parse("/templates")
            .map_err(|error| Failure::unexpected("the templates of the demo have no place", &error))?;
        let options = WorkerOptions {
            capacity: NonZeroUsize::new(2).unwrap_or(NonZeroUsize::MIN),
            polling: Polling { busy: PAUSE, default: PAUSE, idle: PAUSE },
            allow: AllowList { template_folders: vec![templates], ..AllowList::default() },
            farm_pause: PAUSE,
            renew_pause: LEASE / 4,
            reap_pause: PAUSE,
            quiet: PAUSE,
            ..WorkerOptions::new(process, name, policy, self.places.clone())
        };
        let clock = Arc::new(SystemClock::new());
        let local = |folder: &LocalPath| Place { folder: folder.clone(), mount: Mount::Local };
        let storage =
            NasStorage::new(ShelfOptions::new(local(&self.staging), local(&self.output)), clock.clone());
        let backends = Backends {
            farm: Arc::new(farm.clone()),
            inspector: Arc::new(BoxInspector),
            storage: Arc::new(storage),
        };
        Ok(Worker::new(store.clone(), clock, backends, options))
    }

    /// The names of all files that are published or on their way.
    fn files(&self) -> std::io::Result<Vec<String>> {
        let mut names = Vec::new();
        for day in std::fs::read_dir(self.output.to_string())? {
            for file in std::fs::read_dir(day?.path())? {
                names.push(file?.file_name().to_string_lossy().into_owned());
            }
        }
        names.sort();
        Ok(names)
    }
}

async fn renders(store: &Store) -> Result<Vec<RenderRecord>, Failure> {
    let mut tx = store.read().await?;
    let renders = tx.renders().list(&RenderFilter::default(), None, 100).await?;
    Ok(renders)
}

/// Compares what is on the disk with what the rows say.
async fn judge(store: &Store, nas: &Nas, farm: &DemoFarm, verdicts: &mut Verdicts) -> Result<(), Failure> {
    let renders = renders(store).await?;
    let is_whole = |record: &&RenderRecord| {
        let file = record.output_path.as_ref().and_then(|path| std::fs::read(path).ok());
        record.render.status == Status::Completed && file.is_some_and(|bytes| bytes == CLIP)
    };
    let whole = renders.iter().filter(is_whole).count();
    let files =
        nas.files().map_err(|error| Failure::unexpected("the NAS of the demo cannot be read", &error))?;
    let expected: Vec<String> = {
        let mut names: Vec<String> = renders
            .iter()
            .map(|record| format!("{COMPOSITION}_{}.mp4", RenderId::get(record.id())))
            .collect();
        names.sort();
        names
    };
    let refused: u32 = renders.iter().map(|record| record.render.counts.render).sum();
    let again = farm.submitted().saturating_sub(PLAYERS.len());
    let holds = whole == PLAYERS.len() && files == expected && refused == 1 && again == 1;
    verdicts.add(
        holds,
        format!(
            "{whole} of {} films rendered, checked and published, {} spoilt file refused and rendered again; what ran when \
             the worker was gone was adopted: {} renders repeated",
            PLAYERS.len(),
            refused,
            again.saturating_sub(refused as usize),
        ),
    );
    Ok(())
}

/// The films of a round, by the players that they show.
const PLAYERS_OF_ROUND: [&str; 3] = ["FEDOR HOLZ", "LIV BOEREE", "임요환"];

/// How long what is in hand may take when nobody looks any more.
const STOP_TIME: Duration = Duration::from_secs(5);

/// Films that go on being rendered for as long as somebody looks. In each round one comes out spoilt, one fails at its first
/// attempt, and both are rendered again.
pub(super) struct Films {
    store: Store,
    actor: Actor,
    stop: watch::Sender<bool>,
    working: JoinHandle<()>,
}

impl Films {
    pub(super) fn start(
        context: &Context,
        store: &Store,
        folder: &Path,
        process: ProcessId,
    ) -> Result<Self, Failure> {
        let worker = Nas::make(folder)?.worker(store, &DemoFarm::slow(), process, "renderer-3")?;
        let (stop, told) = watch::channel(false);
        let working = tokio::spawn(async move { worker.run(told).await });
        Ok(Self { store: store.clone(), actor: context.actor(), stop, working })
    }

    pub(super) async fn play(&self) -> Result<(), Failure> {
        submit(&self.store, &self.actor, &PLAYERS_OF_ROUND).await?;
        until("the films of a round", async || {
            let mut tx = self.store.read().await?;
            let counts = tx.renders().counts().await?;
            Ok(counts.by_status.keys().all(|status| status.is_terminal()).then_some(()))
        })
        .await
    }

    pub(super) async fn end(self) {
        self.stop.send_replace(true);
        let _left_to_itself = tokio::time::timeout(STOP_TIME, self.working).await;
    }
}
