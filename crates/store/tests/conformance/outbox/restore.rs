//! The database becomes that of another server. SQLite has no server, and a file means the same wherever it is.

use super::{except, numbers, rest, rest_all, run, snapshot, texts, write, write_in};
use crate::Bench;
use std::process::Command;
use tidemill_domain::outbox::restore::RestoreState;
use tidemill_domain::outbox::{Count, EventId, Slot, Snapshot, Window};
use tidemill_store::audit::AuditFilter;
use tidemill_store::outbox::{Backlog, Checked};
use tidemill_store::scratch::Scratch;
use tidemill_store::{Init, Store, StoreOptions};
use tidemill_testkit::postgres::find_binaries;
use tidemill_testkit::{PostgresOptions, PrivatePostgres, skip};

crate::on_both![a_check_without_a_restore_changes_nothing];

fn found(state: RestoreState) -> Checked {
    Checked { state, failed: 0 }
}

async fn a_check_without_a_restore_changes_nothing(bench: Bench) {
    write(&bench.store, "a", bench.now()).await;
    super::read_all(&bench.store).await;
    let places = bench.begin().await.outbox().places().await.unwrap();
    let first = bench.store.check_outbox().await.unwrap();

    let again = bench.store.check_outbox().await.unwrap();

    let expected =
        if bench.begin().await.postgres().is_some() { RestoreState::First } else { RestoreState::Same };
    assert_eq!((first, again), (found(expected), found(RestoreState::Same)));
    assert_eq!(bench.begin().await.outbox().places().await.unwrap(), places);
}

