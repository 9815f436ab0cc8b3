//! What a relay costs that has nothing to do: its statements per second, with and without the heartbeat of its process.

use super::ours::{Beat, Gate, Running, until_shared};
use super::stage::Stage;
use anyhow::Result;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::time::Clock;
use tidemill_engine::SystemClock;

/// The one statement by which a relay renews and looks for events; all others belong to what is done now and then.
const LOOK: &str = "query like 'with clock as%'";

/// Until the relay has done what it does once.
const SETTLING: Duration = Duration::from_secs(3);

/// Statements per second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Idle {
    /// Those by which the relay renews and looks.
    pub(super) looks: f64,
    /// All of a relay, the keeping of the outbox included.
    pub(super) relay: f64,
    /// All of a process that does nothing else.
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
