//! The task that decides, in real time and on both databases: two of them stand for two servers.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::audit::{Actor, Role};
use tidemill_domain::pool::command::{Answer, Release, ReleaseBy};
use tidemill_domain::pool::event::End;
use tidemill_domain::pool::settings::Capacity;
use tidemill_domain::pool::{Holder, PoolName, Reason, Settings, State};
use tidemill_domain::time::FakeClock;
use tidemill_engine::pool::{AcquirePart, AcquireRequest, PoolOptions, Pools};
use tidemill_store::Store;
use tidemill_store::pool::Defined;
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![
    who_waits_at_one_server_is_called_when_another_gets_the_release,
    a_raised_limit_lets_those_go_on_who_wait,
    who_goes_away_before_the_answer_has_its_units_set_aside_and_gets_them_when_it_asks_again,
    several_pools_are_had_together_or_not_at_all,
    what_this_process_holds_stays_alive_and_comes_back_also_when_it_is_dropped,
    a_pool_whose_row_is_damaged_stops_nobody_else,
    many_clients_at_two_servers_never_get_more_than_there_is,
    who_has_one_pool_and_waits_for_another_is_not_asked_again_and_again,
    a_number_that_moved_to_another_pool_during_a_rest_is_looked_up_again,
];

/// Far longer than anything here takes, so that a hang is seen.
const SOON: Duration = Duration::from_secs(120);

struct Site {
    scratch: Scratch,
    store: Store,
}

impl Site {
    async fn on(scratch: Scratch) -> Self {
        let store = scratch.store(None).await.unwrap();
        Self { scratch, store }
    }

    /// A server with connections of its own.
    async fn server(&self) -> Pools {
        Pools::start(self.scratch.store(None).await.unwrap(), PoolOptions::default())
    }

    async fn create(&self, name: &str, max_units: u32) -> Settings {
        let mut settings = Settings::new(pool(name), max_units);
        settings.threshold_percent = 100;
        self.set(&settings).await;
        settings
    }

    async fn set(&self, settings: &Settings) {
        let actor = Actor { name: "ann".into(), role: Role::Admin, request_id: None };
        let mut tx = self.store.begin().await.unwrap();
        let mut defined = tx.pools().create(settings, &actor).await.unwrap();
        if defined == Defined::NameTaken {
            defined = tx.pools().set(settings, &actor, None).await.unwrap();
        }
        assert_eq!(defined, Defined::Done);
        tx.commit().await.unwrap();
    }

    async fn usage(&self, name: &str) -> u64 {
        self.store.begin().await.unwrap().pools().find(&pool(name)).await.unwrap().unwrap().usage
    }

