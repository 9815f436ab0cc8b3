//! The demo verifies what it shows; here that it does, that it can say no, and that it goes on for those who look.

use crate::Stage;
use crate::metric_queries::problems_of_deployed;
use crate::serve::{Served, ask};
use rustix::process::{Pid, test_kill_process};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::time::Duration;
use tidemill::SystemClock;
use tidemill::time::Clock;
use tidemill_testkit::{Guarded, Signal};

/// The headers of an empty form of our own page.
const FORM: &str =
    "sec-fetch-site: same-origin\r\ncontent-type: application/x-www-form-urlencoded\r\ncontent-length: 0\r\n";

#[test]
fn what_is_configured_to_be_published_to_is_nothing_to_the_demo() {
    let stage = Stage::new().with("TIDEMILL_OUTBOX_SINK", "kafka:host");

    // It gets as far as its dashboard, which is for this host only.
    stage.run(&["demo", "--exit", "--listen", "0.0.0.0:0"]).fails("TM0509", 2);
}

#[test]
fn the_demo_verifies_itself_and_leaves_nothing_behind() {
    let stage = Stage::new();

    let ran = stage.run(&["demo", "--exit", "--listen", "127.0.0.1:0"]);

    ran.succeeds();
    assert!(
        ran.stdout.lines().count() >= 5 && ran.stdout.lines().all(|line| line.starts_with("✓ ")),
        "{ran:#?}"
    );
    let tells_the_night = |line: &str| line.contains("1200 batches") && line.contains(", 0 violations");
    assert!(ran.stdout.lines().any(tells_the_night), "{ran:#?}");
    let tells_the_outbox = |line: &str| line.contains("one killed: 0 lost, 0 reordered");
    assert!(ran.stdout.lines().any(tells_the_outbox), "{ran:#?}");
    let tells_the_renders =
        |line: &str| line.contains("4 of 4 films") && line.ends_with(": 0 renders repeated");
    assert!(ran.stdout.lines().any(tells_the_renders), "{ran:#?}");
    assert_eq!(std::fs::read_dir(stage.folder.path()).unwrap().count(), 0);
}

const PATIENCE: Duration = Duration::from_secs(180);

/// A demo that goes on.
struct Shown {
    child: Guarded,
    stage: Stage,
    address: String,
}

impl Shown {
    fn start() -> Self {
        let stage = Stage::new();
        let mut command = stage.command(&["demo", "--listen", "127.0.0.1:0"]);
        command.stderr(File::create(stage.path("demo.log")).unwrap());
        command.stdout(File::create(stage.path("verdicts")).unwrap());
        let child = Guarded::spawn(command).unwrap();
        let mut shown = Self { child, stage, address: String::new() };
        let log = shown.until_told("the dashboard is at http://");
        let rest = log.split("the dashboard is at http://").nth(1).unwrap();
        shown.address = rest.split('/').next().unwrap().to_owned();
        shown
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.stage.path("demo.log")).unwrap()
    }

    /// Until the demo has said this; all that it has said.
    fn until_told(&self, text: &str) -> String {
        until(text, || Some(self.log()).filter(|log| log.contains(text) && log.ends_with('\n')))
    }

    fn items(&self, path: &str) -> Vec<Value> {
        let (status, body) = ask(&self.address, "GET", path, "", "");
        assert_eq!(status, 200, "{path}: {body}");
        let body: Value = serde_json::from_str(&body).unwrap();
        body["items"].as_array().unwrap_or_else(|| panic!("{path}: {body}")).clone()
    }

    /// Who holds each thing of the workers, and in which epoch.
    fn things(&self) -> BTreeMap<String, (String, i64)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let leases = self.items("/api/v1/leases?limit=500").into_iter();
        leases
            .filter(|lease| lease["kind"] == "demo" && lease["state"] == "held")
            .map(|lease| (text(&lease["name"]), (text(&lease["owner"]), lease["epoch"].as_i64().unwrap())))
            .collect()
    }

    /// The process ids of those that live, by their names.
    fn living(&self) -> BTreeMap<String, i32> {
        let processes = self.items("/api/v1/processes?limit=500").into_iter();
        let living = processes.filter(|process| process["state"] == "live");
        living
            .map(|process| {
                let pid = process["pid"].as_i64().unwrap();
                (process["name"].as_str().unwrap().to_owned(), i32::try_from(pid).unwrap())
            })
            .collect()
    }
}

/// Waits for it.
#[track_caller]
fn until<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let (clock, pause) = (SystemClock::new(), Duration::from_millis(50));
    let begun = clock.monotonic();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(clock.monotonic().since(begun) < PATIENCE, "in vain: {what}");
        std::thread::sleep(pause);
    }
}

fn is_gone(pid: i32) -> bool {
    Pid::from_raw(pid).is_none_or(|pid| test_kill_process(pid).is_err())
}

