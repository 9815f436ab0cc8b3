//! Units of a pool that steps of real processes hold, of which some are killed.

use crate::Stage;
use std::fs;
use std::num::NonZeroU32;
use std::process::Stdio;
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::pool::Settings;
use tidemill_domain::time::Clock;
use tidemill_engine::SystemClock;
use tidemill_store::scratch::Scratch;
use tidemill_testkit::{Guarded, Signal};

tidemill_store::on_both![
    what_a_killed_process_held_comes_back_with_its_execution,
    a_process_that_is_asked_to_end_gives_back_units_and_places,
];

/// Shorter than a lease on units lasts: they have to come back together with the execution.
const PATIENCE: Duration = Duration::from_secs(120);

const MORTAL: &str = "20s";
const LONG: &str = "10m";

/// Needs the whole pool. Whoever runs beside it is noted; the first run does not end.
const JOB: &str = r#"job: needy
parameters: { n: { type: long, required: true } }
steps:
  - name: work
    pool: { name: adw, units: 10, min: 10 }
    command: ["sh", "work.sh", "${units}"]
"#;

const WORK: &str = "exec 9> lock
flock -n 9 || echo overlap >> overlaps
echo \"$1\" >> runs
if [ ! -e let-go ]; then sleep 600; fi
";

/// A folder with the job, and a database with a pool of ten units.
async fn prepared(database: &Scratch) -> Stage {
    let store = database.store(None).await.unwrap();
    let mut settings = Settings::new("adw".parse().unwrap(), 10);
    settings.threshold_percent = 100;
    settings.min_units = NonZeroU32::MIN;
    let mut tx = store.begin().await.unwrap();
    tx.pools().create(&settings, &Actor::system()).await.unwrap();
    tx.commit().await.unwrap();
    store.close().await;
    let stage = Stage::on(database.url()).with("TIDEMILL_DATABASE_INIT", "always");
    fs::write(stage.path("needy.yaml"), JOB).unwrap();
    fs::write(stage.path("work.sh"), WORK).unwrap();
    stage
}

/// The units in use, and how many wait.
async fn level(database: &Scratch) -> (u64, u64) {
    let store = database.store(None).await.unwrap();
    let mut tx = store.read().await.unwrap();
    let found = tx.pools().find(&"adw".parse().unwrap()).await.unwrap().unwrap();
    tx.rollback().await.unwrap();
    store.close().await;
    (found.usage, found.waiting)
}

async fn becomes(database: &Scratch, expected: (u64, u64)) {
    let clock = SystemClock::new();
    let start = clock.monotonic();
    loop {
        let now = level(database).await;
        if now == expected {
            return;
        }
        assert!(clock.monotonic().since(start) < PATIENCE, "it is {now:?} and not {expected:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Starts the job in a process whose word counts for so long: for whoever is to die, not for long.
fn start(stage: &Stage, log: &str, n: &str, lease: &str) -> Guarded {
    let mut command = stage.command(&["job", "run", "needy.yaml", "-p", n, "-v"]);
    command.env("TIDEMILL_PROCESS_LEASE", lease);
    command.stdout(Stdio::null()).stderr(fs::File::create(stage.path(log)).unwrap());
    Guarded::spawn(command).unwrap()
}

fn text(stage: &Stage, file: &str) -> String {
    fs::read_to_string(stage.path(file)).unwrap_or_default()
}

async fn what_a_killed_process_held_comes_back_with_its_execution(database: Scratch) {
    let stage = prepared(&database).await;
    let mut victim = start(&stage, "first.log", "n=1", MORTAL);
    becomes(&database, (10, 0)).await;
    let mut waiting = start(&stage, "second.log", "n=2", LONG);
    becomes(&database, (10, 1)).await;
    fs::write(stage.path("let-go"), "").unwrap();

    victim.signal(Signal::KILL).unwrap();

    let ended = waiting.wait_deadline(PATIENCE).expect("whoever waits gets the units");
    assert!(ended.success(), "{}", text(&stage, "second.log"));
    assert!(text(&stage, "second.log").contains("step work waits for 10 units of pool adw: place 1"));
    stage.run(&["job", "run", "needy.yaml", "-p", "n=1"]).succeeds();
    assert_eq!(text(&stage, "runs"), "10\n10\n10\n");
    assert_eq!(text(&stage, "overlaps"), "", "two had the whole pool at once");
    assert_eq!(level(&database).await, (0, 0));
}

async fn a_process_that_is_asked_to_end_gives_back_units_and_places(database: Scratch) {
    let stage = prepared(&database).await;
    let mut holding = start(&stage, "first.log", "n=1", LONG);
    becomes(&database, (10, 0)).await;
    let mut waiting = start(&stage, "second.log", "n=2", LONG);
    becomes(&database, (10, 1)).await;

    waiting.signal(Signal::TERM).unwrap();
    waiting.wait_deadline(PATIENCE).expect("it stops while it waits");
    assert_eq!(level(&database).await, (10, 0));
    holding.signal(Signal::TERM).unwrap();
    holding.wait_deadline(PATIENCE).expect("it stops while it works");

    assert_eq!(level(&database).await, (0, 0));
    assert!(text(&stage, "second.log").contains("needy"), "{}", text(&stage, "second.log"));
}
