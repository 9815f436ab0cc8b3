//! Events of the demo: written in transactions, published to a file by two relays, of which one is killed in the middle.
//! What is in the file is then compared with the table, by the code of `tidemill outbox verify`.

use super::crew::Setup;
use super::verdict::Verdicts;
use crate::context::Context;
use crate::report::Failure;
use rustix::process::{Pid, Signal, kill_process};
use std::process::Stdio;
use std::time::Duration;
use tidemill_domain::code::Code;
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
/// Between two transactions.
const PAUSE: Duration = Duration::from_millis(25);
/// Short, so that nobody has to wait for long.
const LEASE: &str = "1s";
/// Far longer than it takes.
const LIMIT: Duration = Duration::from_secs(20);

pub(super) async fn perform(
    store: &Store,
    setup: &Setup,
    context: &Context,
    verdicts: &mut Verdicts,
) -> Result<(), Failure> {
    let sink = format!("file:{}", setup.folder.join("published.jsonl").display());
    let address: SinkAddress = sink.parse()?;
    let mut relays = Vec::with_capacity(RELAYS);
    for number in 0..RELAYS {
        relays.push(start(setup, &sink, number)?);
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
        let mut tx = store.begin().await?;
        tx.publish_all(&events(round)?).await?;
        tx.commit().await?;
        tokio::time::sleep(PAUSE).await;
    }
    let verdict = published(store, &address).await?;
    for relay in &relays {
        signal(relay, Signal::TERM);
    }
    for relay in &mut relays {
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

fn start(setup: &Setup, sink: &str, number: usize) -> Result<Child, Failure> {
    let failed = |error: std::io::Error| Failure::unexpected("a relay could not be started", &error);
    setup
        .command()
        .map_err(failed)?
        .args(["relay", "--database", &setup.url, "--sink", sink])
        .env("TIDEMILL_PROCESS_NAME", format!("relay-{}", number + 1))
        // The killed one must not count as alive any more when the workers share things.
        .env("TIDEMILL_PROCESS_LEASE", LEASE)
        .env("TIDEMILL_OUTBOX_LEASE", LEASE)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .map_err(failed)
}

/// What happens to the orders in one transaction.
fn events(round: usize) -> Result<Vec<NewEvent>, Failure> {
    let bad = |error| Failure::unexpected("an event of the demo is not accepted", &error);
    (0..EVENTS)
        .map(|n| {
            let number = round * EVENTS + n;
            let payload = Payload::Json(format!("{{\"number\":{number}}}"));
            let order = format!("order-{}", number % ORDERS);
            NewEvent::new("order", order, "order.changed", "orders", payload).map_err(bad)
        })
        .collect()
}

/// Until every relay has slots.
async fn until_shared(store: &Store) -> Result<(), Failure> {
    let sharing = async {
        loop {
            let live = store.read().await?.live_relays().await?;
            if live.len() == RELAYS && live.iter().all(|relay| relay.slots > 0) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(LIMIT, sharing)
        .await
        .unwrap_or_else(|_| Err(in_vain("the relays to share the slots")))
}

/// What the file says when nothing is left to be published.
async fn published(store: &Store, sink: &SinkAddress) -> Result<Verdict, Failure> {
    let publishing = async {
        let mut verifier = Verifier::new(store.clone(), std::slice::from_ref(sink))?;
        loop {
            let verdict = verifier.look().await?.verdict;
            if verdict.pending == 0 && verdict.events == (ROUNDS * EVENTS) as u64 {
                return Ok(verdict);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(LIMIT, publishing)
        .await
        .unwrap_or_else(|_| Err(in_vain("all events to be published")))
}

fn in_vain(what: &str) -> Failure {
    let what = format!("the demo waited in vain for {what}");
    Failure::new(Code::Unexpected, what, "run it again with -vv and report what you see")
}

fn signal(relay: &Child, signal: Signal) {
    if let Some(pid) = relay.id().and_then(|pid| Pid::from_raw(pid.cast_signed())) {
        let _gone_already = kill_process(pid, signal);
    }
}
