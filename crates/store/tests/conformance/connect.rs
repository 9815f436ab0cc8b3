//! Opening a database, what can go wrong with that, and what a store does when its server goes away.

use crate::{Bench, TTL, identity, process_id};
use std::error::Error as _;
use std::fs;
use std::future::Future;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;
use tidemill_domain::time::Timestamp;
use tidemill_store::scratch::Scratch;
use tidemill_store::{Init, Store, StoreError, StoreOptions, Synchronous, Tx};
use tidemill_testkit::{PostgresOptions, PrivatePostgres, postgres, skip};

crate::on_both![the_clock_of_the_database_tells_the_time_and_does_not_go_back];

async fn the_clock_of_the_database_tells_the_time_and_does_not_go_back(bench: Bench) {
    let store = open(bench.scratch.url(), &StoreOptions::default()).await.unwrap();
    let (earliest, latest) =
        ("2026-01-01T00:00:00Z".parse().unwrap(), "2100-01-01T00:00:00Z".parse().unwrap());

    let mut before: Timestamp = earliest;
    for _ in 0..100 {
        let mut tx = store.begin().await.unwrap();
        let now = tx.now().await.unwrap();
        assert!(before <= now && now < latest, "{before} was followed by {now}");
        before = now;
    }
}

/// Long enough for a server on this machine, however busy, and short enough to wait for.
const PATIENCE: Duration = Duration::from_secs(10);

/// How much later than promised a call may come back on a busy machine.
const SLACK: Duration = Duration::from_secs(50);

fn impatient() -> StoreOptions {
    StoreOptions { connect_timeout: PATIENCE, ..StoreOptions::default() }
}

async fn open(url: &str, options: &StoreOptions) -> Result<Store, StoreError> {
    Store::open(url.parse().unwrap(), options).await
}

/// The answer of something that must not take longer than the connect timeout of [`impatient`].
async fn in_time<T>(call: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE + SLACK, call).await.expect("an answer within the connect timeout")
}

/// None when tests on PostgreSQL are to be skipped.
fn private_postgres(options: &PostgresOptions) -> Option<PrivatePostgres> {
    skip::require("postgres", postgres::find_binaries())?;
    Some(PrivatePostgres::start(options).unwrap())
}

mod a_server {
    use super::*;

