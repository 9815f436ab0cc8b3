//! What renders show, encrypted at rest.

use super::{ann, claim, claim_by, execute, new_render, ordered, say_with, text};
use crate::Bench;
use serde_json::json;
use std::time::Duration;
use tidemill_domain::code::Code;
use tidemill_domain::lease::Epoch;
use tidemill_domain::render::{RenderId, Work};
use tidemill_domain::time::Clock;
use tidemill_store::render::{Keys, NewRender, Notes, RenderChanged, Submitted};
use tidemill_store::{Store, StoreOptions};

crate::on_both![
    with_a_key_nothing_is_stored_in_clear,
    a_correction_is_encrypted_with_the_current_key,
    what_a_dashboard_inserts_in_clear_is_encrypted_when_it_is_claimed,
    the_hash_of_a_job_tells_nothing_without_the_key,
    a_missing_or_wrong_key_is_named,
    a_list_previews_what_renders_show_also_when_it_is_encrypted,
    data_that_was_moved_to_another_render_is_not_read,
    a_rotation_encrypts_everything_anew,
    who_clicks_twice_orders_once_also_when_data_is_encrypted,
];

const SECRET: &str = "PHIL IVEY";

fn secret_render() -> NewRender {
    NewRender { data: json!({ "single_fields": { "name": SECRET } }), ..new_render() }
}

fn keys(ids: &[(&str, u8)], current: &str) -> Keys {
    Keys::new(ids.iter().map(|(id, byte)| ((*id).to_owned(), [*byte; 32])), current).unwrap()
}

/// The same database, opened with other keys.
async fn with_keys(bench: &Bench, render_keys: Keys) -> Bench {
    let clock = Some(bench.clock.clone() as std::sync::Arc<dyn Clock>);
    let options = StoreOptions { clock, render_keys, ..StoreOptions::default() };
    let store = Store::open(bench.scratch.url().parse().unwrap(), &options).await.unwrap();
    Bench { store, clock: bench.clock.clone(), scratch: bench.scratch.same() }
}

async fn submit(bench: &Bench, new: &NewRender) -> Submitted {
    super::submit(bench, new).await
}

/// All that is stored of what renders show.
async fn stored(bench: &Bench) -> String {
    let mut tx = bench.begin().await;
    let data = if bench.scratch.url().starts_with("sqlite") {
        text(&mut tx, "select group_concat(gfx_data) from render_queue").await
    } else {
        text(&mut tx, "select string_agg(gfx_data::text, ',') from render_queue").await
    };
    let documents = if bench.scratch.url().starts_with("sqlite") {
        text(&mut tx, "select group_concat(coalesce(document, '')) from render_attempt").await
    } else {
        text(&mut tx, "select string_agg(document, ',') from render_attempt").await
    };
    data.unwrap_or_default() + &documents.unwrap_or_default()
}

async fn read(bench: &Bench, id: RenderId) -> Result<String, Code> {
    let data = bench.begin().await.renders().data(id).await;
    data.map(|data| data.unwrap().replace(' ', "")).map_err(|error| error.code())
}

fn clear() -> Result<String, Code> {
    Ok(secret_render().data.to_string().replace(' ', ""))
}

async fn a_list_previews_what_renders_show_also_when_it_is_encrypted(bench: Bench) {
    let sealing = with_keys(&bench, keys(&[("k1", 1)], "k1")).await;
    let secret = submit(&sealing, &secret_render()).await.id();
    let other = submit(&bench, &new_render()).await.id();
    let much = "x".repeat(30_000);
    let long = NewRender { data: json!({ "single_fields": { "name": much } }), ..new_render() };
    let long = submit(&bench, &long).await.id();
    execute(&bench, "insert into render_queue (composition_id, gfx_data) values ('Chips', '{\"slot\": []}')")
        .await;

    let previews = async |bench: &Bench| {
        let mut tx = bench.begin().await;
        let records = tx.renders().waiting(10).await.unwrap();
        assert_eq!(records.len(), 4);
        tx.renders().previews(&records.iter().collect::<Vec<_>>()).await.unwrap()
    };

    let expected = [(secret, SECRET.to_owned()), (other, "가".to_owned())];
    assert_eq!(previews(&sealing).await.into_iter().collect::<Vec<_>>(), expected);
    assert_eq!(previews(&bench).await.into_iter().collect::<Vec<_>>(), expected[1..], "without the key");
    assert!(!previews(&sealing).await.contains_key(&long));
}

