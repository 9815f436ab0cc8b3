//! The views in the form of the document's tables.

use super::{acquire, ann, ask, create, give_back, pass, release};
use crate::Bench;
use std::time::Duration;
use tidemill_domain::code::Code;
use tidemill_domain::pool::Settings;
use tidemill_domain::pool::command::Release;
use tidemill_domain::pool::event::End;
use tidemill_store::pool::{PoolCache, ViewName};

crate::on_both![
    the_views_look_like_the_tables_of_the_document,
    views_are_made_anew_and_nothing_else_is_replaced,
];

fn names() -> (ViewName, ViewName) {
    ("emr_connection_registry".parse().unwrap(), "emr_connection_limits".parse().unwrap())
}

/// All rows of a statement, each as one text.
async fn rows(bench: &Bench, sql: &'static str) -> Vec<String> {
    let mut tx = bench.store.read().await.unwrap();
    let rows = match tx.postgres() {
        Some(connection) => sqlx::query_scalar(sql).fetch_all(connection).await,
        None => sqlx::query_scalar(sql).fetch_all(tx.sqlite().unwrap()).await,
    };
    rows.unwrap()
}

async fn the_views_look_like_the_tables_of_the_document(bench: Bench) {
    let settings = create(&bench, 10).await;
    let mut tx = bench.begin().await;
    let unknown = Settings { name: "OWN".parse().unwrap(), external_id: None, ..settings };
    tx.pools().create(&unknown, &ann()).await.unwrap();
    tx.commit().await.unwrap();
    let (registry, limits) = names();
    bench.store.pool_views(&registry, &limits).await.unwrap();
    let mut cache = PoolCache::default();
    for run in ["done", "failed"] {
        ask(&bench, &mut cache, acquire(run, 6)).await;
        let end = End::Released { failed: run == "failed" };
        give_back(&bench, &mut cache, Release { end, ..release(run) }).await;
    }
    ask(&bench, &mut cache, acquire("gone", 6)).await;
    bench.clock.advance(Duration::from_secs(24 * 3600));
    pass(&bench, &mut cache, &[]).await;
    ask(&bench, &mut cache, acquire("running", 6)).await;
    ask(&bench, &mut cache, acquire("waiting", 6)).await;

    let registry = rows(
        &bench,
        "select src_db_id || ' ' || dag_id || ' ' || dag_run_id || ' ' || table_name || ' ' || parallel_hint || ' ' ||
                status || ' ' || started_at || ' ' || ttl
         from emr_connection_registry
         order by dag_run_id",
    )
    .await;
    let limits = rows(
        &bench,
        "select src_db_id || ' ' || name || ' ' || db_type || ' ' || max_connections || ' ' || threshold_percent ||
                ' ' || default_parallel || ' ' || min_parallel
         from emr_connection_limits",
    )
    .await;

    let first = "2026-11-15T02:00:00Z 1794794400";
    let next = "2026-11-16T02:00:00Z 1794880800";
    assert_eq!(
        registry,
        [
            format!("4 dag done SALES 6 COMPLETED {first}"),
            format!("4 dag failed SALES 6 FAILED {first}"),
            format!("4 dag gone SALES 6 FAILED {first}"),
            format!("4 dag running SALES 6 RUNNING {next}"),
            format!("4 dag waiting SALES 6 WAITING {next}"),
        ]
    );
    assert_eq!(limits, ["4 ADW oracle 10 100 1 2"]);
}

async fn views_are_made_anew_and_nothing_else_is_replaced(bench: Bench) {
    let (registry, limits) = names();
    bench.store.pool_views(&registry, &limits).await.unwrap();
    let (again, other) =
        (bench.store.pool_views(&registry, &limits), bench.store.pool_views(&registry, &limits));
    let both = tokio::join!(again, other);
    assert!(both.0.is_ok() && both.1.is_ok(), "{both:?}");
    let mut tx = bench.begin().await;
    tx.execute_for_test("create table theirs (id integer)").await.unwrap();
    tx.execute_for_test("create view their_view as select id from theirs").await.unwrap();
    tx.commit().await.unwrap();

    for taken in ["theirs", "their_view", "emr_connection_registry"] {
        let error = bench.store.pool_views(&registry, &taken.parse().unwrap()).await.unwrap_err();
        assert_eq!(error.code(), Code::ViewNameTaken, "{taken}");
        assert!(error.to_string().contains(taken), "{error}");
    }
    assert!(rows(&bench, "select 'x' from theirs union all select 'x' from their_view").await.is_empty());
    assert!(rows(&bench, "select name from emr_connection_limits").await.is_empty());
}
