//! A farm, a database, a folder that stands for the NAS, and what is ordered there.

use super::PATIENCE;
use super::crew::Worker;
use super::inventory::{Inventory, Look};
use crate::Stage;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};
use tidemill_domain::audit::Actor;
use tidemill_domain::render::Profile;
use tidemill_domain::render::mapping::MappingRow;
use tidemill_domain::time::Clock;
use tidemill_engine::SystemClock;
use tidemill_store::scratch::Scratch;
use tidemill_store::{Init, Store, StoreOptions, sqlx};
use tidemill_testkit::{PostgresOptions, PrivateNexrender, PrivatePostgres, postgres, skip};

pub(super) use super::farm::Farm;

/// The composition of all renders, unless a test is about its name.
pub(super) const COMPOSITION: &str = "_MAIN Mini Chip Count";

/// What nodes are asked for, unless a test asks for something else: one that every profile here accepts.
const CLIP: &str = "secs=1,fps=10,size=320x180,pace=0,mute";

/// A farm, a database and a NAS.
pub(super) struct Site {
    pub(super) farm: Farm,
    pub(super) store: Store,
    pub(super) nas: PathBuf,
    settings: Vec<(String, String)>,
    _database: Option<Scratch>,
}

impl Site {
    /// With an empty database; none when tests on PostgreSQL are skipped.
    pub(super) async fn new(farm: Farm) -> Option<Self> {
        let database = Scratch::postgres().await?;
        let store = database.store(None).await.unwrap();
        let url = database.url().to_owned();
        Some(Self { _database: Some(database), ..Self::on(farm, store, &url).await })
    }

    /// With a server of PostgreSQL of its own, to which anything may be done; none when such tests are skipped.
    pub(super) async fn with_server(farm: Farm) -> Option<(PrivatePostgres, Self)> {
        skip::require("postgres", postgres::find_binaries())?;
        let server = PrivatePostgres::start(&PostgresOptions::default()).unwrap();
        let url = server.url("postgres");
        let store = Store::open(url.parse().unwrap(), &StoreOptions::default()).await.unwrap();
        store.initialise(Init::Always).await.unwrap();
        Some((server, Self::on(farm, store, &url).await))
    }

    /// With a database that the test has made.
    async fn on(farm: Farm, store: Store, url: &str) -> Self {
        // Jobs are named after renders, and several databases share a farm.
        static FIRST: AtomicI64 = AtomicI64::new(1);
        let first = FIRST.fetch_add(1000, Ordering::Relaxed);
        let nas = farm.ask(PrivateNexrender::output).join(format!("nas-{first}"));
        for folder in ["", "output", ".staging"] {
            fs::create_dir(nas.join(folder)).unwrap();
        }
        // Nodes run under another account when we are root.
        fs::set_permissions(nas.join(".staging"), fs::Permissions::from_mode(0o777)).unwrap();
        let secret = farm.ask(|farm| farm.secret().to_owned());
        let templates = farm.ask(PrivateNexrender::templates);
        let settings = [
            ("TIDEMILL_DATABASE_URL", url),
            ("NEXRENDER_API_URL", &farm.ask(PrivateNexrender::url)),
            ("NEXRENDER_SECRET", &secret),
            ("TIDEMILL_RENDER_MOUNT", text(&nas)),
            ("TIDEMILL_RENDER_MOUNT_CHECK", "false"),
            ("TIDEMILL_RENDER_OUTPUT_FOLDER", "output"),
            ("TIDEMILL_RENDER_TEMPLATE_FOLDERS", text(&templates)),
            ("TIDEMILL_RENDER_BASE_RETRY_DELAY", "200ms"),
            ("TIDEMILL_RENDER_POLL_INTERVAL", "1s"),
            ("TIDEMILL_RENDER_POLL_INTERVAL_IDLE", "1s"),
            ("TIDEMILL_RENDER_CAPACITY", "8"),
            // Longer than a busy machine lets a worker wait.
            ("TIDEMILL_RENDER_LEASE", "1m"),
        ];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let site = Self { farm, store, nas, settings, _database: None };
        site.execute(&format!("alter table render_queue alter column id restart with {first}")).await;
        // The names of staged files are then known.
        site.execute("update render_revision set queue = ''").await;
        site.know(COMPOSITION).await;
        site
    }