async fn with_a_key_nothing_is_stored_in_clear(bench: Bench) {
    let sealing = with_keys(&bench, keys(&[("k1", 1)], "k1")).await;
    let id = submit(&sealing, &secret_render()).await.id();
    let claimed = claim(&sealing, 1).await;
    let document = json!({ "name": SECRET });
    let notes = Notes { document: Some(&document), ..Notes::default() };
    say_with(&sealing, id, claimed.fence, Work::Prepared, notes).await.unwrap();

    let stored = stored(&bench).await;

    assert!(!stored.contains("PHIL") && stored.contains("k1") && stored.contains("enc"), "{stored}");
    assert_eq!(claimed.record.key_id.as_deref(), Some("k1"));
    assert_eq!(read(&sealing, id).await, clear());
    let read = sealing.begin().await.renders().document(id, Epoch::new(1)).await.unwrap();
    assert_eq!(read, Some(document));
}

async fn a_correction_is_encrypted_with_the_current_key(bench: Bench) {
    let id = submit(&bench, &new_render()).await.id();
    execute(&bench, "update render_queue set status = 'cancelled'").await;
    let sealing = with_keys(&bench, keys(&[("k1", 1)], "k1")).await;
    let mut tx = sealing.begin().await;
    let revision = tx.renders().find(id).await.unwrap().unwrap().revision;

    let done = tx.renders().correct(id, revision, &secret_render().data, &ann(), None).await.unwrap();
    tx.commit().await.unwrap();

    let RenderChanged::Done { record, .. } = done else { panic!("{done:?}") };
    assert_eq!(record.key_id.as_deref(), Some("k1"));
    assert_eq!(*record, super::find(&sealing, id).await);
    assert!(!stored(&bench).await.contains(SECRET));
    assert_eq!(read(&sealing, id).await, clear());
    // In clear again without a key, and then not taken for encrypted.
    execute(&bench, "update render_queue set status = 'failed'").await;
    let mut tx = bench.begin().await;
    let revision = tx.renders().find(id).await.unwrap().unwrap().revision;
    let done = tx.renders().correct(id, revision, &secret_render().data, &ann(), None).await.unwrap();
    assert!(matches!(done, RenderChanged::Done { .. }), "{done:?}");
    tx.commit().await.unwrap();
    assert_eq!(read(&bench, id).await, clear());
}

async fn what_a_dashboard_inserts_in_clear_is_encrypted_when_it_is_claimed(bench: Bench) {
    execute(
        &bench,
        "insert into render_queue (composition_id, gfx_data) values ('c', '{\"name\": \"PHIL IVEY\"}')",
    )
    .await;
    bench.advance(Duration::from_secs(366 * 86_400));
    let sealing = with_keys(&bench, keys(&[("k1", 1)], "k1")).await;

    let claimed = claim(&sealing, 1).await;

    assert!(!stored(&bench).await.contains("PHIL"));
    let id = claimed.record.id();
    assert_eq!(claimed.record, super::find(&sealing, id).await);
    assert_eq!(read(&sealing, id).await.unwrap(), "{\"name\":\"PHILIVEY\"}");
}

async fn the_hash_of_a_job_tells_nothing_without_the_key(bench: Bench) {
    let document = json!({ "name": SECRET });
    let hash_of = async |bench: &Bench, id: RenderId| {
        let attempts = bench.begin().await.renders().attempts(id).await.unwrap();
        attempts[0].document_sha256.clone().unwrap()
    };
    let prepared = async |bench: &Bench| {
        let id = submit(bench, &secret_render()).await.id();
        let claimed = claim(bench, 1).await;
        let notes = Notes { document: Some(&document), ..Notes::default() };
        say_with(bench, id, claimed.fence, Work::Prepared, notes).await.unwrap();
        id
    };
    let sealing = with_keys(&bench, keys(&[("k1", 1)], "k1")).await;
    let other = with_keys(&bench, keys(&[("k1", 1), ("k2", 2)], "k2")).await;

    let (in_clear, sealed, with_another) =
        (prepared(&bench).await, prepared(&sealing).await, prepared(&other).await);

    let plain = hash_of(&bench, in_clear).await;
    let (first, second) = (hash_of(&bench, sealed).await, hash_of(&bench, with_another).await);
    assert!(plain != first && plain != second && first != second, "{plain} {first} {second}");
    let mut tx = other.begin().await;
    tx.renders().reseal(None, 10).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!((hash_of(&bench, in_clear).await, hash_of(&bench, sealed).await), (second.clone(), second));
}

