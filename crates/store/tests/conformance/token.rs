//! API tokens, sessions, and idempotency keys.

use crate::Bench;
use std::time::Duration;
use tidemill_domain::access::{SESSION_IDLE_MAX, SESSION_MAX, Token};
use tidemill_domain::audit::{Actor, Role};
use tidemill_store::audit::AuditFilter;
use tidemill_store::idempotency::{Claim, KEEP_ANSWERS};
use tidemill_store::token::{NewToken, TokenRecord};

crate::on_both![
    a_token_opens_the_door_only_with_its_secret,
    an_expired_or_revoked_token_opens_nothing,
    the_use_of_a_token_is_noted_to_the_minute,
    no_secret_is_stored_or_told,
    a_session_ends_when_idle_and_at_the_latest_after_half_a_day,
    a_session_ends_with_its_token,
    a_session_ends_when_it_is_closed,
    a_key_is_answered_once_and_always_the_same,
    a_key_is_forgotten_after_a_day,
    a_key_whose_change_failed_is_free_again,
    rivals_with_one_key_have_one_effect,
];

const DAY: Duration = Duration::from_secs(86_400);

fn token(number: u8) -> Token {
    Token::from_random(&[number; 16], &[number; 32])
}

async fn create(bench: &Bench, number: u8) -> TokenRecord {
    let new = NewToken {
        name: format!("token {number}"),
        role: Role::Operator,
        scopes: vec!["pool/etl*".into(), "job/정산".into()],
        valid_for: Some(DAY),
    };
    let mut tx = bench.begin().await;
    let record = tx.tokens().create(&token(number), &new, &Actor::system()).await.unwrap();
    tx.commit().await.unwrap();
    record
}

async fn a_token_opens_the_door_only_with_its_secret(bench: Bench) {
    let record = create(&bench, 1).await;
    let mut tx = bench.begin().await;

    assert_eq!(tx.tokens().authenticate(&token(1)).await.unwrap(), Some(record.clone()));
    let stolen_id = format!("tm_{}_{}", record.id, token(2).secret()).parse().unwrap();
    assert_eq!(tx.tokens().authenticate(&stolen_id).await.unwrap(), None);
    assert_eq!(tx.tokens().authenticate(&token(3)).await.unwrap(), None);
    assert_eq!(record.scopes, ["pool/etl*", "job/정산"]);
}

async fn an_expired_or_revoked_token_opens_nothing(bench: Bench) {
    create(&bench, 1).await;
    let revoked = create(&bench, 2).await;
    let mut tx = bench.begin().await;

    assert!(tx.tokens().revoke(&revoked.id, &Actor::system()).await.unwrap());
    assert!(!tx.tokens().revoke(&revoked.id, &Actor::system()).await.unwrap());
    assert!(!tx.tokens().revoke("unknown", &Actor::system()).await.unwrap());
    assert_eq!(tx.tokens().authenticate(&token(2)).await.unwrap(), None);
    bench.advance(DAY - Duration::from_micros(1));
    assert!(tx.tokens().authenticate(&token(1)).await.unwrap().is_some());
    bench.advance(Duration::from_micros(1));
    assert_eq!(tx.tokens().authenticate(&token(1)).await.unwrap(), None);
}

async fn the_use_of_a_token_is_noted_to_the_minute(bench: Bench) {
    let record = create(&bench, 1).await;
    let first = bench.now();
    let mut tx = bench.begin().await;

    tx.tokens().touch(&record.id).await.unwrap();
    bench.advance(Duration::from_secs(59));
    tx.tokens().touch(&record.id).await.unwrap();
    assert_eq!(tx.tokens().list(1).await.unwrap()[0].last_used_at, Some(first));
    bench.advance(Duration::from_secs(2));
    tx.tokens().touch(&record.id).await.unwrap();
    assert_eq!(tx.tokens().list(1).await.unwrap()[0].last_used_at, Some(bench.now()));
}

async fn no_secret_is_stored_or_told(bench: Bench) {
    let record = create(&bench, 1).await;
    let mut tx = bench.begin().await;
    tx.tokens().open_session("a-secret-of-a-session", &record).await.unwrap();

    let told = format!("{record:?} {:?}", tx.audit().entries(&AuditFilter::default(), 10).await.unwrap());
    assert!(!told.contains(token(1).secret()) && !told.contains("a-secret-of-a-session"));
    assert!(told.contains("token.create") && told.contains("session.open"));
}

