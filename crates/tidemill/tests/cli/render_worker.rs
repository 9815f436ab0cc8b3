//! The render worker as a process, where the world is not as it should be: it says so with a code, loses nothing, and ends
//! in order.

use crate::pool::json_of;
use crate::render::known;
use crate::serve::{Served, ask};
use crate::{Ran, Stage};
use serde_json::{Value, json};
use std::fs;
use std::net::TcpListener;
use std::process::Stdio;
use std::time::Duration;
use tidemill_testkit::{Guarded, Signal};

const PATIENCE: Duration = Duration::from_secs(180);

/// A stage with a folder that stands for the NAS, and a nexrender that nobody serves.
fn stage() -> Stage {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let stage = known(Stage::new());
    let nas = stage.path("nas");
    fs::create_dir_all(nas.join("broadcast/output")).unwrap();
    fs::create_dir_all(nas.join("broadcast/.staging")).unwrap();
    let (mount, url) = (nas.display().to_string(), format!("http://127.0.0.1:{port}"));
    let map = format!("\\\\NAS\\broadcast={mount}/broadcast");
    stage
        .with("TIDEMILL_RENDER_MOUNT", &mount)
        .with("TIDEMILL_RENDER_PATHS", &map)
        .with("NEXRENDER_API_URL", &url)
        .with("NEXRENDER_SECRET", "sehr-geheim")
        .with("WORKER_ID", "worker-7")
        .with("POLL_INTERVAL_DEFAULT", "1")
}

/// The render, which is still as it was ordered.
fn untouched(stage: &Stage) {
    let shown = json_of(&stage.run(&["render", "show", "1", "-o", "json"]));
    assert_eq!((&shown["status"], &shown["attempts"]), (&json!("pending"), &json!(0)), "{shown}");
}

/// Until the log has this text; all of the log.
fn until(stage: &Stage, text: &str) -> String {
    for _ in 0..6_000 {
        let log = fs::read_to_string(stage.path("worker.log")).unwrap();
        if log.contains(text) {
            return log;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("{text}: {}", fs::read_to_string(stage.path("worker.log")).unwrap());
}

fn start(stage: &Stage) -> Guarded {
    let mut command = stage.command(&["render", "worker", "-v"]);
    command.stderr(fs::File::create(stage.path("worker.log")).unwrap()).stdout(Stdio::null());
    Guarded::spawn(command).unwrap()
}

fn end(worker: &mut Guarded) {
    worker.signal(Signal::TERM).unwrap();
    let ended = worker.wait_deadline(PATIENCE);
    assert_eq!(ended.and_then(|status| status.code()), Some(0));
}

#[test]
fn a_nas_that_is_not_mounted_is_told_and_nothing_is_lost() {
    let stage = stage();
    stage.run(&["render", "submit", "ivey.json"]).succeeds();

    let mut worker = start(&stage);
    let log = until(&stage, "TM1537");
    end(&mut worker);

    assert!(log.contains("claims no more renders") && !log.contains("geheim"), "{log}");
    untouched(&stage);
}

#[test]
fn a_nexrender_that_nobody_serves_is_told_and_the_render_waits_for_its_next_attempt() {
    let stage = stage().with("TIDEMILL_RENDER_MOUNT_CHECK", "false");
    stage.run(&["render", "submit", "ivey.json"]).succeeds();

    let mut worker = start(&stage);
    let log = until(&stage, "TM1520");
    end(&mut worker);

    assert!(!log.contains("geheim"), "{log}");
    let shown = json_of(&stage.run(&["render", "show", "1", "-o", "json"]));
    assert_eq!((&shown["status"], &shown["error_code"]), (&json!("pending"), &json!("TM1520")), "{shown}");
    assert!(shown["run_after"].is_string() && shown["output_path"].is_null(), "{shown}");
}

#[test]
fn a_server_renders_too_and_says_how_its_worker_is() {
    let stage = stage();
    let served = Served::start(&stage, &[]);
    let mut answer = (0, Value::Null);
    for _ in 0..6_000 {
        let (status, body) = served.get("/health", None);
        answer = (status, serde_json::from_str(&body).unwrap());
        if answer.1["render"]["nas"]["error_code"].is_string() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }

    let (status, health) = answer;

    assert_eq!((status, &health["status"]), (503, &json!("unhealthy")), "{health}");
    assert_eq!(health["worker_id"], "worker-7");
    assert_eq!(health["render"]["nas"]["error_code"], "TM1537");
    assert_eq!(health["render"]["nexrender"]["error_code"], "TM1520");
    assert!(health["render"]["paused_by"].is_string(), "{health}");
    // Everybody may ask, so nothing is told but codes.
    assert!(!health.to_string().contains(&stage.path("nas").display().to_string()), "{health}");
    let workers = stage.run(&["render", "workers", "-o", "json"]);
    assert!(workers.stdout.contains("worker-7"), "{workers:#?}");
}

#[test]
fn a_worker_without_a_server_says_how_it_is() {
    let stage = stage();
    let mut command = stage.command(&["render", "worker", "-v", "--listen", "127.0.0.1:0"]);
    command.stderr(fs::File::create(stage.path("worker.log")).unwrap()).stdout(Stdio::null());
    let mut worker = Guarded::spawn(command).unwrap();
    let log = until(&stage, "TM1537");
    let address = log.split("http://").find_map(|rest| rest.split_once("/health")).unwrap().0.to_owned();

    let (status, body) = ask(&address, "GET", "/health", "", "");
    let health: Value = serde_json::from_str(&body).unwrap();

    assert_eq!((status, &health["worker_id"]), (503, &json!("worker-7")), "{health}");
    assert_eq!(health["render"]["nas"]["error_code"], "TM1537", "{health}");
    let processes = stage.run(&["process", "list", "-o", "json"]);
    assert!(processes.stdout.contains(health["process_id"].as_str().unwrap()), "{processes:#?}");
    assert_eq!(ask(&address, "GET", "/healthz/live", "", "").0, 200);
    let (status, counted) = ask(&address, "GET", "/metrics", "", "");
    assert_eq!(status, 200);
    assert!(counted.contains("tidemill_render_nexrender_seconds_bucket{"), "{counted}");
    end(&mut worker);
}

#[test]
fn the_doctor_looks_at_all_that_renders_need() {
    let ran: Ran = stage().run(&["doctor"]);

    assert_eq!(ran.code, Some(1), "{ran:#?}");
    for part in ["✗ nexrender", "✗ NAS", "TM1537", "TM1520", "tidemill explain TM1537"] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    assert!(!ran.stdout.contains("geheim"));
    let without = known(Stage::new()).run(&["doctor"]);
    assert!(!without.stdout.contains("nexrender"), "{without:#?}");
}

#[test]
fn a_server_whose_renders_are_not_configured_well_does_not_start() {
    let ran = stage().with("TIDEMILL_RENDER_PATHS", "nonsense").run(&["serve", "--listen", "127.0.0.1:0"]);

    ran.fails("TM1549", 2);
}
