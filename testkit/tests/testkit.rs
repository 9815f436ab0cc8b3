//! The private servers, really started.
#![cfg(test)]

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;
use tidemill_testkit::postgres::find_binaries;
use tidemill_testkit::skip::{require, skipped};
use tidemill_testkit::{
    Guarded, KafkaOptions, NoLine, PoolMode, PostgresOptions, PrivateKafka, PrivateMariadb, PrivatePgbouncer,
    PrivatePostgres, Signal,
};
use tidemill_testkit::{kafka, mariadb, pgbouncer, postgres};

const WAIT: Duration = Duration::from_secs(60);

/// None when the tests of PostgreSQL are to be skipped.
fn start(options: &PostgresOptions) -> Option<PrivatePostgres> {
    require("postgres", find_binaries())?;
    Some(PrivatePostgres::start(options).unwrap())
}

fn usual() -> PostgresOptions {
    PostgresOptions::default()
}

/// Parent and user of a process, as the kernel tells them; none when it is gone.
fn process(pid: u32) -> Option<(u32, u32)> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u32>().unwrap()
    };
    Some((field("PPid:"), field("Uid:")))
}

/// The states of all processes that a server has started.
fn states(server: u32) -> Vec<char> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let started = numbers.filter(|number| process(*number).is_some_and(|(parent, _)| parent == server));
    let state = |number: u32| {
        let status = std::fs::read_to_string(format!("/proc/{number}/status")).ok()?;
        status.lines().find_map(|line| line.strip_prefix("State:\t")?.chars().next())
    };
    started.filter_map(state).collect()
}

#[test]
fn a_private_postgres_answers_on_loopback_and_keeps_every_commit() {
    let Some(postgres) = start(&usual()) else { return };

    let ask = |sql| postgres.psql("postgres", sql).unwrap();

    assert_eq!(postgres.url("db"), format!("postgres://tidemill@127.0.0.1:{}/db", postgres.port()));
    assert_eq!(ask("select current_user"), postgres::USER);
    assert_eq!(ask("show listen_addresses"), "127.0.0.1");
    assert_eq!(ask("show fsync"), "on");
    assert_eq!(ask("show synchronous_commit"), "on");
    assert_eq!(ask("show max_connections"), "200");
    assert_eq!(ask("show server_encoding"), "UTF8");
    assert_eq!(ask("select pg_is_in_recovery()"), "f");
}

#[test]
fn a_private_postgres_is_our_own_child_and_never_root() {
    let Some(postgres) = start(&usual()) else { return };

    let (parent, user) = process(postgres.pid().unwrap()).unwrap();

    assert_eq!(parent, std::process::id());
    assert_ne!(user, 0);
}

#[test]
fn a_crash_loses_no_commit() {
    let Some(mut postgres) = start(&usual()) else { return };
    let port = postgres.port();
    postgres.psql("postgres", "create table kept (id int); insert into kept values (7)").unwrap();

    postgres.crash();
    assert_eq!(postgres.pid(), None);
    assert!(postgres.psql("postgres", "select 1").is_err());
    postgres.restart().unwrap();

    assert_eq!(postgres.psql("postgres", "select id from kept").unwrap(), "7");
    assert_eq!(postgres.port(), port);
}

#[test]
fn a_paused_postgres_answers_nobody_until_it_goes_on_and_can_be_stopped() {
    let Some(mut postgres) = start(&usual()) else { return };
    let mut psql = Command::new(find_binaries().unwrap().join("psql"));
    psql.args(["-X", "-A", "-t", "-q", "-d", &postgres.url("postgres"), "-c", "select 7"]);

    postgres.pause().unwrap();
    let states = states(postgres.pid().unwrap());
    let mut asking = Guarded::spawn_reading(psql).unwrap();
    let silent = asking.next_line(Duration::from_secs(1));
    postgres.resume().unwrap();

    assert!(states.len() > 2 && states.iter().all(|state| ['T', 'Z'].contains(state)), "{states:?}");
    assert_eq!(silent, Err(NoLine::TimedOut));
    assert_eq!(asking.next_line(WAIT).unwrap(), "7");
    postgres.pause().unwrap();
    postgres.stop();
    assert_eq!(postgres.pid(), None);
}

