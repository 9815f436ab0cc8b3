//! Events of the demo: two relays publish them to a file, and one relay is killed. `tidemill outbox verify` compares the
//! file with the event table in the same way.

use super::processes::{Setup, Supervisor};
use super::worker::when_input_ends;
use super::{Stage, Verdicts, unexpected, until};
use crate::commands::prelude::*;
use crate::commands::relay;
use rustix::process::{Signal, getpid, kill_process};
use std::time::Duration;
use tidemill_domain::outbox::{NewEvent, Payload, Verdict};
use tidemill_engine::outbox::Verifier;
use tidemill_engine::outbox::sink::SinkAddress;
use tidemill_store::Store;

pub(super) const RELAYS: usize = 2;
const ORDERS: usize = 300;

/// Rounds of events; each round is one transaction.
struct Load {
    rounds: usize,
    events: usize,
    pause: Duration,
}

const VERIFIED: Load = Load { rounds: 60, events: 50, pause: Duration::from_millis(25) };
/// About 20 seconds.
const SLOW: Load = Load { rounds: 40, events: 5, pause: Duration::from_millis(500) };
const EVENTS: usize = VERIFIED.rounds * VERIFIED.events;

pub(super) async fn perform(stage: &Stage<'_>, verdicts: &mut Verdicts) -> Result<()> {
    let sink: SinkAddress = stage.setup.sink().parse()?;
    let relays = Supervisor::new(stage.setup, Setup::start_relay);
    relays.begin(1..=RELAYS)?;
    until_shared(stage.store).await?;
    let note = format!("{RELAYS} relays publish {EVENTS} events to {sink}; one relay is killed (SIGKILL)");
    stage.context.note(&note);
    publish_and_kill(stage.store, &relays, 0, &VERIFIED).await?;
    let verdict = published(stage.store, &sink).await?;
    relays.end().await;
    verdicts.add(
        verdict.is_clean() && verdict.events == EVENTS as u64 && verdict.pending == 0,
        format!(
            "{} events of {ORDERS} orders published by {RELAYS} relays, one killed: {} lost, {} reordered, {} duplicated",
            verdict.events, verdict.lost.count, verdict.reordered.count, verdict.repeated.count
        ),
    );
    Ok(())
}

/// One round after the verification.
pub(super) async fn play(store: &Store, relays: &Supervisor, round: u32) -> Result<()> {
    publish_and_kill(store, relays, EVENTS + round as usize * SLOW.rounds * SLOW.events, &SLOW).await
}

/// Writes events, numbered from `first`, and kills a relay halfway.
async fn publish_and_kill(store: &Store, relays: &Supervisor, first: usize, load: &Load) -> Result<()> {
    for round in 0..load.rounds {
        if round == load.rounds / 2
            && let Some(pid) = relays.pids().first()
        {
            relays.kill(*pid);
        }
        publish(store, first + round * load.events, load.events).await?;
        tokio::time::sleep(load.pause).await;
    }
    Ok(())
}

/// Writes events in one transaction, numbered from `first`.
async fn publish(store: &Store, first: usize, count: usize) -> Result<()> {
    let event = |number| {
        let payload = Payload::Json(format!("{{\"number\":{number}}}"));
        let order = format!("order-{}", number % ORDERS);
        NewEvent::new("order", order, "order.changed", "orders", payload).map_err(unexpected)
    };
    let events = (first..first + count).map(event).collect::<Result<Vec<_>, _>>()?;
    let mut tx = store.begin().await?;
    tx.publish_all(&events).await?;
    Ok(tx.commit().await?)
}

async fn until_shared(store: &Store) -> Result<()> {
    until("the relays to share the slots", async || {
        let live = store.read().await?.outbox().live_relays().await?;
        let is_shared = live.len() == RELAYS && live.iter().all(|relay| relay.slots > 0);
        Ok(is_shared.then_some(()))
    })
    .await
}

/// The result of the comparison once every event is published.
async fn published(store: &Store, sink: &SinkAddress) -> Result<Verdict> {
    let mut verifier = Verifier::new(store.clone(), std::slice::from_ref(sink))?;
    until("all events to be published", async || {
        let verdict = verifier.look().await?.verdict;
        let is_all = verdict.pending == 0 && verdict.events == EVENTS as u64;
        Ok(is_all.then_some(verdict))
    })
    .await
}

/// `demo-relay`: a relay that also stops when its standard input ends, so that it does not outlive a killed demo.
pub(in crate::commands) async fn run(context: &Context) -> Result<Exit> {
    when_input_ends(|| {
        let _we_exist = kill_process(getpid(), Signal::TERM);
    });
    relay::run(context).await
}
