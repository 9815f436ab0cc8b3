//! The cost of an idle relay: its statements per second, with and without the heartbeat of its process.

use super::ours::{Beat, Gate, Running, until_shared};
use super::stage::Stage;
use anyhow::Result;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::time::Clock;
use tidemill_engine::SystemClock;

/// The statement with which a relay renews its lease and looks for events. All other statements run only occasionally.
const LOOK: &str = "query like 'with clock as%'";

/// The time in which a relay completes its one-time work.
const SETTLING: Duration = Duration::from_secs(3);

/// Statements per second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Idle {
    /// Statements that renew the lease and look for events.
    pub(super) looks: f64,
    /// All statements of a relay, including the maintenance of the outbox.
    pub(super) relay: f64,
    /// All statements of a process with only a relay.
    pub(super) process: f64,
}

pub(super) async fn measure(stage: &mut Stage, seconds: u64) -> Result<Idle> {
    let (looks, relay) = watched(stage, seconds, Beat::None).await?;
    let (_, process) = watched(stage, seconds, Beat::Heart).await?;
    eprintln!("a relay that has nothing to do");
    Ok(Idle { looks, relay, process })
}

/// Looks, and all statements, per second.
async fn watched(stage: &mut Stage, seconds: u64, beat: Beat) -> Result<(f64, f64)> {
    stage.empty_ours().await?;
    let gate = Gate::new();
    gate.open.send_replace(true);
    let relay = Running::start(&stage.url, Arc::new(gate), beat).await?;
    until_shared(stage, 1).await?;
    tokio::time::sleep(SETTLING).await;
    let clock = SystemClock::new();
    stage.begin_counting().await?;
    let begin = clock.monotonic();
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let (looks, all) = (stage.statements(LOOK).await?, stage.statements("true").await?);
    let spent = clock.monotonic().since(begin).as_secs_f64();
    relay.stop().await?;
    Ok((looks as f64 / spent, all as f64 / spent))
}