#[test]
fn a_running_server_is_restarted_as_another_process_on_the_same_data() {
    let Some(mut postgres) = start(&usual()) else { return };
    let before = postgres.pid().unwrap();
    postgres.psql("postgres", "create database kept").unwrap();

    postgres.restart().unwrap();

    assert_ne!(postgres.pid().unwrap(), before);
    assert_eq!(process(before), None);
    assert_eq!(postgres.psql("kept", "select current_database()").unwrap(), "kept");
}

#[test]
fn a_standby_can_be_read_but_not_written() {
    let Some(standby) = start(&PostgresOptions { standby: true, ..usual() }) else { return };

    assert_eq!(standby.psql("postgres", "select pg_is_in_recovery()").unwrap(), "t");
    let refusal = standby.psql("postgres", "create table t (id int)").unwrap_err().to_string();
    assert!(refusal.contains("read-only transaction"), "{refusal}");
}

#[test]
fn a_dropped_server_leaves_neither_a_process_nor_a_folder() {
    let Some(postgres) = start(&usual()) else { return };
    let pid = postgres.pid().unwrap();
    let data = postgres.psql("postgres", "show data_directory").unwrap();
    assert!(Path::new(&data).exists());

    drop(postgres);

    assert_eq!(process(pid), None);
    assert!(!Path::new(&data).parent().unwrap().exists());
}

#[test]
fn a_server_outlives_the_thread_that_started_it() {
    if skipped("postgres") {
        return;
    }
    let starter = thread::spawn(|| PrivatePostgres::start(&usual()).unwrap());
    let postgres = starter.join().unwrap();

    // A parent-death signal would have come at the end of the thread, and this cut off.
    postgres.psql("postgres", "select pg_sleep(0.2)").unwrap();

    assert_eq!(postgres.psql("postgres", "select 1").unwrap(), "1");
}

#[test]
fn a_server_that_cannot_start_says_what_it_logged() {
    if skipped("postgres") {
        return;
    }
    let settings = vec![("shared_buffers".to_owned(), "plenty".to_owned())];

    let error = PrivatePostgres::start(&PostgresOptions { settings, ..usual() }).unwrap_err().to_string();

    assert!(error.contains("invalid value for parameter \"shared_buffers\""), "{error}");
}

