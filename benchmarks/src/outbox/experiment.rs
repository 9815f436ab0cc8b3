//! The experiment of the outbox requirements, on one PostgreSQL and one real Kafka: three instances publish 10,000 events in
//! batches of 1,000. It measures the original designs, without partitions and with `MOD`, in which ten senders await each
//! record; a design that claims and marks rows, but sends a batch at once; and our relays. Then it measures more events with
//! the last two, and the time from the commit of an event until Kafka has acknowledged it.

mod broker;
mod document;
mod latency;
mod ours;
mod report;

use super::server;
use super::stage::Stage;
use crate::options::numbers;
use anyhow::{Result, ensure};
use broker::Broker;
use report::Report;

/// The number of instances in each design.
pub(super) const INSTANCES: u32 = 3;

/// Warm-up runs of each design with many events. Before them, Java's compiler uses a fifth of two processors.
const WARM_UPS: usize = 3;

struct Options {
    events: u64,
    many: u64,
    rounds: usize,
    seconds: u64,
}

impl Options {
    fn parse(words: &[&str]) -> Result<Self> {
        let [events, many, rounds, seconds] =
            numbers(words, [("--events", 10_000), ("--many", 300_000), ("--rounds", 3), ("--seconds", 20)])?;
        let options = Self { events, many, rounds: usize::try_from(rounds)?, seconds };
        ensure!((1_000..=100_000).contains(&options.events), "there are from 1000 to 100000 events");
        ensure!((1_000..=900_000).contains(&options.many), "many are from 1000 to 900000 events");
        ensure!((1..=100).contains(&options.rounds), "there are from 1 to 100 rounds");
        ensure!((1..=600).contains(&options.seconds), "latency is watched from 1 to 600 seconds");
        Ok(options)
    }
}

/// How events get from the table to Kafka.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Way {
    /// All instances claim from all rows, and ten senders await each record.
    Alone,
    /// Each instance claims its own rows, by `MOD` of their ids.
    Modulo,
    /// All instances claim from all rows, and send a batch at once.
    Pipelined,
    /// Our relays.
    Ours,
}

impl Way {
    const ALL: [Self; 4] = [Self::Alone, Self::Modulo, Self::Pipelined, Self::Ours];

    fn name(self) -> &'static str {
        match self {
            Self::Alone => "(a) claim, each record awaited",
            Self::Modulo => "(b) claim by MOD, each record awaited",
            Self::Pipelined => "(c) claim, batch sent at once",
            Self::Ours => "(d) ours",
        }
    }
}

/// One measurement.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Measured {
    pub(super) events: u64,
    /// The time from the first fetch to the last acknowledgement.
    pub(super) seconds: f64,
    /// Statements of the instances in that time.
    pub(super) queries: u64,
    pub(super) wal_bytes: f64,
    /// Events that each instance has published.
    pub(super) shares: Vec<u64>,
    /// Aggregates with an event that is in Kafka before an earlier one.
    pub(super) disordered: u64,
}

/// Runs the experiment and prints its table and its JSON. Returns an error if a target is missed.
pub(super) fn run(words: &[&str]) -> Result<()> {
    let options = Options::parse(words)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let postgres = server()?;
    let broker = Broker::start()?;
    let report = runtime.block_on(async {
        let mut stage = Stage::prepare(&postgres).await?;
        let mut report = Report::new(options.rounds);
        // Warm up the server and the broker: fill their caches, and let Java compile its code.
        for way in [Way::Pipelined, Way::Ours].repeat(WARM_UPS) {
            one(&mut stage, &broker, way, options.many).await?;
        }
        eprintln!("warm; from here on it counts");
        for round in 0..options.rounds {
            let mut ways = Way::ALL;
            ways.rotate_left(round % Way::ALL.len());
            for way in ways {
                report.few.push((way, one(&mut stage, &broker, way, options.events).await?));
            }
            for way in [Way::Pipelined, Way::Ours] {
                report.many.push((way, one(&mut stage, &broker, way, options.many).await?));
            }
            eprintln!("round {} of {}", round + 1, options.rounds);
        }
        report.latency = Some(latency::measure(&mut stage, &broker, options.seconds).await?);
        anyhow::Ok(report)
    })?;
    print!("{}", report.table());
    println!("{}", report.json());
    let missed = report.missed();
    ensure!(missed.is_empty(), "missed: {}", missed.join("; "));
    Ok(())
}

async fn one(stage: &mut Stage, broker: &Broker, way: Way, events: u64) -> Result<Measured> {
    let topics = broker.make_topic()?;
    let mut measured = match way {
        Way::Ours => ours::run(stage, broker, &topics, events).await?,
        Way::Alone | Way::Modulo | Way::Pipelined => {
            document::run(stage, broker, &topics, way, events).await?
        }
    };
    let read = broker.read(&topics)?;
    ensure!(read.events == events, "{} of {events} events are in Kafka", read.events);
    measured.disordered = read.disordered;
    eprintln!("{}, {events} events: {:.0} ms", way.name(), measured.seconds * 1_000.0);
    Ok(measured)
}
