//! Connections that are counted by those who open them, and not by our rows: never more than the pool gives out, while
//! servers are killed, the database restarts and connections break.

use crate::Stage;
use crate::serve::Served;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;
use tidemill_domain::time::Clock;
use tidemill_engine::SystemClock;
use tidemill_testkit::{PostgresOptions, PrivatePostgres, Signal, postgres, skip};

const LIMIT: u64 = 38;
const HOLDERS: u64 = 24;
const SERVERS: usize = 3;
const CHAOS: Duration = Duration::from_secs(20);
const PATIENCE: Duration = Duration::from_secs(180);

/// What the holders know of each other.
#[derive(Default)]
struct Gauge {
    open: AtomicU64,
    peak: AtomicU64,
    rounds: AtomicU64,
    /// Left open for ever by holders that died: they never gave back.
    left: AtomicU64,
    is_over: AtomicBool,
    addresses: RwLock<Vec<String>>,
}

impl Gauge {
    fn opens(&self, units: u64) {
        let open = self.open.fetch_add(units, Ordering::SeqCst) + units;
        self.peak.fetch_max(open, Ordering::SeqCst);
    }

    fn closes(&self, units: u64) {
        self.open.fetch_sub(units, Ordering::SeqCst);
    }

    /// Asks one server after the other until one answers.
    fn ask(&self, path: &str, body: &Value, first: u64) -> Value {
        let clock = SystemClock::new();
        let start = clock.monotonic();
        for attempt in first.. {
            let addresses = self.addresses.read().unwrap().clone();
            let address = &addresses[usize::try_from(attempt).unwrap() % addresses.len()];
            if let Some(answer) = post(address, path, body) {
                return answer;
            }
            assert!(clock.monotonic().since(start) < PATIENCE, "no server answers {path}");
            std::thread::sleep(Duration::from_millis(50));
        }
        unreachable!("numbers do not end")
    }
}

/// The answer; none when the server, or its database, is not there.
fn post(address: &str, path: &str, body: &Value) -> Option<Value> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(60))).ok()?;
    let body = body.to_string();
    let length = body.len();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.starts_with("HTTP/1.1 200 ").then(|| serde_json::from_str(body).ok())?
}

/// One holder: again and again it asks, uses what it gets for a moment, and gives it back.
fn hold(gauge: &Gauge, holder: u64) {
    for round in 0.. {
        if gauge.is_over.load(Ordering::SeqCst) {
            return;
        }
        let run = format!("{holder}-{round}");
        let units = 1 + (holder * 7 + round * 3) % 12;
        let acquire = json!({
            "action": "acquire", "dag_id": "gauge", "dag_run_id": run, "src_db_id": 4, "parallel_hint": units,
            "table_name": "T", "wait_seconds": 5,
        });
        let granted = loop {
            let answer = gauge.ask("/acquire", &acquire, holder + round);
            if answer["allowed"] == true {
                break answer["granted_parallel"].as_u64().unwrap();
            }
            assert!(answer["wait_seconds"].is_u64(), "{answer}");
        };
        gauge.opens(granted);
        std::thread::sleep(Duration::from_millis(5 + (holder * 13 + round * 29) % 60));
        gauge.rounds.fetch_add(1, Ordering::SeqCst);
        // A few holders leave their connections open and are never heard of again: nobody else may have those.
        if round == 1 && holder.is_multiple_of(12) {
            gauge.left.fetch_add(granted, Ordering::SeqCst);
            continue;
        }
        gauge.closes(granted);
        let release = json!({ "action": "release", "dag_id": "gauge", "dag_run_id": run, "src_db_id": "4" });
        gauge.ask("/release", &release, holder + round + 1);
    }
}

struct Site {
    stages: Vec<Stage>,
    servers: Vec<Option<Served>>,
    gauge: Arc<Gauge>,
}

impl Site {
    fn start(url: &str, policy: &str) -> Self {
        let stage = |index: usize| {
            Stage::on(url)
                .with("TIDEMILL_DATABASE_INIT", "always")
                .with("TIDEMILL_PROCESS_NAME", &format!("server-{index}"))
        };
        let stages: Vec<Stage> = (0..SERVERS).map(stage).collect();
        stages[0].run(&["db", "migrate"]).succeeds();
        let limits = ["--id", "4", "--max", "40", "--threshold", "95", "--policy", policy];
        stages[0].run(&[&["pool", "create", "ADW"][..], &limits].concat()).succeeds();
        let servers: Vec<Option<Served>> =
            stages.iter().map(|stage| Some(Served::start(stage, &[]))).collect();
        let gauge = Arc::new(Gauge::default());
        let mut site = Self { stages, servers, gauge };
        site.tell_addresses();
        site
    }