async fn a_session_ends_when_idle_and_at_the_latest_after_half_a_day(bench: Bench) {
    let record = create(&bench, 1).await;
    let mut tx = bench.begin().await;
    tx.tokens().open_session("s", &record).await.unwrap();

    let mut open_for = Duration::ZERO;
    while tx.tokens().session("s").await.unwrap().is_some() && open_for < DAY {
        tx.tokens().touch_session("s").await.unwrap();
        bench.advance(SESSION_IDLE_MAX / 2);
        open_for += SESSION_IDLE_MAX / 2;
    }
    assert_eq!(open_for, SESSION_MAX);

    tx.tokens().open_session("t", &record).await.unwrap();
    bench.advance(SESSION_IDLE_MAX);
    assert_eq!(tx.tokens().session("t").await.unwrap(), None);
    assert_eq!(tx.tokens().session("unknown").await.unwrap(), None);
}

async fn a_session_ends_with_its_token(bench: Bench) {
    let (one, two) = (create(&bench, 1).await, create(&bench, 2).await);
    let mut tx = bench.begin().await;
    tx.tokens().open_session("one", &one).await.unwrap();
    tx.tokens().open_session("two", &two).await.unwrap();

    tx.tokens().revoke(&one.id, &Actor::system()).await.unwrap();

    assert_eq!(tx.tokens().session("one").await.unwrap(), None);
    assert_eq!(tx.tokens().session("two").await.unwrap().map(|session| session.token.id), Some(two.id));
}

async fn a_session_ends_when_it_is_closed(bench: Bench) {
    let record = create(&bench, 1).await;
    let mut tx = bench.begin().await;
    tx.tokens().open_session("s", &record).await.unwrap();

    assert!(tx.tokens().close_session("s").await.unwrap());
    assert!(!tx.tokens().close_session("s").await.unwrap());
    assert_eq!(tx.tokens().session("s").await.unwrap(), None);
}

async fn a_key_is_answered_once_and_always_the_same(bench: Bench) {
    let mut tx = bench.begin().await;

    assert_eq!(tx.idempotency().claim("ann", "k", b"request").await.unwrap(), Claim::New);
    tx.idempotency().save_answer("ann", "k", 201, "{}").await.unwrap();

    let answered = Claim::Answered { status: 201, body: "{}".into() };
    assert_eq!(tx.idempotency().claim("ann", "k", b"request").await.unwrap(), answered);
    assert_eq!(tx.idempotency().claim("ann", "k", b"another").await.unwrap(), Claim::Mismatch);
    assert_eq!(tx.idempotency().claim("bob", "k", b"request").await.unwrap(), Claim::New);
}

async fn a_key_is_forgotten_after_a_day(bench: Bench) {
    let mut tx = bench.begin().await;
    tx.idempotency().claim("ann", "k", b"request").await.unwrap();

    bench.advance(KEEP_ANSWERS + Duration::from_secs(1));

    assert_eq!(tx.idempotency().claim("ann", "k", b"another").await.unwrap(), Claim::New);
}

async fn a_key_whose_change_failed_is_free_again(bench: Bench) {
    let mut tx = bench.begin().await;
    tx.idempotency().claim("ann", "k", b"request").await.unwrap();
    tx.rollback().await.unwrap();

    assert_eq!(bench.begin().await.idempotency().claim("ann", "k", b"request").await.unwrap(), Claim::New);
}

async fn rivals_with_one_key_have_one_effect(bench: Bench) {
    let mut rivals = Vec::new();
    for _ in 0..6 {
        let store = bench.store.clone();
        rivals.push(tokio::spawn(async move {
            let mut tx = store.begin().await.unwrap();
            let claim = tx.idempotency().claim("ann", "k", b"request").await.unwrap();
            if claim == Claim::New {
                tx.idempotency().save_answer("ann", "k", 200, "done").await.unwrap();
            }
            tx.commit().await.unwrap();
            claim
        }));
    }

    let mut new = 0;
    for rival in rivals {
        match rival.await.unwrap() {
            Claim::New => new += 1,
            other => assert_eq!(other, Claim::Answered { status: 200, body: "done".into() }),
        }
    }
    assert_eq!(new, 1);
}
