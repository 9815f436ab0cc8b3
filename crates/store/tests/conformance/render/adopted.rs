//! A table `render_queue` that was there before, made as the document says.

use super::{claim, policy, text};
use crate::Bench;
use tidemill_domain::audit::Actor;
use tidemill_domain::render::{Act, RenderId, Status};
use tidemill_store::render::{NewRender, RenderFilter, Submitted};
use tidemill_store::scratch::Scratch;
use tidemill_store::{Store, StoreOptions};

/// The document has no statement that makes the queue; these are the columns that its statements name, in types that
/// somebody may have chosen for them. The column of recoveries and the audit are the document's own statements.
const TABLES: &str = "
    create type render_status as enum
        ('pending', 'preparing', 'rendering', 'encoding', 'uploading', 'completed', 'failed', 'cancelled', 'finished',
         'error');
    create table render_queue (
        id serial primary key,
        composition_id integer not null,
        gfx_data json not null,
        cue_item_id uuid,
        status render_status default 'pending',
        worker_id varchar(64),
        lock_expires_at timestamp,
        nexrender_job_id varchar(64),
        progress integer default 0,
        error_message varchar(255),
        output_file_path text,
        duration_seconds integer,
        created_at timestamptz default now(),
        updated_at timestamptz,
        started_at timestamptz,
        completed_at timestamptz
    );
    alter table render_queue add column recovery_count integer default 0;
    create table render_queue_audit (
        id serial,
        render_queue_id integer,
        status_from varchar,
        status_to varchar,
        worker_id uuid,
        changed_at timestamptz,
        changed_by varchar
    );
    create table aep_field_mapping (composition_id integer, field_name varchar, layer_name varchar);
    insert into aep_field_mapping values (12, 'Single - table_id', 'Table'), (12, 'Flag 1', 'Flag 1'), (12, null, null);
    insert into render_queue_audit (render_queue_id, status_from, status_to, changed_at, changed_by)
    values (1, null, 'pending', now(), 'somebody');
    insert into render_queue (composition_id, gfx_data, status, worker_id, lock_expires_at, output_file_path)
    values
        (12, '{\"single_fields\": {}}', 'pending', null, null, null),
        (12, '{}', 'finished', 'w-1', null, '/nas/a.mp4'),
        (12, '{}', 'finished', 'w-1', null, null),
        (12, '{}', 'error', null, null, null),
        (12, '{}', 'rendering', null, null, null),
        (12, '{}', 'uploading', '00000000-0000-0000-0000-000000000005', now() - interval '1 hour', null),
        (12, '{}', null, null, null, null),
        (12, '{}', 'completed', null, null, '/nas/b.mp4');";

/// A database that has these tables, and no schema yet.
async fn before(tables: &str) -> Option<(Scratch, Store)> {
    let scratch = Scratch::postgres().await?;
    let store = Store::open(scratch.url().parse().unwrap(), &StoreOptions::default()).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    tx.execute_for_test(tables).await.unwrap();
    tx.commit().await.unwrap();
    Some((scratch, store))
}

/// SQLite cannot add all that is needed to a table that is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_postgres_a_table_that_was_there_is_kept_and_goes_on() {
    let Some((scratch, store)) = before(TABLES).await else { return };

    store.migrate(&Actor::system(), |_| {}).await.unwrap();

    let mut tx = store.begin().await.unwrap();
    let mut all = tx.renders().list(&RenderFilter::default(), None, 100).await.unwrap();
    all.reverse();
    let statuses: Vec<Status> = all.iter().map(|one| one.render.status).collect();
    let expected = [
        Status::Pending,
        Status::Completed,
        Status::Pending,
        Status::Failed,
        Status::Pending,
        Status::Uploading,
        Status::Pending,
        Status::Completed,
    ];
    assert_eq!(statuses, expected);
    assert_eq!(all[1].output_path.as_deref(), Some("/nas/a.mp4"));
    assert_eq!(tx.renders().transitions(RenderId::new(1)).await.unwrap().len(), 1, "its audit is kept");
    let new = NewRender {
        composition: Some("13".to_owned()),
        cue_item: Some("00000000-0000-0000-0000-000000000001".to_owned()),
        ..super::new_render()
    };
    let submitted = tx.renders().submit(&new, &super::ann()).await.unwrap();
    assert_eq!(tx.renders().submit(&new, &super::ann()).await.unwrap(), Submitted::Known(submitted.id()));
    let reaped = tx.renders().reap_expired(10, &policy()).await.unwrap();
    assert_eq!((reaped.len(), reaped[0].record.id()), (1, RenderId::new(6)), "the old worker is gone");
    let mapping = tx.renders().field_mappings(Some("12")).await.unwrap();
    assert_eq!(mapping.len(), 2);
    assert_eq!(tx.renders().save_field_mappings(&mapping, &super::ann()).await.unwrap(), 2);
    tx.commit().await.unwrap();
    let bench = Bench { store, clock: Bench::on(scratch.same()).await.clock, scratch };
    let first = claim(&bench, 1).await;
    assert_eq!((first.record.id(), first.act), (RenderId::new(1), Act::Prepare));
    assert_eq!(first.record.composition.as_deref(), Some("12"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_postgres_a_table_that_cannot_be_kept_is_refused_with_its_reason() {
    for (tables, why) in [
        ("create table render_queue (id uuid primary key, status text)", "needs a number"),
        (
            "create table render_queue (id serial primary key, status text);
             insert into render_queue (status) values ('half done')",
            "half done",
        ),
    ] {
        let Some((_scratch, store)) = before(tables).await else { return };

        let refused = store.migrate(&Actor::system(), |_| {}).await.unwrap_err();

        let told = format!("{:?}", std::error::Error::source(&refused));
        assert!(told.contains(why) && told.contains("render_queue"), "{told}");
        assert!(refused.to_string().contains("migration 14 (render)"), "{refused}");
        assert!(!refused.fix().contains("report this"), "{}", refused.fix());
        let mut tx = store.begin().await.unwrap();
        let columns =
            "select count(*)::text from information_schema.columns where table_name = 'render_queue'";
        assert_eq!(text(&mut tx, columns).await.as_deref(), Some("2"), "nothing was changed");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_postgres_mapping_rows_that_are_there_twice_are_named() {
    let twice = "create table aep_field_mapping (composition_id text, field_name text, layer_name text);
         insert into aep_field_mapping values ('Main', 'Single - a', 'A'), ('Main', 'Single - a', 'B')";
    let Some((_scratch, store)) = before(twice).await else { return };

    let refused = store.migrate(&Actor::system(), |_| {}).await.unwrap_err();

    let told = refused.to_string();
    assert!(told.contains("migration 14 (render)") && told.contains("(Main, Single - a)"), "{told}");
}

#[tokio::test]
async fn on_sqlite_a_table_that_is_there_is_an_error_that_names_it() {
    let scratch = Scratch::file();
    let store = Store::open(scratch.url().parse().unwrap(), &StoreOptions::default()).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    tx.execute_for_test("create table render_queue (id integer primary key, status text)").await.unwrap();
    tx.commit().await.unwrap();

    let refused = store.migrate(&Actor::system(), |_| {}).await.unwrap_err();

    let told = format!("{:?}", std::error::Error::source(&refused));
    assert!(told.contains("render_queue") && told.contains("already exists"), "{told}");
}