    fn tell_addresses(&mut self) {
        let addresses = self.servers.iter().flatten().map(|served| served.address.clone()).collect();
        *self.gauge.addresses.write().unwrap() = addresses;
    }

    fn kill_and_start_again(&mut self, index: usize) {
        let mut killed = self.servers[index].take().unwrap();
        killed.child.signal(Signal::KILL).unwrap();
        killed.child.wait_deadline(PATIENCE).unwrap();
        self.servers[index] = Some(Served::start(&self.stages[index], &[]));
        self.tell_addresses();
    }

    /// Lets holders use the pool while `disturb` is called again and again: for a while, and until enough has happened.
    fn run(&mut self, mut disturb: impl FnMut(&mut Self, usize)) {
        let holders: Vec<_> = (0..HOLDERS)
            .map(|holder| {
                let gauge = Arc::clone(&self.gauge);
                std::thread::spawn(move || hold(&gauge, holder))
            })
            .collect();
        let clock = SystemClock::new();
        let start = clock.monotonic();
        let mut disturbed = 0;
        let is_enough =
            |gauge: &Gauge, disturbed| disturbed >= 4 && gauge.rounds.load(Ordering::SeqCst) >= 50;
        while clock.monotonic().since(start) < CHAOS || !is_enough(&self.gauge, disturbed) {
            let so_far = clock.monotonic().since(start);
            assert!(so_far < PATIENCE * 2, "only {disturbed} disturbances in {so_far:?}");
            std::thread::sleep(Duration::from_millis(700));
            disturb(self, disturbed);
            disturbed += 1;
        }
        self.gauge.is_over.store(true, Ordering::SeqCst);
        for holder in holders {
            holder.join().unwrap();
        }
    }

    fn judge(&self) {
        let gauge = &self.gauge;
        let (peak, left) = (gauge.peak.load(Ordering::SeqCst), gauge.left.load(Ordering::SeqCst));
        assert!(peak <= LIMIT, "{peak} connections were open, and {LIMIT} may be");
        assert!(peak > LIMIT / 2, "only {peak} were ever open: this proves nothing");
        assert!(left > 0, "nobody left its connections open");
        let served = self.servers[0].as_ref().unwrap();
        let (_, status) = served.get("/status", None);
        let status: Value = serde_json::from_str(&status).unwrap();
        assert_eq!(status["sources"]["4"]["current_usage"], left, "{status}");
        let verified = self.stages[0].run(&["pool", "verify", "ADW"]);
        verified.succeeds();
    }
}

#[test]
fn what_holders_have_open_stays_below_the_limit_on_postgres_while_servers_die_and_the_database_restarts() {
    if skip::require("postgres", postgres::find_binaries()).is_none() {
        return;
    }
    let mut postgres = PrivatePostgres::start(&PostgresOptions::default()).unwrap();
    let mut site = Site::start(&postgres.url("postgres"), "adaptive");

    site.run(|site, count| match count % 4 {
        0 | 2 => site.kill_and_start_again(count / 2 % SERVERS),
        // All connections of all servers break.
        1 => {
            let end = "select count(pg_terminate_backend(pid)) from pg_stat_activity
                       where pid <> pg_backend_pid() and backend_type = 'client backend'";
            postgres.psql("postgres", end).unwrap();
        }
        _ => {
            postgres.crash();
            postgres.restart().unwrap();
        }
    });

    site.judge();
}

fn check_sqlite(policy: &str) {
    let folder = tempfile::tempdir().unwrap();
    let mut site = Site::start(&format!("sqlite://{}/gauge.db", folder.path().display()), policy);

    site.run(|site, count| site.kill_and_start_again(count % SERVERS));

    site.judge();
}

#[test]
fn what_holders_have_open_stays_below_the_limit_on_sqlite_while_servers_die() {
    check_sqlite("adaptive");
}

#[test]
fn what_holders_have_open_stays_below_the_limit_with_the_policy_halving() {
    check_sqlite("halving");
}
