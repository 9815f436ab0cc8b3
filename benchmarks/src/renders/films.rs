//! Measures how long a queue of short films takes from the insert to the last published file: the real program as workers
//! with one place each, the real nexrender with a node for each of them, and the default polling intervals.

use anyhow::{Context, Result, ensure};
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::render::Profile;
use tidemill_domain::render::mapping::MappingRow;
use tidemill_domain::time::Clock;
use tidemill_engine::SystemClock;
use tidemill_store::sqlx::{self, Connection, PgConnection};
use tidemill_store::{Init, Store};
use tidemill_testkit::{Guarded, NexrenderOptions, PrivateNexrender, nexrender};

const WORKERS: usize = 3;

/// The target for [`AIM_FILMS`] films, in seconds.
pub(super) const AIM_SECONDS: f64 = 150.0;

/// The number of films that the target is for.
pub(super) const AIM_FILMS: u32 = 200;

const COMPOSITION: &str = "Short film";

/// The pause between two looks at the queue.
const PAUSE: Duration = Duration::from_millis(200);

/// The time limit for each film.
const AT_LAST: Duration = Duration::from_secs(10);

/// What the farm and the queue say after the last film.
#[derive(Clone, Copy, Debug)]
pub(super) struct Films {
    pub(super) seconds: f64,
    /// Films with a published file.
    pub(super) completed: u32,
    /// The number of times that a node rendered.
    pub(super) rendered: u32,
}

/// Renders the films. Returns `None` if the packages of nexrender are not there.
pub(super) async fn measure(url: &str, films: u32) -> Result<Option<Films>> {
    if nexrender::find_home().is_none() {
        return Ok(None);
    }
    let program = std::env::current_exe()?.with_file_name("tidemill");
    ensure!(program.exists(), "{} is not there; use cargo xtask bench renders", program.display());
    let farm = PrivateNexrender::start(&NexrenderOptions { nodes: WORKERS, ..NexrenderOptions::default() })?;
    let nas = furnish(&farm.output())?;
    prepare(url, &farm).await?;
    let logs = tempfile::tempdir()?;
    let mut workers = Vec::new();
    for number in 0..WORKERS {
        let worker = worker(&program, url, &farm, &nas, &logs.path().join(number.to_string()))?;
        workers.push(worker);
    }
    // By now the workers have found no renders and are waiting.
    tokio::time::sleep(Duration::from_secs(5)).await;

    let mut connection = PgConnection::connect(url).await?;
    let clock = SystemClock::new();
    let begin = clock.monotonic();
    sqlx::query(
        "insert into render_queue (composition_id, gfx_data)
         select $1, jsonb_build_object('single_fields', jsonb_build_object('title', 'Film ' || number || $2))
         from generate_series(1, $3) number",
    )
    .bind(COMPOSITION)
    .bind(" [stub:secs=1,fps=25,size=320x180,mute]")
    .bind(i64::from(films))
    .execute(&mut connection)
    .await?;
    loop {
        let left: i64 = sqlx::query_scalar(
            "select count(*) from render_queue where status not in ('completed', 'failed', 'cancelled')",
        )
        .fetch_one(&mut connection)
        .await?;
        if left == 0 {
            break;
        }
        let too_long = AT_LAST * films;
        ensure!(clock.monotonic().since(begin) < too_long, "{left} films are left after {too_long:?}");
        tokio::time::sleep(PAUSE).await;
    }
    let seconds = clock.monotonic().since(begin).as_secs_f64();
    let completed: i64 = sqlx::query_scalar("select count(*) from render_queue where status = 'completed'")
        .fetch_one(&mut connection)
        .await?;
    let rendered = farm.renders().len().try_into()?;
    Ok(Some(Films { seconds, completed: completed.try_into()?, rendered }))
}

/// Makes the folder that stands for the NAS.
fn furnish(within: &Path) -> Result<PathBuf> {
    let nas = within.join("nas");
    for folder in ["", "output", ".staging"] {
        fs::create_dir(nas.join(folder))?;
    }
    // Nodes run under another account if this process is root.
    fs::set_permissions(nas.join(".staging"), fs::Permissions::from_mode(0o777))?;
    Ok(nas)
}

/// Empties the queue and saves the profile of the films.
async fn prepare(url: &str, farm: &PrivateNexrender) -> Result<()> {
    let store = Store::open(url.parse()?, &Default::default()).await?;
    store.initialise(Init::Always).await?;
    let profile: Profile = serde_json::from_value(serde_json::json!({
        "composition": COMPOSITION, "template": farm.templates().join("sample.aep"),
        "output_module": "H.264", "width": 320, "height": 180, "rate": "25", "duration": "1s",
    }))?;
    let mapping: MappingRow = serde_json::from_value(serde_json::json!({
        "composition": COMPOSITION, "field_name": "Single - title", "layer_name": "Title",
    }))?;
    let mut tx = store.begin().await?;
    tx.renders().save_profiles(&[profile], &Actor::system()).await?;
    tx.renders().save_field_mappings(&[mapping], &Actor::system()).await?;
    tx.commit().await?;
    store.close().await;
    let mut connection = PgConnection::connect(url).await?;
    sqlx::raw_sql("truncate render_queue, render_queue_audit, render_attempt")
        .execute(&mut connection)
        .await?;
    Ok(())
}

/// Starts the program as a worker with one place, in a folder of its own.
fn worker(program: &Path, url: &str, farm: &PrivateNexrender, nas: &Path, folder: &Path) -> Result<Guarded> {
    fs::create_dir(folder)?;
    let mut command = Command::new(program);
    command.args(["render", "worker"]).current_dir(folder);
    command.env("TIDEMILL_DATABASE_URL", url);
    command.env("NEXRENDER_API_URL", farm.url()).env("NEXRENDER_SECRET", farm.secret());
    command.env("TIDEMILL_RENDER_MOUNT", nas).env("TIDEMILL_RENDER_MOUNT_CHECK", "false");
    command.env("TIDEMILL_RENDER_OUTPUT_FOLDER", "output");
    command.env("TIDEMILL_RENDER_TEMPLATE_FOLDERS", farm.templates()).env("TIDEMILL_RENDER_CAPACITY", "1");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(folder.join("worker.log"))?);
    Guarded::spawn(command).context("cannot start a worker")
}
