//! Relays that come and go, are killed, stopped for too long and cut off, while the database and the broker restart under
//! a steady load: nothing is lost, nothing is out of order, and at most one batch of a relay is there twice for each time
//! that something was done to it.
//!
//! `cargo xtask chaos outbox` runs the same for longer, by the variables `TIDEMILL_TEST_KILLS` and
//! `TIDEMILL_TEST_SECONDS`. `TIDEMILL_TEST_SEED` repeats what was done to whom.

#![expect(clippy::print_stdout, reason = "the figures are what one runs it for by hand")]

mod broker;
mod crew;
mod latency;
mod ledger;
mod load;
mod plan;
mod point;
mod pulse;
mod sink;
mod source;
mod stand;

use broker::{Broker, Delivery};
use plan::{Incident, Plan};
use sink::Sink;
use source::Source;
use stand::{Stand, Way};
use std::time::Duration;
use tidemill_store::scratch::Scratch;
use tidemill_testkit::{PostgresOptions, PrivatePostgres, postgres, skip};

/// Most events that a relay has in its hands at once.
const BATCH: usize = 200;

/// How long the word of a relay counts here. One that loses it to a busy machine says so, and has an excuse.
const LEASE: Duration = Duration::from_secs(5);

const PATIENCE: Duration = Duration::from_secs(240);

/// A server that may be crashed; none when tests on PostgreSQL are to be skipped.
fn server() -> Option<PrivatePostgres> {
    skip::require("postgres", postgres::find_binaries())?;
    Some(PrivatePostgres::start(&PostgresOptions::default()).unwrap())
}

async fn play(plan: Plan, way: Way, server: PrivatePostgres) {
    let url = server.url("postgres");
    Stand::new(plan, way, &url, Some(server)).await.play().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_out_of_order_on_postgres_whatever_happens_to_relays_and_database() {
    let Some(server) = server() else { return };
    let way = Way { source: Source::Outbox, sink: Sink::File };

    play(Plan::new(10, &[]), way, server).await;
}

/// With a broker that is paused and crashes too.
async fn play_with_broker(delivery: Delivery, rate: u32) {
    let Some(server) = server() else { return };
    let Some(broker) = Broker::start(delivery) else { return };
    let mut plan = Plan::new(5, &[Incident::PauseBroker, Incident::CrashBroker]);
    plan.rate = rate;

    play(plan, Way { source: Source::Outbox, sink: Sink::Kafka(Box::new(broker)) }, server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_out_of_order_in_kafka_whatever_happens_to_relays_database_and_broker() {
    play_with_broker(Delivery::AT_LEAST_ONCE, 1_500).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_there_twice_in_kafka_with_transactions_whatever_happens_to_relays_database_and_broker() {
    // A batch is a transaction for each group, and small ones are dear.
    play_with_broker(Delivery::EXACTLY_ONCE, 500).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_an_attached_table_is_lost_or_out_of_order_whatever_happens_to_relays_and_database() {
    let Some(server) = server() else { return };
    let mut plan = Plan::new(5, &[]);
    plan.rate = 600;

    play(plan, Way { source: Source::Attached, sink: Sink::File }, server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_out_of_order_on_sqlite_while_relays_are_killed() {
    let scratch = Scratch::file();
    let mut plan = Plan::new(3, &[]);
    plan.incidents.retain(|incident| *incident == Incident::Kill);
    plan.incidents.push(Incident::Kill);
    (plan.rate, plan.relays, plan.calm) = (300, [1, 2, 1], Duration::from_secs(1));
    plan.pause = Duration::from_secs(1);
    let way = Way { source: Source::Outbox, sink: Sink::File };

    Stand::new(plan, way, scratch.url(), None).await.play().await;
}