    /// With another setting for all workers.
    #[must_use]
    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A folder of its own for one program, with all settings.
    pub(super) fn stage(&self) -> Stage {
        self.settings.iter().fold(Stage::new(), |stage, (name, value)| stage.with(name, value))
    }

    /// Makes a composition known, by a profile that wants small films.
    pub(super) async fn know(&self, composition: &str) {
        self.save_profile(self.profile(composition)).await;
        let mapping =
            json!({ "composition": composition, "field_name": "Single - title", "layer_name": "Title" });
        let mapping: MappingRow = serde_json::from_value(mapping).unwrap();
        let mut tx = self.store.begin().await.unwrap();
        tx.renders().save_field_mappings(&[mapping], &Actor::system()).await.unwrap();
        tx.commit().await.unwrap();
    }

    /// Makes or replaces the profile of a composition.
    pub(super) async fn save_profile(&self, profile: Value) {
        let profile: Profile = serde_json::from_value(profile).unwrap();
        let mut tx = self.store.begin().await.unwrap();
        tx.renders().save_profiles(&[profile], &Actor::system()).await.unwrap();
        tx.commit().await.unwrap();
    }

    pub(super) fn profile(&self, composition: &str) -> Value {
        json!({
            "composition": composition, "template": self.farm.ask(PrivateNexrender::templates).join("sample.aep"),
            "output_module": "H.264", "width": 320, "height": 180, "rate": "10", "duration": "1s",
        })
    }

    /// Starts a worker.
    pub(super) fn worker(&self, name: &str) -> Worker {
        self.worker_with(name, &[])
    }

    /// Starts a worker with settings of its own.
    pub(super) fn worker_with(&self, name: &str, settings: &[(&str, &str)]) -> Worker {
        let stage = self.stage().with("WORKER_ID", name);
        let stage = settings.iter().fold(stage, |stage, (name, value)| stage.with(name, value));
        Worker::start(stage, name)
    }

    /// Orders a render as a dashboard does: by SQL, with the columns that it knows. Its number.
    pub(super) async fn order(&self, wishes: &str) -> i64 {
        self.order_data(COMPOSITION, &data(wishes)).await
    }

    pub(super) async fn order_data(&self, composition: &str, data: &Value) -> i64 {
        let data = data.to_string();
        let mut tx = self.store.begin().await.unwrap();
        let insert = "insert into render_queue (composition_id, gfx_data, cue_item_id, status)
             values ($1, $2::jsonb, 'cue-17', 'pending')
             returning id";
        let ordered = sqlx::query_scalar(insert).bind(composition).bind(data);
        let id = ordered.fetch_one(tx.postgres().unwrap()).await.unwrap();
        tx.commit().await.unwrap();
        id
    }

    /// Runs a statement as anybody might who has the database.
    pub(super) async fn execute(&self, sql: &str) {
        self.try_execute(sql).await.unwrap();
    }

    /// The same; what the database says against it.
    pub(super) async fn try_execute(&self, sql: &str) -> Result<(), String> {
        let mut tx = self.store.begin().await.unwrap();
        tx.execute_for_test(sql).await.map_err(|error| format!("{error:?}"))?;
        tx.commit().await.map_err(|error| format!("{error:?}"))
    }

    /// Waits until a render is as it should be; what it is like then.
    pub(super) async fn until(&self, id: i64, what: &str, is_so: impl Fn(&State) -> bool) -> State {
        let mut last = None;
        let found = eventually(async || {
            let state = self.state(id).await;
            let found = is_so(&state).then(|| state.clone());
            last = Some(state);
            found
        });
        let found = found.await;
        found.unwrap_or_else(|| panic!("render {id} was never {what}: {last:#?}"))
    }