#[test]
fn the_demo_goes_on_and_its_button_kills_a_worker_for_real() {
    let mut demo = Shown::start();
    // Pools move from the beginning on.
    until("units in use", || {
        let pools = demo.items("/api/v1/pools");
        pools.iter().any(|pool| pool["in_use"].as_u64() > Some(0)).then_some(())
    });
    let too_early = ask(&demo.address, "POST", "/action", FORM, "");
    assert_eq!(too_early.0, 409, "{}", too_early.1);
    let page = ask(&demo.address, "GET", "/", "", "").1;
    assert!(
        page.contains("disabled>Kill a worker (kill -9)") && page.contains("There is no worker yet"),
        "{page}"
    );
    let page = ask(&demo.address, "GET", "/settings/configuration", "", "").1;
    let shows = |key: &str, value: &str, origin: &str| {
        let row = page.split("<tr>").find(|row| row.contains(&format!(">{key}<"))).unwrap();
        assert!(row.contains(value) && row.contains(origin), "{row}");
    };
    shows("server.listen", &demo.address, "set by demo");
    shows("server.auth", "none", "set by demo");
    shows("database.url", "/tidemill.db", "set by demo");
    shows("database.busy_timeout", "5s", "default");
    demo.until_told("the demo continues");
    until("a button that can be used", || {
        let page = ask(&demo.address, "GET", "/", "", "").1;
        page.contains("<button form=\"do-action\">Kill a worker (kill -9)").then_some(())
    });

    let before =
        until("every thing to have an owner", || Some(demo.things()).filter(|things| things.len() == 6));
    let foreign =
        ask(&demo.address, "POST", "/action", "sec-fetch-site: cross-site\r\ncontent-length: 0\r\n", "");
    assert_eq!(foreign.0, 403, "{}", foreign.1);
    let (status, body) = ask(&demo.address, "POST", "/action", FORM, "");

    assert_eq!(status, 303, "{body}");
    let entries = demo.items("/api/v1/audit?action=demo.kill");
    assert_eq!(entries.len(), 1, "{entries:?}");
    let victim = entries[0]["object"].as_str().unwrap().strip_prefix("process/").unwrap().to_owned();
    let held: Vec<&String> =
        before.iter().filter(|(_, (owner, _))| *owner == victim).map(|(thing, _)| thing).collect();
    assert!(!held.is_empty(), "{victim}: {before:?}");
    until("the leases of the killed worker to have other owners", || {
        let now = demo.things();
        let is_taken = |thing: &&String| {
            now.get(*thing).is_some_and(|(owner, epoch)| *owner != victim && *epoch > before[*thing].1)
        };
        held.iter().all(is_taken).then_some(())
    });
    until("a worker in its place", || {
        let workers = demo.living().into_keys().filter(|name| name.starts_with("worker-")).count();
        (workers == 3).then_some(())
    });
    another_round(&demo);
    let (status, scrape) = ask(&demo.address, "GET", "/metrics", "", "");
    assert_eq!((status, problems_of_deployed(&scrape)), (200, Vec::new()), "{scrape}");

    let living = demo.living();
    assert!(living.len() >= 6, "{living:?}");
    demo.child.signal(Signal::TERM).unwrap();
    let ended = demo.child.wait_deadline(PATIENCE).expect("it ends when it is told to");
    assert!(ended.success(), "{ended:?}: {}", demo.log());
    assert!(living.values().all(|pid| is_gone(*pid)), "{living:?}");
    assert!(!demo.log().contains("did not finish"), "{}", demo.log());
}

/// What is seen of a round after the first.
fn another_round(demo: &Shown) {
    // Each execution that failed was gone on with.
    until("an import that failed and went on", || {
        let executions = demo.items("/api/v1/executions?job=import&limit=100");
        let of = |status: &str| executions.iter().filter(|one| one["status"] == status).count();
        (of("COMPLETED") >= 2 && of("FAILED") >= 2).then_some(())
    });
    until("films beyond the first four, one of them rendered again", || {
        let renders = demo.items("/api/v1/renders?limit=100");
        let completed = renders.iter().filter(|render| render["status"] == "completed");
        let again = completed.clone().filter(|render| render["attempts"].as_u64() > Some(1));
        (completed.count() >= 7 && again.count() >= 2).then_some(())
    });
    until("a relay in the place of a killed one", || {
        let relays: Vec<String> =
            demo.living().into_keys().filter(|name| name.starts_with("relay-")).collect();
        (relays.len() == 2 && relays.iter().any(|name| name.as_str() > "relay-4")).then_some(())
    });
}

#[test]
fn nothing_is_left_of_a_demo_that_is_killed() {
    let mut demo = Shown::start();
    let living = until("two relays", || {
        let living = demo.living();
        let relays = living.keys().filter(|name| name.starts_with("relay-")).count();
        (relays == 2).then_some(living)
    });

    demo.child.signal(Signal::KILL).unwrap();
    demo.child.wait_deadline(PATIENCE).expect("nobody outlives SIGKILL");

    until("the other processes to end", || living.values().all(|pid| is_gone(*pid)).then_some(()));
}

#[test]
fn a_server_has_no_such_button() {
    let served = Served::start(&Stage::new(), &[]);

    let (status, body) = ask(&served.address, "POST", "/action", FORM, "");

    assert_eq!(status, 404, "{body}");
    assert!(!served.get("/", None).1.contains("kill -9"));
}
