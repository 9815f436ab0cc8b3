//! A database, the relays on it, the sink that they publish to, and what happens to all of them.

use super::crew::Crew;
use super::ledger::{self, Ledger};
use super::load::{self, Load};
use super::plan::{Incident, Plan};
use super::pulse::Pulse;
use super::sink::Sink;
use super::source::Source;
use super::{BATCH, PATIENCE};
use fastrand::Rng;
use std::time::Duration;
use tidemill_store::{Init, Store, StoreOptions};
use tidemill_testkit::{CommitProxy, Loss, PrivatePostgres};

/// Nothing may stop everybody for longer, a database or a broker that is away set aside: many times the lease in which a
/// dead relay is found, because a busy machine takes its time, and far less than what waits for the lease of a process.
const STANDSTILL: Duration = Duration::from_secs(60);

/// Part of a statement by which a proxy knows what it is to lose.
const TAKE: &[u8] = b"set owner = $1, epoch = epoch + 1";

/// What is published, and where to.
pub(super) struct Way {
    pub(super) source: Source,
    pub(super) sink: Sink,
}

/// A database, the relays on it, and a proxy between them.
pub(super) struct Stand {
    plan: Plan,
    way: Way,
    store: Store,
    crew: Crew,
    proxy: Option<CommitProxy>,
    server: Option<PrivatePostgres>,
    pulse: Pulse,
    chance: Rng,
}

impl Stand {
    pub(super) async fn new(plan: Plan, way: Way, url: &str, server: Option<PrivatePostgres>) -> Self {
        let store = Store::open(url.parse().unwrap(), &StoreOptions::default()).await.unwrap();
        store.initialise(Init::Always).await.unwrap();
        load::prepare(&store).await;
        ledger::prepare(&store).await;
        let proxy = server.as_ref().map(|_| CommitProxy::in_front_of(url).unwrap());
        let crew = Crew::new(proxy.as_ref().map_or(url, CommitProxy::url), &way.sink);
        way.source.prepare(&store, crew.stage()).await;
        let pulse = Pulse::start(way.sink.growth(crew.stage()));
        let chance = Rng::with_seed(plan.seed);
        Self { plan, way, store, crew, proxy, server, pulse, chance }
    }

    pub(super) async fn play(mut self) {
        let (name, seed) = (self.store.dialect(), self.plan.seed);
        println!(
            "{name:?} to {}: {} incidents, TIDEMILL_TEST_SEED={seed}",
            self.way.sink.address(),
            self.plan.incidents.len()
        );
        let load = Load::start(&self.store, self.way.source, &self.plan);
        self.scale().await;
        let calm = self.ledger().await;
        let lapsed = self.crew.lapsed();
        println!("calm: {} records of {} events, {lapsed:?} have lapsed", calm.records, calm.events);
        assert!(calm.records > 0, "nothing was published");
        assert!(calm.reordered.is_empty(), "nothing had happened yet: {calm:?}");
        self.is_bounded(&calm);

        while self.crew.count() < self.plan.relays[1] {
            self.crew.hire();
        }
        for incident in self.plan.incidents.clone() {
            self.crew.mend();
            self.meet(incident).await;
            let pause = self.plan.pause.mul_f64(0.5 + self.chance.f64());
            tokio::time::sleep(pause).await;
            self.crew.thaw();
        }
        while self.crew.has_frozen() {
            tokio::time::sleep(Duration::from_millis(100)).await;
            self.crew.thaw();
        }
        self.crew.until_all_publish().await;
        self.crew.dismiss(self.plan.relays[2]);
        tokio::time::sleep(self.plan.calm).await;
        let elapsed = self.pulse.elapsed();
        let committed = load.end().await;
        println!(
            "{committed} events in {elapsed:.1?}, {:.0} in a second",
            committed as f64 / elapsed.as_secs_f64()
        );
        self.judge().await;
    }

    /// Few relays, more of them, and few again, by nothing but starting them and asking them to end.
    async fn scale(&mut self) {
        for wanted in self.plan.relays {
            while self.crew.count() < wanted {
                self.crew.hire();
            }
            self.crew.dismiss(wanted);
            self.crew.until_all_publish().await;
            self.pulse.until_grown().await;
            tokio::time::sleep(self.plan.calm).await;
        }
    }