#[tokio::test]
async fn a_new_timeline_is_written_down_and_positions_stay() {
    let Some(bench) = Bench::postgres().await else { return };
    bench.store.check_outbox().await.unwrap();
    write(&bench.store, "a", bench.now()).await;
    run(&bench.store, "update tidemill_outbox set timeline = '00000000'").await;

    let checked = bench.store.check_outbox().await.unwrap();

    assert_eq!(checked, found(RestoreState::NewTimeline));
    assert_eq!(bench.store.check_outbox().await.unwrap(), found(RestoreState::Same));
    let lag = bench.begin().await.outbox().lag(10).await.unwrap().unwrap();
    assert_eq!(Backlog::of(&lag).rows, Count::Exactly(1));
    let filter = AuditFilter { action: Some("outbox.new_timeline".into()), ..AuditFilter::default() };
    assert_eq!(bench.begin().await.audit().entries(&filter, 10).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_who_find_a_restore_one_sets_it_right() {
    let Some(bench) = Bench::postgres().await else { return };
    for n in 0..20 {
        write(&bench.store, &format!("a{n}"), bench.now()).await;
    }
    rest_all(&bench.store, &Window::at(Snapshot::up_to(1 << 40))).await;

    let (one, two) = tokio::join!(bench.store.check_outbox(), bench.store.check_outbox());

    let mut failed = [one.unwrap().failed, two.unwrap().failed];
    failed.sort_unstable();
    assert_eq!(failed, [0, 20]);
}

/// Who restores data only may leave the sequence behind; what had a number up to the floor would never be read.
#[tokio::test]
async fn after_a_restore_new_events_have_numbers_above_the_floor() {
    let Some(bench) = Bench::postgres().await else { return };
    for n in 0..5 {
        write(&bench.store, &format!("a{n}"), bench.now()).await;
    }
    run(&bench.store, "delete from outbox_event where id < 5").await;
    super::go_to(&bench.store, 1).await;
    rest_all(&bench.store, &Window::at(Snapshot::up_to(1 << 40))).await;

    let checked = bench.store.check_outbox().await.unwrap();
    let written = write(&bench.store, "a", bench.now()).await;

    assert_eq!(checked, Checked { state: RestoreState::Restored, failed: 1 });
    assert_eq!(written.get(), 6);
    assert_eq!(read_on(&bench.store).await, [written]);
}

/// Until it was set right, nothing is forgotten.
#[tokio::test]
async fn by_the_marks_of_another_server_nothing_is_forgotten() {
    let Some(bench) = Bench::postgres().await else { return };
    super::go_to(&bench.store, 5_000_000).await;
    write(&bench.store, "a", bench.now()).await;
    rest_all(&bench.store, &Window::at(Snapshot::up_to(1 << 40))).await;
    let week = std::time::Duration::from_secs(7 * 24 * 3600);
    bench.advance(week * 2);

    let retained = bench.store.retain_outbox(week, 5).await.unwrap();

    assert!(retained.is_short);
    assert_eq!(numbers(&bench.store, "select count(*) from outbox_event").await, [1]);
}

/// Uses up numbers of transactions.
fn age(server: &PrivatePostgres, transactions: u32) {
    let sql = format!(
        "create temporary table aged (n int);
         do $$ begin
             for n in 1..{transactions} loop
                 begin insert into aged values (n); exception when others then null; end;
             end loop;
         end $$"
    );
    server.psql("postgres", &sql).unwrap();
}

/// Dumps a database and restores it into another server, with the programs that people use for it.
fn move_database(from: &PrivatePostgres, to: &PrivatePostgres, database: &str) {
    let binaries = find_binaries().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("dump");
    let dump = Command::new(binaries.join("pg_dump"))
        .args(["-Fc", "-f"])
        .arg(&file)
        .arg(from.url(database))
        .output()
        .unwrap();
    assert!(dump.status.success(), "{}", String::from_utf8_lossy(&dump.stderr));
    to.psql("postgres", &format!("create database {database} encoding 'UTF8' template template0")).unwrap();
    let restore = Command::new(binaries.join("pg_restore"))
        .arg("-d")
        .arg(to.url(database))
        .arg(&file)
        .output()
        .unwrap();
    assert!(restore.status.success(), "{}", String::from_utf8_lossy(&restore.stderr));
}

pub(super) async fn open(server: &PrivatePostgres, database: &str, bench: &Bench) -> Store {
    let url = server.url(database).parse().unwrap();
    let options = StoreOptions { clock: Some(bench.clock.clone()), ..StoreOptions::default() };
    let store = Store::open(url, &options).await.unwrap();
    store.initialise(Init::Always).await.unwrap();
    store
}

/// What a relay reads that goes on from the stored places: the rest of the window that is being read, and the next one.
async fn read_on(store: &Store) -> Vec<EventId> {
    let places = store.read().await.unwrap().outbox().places().await.unwrap();
    let floor = store.read().await.unwrap().outbox().floor().await.unwrap();
    let to = snapshot(store).await;
    let rows = texts(store, "select id || ' ' || xid || ' ' || slot from outbox_event order by id").await;
    let event = |row: &String| {
        let numbers: Vec<u64> = row.split(' ').map(|number| number.parse().unwrap()).collect();
        let (id, xid) = (EventId::new(i64::try_from(numbers[0]).unwrap()), numbers[1]);
        let reads = |window: &Window| window.to.as_ref().unwrap().sees(xid) && !window.covers(id, xid);
        let window = places[usize::try_from(numbers[2]).unwrap()].window.clone().opened(to.clone());
        let next = window.clone().closed().opened(to.clone());
        (id > floor && (reads(&window) || reads(&next))).then_some(id)
    };
    rows.iter().filter_map(event).collect()
}

/// How far the transactions of the new server have come.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Numbers {
    Behind,
    Ahead,
}

async fn check(from: &PrivatePostgres, to: &PrivatePostgres, numbers: Numbers) {
    let bench = Bench::on(Scratch::file()).await;
    let (now, database) = (bench.now(), format!("{numbers:?}").to_lowercase());
    from.psql("postgres", &format!("create database {database} encoding 'UTF8' template template0")).unwrap();
    let old = open(from, &database, &bench).await;
    old.check_outbox().await.unwrap();
    // Servers of one template have one identifier; those of two people do not.
    run(&old, "update tidemill_outbox set system_identifier = '7'").await;
    let mut slow = old.begin().await.unwrap();
    let late = write_in(&mut slow, "late", now).await;
    write(&old, "a", now).await;
    let parked = write(&old, "parked", now).await;
    let resting = Window { high: parked, ..Window::at(snapshot(&old).await) };
    let read = write(&old, "a", now).await;
    let unread = [write(&old, "a", now).await, write(&old, "parked", now).await];
    slow.commit().await.unwrap();
    // Some slots are in the middle of a window; that of the slow writer has not seen its event yet.
    rest_all(&old, &resting.clone().opened(snapshot(&old).await).after(read)).await;
    rest(&old, Slot::of("late"), &resting).await;
    run(&old, "update tidemill_outbox_slot set seq = 10").await;
    let there = Bench { store: old, ..bench };
    except(&there, parked, "parked", "parked").await;
    there.store.close().await;

    move_database(from, to, &database);
    let new = open(to, &database, &there).await;
    let written = [write(&new, "a", now).await, write(&new, "new", now).await];
    let naive = read_on(&new).await;
    let checked = new.check_outbox().await.unwrap();
    let after = write(&new, "a", now).await;

    // Who goes on as if nothing had happened would never read what was written with numbers that are taken for old.
    let lost: Vec<EventId> = written.into_iter().filter(|id| !naive.contains(id)).collect();
    assert_eq!(lost, if numbers == Numbers::Behind { written.to_vec() } else { Vec::new() });
    assert_eq!(checked, Checked { state: RestoreState::Restored, failed: 5 });
    let told = "select event_id || ' ' || aggregate_id || ' ' || state || ' ' || seq
                from tidemill_outbox_exception order by event_id";
    let expected = [
        format!("{late} late waiting 11"),
        format!("{parked} parked parked 1"),
        format!("{} a waiting 11", unread[0]),
        format!("{} parked held 11", unread[1]),
        format!("{} a held 12", written[0]),
        format!("{} new waiting 11", written[1]),
    ];
    assert_eq!(texts(&new, told).await, expected);
    assert_eq!(read_on(&new).await, [after]);
    let lag = new.read().await.unwrap().outbox().lag(10).await.unwrap().unwrap();
    assert_eq!(Backlog::of(&lag).rows, Count::Exactly(1));
    assert_eq!(new.check_outbox().await.unwrap(), found(RestoreState::Same));
    let places = new.read().await.unwrap().outbox().places().await.unwrap();
    let (of_a, idle) = (&places[usize::from(Slot::of("a").get())], &places[200]);
    assert_eq!((of_a.seq.get(), idle.seq.get()), (12, 10));
    assert!(of_a.owner.is_none() && of_a.window.high == written[1]);
    let filter = AuditFilter { action: Some("outbox.restored".into()), ..AuditFilter::default() };
    assert_eq!(new.begin().await.unwrap().audit().entries(&filter, 10).await.unwrap().len(), 1);
    new.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_restore_into_another_server_nothing_is_lost_and_order_is_kept() {
    if skip::skipped("postgres") {
        return;
    }
    let old = PrivatePostgres::start(&PostgresOptions::default()).unwrap();
    let new = PrivatePostgres::start(&PostgresOptions::default()).unwrap();
    age(&old, 2_000);
    check(&old, &new, Numbers::Behind).await;
    age(&new, 6_000);
    check(&old, &new, Numbers::Ahead).await;
}