    #[tokio::test]
    async fn that_is_not_there_is_unreachable() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);

        let refused = in_time(open(&format!("postgres://u:geheim@127.0.0.1:{port}/d"), &impatient())).await;

        let error = refused.unwrap_err();
        assert!(matches!(&error, StoreError::Unreachable { .. }), "{error:?}");
        assert_eq!(error.code().to_string(), "TM0202");
        assert_eq!(
            error.to_string(),
            format!("the database at postgres://127.0.0.1:{port}/d cannot be reached")
        );
        assert!(error.is_transient());
    }

    #[tokio::test]
    async fn that_never_answers_is_unreachable_in_time() {
        // The kernel accepts connections for it; nobody ever reads them.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();

        let refused = in_time(open(&format!("postgres://u@127.0.0.1:{port}/d"), &impatient())).await;

        assert!(matches!(refused, Err(StoreError::Unreachable { .. })), "{refused:?}");
    }

    #[tokio::test]
    async fn without_the_database_is_unreachable_and_says_which_is_missing() {
        let Some(server) = private_postgres(&PostgresOptions::default()) else { return };

        let error = in_time(open(&server.url("no_such_database"), &impatient())).await.unwrap_err();

        assert!(matches!(&error, StoreError::Unreachable { .. }), "{error:?}");
        let said = error.source().unwrap().to_string();
        assert!(said.contains("database \"no_such_database\" does not exist"), "{said}");
    }

    #[tokio::test]
    async fn that_is_a_standby_is_refused() {
        let options = PostgresOptions { standby: true, ..PostgresOptions::default() };
        let Some(server) = private_postgres(&options) else { return };

        let refused = in_time(open(&server.url("postgres"), &impatient())).await;

        assert!(matches!(refused, Err(StoreError::ServerInRecovery)), "{refused:?}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn that_became_a_standby_is_refused_later_too() {
        let Some(mut server) = private_postgres(&PostgresOptions::default()) else { return };
        let store = open(&server.url("postgres"), &impatient()).await.unwrap();
        store.begin().await.unwrap().commit().await.unwrap();

        let folder = server.psql("postgres", "show data_directory").unwrap();
        server.psql("postgres", &format!("copy (select '') to '{folder}/standby.signal'")).unwrap();
        server.restart().unwrap();

        for refused in [in_time(store.begin()).await, in_time(store.read()).await] {
            assert!(matches!(refused, Err(StoreError::ServerInRecovery)), "{refused:?}");
        }
    }

    #[tokio::test]
    async fn lets_in_only_who_knows_the_password_and_may_log_in() {
        let Some(mut server) = private_postgres(&PostgresOptions::default()) else { return };
        server
            .psql("postgres", "create role guest login password 'richtig'; create role mute nologin")
            .unwrap();
        ask_for_passwords(&mut server);
        let as_user = |name: &str| server.url("postgres").replace("tidemill@", &format!("{name}@"));
        let with = |password: &str| StoreOptions { password: Some(password.to_owned()), ..impatient() };

        open(&as_user("guest"), &with("richtig")).await.unwrap().begin().await.unwrap();
        open(&as_user("guest:richtig"), &impatient()).await.unwrap();
        for (url, options) in [
            (as_user("guest"), with("geheim")),
            (as_user("guest:geheim"), impatient()),
            (as_user("mute"), impatient()),
        ] {
            let error = in_time(open(&url, &options)).await.unwrap_err();
            assert!(matches!(&error, StoreError::LoginRefused { .. }), "{url}: {error:?}");
            assert!(!format!("{error} {error:?}").contains("geheim"), "{error:?}");
        }
    }

    /// From now on `guest` needs a password. The server writes the file itself: it is the one who may.
    fn ask_for_passwords(server: &mut PrivatePostgres) {
        let file = server.psql("postgres", "show hba_file").unwrap();
        let rules = "values ('host all guest all scram-sha-256'), ('host all all all trust')";
        server.psql("postgres", &format!("copy ({rules}) to '{file}'")).unwrap();
        server.restart().unwrap();
    }
}

