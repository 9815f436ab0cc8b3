//! Relays that come and go, are killed, stopped for too long and cut off, while the database restarts under a steady load:
//! nothing is lost, nothing is out of order, and at most one batch of a relay to which something was done is there twice.
//!
//! `cargo xtask chaos outbox` runs the same for longer, by the variables `TIDEMILL_TEST_KILLS` and
//! `TIDEMILL_TEST_SECONDS`. `TIDEMILL_TEST_SEED` repeats what was done to whom.

#![expect(clippy::print_stdout, reason = "the figures are what one runs it for by hand")]

mod crew;
mod latency;
mod ledger;
mod load;
mod point;
mod pulse;

use crew::Crew;
use fastrand::Rng;
use ledger::Ledger;
use load::Load;
use pulse::Pulse;
use serde_json::Value;
use std::time::Duration;
use tidemill_store::scratch::Scratch;
use tidemill_store::{Init, Store, StoreOptions};
use tidemill_testkit::{CommitProxy, Loss, PostgresOptions, PrivatePostgres, postgres, skip};

/// Most events that a relay has in its hands at once.
const BATCH: usize = 200;

/// How long the word of a relay counts here.
const LEASE: Duration = Duration::from_secs(3);

const PATIENCE: Duration = Duration::from_secs(60);

/// Nothing may stop everybody for longer, a database that is away set aside: the time in which a dead relay is found, and
/// what a busy machine takes.
const STANDSTILL: Duration = Duration::from_secs(15);

/// Parts of statements by which a proxy knows what it is to lose.
const ACKNOWLEDGE: &[u8] = b"published = published + $4";
const TAKE: &[u8] = b"set owner = $1, epoch = epoch + 1";

/// What is done to relays and their database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Incident {
    /// One is killed.
    Kill,
    /// One is stopped for longer than its lease, and goes on as a ghost.
    Freeze,
    /// The database ends in order and starts again.
    Restart,
    /// The database crashes and recovers.
    Crash,
    /// One acknowledges, and one half of that is lost.
    Lose(Loss),
    /// One is killed, and its successor does not hear that it has got its slots.
    LoseTaking,
}

/// What is done, how often, and to how much.
struct Plan {
    seed: u64,
    /// Events in a second.
    rate: u32,
    /// How many relays there are in the beginning, at most, and in the end.
    relays: [usize; 3],
    /// How long it is calm with each of these numbers.
    calm: Duration,
    incidents: Vec<Incident>,
    /// How long it is on average from one incident to the next.
    pause: Duration,
}

impl Plan {
    /// With as many kills as the environment says, or so many.
    fn new(kills: usize) -> Self {
        let given = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let seed = given("TIDEMILL_TEST_SEED").unwrap_or_else(|| fastrand::u64(..1_000_000));
        let kills = given("TIDEMILL_TEST_KILLS").map_or(kills, |kills| usize::try_from(kills).unwrap());
        let several = kills.div_ceil(5);
        let mut incidents = vec![Incident::Kill; kills - kills.div_ceil(10)];
        incidents.extend(vec![Incident::LoseTaking; kills.div_ceil(10)]);
        incidents.extend(vec![Incident::Freeze; several]);
        incidents.extend(vec![Incident::Lose(Loss::Answer); several]);
        incidents.extend(vec![Incident::Lose(Loss::Request); several]);
        incidents.extend(vec![Incident::Restart; kills.div_ceil(10)]);
        incidents.extend(vec![Incident::Crash; kills.div_ceil(10)]);
        Rng::with_seed(seed).shuffle(&mut incidents);
        let pause = match given("TIDEMILL_TEST_SECONDS") {
            Some(seconds) => Duration::from_secs(seconds) / u32::try_from(incidents.len()).unwrap(),
            None => Duration::from_millis(900),
        };
        Self { seed, rate: 2_000, relays: [3, 5, 1], calm: Duration::from_millis(2_500), incidents, pause }
    }
}

/// A database, the relays on it, and a proxy between them.
struct Stand {
    plan: Plan,
    store: Store,
    crew: Crew,
    proxy: Option<CommitProxy>,
    server: Option<PrivatePostgres>,
    pulse: Pulse,
    chance: Rng,
}

impl Stand {
    async fn new(plan: Plan, url: &str, server: Option<PrivatePostgres>) -> Self {
        let store = Store::open(url.parse().unwrap(), &StoreOptions::default()).await.unwrap();
        store.initialise(Init::Always).await.unwrap();
        load::prepare(&store).await;
        ledger::prepare(&store).await;
        let proxy = server.as_ref().map(|_| CommitProxy::in_front_of(url).unwrap());
        let crew = Crew::new(proxy.as_ref().map_or(url, CommitProxy::url));
        let pulse = Pulse::start(crew.file());
        let chance = Rng::with_seed(plan.seed);
        Self { plan, store, crew, proxy, server, pulse, chance }
    }

