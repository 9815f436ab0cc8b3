//! Probes with real programs.

use crate::Bench;
use crate::job::command::gone;
use std::num::NonZeroU32;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use tidemill_domain::audit::Actor;
use tidemill_domain::pool::command::{Answer, Command};
use tidemill_domain::pool::{Holder, PoolName, Settings, State, TicketId};
use tidemill_engine::pool::probe::{Probe, ProbeError, probe_once};
use tidemill_engine::pool::{AcquirePart, AcquireRequest, PoolOptions, Pools, ProgramError};
use tidemill_store::pool::{Lapses, PassRequest, PoolCache};

struct Stand {
    bench: Bench,
    pools: Pools,
    folder: TempDir,
    suspects: Vec<TicketId>,
}

fn adw() -> PoolName {
    "ADW".parse().unwrap()
}

/// A pool with three leases in doubt.
async fn stand() -> Stand {
    let bench = Bench::new().await;
    let mut tx = bench.store.begin().await.unwrap();
    tx.pools().create(&Settings::new(adw(), 100), &Actor::system()).await.unwrap();
    tx.commit().await.unwrap();
    let pools = Pools::start(bench.store.clone(), PoolOptions::default());
    let mut suspects = Vec::new();
    for run in ["a", "b", "c"] {
        let part = AcquirePart::new(adw(), NonZeroU32::new(8));
        let mut ask = AcquireRequest::new(Holder::run("dag", run).unwrap(), part);
        ask.lease_for = Some(Duration::from_secs(60));
        let Answer::Admitted { parts, .. } = pools.acquire(&ask, Duration::ZERO).await.unwrap() else {
            panic!()
        };
        suspects.push(parts[0].ticket.id);
    }
    bench.clock.advance(Duration::from_secs(61));
    // What the decider would do by itself a little later.
    let (names, commands) = ([adw()].into(), [Command::Look { pool: adw() }]);
    let pace = PoolOptions::default().pace;
    let request = PassRequest { pools: &names, commands: &commands, pace, lapses: Lapses::Sought };
    bench.store.pool_pass(&mut PoolCache::default(), &request).await.unwrap();
    let stand = Stand { bench, pools, folder: tempfile::tempdir().unwrap(), suspects };
    assert_eq!(stand.states().await, [State::Suspect; 3]);
    stand
}