mod the_connections {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn survive_a_restart_of_the_server_unnoticed() {
        let Some(mut server) = private_postgres(&PostgresOptions::default()) else { return };
        let store = open(&server.url("postgres"), &StoreOptions::default()).await.unwrap();
        for _ in 0..3 {
            several_idle_connections(&store).await;

            server.crash();
            server.restart().unwrap();

            let mut tx = store.begin().await.unwrap();
            tx.now().await.unwrap();
            tx.commit().await.unwrap();
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn are_given_up_in_time_while_the_server_is_down_and_found_again() {
        let Some(mut server) = private_postgres(&PostgresOptions::default()) else { return };
        let store = open(&server.url("postgres"), &impatient()).await.unwrap();
        several_idle_connections(&store).await;

        server.crash();
        for _ in 0..2 {
            let error = in_time(store.begin()).await.unwrap_err();
            assert!(matches!(&error, StoreError::Unreachable { .. }), "{error:?}");
            assert!(error.is_transient());
        }
        server.restart().unwrap();

        store.begin().await.unwrap().commit().await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn of_a_frozen_process_give_up_their_locks() {
        let Some(scratch) = Scratch::postgres().await else { return };
        scratch.store(None).await.unwrap().close().await;
        // Longer than a busy machine takes from one statement to the next, and shorter than others wait for a lock.
        let options = StoreOptions { idle_in_transaction: Duration::from_secs(5), ..StoreOptions::default() };
        let frozen = open(scratch.url(), &options).await.unwrap();
        let patient = StoreOptions { busy_timeout: PATIENCE + SLACK, ..StoreOptions::default() };
        let other = open(scratch.url(), &patient).await.unwrap();
        let mut standing_still = frozen.begin().await.unwrap();
        standing_still.execute_for_test("lock table tidemill_lease").await.unwrap();

        let mut tx = other.begin().await.unwrap();
        in_time(tx.leases().list(1)).await.unwrap();

        let error = standing_still.now().await.unwrap_err();
        assert!(error.is_transient(), "{error:?}");
        frozen.begin().await.unwrap().commit().await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn do_not_wait_for_locks_without_end() {
        let Some(scratch) = Scratch::postgres().await else { return };
        scratch.store(None).await.unwrap().close().await;
        let options = StoreOptions { busy_timeout: Duration::from_millis(200), ..StoreOptions::default() };
        let store = open(scratch.url(), &options).await.unwrap();
        let mut holder = store.begin().await.unwrap();
        holder.execute_for_test("lock table tidemill_lease").await.unwrap();

        let waited = in_time(store.begin().await.unwrap().leases().list(1)).await;

        assert!(matches!(waited, Err(StoreError::Busy(_))), "{waited:?}");
        holder.rollback().await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn may_be_as_few_as_one_and_still_wake_and_work() {
        let Some(scratch) = Scratch::postgres().await else { return };
        let store = open(scratch.url(), &StoreOptions { max_connections: 1, ..impatient() }).await.unwrap();
        let _interest = store.wakeup("jobs");

        for _ in 0..3 {
            in_time(store.begin_vital()).await.unwrap().commit().await.unwrap();
            in_time(store.begin()).await.unwrap().commit().await.unwrap();
        }
    }

    /// Opens a few at once and gives them back, so that each is found dead in turn.
    async fn several_idle_connections(store: &Store) {
        let mut held = Vec::new();
        for _ in 0..4 {
            held.push(store.begin().await.unwrap());
        }
        for tx in held {
            tx.commit().await.unwrap();
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn are_never_more_than_was_allowed() {
        let Some(scratch) = Scratch::postgres().await else { return };
        // They stay open for longer than others wait for one.
        let idle_in_transaction = (PATIENCE + SLACK) * 2;
        let options = StoreOptions { max_connections: 10, idle_in_transaction, ..impatient() };
        let store = open(scratch.url(), &options).await.unwrap();
        let mut held: Vec<Tx> = Vec::new();
        for _ in 0..9 {
            held.push(store.begin().await.unwrap());
        }
        // The tenth is for heartbeats, whatever else is going on.
        let vital = store.begin_vital().await.unwrap();

        let waiting: Vec<_> = (0..20)
            .map(|_| {
                let store = store.clone();
                tokio::spawn(async move { in_time(store.begin()).await })
            })
            .collect();
        for attempt in waiting {
            let error = attempt.await.unwrap().unwrap_err();
            assert!(matches!(&error, StoreError::ConnectionsExhausted(_)), "{error:?}");
            assert!(error.is_transient());
        }

        let count = "do $$
            declare
                found bigint := (
                    select count(*)
                    from pg_stat_activity
                    where datname = current_database()
                      and backend_type = 'client backend'
                );
            begin
                if found <> 10 then
                    raise exception '% connections', found;
                end if;
            end $$";
        held[0].execute_for_test(count).await.unwrap();
        vital.rollback().await.unwrap();
        held.pop().unwrap().rollback().await.unwrap();
        in_time(store.begin()).await.unwrap();
    }
}

mod a_file {
    use super::*;

    /// A folder that is gone at the end of the test, and the path of a file in it that does not exist yet.
    fn scratch_file() -> (Scratch, PathBuf) {
        let scratch = Scratch::file();
        let path = PathBuf::from(scratch.url().strip_prefix("sqlite://").unwrap());
        (scratch, path)
    }

    #[tokio::test]
    async fn in_a_folder_that_is_missing_is_told_from_others() {
        let (_scratch, path) = scratch_file();
        let path = path.parent().unwrap().join("missing/tidemill.db");

        let error = open(&format!("sqlite://{}", path.display()), &impatient()).await.unwrap_err();

        assert!(matches!(&error, StoreError::FolderMissing { path: named } if *named == path), "{error:?}");
    }

    #[tokio::test]
    async fn of_text_is_not_a_database_and_is_left_alone() {
        let (scratch, path) = scratch_file();
        let text = "name,amount\n".repeat(200);
        fs::write(&path, &text).unwrap();

        let error = Store::connect(scratch.url()).await.unwrap_err();

        assert!(
            matches!(&error, StoreError::NotADatabase { path: named, .. } if *named == path),
            "{error:?}"
        );
        assert_eq!(fs::read_to_string(path).unwrap(), text);
    }

    #[tokio::test]
    async fn that_is_a_folder_may_not_be_used() {
        let (scratch, path) = scratch_file();
        fs::create_dir(&path).unwrap();

        let error = Store::connect(scratch.url()).await.unwrap_err();

        assert!(
            matches!(&error, StoreError::FileNotPermitted { path: named, .. } if *named == path),
            "{error:?}"
        );
    }

    #[tokio::test]
    async fn is_made_for_its_owner_only() {
        let (scratch, path) = scratch_file();

        let store = Store::connect(scratch.url()).await.unwrap();
        store.begin().await.unwrap().commit().await.unwrap();

        for file in [path.clone(), path.with_extension("db-wal"), path.with_extension("db-shm")] {
            let mode = fs::metadata(&file).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{}", file.display());
        }
    }

    #[tokio::test]
    async fn has_a_write_ahead_log_that_is_synced_at_every_commit() {
        const FULL: i64 = 2;
        const NORMAL: i64 = 1;
        for (synchronous, number, other) in
            [(Synchronous::Full, FULL, NORMAL), (Synchronous::Normal, NORMAL, FULL)]
        {
            let (scratch, path) = scratch_file();
            let options = StoreOptions { synchronous, ..StoreOptions::default() };
            let store = open(scratch.url(), &options).await.unwrap();
            store.initialise(Init::Always).await.unwrap();

            assert!(fs::metadata(path.with_extension("db-wal")).unwrap().len() > 0);
            assert!(setting_is(&store, "journal_mode", "'wal'").await);
            assert!(setting_is(&store, "synchronous", &number.to_string()).await);
            assert!(!setting_is(&store, "synchronous", &other.to_string()).await);
        }
        assert_eq!(StoreOptions::default().synchronous, Synchronous::Full);
    }

    /// Statements of tests return no rows, so a check of a temporary table compares.
    async fn setting_is(store: &Store, name: &str, value: &str) -> bool {
        let mut tx = store.begin().await.unwrap();
        tx.execute_for_test(&format!("create temp table probe (found check (found = {value}))"))
            .await
            .unwrap();
        let compared =
            tx.execute_for_test(&format!("insert into probe select {name} from pragma_{name}")).await;
        tx.rollback().await.unwrap();
        compared.is_ok()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn is_read_beside_an_open_writer_without_its_uncommitted_rows() {
        let (scratch, _) = scratch_file();
        let store = Store::connect(scratch.url()).await.unwrap();
        let mut writer = store.begin().await.unwrap();
        writer.processes().register(process_id(1), &identity(1), TTL).await.unwrap();

        let mut reader = in_time(store.read()).await.unwrap();
        assert!(in_time(reader.processes().list(10)).await.unwrap().is_empty());
        writer.commit().await.unwrap();

        assert!(reader.processes().list(10).await.unwrap().is_empty(), "a reader's view changed under it");
        drop(reader);
        assert_eq!(store.read().await.unwrap().processes().list(10).await.unwrap().len(), 1);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn is_written_by_two_processes_without_failures() {
        const EACH: u128 = 200;
        let (scratch, _) = scratch_file();
        Store::connect(scratch.url()).await.unwrap().close().await;

        let writers = [0, EACH].map(|first| {
            let url = scratch.url().to_owned();
            tokio::spawn(async move {
                let store = Store::connect(&url).await?;
                for number in first..first + EACH {
                    let mut tx = store.begin().await?;
                    tx.processes().register(process_id(number), &identity(number), TTL).await?;
                    tx.commit().await?;
                }
                Ok::<(), StoreError>(())
            })
        });
        for writer in writers {
            writer.await.unwrap().unwrap();
        }

        let store = Store::connect(scratch.url()).await.unwrap();
        assert_eq!(store.read().await.unwrap().processes().list(1000).await.unwrap().len(), 400);
    }
}
