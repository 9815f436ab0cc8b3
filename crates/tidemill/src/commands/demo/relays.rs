//! Events of the demo: written in transactions, published to a file by two relays, of which one is killed in the middle.
//! What is in the file is then compared with the table, by the code of `tidemill outbox verify`.

use super::processes::{Setup, Supervisor, signal};
use super::verdict::Verdicts;
use super::worker::when_input_ends;
use super::{LIMIT, until};
use crate::commands::relay;
use crate::context::Context;
use crate::report::Failure;
use rustix::process::{Signal, getpid, kill_process};
use std::time::Duration;
use tidemill_domain::code::Exit;
use tidemill_domain::outbox::{NewEvent, Payload, Verdict};
use tidemill_engine::outbox::Verifier;
use tidemill_engine::outbox::sink::SinkAddress;
use tidemill_store::Store;
use tokio::process::Child;

const RELAYS: usize = 2;
const ORDERS: usize = 300;
/// Transactions, and events of each.
const ROUNDS: usize = 60;
const EVENTS: usize = 50;
const PAUSE: Duration = Duration::from_millis(25);
/// The same for those who look: about 20 seconds.
const SLOW_ROUNDS: usize = 40;
const SLOW_EVENTS: usize = 5;
const SLOW_PAUSE: Duration = Duration::from_millis(500);

pub(super) async fn perform(
    store: &Store,
    setup: &Setup,
    context: &Context,
    verdicts: &mut Verdicts,
) -> Result<(), Failure> {
    let sink = sink(setup);
    let address: SinkAddress = sink.parse()?;
    let mut relays = Vec::with_capacity(RELAYS);
    for number in 0..RELAYS {
        relays.push(start(setup, &sink, number + 1)?);
    }
    until_shared(store).await?;
    context.note(&format!(
        "{RELAYS} relays publish {} events to {sink}; one is killed (SIGKILL)",
        ROUNDS * EVENTS
    ));
    for round in 0..ROUNDS {
        if round == ROUNDS / 2
            && let Some(victim) = relays.first()
        {
            signal(victim, Signal::KILL);
        }
        publish(store, round * EVENTS, EVENTS).await?;
        tokio::time::sleep(PAUSE).await;
    }
    let verdict = published(store, &address).await?;
    for relay in &mut relays {
        // Its input ends when it is waited for, and so does the relay, in order.
        let _killed_otherwise = tokio::time::timeout(LIMIT, relay.wait()).await;
    }
    let is_whole = verdict.is_clean() && verdict.events == (ROUNDS * EVENTS) as u64 && verdict.pending == 0;
    verdicts.add(
        is_whole,
        format!(
            "{} events of {ORDERS} orders published by {RELAYS} relays, one killed: {} lost, {} reordered, {} duplicated",
            verdict.events, verdict.lost.count, verdict.reordered.count, verdict.repeated.count
        ),
    );
    Ok(())
}

pub(super) fn sink(setup: &Setup) -> String {
    format!("file:{}", setup.folder.join("published.jsonl").display())
}

pub(super) fn start(setup: &Setup, sink: &str, number: usize) -> Result<Child, Failure> {
    let failed = |error: std::io::Error| Failure::unexpected("a relay could not be started", &error);
    setup.relay(number, sink).and_then(|mut command| command.spawn()).map_err(failed)
}

/// One round for those who look: events come slowly, and a relay is killed in the middle.
pub(super) async fn play(store: &Store, relays: &Supervisor, round: u32) -> Result<(), Failure> {
    let first = ROUNDS * EVENTS + round as usize * SLOW_ROUNDS * SLOW_EVENTS;
    for number in 0..SLOW_ROUNDS {
        if number == SLOW_ROUNDS / 2
            && let Some(pid) = relays.pids().first()
        {
            relays.kill(*pid);
        }
        publish(store, first + number * SLOW_EVENTS, SLOW_EVENTS).await?;
        tokio::time::sleep(SLOW_PAUSE).await;
    }
    Ok(())
}

/// What happens to the orders in one transaction: so many events, from this number on.
async fn publish(store: &Store, first: usize, count: usize) -> Result<(), Failure> {
    let event = |number| {
        let payload = Payload::Json(format!("{{\"number\":{number}}}"));
        let order = format!("order-{}", number % ORDERS);
        NewEvent::new("order", order, "order.changed", "orders", payload)
            .map_err(|error| Failure::unexpected("an event of the demo is not accepted", &error))
    };
    let events = (first..first + count).map(event).collect::<Result<Vec<_>, _>>()?;
    let mut tx = store.begin().await?;
    tx.publish_all(&events).await?;
    Ok(tx.commit().await?)
}

async fn until_shared(store: &Store) -> Result<(), Failure> {
    until("the relays to share the slots", async || {
        let live = store.read().await?.outbox().live_relays().await?;
        let is_shared = live.len() == RELAYS && live.iter().all(|relay| relay.slots > 0);
        Ok(is_shared.then_some(()))
    })
    .await
}

/// What the file says when nothing is left to be published.
async fn published(store: &Store, sink: &SinkAddress) -> Result<Verdict, Failure> {
    let mut verifier = Verifier::new(store.clone(), std::slice::from_ref(sink))?;
    until("all events to be published", async || {
        let verdict = verifier.look().await?.verdict;
        let is_all = verdict.pending == 0 && verdict.events == (ROUNDS * EVENTS) as u64;
        Ok(is_all.then_some(verdict))
    })
    .await
}

/// One relay of the demo: an ordinary one, which also ends when its standard input does. Whoever started it may be killed
/// at any time, and no process of the demo is left behind then.
pub(in crate::commands) async fn run(context: &Context) -> Result<Exit, Failure> {
    // The way in which relays are stopped in order.
    when_input_ends(|| {
        let _we_are_there = kill_process(getpid(), Signal::TERM);
    });
    relay::run(context).await
}