    /// Waits until all have ended and nothing of them is left in the farm; then nothing may be wrong with them.
    pub(super) async fn ended(&self, ids: &[i64]) -> Inventory {
        let output = &self.nas.join("output");
        self.ended_at(ids, Look { shown: output, found: output, retried: None }).await
    }

    /// The same, where the test has done something to what is looked at.
    pub(super) async fn ended_at(&self, ids: &[i64], look: Look<'_>) -> Inventory {
        for id in ids {
            self.until(*id, "ended", State::has_ended).await;
        }
        self.until_left(&[]).await;
        let inventory = Inventory::take(self, ids, look).await;
        assert_eq!(inventory.faults, Vec::<String>::new(), "{inventory:#?}");
        inventory
    }

    /// Waits until jobs of these renders, and no others, are still to be taken out of the farm.
    pub(super) async fn until_left(&self, ids: &[i64]) {
        let mut left: Vec<i64> = Vec::new();
        let is_so = eventually(async || {
            let mut tx = self.store.read().await.unwrap();
            let select = sqlx::query_scalar("select render_id from render_leftover order by render_id");
            left = select.fetch_all(tx.postgres().unwrap()).await.unwrap();
            tx.rollback().await.unwrap();
            (left == ids).then_some(())
        });
        let is_so = is_so.await;
        assert!(is_so.is_some(), "jobs of {left:?} are left in nexrender");
    }

    /// Waits until so many workers have claimed something.
    pub(super) async fn until_busy(&self, count: usize) {
        let mut busy: Vec<String> = Vec::new();
        let is_so = eventually(async || {
            let mut tx = self.store.read().await.unwrap();
            let select = sqlx::query_scalar("select distinct worker_name from render_attempt");
            busy = select.fetch_all(tx.postgres().unwrap()).await.unwrap();
            tx.rollback().await.unwrap();
            (busy.len() >= count).then_some(())
        });
        let is_so = is_so.await;
        assert!(is_so.is_some(), "only {busy:?} have claimed something");
    }

    pub(super) async fn state(&self, id: i64) -> State {
        let mut tx = self.store.read().await.unwrap();
        let select = "select id, status, phase, epoch, attempts, worker_name, error_code, error_message, output_file_path,
                 output_bytes, output_sha256, worker_id is not null
             from render_queue
             where id = $1";
        let row: Row = sqlx::query_as(select).bind(id).fetch_one(tx.postgres().unwrap()).await.unwrap();
        tx.rollback().await.unwrap();
        row.into()
    }

    /// The jobs of a render that renderers have begun with, in that order.
    pub(super) fn renders(&self, id: i64) -> Vec<String> {
        let all = self.farm.ask(PrivateNexrender::renders);
        all.into_iter().filter(|job| job.starts_with(&format!("rq-{id}-"))).collect()
    }

    /// The jobs of a render that nexrender was given, in that order.
    pub(super) fn posted(&self, id: i64) -> Vec<String> {
        let log = self.farm.ask(PrivateNexrender::server_log);
        let jobs = log.lines().filter_map(|line| line.split("creating new job ").nth(1));
        jobs.map(|job| job.trim().to_owned()).filter(|job| job.starts_with(&format!("rq-{id}-"))).collect()
    }