impl Stand {
    fn script(&self, text: &str) -> PathBuf {
        let path = self.folder.path().join("probe.sh");
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    async fn probe(&self, program: &Path) -> Result<usize, ProbeError> {
        let command = vec![program.display().to_string(), "ADW".to_owned()];
        let (every, timeout) = (Duration::from_secs(60), Duration::from_secs(60));
        probe_once(&self.pools, &Probe { pool: adw(), command, every, timeout }).await
    }

    async fn states(&self) -> Vec<State> {
        let mut tx = self.bench.store.begin().await.unwrap();
        let mut states = Vec::new();
        for id in &self.suspects {
            states.push(tx.pools().ticket(*id).await.unwrap().unwrap().ticket.state);
        }
        states
    }
}

#[tokio::test]
async fn who_has_no_session_is_freed_who_has_some_is_confirmed_and_the_rest_stays() {
    let stand = stand().await;
    let [gone, there, _unknown] = stand.suspects[..] else { panic!() };
    let asked = stand.folder.path().join("asked.json");
    let script = stand.script(&format!(
        "cat > {}; test \"$1\" = ADW || exit 9; test -z \"$(env | grep ^TIDEMILL_)\" || exit 8
         echo '{{\"{gone}\": 0, \"{there}\": 3, \"00000000-0000-0000-0000-000000000000\": 0}}'",
        asked.display()
    ));

    assert_eq!(stand.probe(&script).await.unwrap(), 2);

    assert_eq!(stand.states().await, [State::Expired, State::Running, State::Suspect]);
    let asked: serde_json::Value = serde_json::from_slice(&std::fs::read(asked).unwrap()).unwrap();
    assert_eq!(asked["pool"], "ADW");
    assert_eq!(asked["leases"].as_array().unwrap().len(), 3);
    let first = &asked["leases"][0];
    assert_eq!((&first["lease_id"], &first["dag_run_id"]), (&gone.to_string().into(), &"a".into()));
    assert_eq!(first["units"], 8);
}

#[tokio::test]
async fn a_probe_that_the_database_refuses_opens_the_breaker() {
    let stand = stand().await;
    let there = stand.suspects[0];
    let script = stand.script(&format!("echo '{{\"refused\": \"ORA-00020: x\", \"{there}\": 3}}'"));

    assert_eq!(stand.probe(&script).await.unwrap(), 1);

    assert_eq!(stand.states().await, [State::Running, State::Suspect, State::Suspect]);
    let found = stand.bench.store.read().await.unwrap().pools().find(&adw()).await.unwrap().unwrap();
    assert!(found.breaker.is_open() && found.breaker.reason == "ORA-00020", "{:?}", found.breaker);
}

#[tokio::test]
async fn a_probe_that_fails_changes_nothing() {
    let stand = stand().await;
    let all: String = stand.suspects.iter().map(|id| format!("\"{id}\": 0,")).collect();
    let answer = format!("{{{}}}", all.trim_end_matches(','));

    let failed = stand.probe(&stand.script(&format!("echo '{answer}'; exit 3"))).await;
    assert!(matches!(failed, Err(ProbeError::Program(ProgramError::Failed(_)))), "{failed:?}");
    let odd = stand.probe(&stand.script("echo no sessions")).await;
    assert!(matches!(odd, Err(ProbeError::NotUnderstood(_))), "{odd:?}");
    let negative = stand.probe(&stand.script(&format!("echo '{}'", answer.replace("0,", "-1,")))).await;
    assert!(matches!(negative, Err(ProbeError::NotUnderstood(_))), "{negative:?}");
    let long = stand.probe(&stand.script("head -c 2000000 /dev/zero")).await;
    assert!(matches!(long, Err(ProbeError::Program(ProgramError::TooMuch))), "{long:?}");
    let missing = stand.probe(&stand.folder.path().join("nowhere")).await;
    assert!(matches!(missing, Err(ProbeError::Program(ProgramError::NotRun(_)))), "{missing:?}");

    assert_eq!(stand.states().await, [State::Suspect; 3]);
}

#[tokio::test]
async fn a_probe_that_takes_too_long_ends_with_all_that_it_has_started() {
    let stand = stand().await;
    let started = stand.folder.path().join("started");
    let script = stand.script(&format!("sleep 600 & echo $! > {}; sleep 600", started.display()));
    let command = vec![script.display().to_string()];
    let (every, timeout) = (Duration::from_secs(60), Duration::from_secs(5));

    let late = probe_once(&stand.pools, &Probe { pool: adw(), command, every, timeout }).await;

    assert!(matches!(late, Err(ProbeError::Program(ProgramError::TimedOut(_)))), "{late:?}");
    gone(std::fs::read_to_string(started).unwrap().trim().parse().unwrap()).await;
    assert_eq!(stand.states().await, [State::Suspect; 3]);
}

#[tokio::test]
async fn nobody_in_doubt_is_no_reason_to_run_it() {
    let stand = stand().await;
    let mark = stand.folder.path().join("ran");
    for id in &stand.suspects {
        let mut tx = stand.pools.store().read().await.unwrap();
        let doubted_at = tx.pools().ticket(*id).await.unwrap().unwrap().ticket.doubted_at.unwrap();
        tx.rollback().await.unwrap();
        let probed = Command::Probed { pool: adw(), ticket: *id, doubted_at, sessions: 0 };
        stand.pools.submit(probed).await.unwrap();
    }

    let told = stand.probe(&stand.script(&format!("touch {}", mark.display()))).await.unwrap();

    assert_eq!((told, mark.exists()), (0, false));
}