    async fn play(mut self) {
        let (name, seed) = (self.store.dialect(), self.plan.seed);
        println!("{name:?}: {} incidents, TIDEMILL_TEST_SEED={seed}", self.plan.incidents.len());
        let load = Load::start(&self.store, &self.plan);
        self.scale().await;
        let calm = Ledger::read(&self.crew.file(), &self.store).await;
        println!("calm: {} records of {} events, {:?}", calm.records, calm.events, self.crew.lapsed());
        assert!(calm.records > 0, "nothing was published");
        assert!(calm.repeated.is_empty() && calm.reordered.is_empty(), "nothing had happened yet: {calm:?}");

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
        self.crew.mend();
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
                self.pulse.database_goes();
                if incident == Incident::Crash {
                    server.crash();
                }
                server.restart().unwrap();
                self.pulse.database_is_back();
            }
            Incident::Lose(loss) => {
                let Some(proxy) = &self.proxy else { return };
                let before = proxy.lost();
                proxy.lose_statement(loss, ACKNOWLEDGE);
                let lost = async {
                    while proxy.lost() == before {
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                };
                tokio::time::timeout(PATIENCE, lost).await.expect("an acknowledgement");
            }
            Incident::LoseTaking => {
                if let Some(proxy) = &self.proxy {
                    proxy.lose(Loss::Answer, TAKE);
                }
                self.crew.kill_one(&mut self.chance);
            }
        }
    }

    /// Waits until everything is read, and looks at what was published.
    async fn judge(mut self) {
        let verify = ["outbox", "verify", "--sink", "file:events.jsonl", "-o", "json"];
        let drained = async {
            loop {
                let said: Value = serde_json::from_str(&self.crew.stage().run(&verify).stdout).unwrap();
                if said["pending"] == 0 {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
        };
        tokio::time::timeout(PATIENCE, drained).await.expect("all events are published");
        let (standstill, outage) = self.pulse.end();
        self.crew.dismiss(0);
        let verified = self.crew.stage().run(&[&verify[..4], &["-o", "table"]].concat());
        let ledger = Ledger::read(&self.crew.file(), &self.store).await;
        let lapsed = self.crew.lapsed();
        let repeated: usize = ledger.repeated.values().sum();
        let most = ledger.repeated.values().max().copied().unwrap_or(0);
        println!("{}", verified.stdout.lines().next().unwrap_or_default());
        println!(
            "{} records of {} events, {} torn; {repeated} too many, by {} relays, at most {most} by one; {} of them lost \
             their lease because the machine was busy",
            ledger.records,
            ledger.events,
            ledger.torn,
            ledger.repeated.len(),
            lapsed.difference(self.crew.disturbed()).count(),
        );
        println!(
            "nothing was published for {standstill:.1?} at most, and for {outage:.1?} when the database was away"
        );
        if let Some(proxy) = &self.proxy {
            println!("{} answers and requests were lost", proxy.lost());
        }

        verified.succeeds();
        assert!(verified.stdout.contains(": 0 lost, 0 reordered, "), "{verified:#?}");
        assert!(
            verified.stdout.contains(" 0 unknown, ")
                && verified.stdout.contains(" 0 gaps, 0 pending, 0 excused")
        );
        assert!(ledger.lost.is_empty() && ledger.reordered.is_empty(), "{ledger:#?}");
        for (membership, count) in &ledger.repeated {
            let is_disturbed =
                self.crew.disturbed().contains(&membership.0) || lapsed.contains(&membership.0);
            assert!(is_disturbed, "nothing was done to {membership:?}, and {count} records are there twice");
            assert!(*count <= BATCH, "{membership:?} has published {count} events in vain");
        }
        assert!(standstill < STANDSTILL, "nothing was published for {standstill:?}");
        self.store.close().await;
        drop(self.server.take());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_out_of_order_on_postgres_whatever_happens_to_relays_and_database() {
    if skip::require("postgres", postgres::find_binaries()).is_none() {
        return;
    }
    let server = PrivatePostgres::start(&PostgresOptions::default()).unwrap();
    let url = server.url("postgres");

    Stand::new(Plan::new(10), &url, Some(server)).await.play().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_out_of_order_on_sqlite_while_relays_are_killed() {
    let scratch = Scratch::file();
    let mut plan = Plan::new(3);
    plan.incidents.retain(|incident| *incident == Incident::Kill);
    plan.incidents.push(Incident::Kill);
    (plan.rate, plan.relays, plan.calm) = (300, [1, 2, 1], Duration::from_secs(1));
    plan.pause = Duration::from_secs(1);

    Stand::new(plan, scratch.url(), None).await.play().await;
}