    /// The jobs that nexrender has now, of all that share it.
    pub(super) fn jobs(&self) -> String {
        let (url, secret) = self.farm.ask(|farm| (farm.url(), farm.secret().to_owned()));
        let mut stream = TcpStream::connect(url.trim_start_matches("http://")).unwrap();
        let head = format!("nexrender-secret: {secret}\r\nconnection: close\r\n\r\n");
        write!(stream, "GET /api/v1/jobs HTTP/1.1\r\nhost: farm\r\n{head}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        answer
    }

    /// Waits until a renderer has begun with this many jobs of a render.
    pub(super) async fn until_rendered(&self, id: i64, count: usize) {
        let begun = eventually(async || (self.renders(id).len() >= count).then_some(()));
        assert!(begun.await.is_some(), "render {id}: {:?}", self.renders(id));
    }
}

impl Site {
    /// What the clock of the database says, in seconds.
    pub(super) async fn now(&self) -> f64 {
        let mut tx = self.store.read().await.unwrap();
        let now = sqlx::query_scalar("select extract(epoch from clock_timestamp())::float8");
        let now = now.fetch_one(tx.postgres().unwrap()).await.unwrap();
        tx.rollback().await.unwrap();
        now
    }

    /// When others have claimed what this worker had: renders and seconds.
    pub(super) async fn taken_over(&self, worker: &str) -> Vec<(i64, f64)> {
        let mut tx = self.store.read().await.unwrap();
        let select = "select later.render_id, extract(epoch from later.started_at)::float8
             from render_attempt had
             join render_attempt later on later.render_id = had.render_id and later.epoch = had.epoch + 1
             where had.worker_name = $1";
        let taken = sqlx::query_as(select).bind(worker).fetch_all(tx.postgres().unwrap()).await.unwrap();
        tx.rollback().await.unwrap();
        taken
    }

    /// Waits until the node of a job has said all that it had to say about it, to nobody.
    pub(super) async fn until_unheard(&self, job: &str) {
        let is_unheard = |node: usize| {
            let said = self.farm.ask(|farm| farm.node_log(node));
            said.rsplit_once(job).is_some_and(|(_, rest)| rest.contains("nothing picked up"))
        };
        let unheard = eventually(async || (0..2).any(is_unheard).then_some(()));
        assert!(unheard.await.is_some(), "the node of {job} is still at it");
    }
}

type Text = Option<String>;
type Row = (i64, String, String, i64, i64, Text, Text, Text, Text, Option<i64>, Text, bool);

/// A render as its row has it.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct State {
    pub(super) id: i64,
    pub(super) status: String,
    pub(super) phase: String,
    pub(super) epoch: i64,
    pub(super) attempts: i64,
    pub(super) worker_name: Option<String>,
    pub(super) error_code: Option<String>,
    pub(super) error_message: Option<String>,
    pub(super) output_file_path: Option<String>,
    pub(super) output_bytes: Option<i64>,
    pub(super) output_sha256: Option<String>,
    pub(super) is_held: bool,
}

impl From<Row> for State {
    fn from(row: Row) -> Self {
        let (id, status, phase, epoch, attempts, worker_name, error_code, error_message, ..) = row.clone();
        let (.., output_file_path, output_bytes, output_sha256, is_held) = row;
        Self {
            id,
            status,
            phase,
            epoch,
            attempts,
            worker_name,
            error_code,
            error_message,
            output_file_path,
            output_bytes,
            output_sha256,
            is_held,
        }
    }
}

impl State {
    pub(super) fn has_ended(&self) -> bool {
        ["completed", "failed", "cancelled"].contains(&self.status.as_str())
    }
}

/// What a render shows, and what it asks of its node by that.
pub(super) fn data(wishes: &str) -> Value {
    json!({ "single_fields": { "title": format!("[stub:{CLIP},{wishes}]") } })
}

/// Asks until there is an answer; none when it takes far too long.
pub(super) async fn eventually<T>(mut ask: impl AsyncFnMut() -> Option<T>) -> Option<T> {
    let clock = SystemClock::new();
    let begun = clock.monotonic();
    while clock.monotonic().since(begun) < PATIENCE {
        if let Some(answer) = ask().await {
            return Some(answer);
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    None
}

/// Lets a file look as if it had lain there for longer than workers leave what nobody needs.
pub(super) fn make_old(file: &Path) {
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    File::options().write(true).open(file).unwrap().set_modified(long_ago).unwrap();
}

pub(super) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