    async fn until_usage(&self, name: &str, expected: u64) {
        let reached = async {
            while self.usage(name).await != expected {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(SOON, reached).await.expect("the usage that is expected");
    }

    async fn until_somebody_waits(&self, name: &str) {
        let waits = async {
            while self.store.begin().await.unwrap().pools().find(&pool(name)).await.unwrap().unwrap().waiting
                == 0
            {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(SOON, waits).await.expect("somebody who waits");
    }

    async fn audit(&self, name: &str) {
        let mut tx = self.store.read().await.unwrap();
        assert_eq!(tx.pools().verify(&pool(name)).await.unwrap().unwrap().differences, []);
    }
}

fn pool(name: &str) -> PoolName {
    name.parse().unwrap()
}

/// All or nothing, so that it waits when it does not fit.
fn part(name: &str, units: u32) -> AcquirePart {
    let units = NonZeroU32::new(units);
    AcquirePart { least: units, ..AcquirePart::new(pool(name), units) }
}

fn ask(run: &str, name: &str, units: u32) -> AcquireRequest {
    AcquireRequest::new(Holder::run("dag", run).unwrap(), part(name, units))
}

fn release(run: &str, name: &str) -> Release {
    Release {
        pool: pool(name),
        by: ReleaseBy::Holder(Holder::run("dag", run).unwrap()),
        epoch: None,
        end: End::Released { failed: false },
        call: None,
    }
}

fn is_admitted(answer: &Answer) -> bool {
    matches!(answer, Answer::Admitted { .. })
}

async fn who_waits_at_one_server_is_called_when_another_gets_the_release(scratch: Scratch) {
    let site = Site::on(scratch).await;
    site.create("adw", 10).await;
    let (one, two) = (site.server().await, site.server().await);
    assert!(is_admitted(&one.acquire(&ask("a", "adw", 6), Duration::ZERO).await.unwrap()));
    let waiting = tokio::spawn(async move { two.acquire(&ask("b", "adw", 6), SOON).await });
    site.until_somebody_waits("adw").await;

    one.release(release("a", "adw")).await.unwrap();

    assert!(is_admitted(&waiting.await.unwrap().unwrap()));
    assert_eq!(site.usage("adw").await, 6);
    site.audit("adw").await;
}

async fn a_raised_limit_lets_those_go_on_who_wait(scratch: Scratch) {
    let site = Site::on(scratch).await;
    let settings = site.create("adw", 4).await;
    let server = site.server().await;
    server.acquire(&ask("a", "adw", 4), Duration::ZERO).await.unwrap();
    let own = server.clone();
    let waiting = tokio::spawn(async move { own.acquire(&ask("b", "adw", 3), SOON).await });
    site.until_somebody_waits("adw").await;

    site.set(&Settings { max_units: 7, ..settings }).await;

    assert!(is_admitted(&waiting.await.unwrap().unwrap()));
    site.audit("adw").await;
}

async fn who_goes_away_before_the_answer_has_its_units_set_aside_and_gets_them_when_it_asks_again(
    scratch: Scratch,
) {
    let site = Site::on(scratch).await;
    site.create("adw", 10).await;
    let server = site.server().await;
    server.acquire(&ask("a", "adw", 6), Duration::ZERO).await.unwrap();
    let own = server.clone();
    let impatient = tokio::spawn(async move { own.acquire(&ask("b", "adw", 6), SOON).await });
    site.until_somebody_waits("adw").await;
    impatient.abort();
    assert!(impatient.await.unwrap_err().is_cancelled());

    server.release(release("a", "adw")).await.unwrap();

    site.until_usage("adw", 6).await;
    let mut tx = site.store.begin().await.unwrap();
    let granted = tx.pools().tickets(&pool("adw"), &[State::Granted], 10).await.unwrap();
    assert_eq!(granted.len(), 1, "nobody has claimed it");
    tx.rollback().await.unwrap();
    let Answer::Admitted { parts, is_duplicate } =
        server.acquire(&ask("b", "adw", 6), Duration::ZERO).await.unwrap()
    else {
        panic!("not admitted")
    };
    assert_eq!((parts[0].ticket.state, is_duplicate), (State::Running, false));
}

async fn several_pools_are_had_together_or_not_at_all(scratch: Scratch) {
    let site = Site::on(scratch).await;
    site.create("adw", 10).await;
    site.create("emr", 2).await;
    let server = site.server().await;
    server.acquire(&ask("a", "emr", 2), Duration::ZERO).await.unwrap();
    let mut both = ask("b", "adw", 8);
    both.parts.push(part("emr", 1));
    let Answer::Waits(waits) = server.acquire(&both, Duration::ZERO).await.unwrap() else {
        panic!("no wait")
    };
    assert_eq!((waits.pool.as_str(), waits.reason), ("emr", Reason::PoolFull));
    assert_eq!(site.usage("adw").await, 0, "nothing is held while it waits");
    let own = server.clone();
    let waiting = tokio::spawn(async move { own.acquire(&both, SOON).await });

    server.release(release("a", "emr")).await.unwrap();

    let Answer::Admitted { parts, .. } = waiting.await.unwrap().unwrap() else { panic!("not admitted") };
    assert_eq!(parts.len(), 2);
    assert_eq!((site.usage("adw").await, site.usage("emr").await), (8, 1));
    site.audit("adw").await;
    site.audit("emr").await;
}

async fn what_this_process_holds_stays_alive_and_comes_back_also_when_it_is_dropped(scratch: Scratch) {
    let site = Site::on(scratch).await;
    site.create("adw", 10).await;
    let server = site.server().await;
    let short = AcquireRequest { lease_for: Some(Duration::from_secs(20)), ..ask("a", "adw", 6) };
    let hold = server.hold(short, Duration::ZERO).await.unwrap().unwrap();
    let expires_at = async || {
        let mut tx = site.store.read().await.unwrap();
        let running = tx.pools().tickets(&pool("adw"), &[State::Running], 10).await.unwrap();
        assert_eq!(running.len(), 1);
        running[0].expires_at.unwrap()
    };

    let first = expires_at().await;
    crate::until("a heartbeat", async || expires_at().await > first).await;

    assert!(!hold.is_lost());
    drop(hold);
    site.until_usage("adw", 0).await;
    let hold = server.hold(ask("b", "adw", 6), Duration::ZERO).await.unwrap().unwrap();
    hold.release(false).await.unwrap();
    assert_eq!(site.usage("adw").await, 0);
    site.audit("adw").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_window_that_opens_lets_the_queue_go_on() {
    let clock = Arc::new(FakeClock::at("2026-11-15T21:59:00Z".parse().unwrap()));
    let scratch = Scratch::file();
    let store = scratch.store(Some(clock.clone())).await.unwrap();
    let site = Site { scratch, store: store.clone() };
    let mut settings = site.create("adw", 2).await;
    settings.capacity = vec![Capacity { window: "22:00-06:00".parse().unwrap(), max_units: 20 }];
    site.set(&settings).await;
    let server = Pools::start(store, PoolOptions::default());
    let own = server.clone();
    let waiting = tokio::spawn(async move { own.acquire(&ask("a", "adw", 8), SOON).await });
    site.until_somebody_waits("adw").await;
    assert_eq!(site.usage("adw").await, 0);

    clock.advance(Duration::from_secs(60));

    assert!(is_admitted(&waiting.await.unwrap().unwrap()));
}

async fn a_pool_whose_row_is_damaged_stops_nobody_else(scratch: Scratch) {
    let site = Site::on(scratch).await;
    site.create("adw", 10).await;
    site.create("bad", 10).await;
    let mut tx = site.store.begin().await.unwrap();
    tx.execute_for_test("update tidemill_pool set settings = '{', version = 99 where name = 'bad'")
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let server = site.server().await;
    let asks = [ask("a", "bad", 1), ask("b", "adw", 1)];

    let (bad, good) =
        tokio::join!(server.acquire(&asks[0], Duration::ZERO), server.acquire(&asks[1], Duration::ZERO));

    assert!(bad.is_err());
    assert!(is_admitted(&good.unwrap()));
}

async fn many_clients_at_two_servers_never_get_more_than_there_is(scratch: Scratch) {
    let site = Site::on(scratch).await;
    site.create("adw", 20).await;
    let servers = [site.server().await, site.server().await];
    let gauge = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let mut clients = tokio::task::JoinSet::new();
    for client in 0..24_u32 {
        let server = servers[client as usize % 2].clone();
        let gauge = Arc::clone(&gauge);
        clients.spawn(async move {
            for round in 0..6 {
                let (run, units) = (format!("{client}-{round}"), 1 + client % 7);
                let answer = server.acquire(&ask(&run, "adw", units), SOON * 3).await.unwrap();
                assert!(is_admitted(&answer), "{answer:?}");
                let open =
                    gauge.fetch_add(units.into(), std::sync::atomic::Ordering::SeqCst) + u64::from(units);
                assert!(open <= 20, "{open} are open");
                tokio::time::sleep(Duration::from_millis(2)).await;
                gauge.fetch_sub(units.into(), std::sync::atomic::Ordering::SeqCst);
                server.release(release(&run, "adw")).await.unwrap();
            }
        });
    }
    while let Some(ended) = clients.join_next().await {
        ended.unwrap();
    }
    assert_eq!(site.usage("adw").await, 0);
    site.audit("adw").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn units_of_several_pools_that_nobody_claims_come_back() {
    let clock = Arc::new(FakeClock::at("2026-11-15T02:00:00Z".parse().unwrap()));
    let scratch = Scratch::file();
    let store = scratch.store(Some(clock.clone())).await.unwrap();
    let site = Site { scratch, store: store.clone() };
    site.create("adw", 10).await;
    site.create("emr", 2).await;
    let server = Pools::start(store, PoolOptions::default());
    server.acquire(&ask("a", "emr", 2), Duration::ZERO).await.unwrap();
    let mut both = ask("b", "adw", 8);
    both.parts.push(part("emr", 1));
    server.acquire(&both, Duration::ZERO).await.unwrap();
    server.release(release("a", "emr")).await.unwrap();
    assert_eq!(
        (site.usage("adw").await, site.usage("emr").await),
        (8, 1),
        "set aside for somebody who is gone"
    );

    clock.advance(Duration::from_secs(3600));

    site.until_usage("adw", 0).await;
    site.until_usage("emr", 0).await;
}

async fn who_has_one_pool_and_waits_for_another_is_not_asked_again_and_again(scratch: Scratch) {
    let site = Site::on(scratch).await;
    site.create("adw", 10).await;
    site.create("emr", 2).await;
    let server = site.server().await;
    server.acquire(&ask("a", "emr", 2), Duration::ZERO).await.unwrap();
    server.acquire(&ask("b", "adw", 8), Duration::ZERO).await.unwrap();
    let mut both = ask("b", "adw", 8);
    both.parts.push(part("emr", 1));

    server.acquire(&both, Duration::from_secs(2)).await.unwrap();

    let mut tx = site.store.begin().await.unwrap();
    let version = tx.pools().find(&pool("adw")).await.unwrap().unwrap().version;
    let records = tx.pools().verify(&pool("adw")).await.unwrap().unwrap().records;
    assert!(records < 12, "{records} records by version {version}");
}

async fn a_number_that_moved_to_another_pool_during_a_rest_is_looked_up_again(scratch: Scratch) {
    let site = Site::on(scratch).await;
    let (first, second) = (site.create("adw", 10).await, site.create("emr", 10).await);
    site.set(&Settings { external_id: Some(4), ..first.clone() }).await;
    let server = site.server().await;
    assert_eq!(server.by_external_id(4).await.unwrap(), Some(pool("adw")));

    server.rest().await;
    site.set(&first).await;
    site.set(&Settings { external_id: Some(4), ..second }).await;

    assert_eq!(server.by_external_id(4).await.unwrap(), Some(pool("emr")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_rests_expires_nothing_until_the_next_request_which_gets_what_has_expired() {
    let clock = Arc::new(FakeClock::at("2026-11-15T02:00:00Z".parse().unwrap()));
    let hour = Duration::from_secs(3600);
    let start = async || {
        let scratch = Scratch::file();
        let store = scratch.store(Some(clock.clone())).await.unwrap();
        let site = Site { scratch, store: store.clone() };
        let settings = site.create("adw", 10).await;
        site.set(&Settings { max_hold: hour / 2, ..settings }).await;
        let server = Pools::start(store, PoolOptions::default());
        assert!(is_admitted(&server.acquire(&ask("a", "adw", 10), Duration::ZERO).await.unwrap()));
        (site, server)
    };
    let (site, server) = start().await;
    let (awake_site, awake) = start().await;

    server.rest().await;
    // Two of its turns of the one that is awake: the other would have had one in between.
    clock.advance(hour);
    awake_site.until_usage("adw", 0).await;
    assert!(is_admitted(&awake.acquire(&ask("b", "adw", 10), Duration::ZERO).await.unwrap()));
    clock.advance(hour);
    awake_site.until_usage("adw", 0).await;
    assert_eq!(site.usage("adw").await, 10, "it does not rest");

    assert!(is_admitted(&server.acquire(&ask("b", "adw", 10), Duration::ZERO).await.unwrap()));
    // It is awake again.
    clock.advance(hour);
    site.until_usage("adw", 0).await;
    site.audit("adw").await;
}