    async fn meet(&mut self, incident: Incident) {
        match incident {
            Incident::Kill => self.crew.kill_one(&mut self.chance),
            Incident::Freeze => self.crew.freeze_one(&mut self.chance),
            Incident::Restart | Incident::Crash => {
                let Some(server) = &mut self.server else { return };
                self.crew.disturb_all();
                self.pulse.outage_begins();
                if incident == Incident::Crash {
                    server.crash();
                }
                server.restart().unwrap();
                self.pulse.outage_ends();
            }
            Incident::Lose(loss) => {
                let Some(proxy) = &self.proxy else { return };
                let before = proxy.lost();
                self.way.source.lose(proxy, loss, &mut self.chance);
                let lost = async {
                    while proxy.lost() == before {
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                };
                tokio::time::timeout(PATIENCE, lost).await.expect("a commit");
            }
            Incident::LoseTaking => {
                if let Some(proxy) = &self.proxy {
                    proxy.lose(Loss::Answer, TAKE);
                }
                self.crew.kill_one(&mut self.chance);
            }
            Incident::PauseBroker | Incident::CrashBroker => {
                let Some(broker) = self.way.sink.broker() else { return };
                self.pulse.outage_begins();
                match incident {
                    Incident::PauseBroker => broker.pause().await,
                    _ => broker.crash(),
                }
                self.pulse.outage_ends();
            }
        }
    }

    /// What was published, compared with the table.
    async fn ledger(&self) -> Ledger {
        let found = self.way.sink.records(self.crew.stage());
        Ledger::compare(&found, self.way.source, &self.store).await
    }

    /// Waits until everything is read, and looks at what was published.
    async fn judge(mut self) {
        // However slow that is: something has to come out all the time. And it has to end: relays that send the same again
        // and again let the sink grow for ever.
        let begun = self.pulse.elapsed();
        let mut last = (self.pulse.grown(), begun);
        while !self.way.source.is_drained(&self.store, self.crew.stage()).await {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let now = (self.pulse.grown(), self.pulse.elapsed());
            if now.0 != last.0 {
                last = now;
            }
            assert!(now.1 - last.1 < PATIENCE, "nothing comes out, and not all events are published");
            // In a long run more may be left than in a short one, but not more than all of it.
            assert!(now.1 - begun < begun + PATIENCE * 4, "much comes out, and not all events are published");
        }
        let (standstill, recovery) = self.pulse.end();
        self.crew.dismiss(0);
        let ledger = self.ledger().await;
        let repeated: usize = ledger.repeated.values().sum();
        let most = ledger.repeated.values().max().copied().unwrap_or(0);
        println!(
            "{} records of {} events, {} torn: {} lost, {} out of order; {repeated} too many, by {} relays, at most \
             {most} by one; {} of them lost their lease because the machine was busy",
            ledger.records,
            ledger.events,
            ledger.torn,
            ledger.lost.len(),
            ledger.reordered.len(),
            ledger.repeated.len(),
            self.crew.lapsed().len(),
        );
        println!(
            "nothing was published for {standstill:.1?} at most while everything was there; after an outage it took \
             {recovery:.1?} to go on"
        );
        if let Some(proxy) = &self.proxy {
            println!("{} answers and requests were lost", proxy.lost());
        }

        assert!(ledger.lost.is_empty() && ledger.reordered.is_empty(), "{ledger:#?}");
        self.is_bounded(&ledger);
        assert!(standstill < STANDSTILL, "nothing was published for {standstill:?}");
        self.agree();
        self.store.close().await;
        drop(self.server.take());
    }

    /// Of each relay there is a batch too many for each excuse that it has, at most.
    fn is_bounded(&self, ledger: &Ledger) {
        let excuses = self.crew.excuses();
        for (membership, count) in &ledger.repeated {
            let excuses = excuses.get(&membership.0).copied().unwrap_or(0);
            let most = BATCH
                * match self.way.source {
                    Source::Outbox => self.way.sink.batches_in_vain(excuses),
                    // What could not be marked at once is marked later, unless its slots have moved meanwhile.
                    Source::Attached => excuses,
                };
            assert!(*count <= most, "{membership:?} has {excuses} excuses and {count} records too many");
        }
    }

    /// The product itself has to come to the same verdict, where it can read what was published.
    fn agree(&self) {
        if self.way.source != Source::Outbox || !matches!(self.way.sink, Sink::File) {
            return;
        }
        let verify = ["outbox", "verify", "--sink", &self.way.sink.address(), "-o", "table"];
        let verified = self.crew.stage().run(&verify);
        println!("{}", verified.stdout.lines().next().unwrap_or_default());
        verified.succeeds();
        for expected in [": 0 lost, 0 reordered, ", " 0 unknown, ", " 0 gaps, 0 pending, 0 excused"] {
            assert!(verified.stdout.contains(expected), "{expected}: {verified:#?}");
        }
    }
}
