//! With many tickets and a long log, every statement on them finds its rows by an index.
//!
//! As for jobs: PostgreSQL tells the plans of what really runs, and of SQLite every statement is taken from the source.

use super::{acquire, adw, ann, ask, create, give_back, pass, release};
use crate::event_recorder::{plans_of, reads_a_whole_table};
use crate::{Bench, plan};
use std::time::Duration;
use tidemill_domain::pool::command::{Acquire, Answer, Command, Release};
use tidemill_domain::pool::{PoolName, Settings, State};
use tidemill_store::pool::PoolCache;

/// Enough that the planner does not prefer to read a whole table.
const FILL: &str = "
    insert into tidemill_pool_ticket
        (id, pool, version, state, dag_id, run_id, task, map_index, table_name, parallel, units, epoch, enqueued_at,
         started_at, ended_at, ending, end_call, expires_at, lease_micros, detail)
    select n.id, n.pool, s.version, n.state, s.dag_id, n.run_id, s.task, s.map_index, s.table_name, s.parallel, s.units,
           s.epoch, s.enqueued_at, s.started_at, case when n.state = 'released' then s.enqueued_at end,
           case when n.state = 'released' then 'released' end, case when n.state = 'released' then n.run_id end,
           case when n.state = 'running' then s.expires_at end, s.lease_micros,
           replace(replace(replace(s.detail, cast(s.id as text), cast(n.id as text)), 'seed', n.run_id), '\"running\"',
                   '\"' || n.state || '\"')
    from (
        select gen_random_uuid() as id, case when e % 10 = 0 then 'ADW' else 'P' || e % 10 end as pool, 'r' || e as run_id,
               case when e % 50 = 0 then 'running' else 'released' end as state
        from generate_series(1, 30000) as e
    ) as n
    cross join (select * from tidemill_pool_ticket where run_id = 'seed') as s;
    insert into tidemill_pool_log (pool, version, seq, at, kind, ticket_id, dag_id, run_id, event, summary)
    select pool, log_version, seq, at + log_version * interval '1 second', 'claimed', ticket_id, dag_id, run_id, event,
           case when log_version % 7 = 0 then 'told' end
    from (
        select case when e % 10 = 0 then 'ADW' else 'P' || e % 10 end as pool, e as log_version, 0 as seq,
               timestamptz '2026-11-01 00:00:00Z' as at, t.id as ticket_id, t.dag_id, t.run_id,
               '{\"claimed\":{\"ticket\":\"' || t.id || '\"}}' as event
        from generate_series(1, 30000) as e
        join tidemill_pool_ticket t on t.run_id = 'r' || e
    ) as filled;
    insert into tidemill_pool_usage (pool, at, least, most, total, samples, most_waiting, requested)
    select p.name, at, 0, 0, 0, 1, 0, 0
    from tidemill_pool p
    cross join generate_series(timestamptz '2026-11-08 00:00:00Z', '2026-11-15 00:00:00Z', '5 minutes') as at;
    analyze tidemill_pool_ticket;
    analyze tidemill_pool_log;
    analyze tidemill_pool_usage";

fn is_long(table: &str) -> bool {
    matches!(table, "tidemill_pool_ticket" | "tidemill_pool_log" | "tidemill_pool_usage")
}

#[tokio::test]
async fn no_statement_on_postgresql_reads_all_tickets_or_a_whole_log() {
    let Some(bench) = Bench::postgres().await else { return };

    let plans = plans(&bench).await;

    let scans: Vec<&String> = plans.iter().filter(|plan| reads_a_whole_table(plan, is_long)).collect();
    assert!(scans.is_empty(), "{scans:#?}");
    for table in ["tidemill_pool_ticket", "tidemill_pool_log"] {
        let is_about = |plan: &&String| plan.contains(&format!("\"Relation Name\": \"{table}\""));
        assert!(plans.iter().filter(is_about).count() > 5, "too few plans about {table}");
    }
    // The last events, of all pools and of one: only records with a summary are read, and none is sorted.
    for index in ["tidemill_pool_log_summary_at", "tidemill_pool_log_summary"] {
        let uses = |plan: &&String| plan.contains(&format!("\"Index Name\": \"{index}\""));
        let found: Vec<&String> = plans.iter().filter(uses).collect();
        assert!(!found.is_empty() && found.iter().all(|plan| !plan.contains("Sort")), "{index}: {found:#?}");
    }
}

#[tokio::test]
async fn a_lost_index_of_pools_on_postgresql_is_noticed() {
    let Some(bench) = Bench::postgres().await else { return };
    let mut tx = bench.begin().await;
    tx.execute_for_test("drop index tidemill_pool_ticket_run").await.unwrap();
    tx.commit().await.unwrap();

    assert!(plans(&bench).await.iter().any(|plan| reads_a_whole_table(plan, is_long)));
}