async fn a_missing_or_wrong_key_is_named(bench: Bench) {
    let sealing = with_keys(&bench, keys(&[("k1", 1)], "k1")).await;
    let id = submit(&sealing, &secret_render()).await.id();
    let wrong = with_keys(&bench, keys(&[("k1", 2)], "k1")).await;
    let other = with_keys(&bench, keys(&[("k2", 1)], "k2")).await;

    assert_eq!(read(&bench, id).await, Err(Code::RenderKeyMissing));
    assert_eq!(read(&other, id).await, Err(Code::RenderKeyMissing));
    assert_eq!(read(&wrong, id).await, Err(Code::RenderDataSealed));
    let named = bench.begin().await.renders().data(id).await.unwrap_err().to_string();
    assert!(named.contains("k1"), "{named}");
    assert_eq!(
        claim_by(&bench.store, 1, 1).await.claimed.len(),
        1,
        "it is claimed, and fails with this reason"
    );
}

async fn data_that_was_moved_to_another_render_is_not_read(bench: Bench) {
    let sealing = with_keys(&bench, keys(&[("k1", 1)], "k1")).await;
    let first = submit(&sealing, &secret_render()).await.id();
    let second = submit(&sealing, &new_render()).await.id();
    let swap = format!(
        "update render_queue set gfx_data = (select gfx_data from render_queue where id = {first}) where id = {second}"
    );

    execute(&bench, &swap).await;

    assert_eq!(read(&sealing, first).await, clear());
    assert_eq!(read(&sealing, second).await, Err(Code::RenderDataSealed));
}

async fn a_rotation_encrypts_everything_anew(bench: Bench) {
    let plain = submit(&bench, &secret_render()).await.id();
    let old = with_keys(&bench, keys(&[("old", 1)], "old")).await;
    let sealed = submit(&old, &secret_render()).await.id();
    let claims = claim_by(&old.store, 1, 2).await;
    let document = json!({ "name": SECRET });
    for claimed in &claims.claimed {
        let notes = Notes { document: Some(&document), ..Notes::default() };
        say_with(&old, claimed.record.id(), claimed.fence, Work::Prepared, notes).await.unwrap();
    }
    let clear_again = ordered(&bench).await;
    let both = with_keys(&bench, keys(&[("old", 1), ("new", 2)], "new")).await;

    let (mut count, mut last) = (0, None);
    loop {
        let mut tx = both.begin().await;
        let resealed = tx.renders().reseal(last, 1).await.unwrap();
        tx.commit().await.unwrap();
        count += resealed.count;
        last = resealed.last;
        if last.is_none() {
            break;
        }
    }

    assert_eq!(count, 3);
    let only_new = with_keys(&bench, keys(&[("new", 2)], "new")).await;
    assert_eq!((read(&only_new, plain).await, read(&only_new, sealed).await), (clear(), clear()));
    assert!(read(&only_new, clear_again).await.is_ok());
    for claimed in claims.claimed {
        let id = claimed.record.id();
        let read = only_new.begin().await.renders().document(id, Epoch::new(1)).await.unwrap();
        assert_eq!(read.as_ref(), Some(&document));
    }
    assert!(!stored(&bench).await.contains("PHIL"));
    let mut tx = both.begin().await;
    assert_eq!(tx.renders().reseal(None, 10).await.unwrap().count, 0, "once is enough");
    tx.rollback().await.unwrap();
    let none = bench.begin().await.renders().reseal(None, 10).await.unwrap();
    assert_eq!(none.count, 0, "without a key there is nothing to do");
}

async fn who_clicks_twice_orders_once_also_when_data_is_encrypted(bench: Bench) {
    let sealing = with_keys(&bench, keys(&[("k1", 1)], "k1")).await;
    let click = NewRender { cue_item: Some("7".to_owned()), ..secret_render() };

    let mut tx = sealing.begin().await;
    let first = tx.renders().submit(&click, &ann()).await.unwrap();
    let second = tx.renders().submit(&click, &ann()).await.unwrap();
    tx.commit().await.unwrap();

    assert_eq!(second, Submitted::Known(first.id()));
}