/// Whether a client that comes through `mode` while an idle one stays connected gets that one's backend.
fn backend_is_shared(mode: PoolMode) -> Option<bool> {
    require("pgbouncer", pgbouncer::find_binary())?;
    let postgres = start(&usual())?;
    let bouncer = PrivatePgbouncer::start(mode, postgres.port(), "postgres").unwrap();
    assert_ne!(process(bouncer.pid()).unwrap().1, 0);
    let psql = find_binaries().unwrap().join("psql");
    let ask = ["-X", "-A", "-t", "-q", "-d", &bouncer.url(), "-c", "select pg_backend_pid()"];

    // It prints its backend, and stays connected while a nested client prints the backend that it got.
    let nested = format!("\\! {} {} '{}'", psql.display(), ask[..7].join(" "), ask[7]);
    let output = Command::new(&psql).args(ask).args(["-c", &nested]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let backends: Vec<&str> = text.lines().collect();
    assert_eq!(backends.len(), 2, "{text} {}", String::from_utf8_lossy(&output.stderr));
    Some(backends[0] == backends[1])
}

#[test]
fn a_transaction_pool_lends_one_backend_to_two_connected_clients() {
    let Some(is_shared) = backend_is_shared(PoolMode::Transaction) else { return };

    assert!(is_shared);
}

#[test]
fn a_session_pool_gives_each_connected_client_its_own_backend() {
    let Some(is_shared) = backend_is_shared(PoolMode::Session) else { return };

    assert!(!is_shared);
}

#[test]
fn a_private_mariadb_answers_on_loopback_is_never_root_and_leaves_nothing() {
    if require("mysql", mariadb::find_programs()).is_none() {
        return;
    }

    let mariadb = PrivateMariadb::start().unwrap();

    let (parent, user) = process(mariadb.pid()).unwrap();
    assert_eq!(parent, std::process::id());
    assert_ne!(user, 0);
    assert_eq!(mariadb.url("db"), format!("mysql://tidemill@127.0.0.1:{}/db", mariadb.port()));
    assert_eq!(mariadb.ask("select current_user()").unwrap(), "tidemill@127.0.0.1");
    assert_eq!(mariadb.ask("select @@bind_address").unwrap(), "127.0.0.1");
    assert!(mariadb.ask("select wrong").unwrap_err().to_string().contains("Unknown column"));
    let (pid, data) = (mariadb.pid(), mariadb.ask("select @@datadir").unwrap());
    assert!(Path::new(&data).exists());

    drop(mariadb);

    assert_eq!(process(pid), None);
    assert!(!Path::new(&data).parent().unwrap().exists());
}

#[test]
fn the_lines_of_a_child_come_one_by_one_and_then_end() {
    let mut command = Command::new("sh");
    command.args(["-c", "printf 'one\\ntwo\\r\\n\\377three'"]);
    let mut child = Guarded::spawn_reading(command).unwrap();

    assert_eq!(child.next_line(WAIT).unwrap(), "one");
    assert_eq!(child.next_line(WAIT).unwrap(), "two");
    assert_eq!(child.next_line(WAIT).unwrap(), "\u{fffd}three");
    assert_eq!(child.next_line(WAIT), Err(NoLine::Ended));
    assert_eq!(child.wait_deadline(WAIT).unwrap().code(), Some(0));
}

#[test]
fn a_silent_child_is_waited_for_only_so_long() {
    let mut command = Command::new("sleep");
    command.arg("1000");
    let mut child = Guarded::spawn_reading(command).unwrap();

    assert_eq!(child.next_line(Duration::from_millis(20)), Err(NoLine::TimedOut));
    assert_eq!(child.wait_deadline(Duration::from_millis(20)), None);
}

#[test]
fn a_child_gets_its_signal_and_after_its_end_nobody_does() {
    let mut command = Command::new("sleep");
    command.arg("1000");
    let mut child = Guarded::spawn(command).unwrap();

    child.signal(Signal::TERM).unwrap();

    let status = child.wait_deadline(WAIT).unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(15));
    assert!(child.signal(Signal::TERM).is_err());
}

#[test]
fn a_dropped_child_is_dead_and_reaped() {
    let mut command = Command::new("sleep");
    command.arg("1000");
    let child = Guarded::spawn(command).unwrap();
    let pid = child.pid();
    assert!(process(pid).is_some());

    drop(child);

    assert_eq!(process(pid), None);
}

#[test]
fn a_dropped_group_takes_its_grandchildren_with_it() {
    let (reader, writer) = std::io::pipe().unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "sleep 1000 & echo $!; wait"]).stdout(writer);
    let group = Guarded::spawn_group(command).unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(reader));
    let grandchild: u32 = lines.next().unwrap().unwrap().parse().unwrap();
    assert!(process(grandchild).is_some());

    drop(group);

    // The stream ends when the last process that could write to it is gone.
    assert!(lines.next().is_none());
}

#[test]
fn a_private_kafka_is_our_own_child_and_outlives_a_pause_and_a_crash() {
    let Some(_home) = require("kafka", kafka::find_home()) else { return };
    let mut kafka = PrivateKafka::start(&KafkaOptions::default()).unwrap();
    let servers = kafka.bootstrap_servers();

    let (parent, user) = process(kafka.pid().unwrap()).unwrap();
    kafka.pause().unwrap();
    kafka.resume().unwrap();
    kafka.crash();
    let gone = kafka.pid();
    kafka.restart().unwrap();

    assert_eq!(parent, std::process::id());
    assert_ne!(user, 0);
    assert_eq!(gone, None);
    assert_eq!(kafka.bootstrap_servers(), servers);
    assert!(process(kafka.pid().unwrap()).is_some());
}