/// Fills the tables, lets everything run that is done often, and returns the plans that the server told.
async fn plans(bench: &Bench) -> Vec<String> {
    let settings = create(bench, 100_000).await;
    let mut tx = bench.begin().await;
    for number in 1..10 {
        let (name, external_id) = (format!("P{number}").parse().unwrap(), Some(100 + number));
        let other = Settings { name, external_id, ..settings.clone() };
        tx.pools().create(&other, &ann()).await.unwrap();
    }
    tx.commit().await.unwrap();
    ask(bench, &mut PoolCache::default(), acquire("seed", 4)).await;
    let mut tx = bench.begin().await;
    tx.execute_for_test(FILL).await.unwrap();
    tx.commit().await.unwrap();
    plans_of(bench, use_all).await
}

/// Everything that is done with pools all day long.
async fn use_all(bench: &Bench) {
    let (mut first, mut second) = (PoolCache::default(), PoolCache::default());
    let asked = Acquire { lease_for: Some(Duration::from_secs(60)), ..acquire("new", 4) };
    let Answer::Admitted { parts, .. } = ask(bench, &mut first, asked).await else { panic!() };
    let (id, epoch) = (parts[0].ticket.id, parts[0].ticket.epoch);
    pass(bench, &mut second, &[]).await;
    let mut tx = bench.begin().await;
    assert_eq!(tx.pools().renew_tickets(&[(id, epoch)]).await.unwrap().len(), 1);
    tx.pools().due().await.unwrap();
    tx.leases().shorten_leases().await.unwrap();
    tx.commit().await.unwrap();
    bench.clock.advance(Duration::from_secs(61));
    pass(bench, &mut first, &[Command::Look { pool: adw() }]).await;
    for _ in 0..2 {
        let call = Some("again".to_owned().into());
        give_back(bench, &mut first, Release { call, ..release("new") }).await;
    }
    // What the other one has slept through.
    pass(bench, &mut second, &[]).await;
    let mut tx = bench.store.read().await.unwrap();
    let pool: PoolName = adw();
    tx.pools().tickets(&pool, &[State::Suspect], 100).await.unwrap();
    tx.pools().tickets(&pool, &[State::Running, State::Granted], 100).await.unwrap();
    assert!(tx.pools().ticket(id).await.unwrap().is_some());
    assert_eq!(tx.pools().tickets_of_run("r77", 10).await.unwrap().len(), 1);
    assert!(!tx.pools().ticket_log(id, 100).await.unwrap().is_empty());
    for pool in [None, Some(&pool)] {
        assert!(!tx.pools().events(pool, 10).await.unwrap().is_empty());
    }
    assert!(!tx.pools().decisions(&pool, None, 50).await.unwrap().is_empty());
    assert!(!tx.pools().settings_since(&pool, bench.now()).await.unwrap().is_empty());
    assert!(tx.pools().demand(&pool).await.unwrap().is_some());
    tx.rollback().await.unwrap();
    let mut tx = bench.begin().await;
    tx.pools().sample_usage().await.unwrap();
    tx.pools().snapshot(&pool, Duration::ZERO).await.unwrap();
    assert_eq!(tx.pools().forget_tickets(&pool, Duration::ZERO, 500).await.unwrap(), 500);
    bench.clock.advance(Duration::from_secs(1));
    assert_eq!(tx.pools().forget_log(&pool, Duration::ZERO, 500).await.unwrap(), 500);
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn no_statement_on_sqlite_reads_all_tickets_or_a_whole_log() {
    let bench = Bench::sqlite().await;
    let statements = statements();
    assert!(statements.len() > 30, "only {} statements were found", statements.len());

    assert_eq!(scans(&bench, &statements).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_lost_index_of_pools_on_sqlite_is_noticed() {
    let bench = Bench::sqlite().await;
    let mut tx = bench.begin().await;
    tx.execute_for_test("drop index tidemill_pool_ticket_call").await.unwrap();
    tx.commit().await.unwrap();

    assert!(!scans(&bench, &statements()).await.is_empty());
}

/// The statements that read all tickets or a whole log, of all pools or of one, unless it is in the order of an index and
/// only for a while, or they are for those that live and look at no others. Who removes a pool removes all of it.
async fn scans(bench: &Bench, statements: &[String]) -> Vec<String> {
    let is_whole = |statement: &str, line: &str| {
        let mut words = line.split(' ');
        let (verb, name) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        if !is_long(name) || statement.starts_with("delete from tidemill_pool where") {
            return false;
        }
        let is_bounded = statement.contains("limit") && !statement.contains("ended_at is null");
        match verb {
            "SCAN" => !(is_bounded && line.contains("USING INDEX tidemill_pool_log_at")),
            _ => line.ends_with("(pool=?)") && !line.contains("tidemill_pool_ticket_holder") && !is_bounded,
        }
    };
    plan::scans(bench, statements, is_whole).await
}

/// All except the views.
fn statements() -> Vec<String> {
    plan::statements(&["statements/pool.rs", "pool/decision.rs", "pool/demand.rs", "pool/history.rs"])
}
