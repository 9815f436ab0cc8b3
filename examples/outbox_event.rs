//! Writes a payment and its event in one transaction: both commit, or neither does.
//!
//! ```text
//! cargo run --example outbox_event                                     # in a database in memory
//! cargo run --example outbox_event -- postgres://ann@localhost/shop    # also in a transaction of sqlx
//! ```

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "an example says what it does")]

use std::process::ExitCode;
use tidemill::outbox::{EventFilter, NewEvent, Payload, publish_on};
use tidemill::prelude::*;
use tidemill::sqlx::{self, Connection};
use tidemill::{Init, StoreOptions};

const PAY: &str = "insert into payment (id, cents) values ($1, $2)";

fn paid(id: i64, cents: i64) -> NewEvent {
    let payload = Payload::Json(format!("{{\"cents\":{cents}}}"));
    let event = NewEvent::new("payment", id.to_string(), "payment.made", "payments", payload);
    event.expect("the names are short, the key is a number, and the payload is JSON")
}

/// Writes the row first and then the event. The lock on the row keeps the events of a payment in order.
async fn pay(tx: &mut Tx, id: i64, cents: i64) -> Result<(), ItemError> {
    tx.execute(PAY, (id, cents)).await?;
    tx.publish(&paid(id, cents)).await?;
    Ok(())
}

/// Does the same in your own sqlx transaction.
async fn pay_by_sqlx(url: &str, id: i64, cents: i64) -> Result<(), StoreError> {
    let mut connection = sqlx::PgConnection::connect(url).await?;
    let mut transaction = connection.begin().await?;
    sqlx::query(PAY).bind(id).bind(cents).execute(&mut *transaction).await?;
    publish_on(&mut transaction, &paid(id, cents)).await?;
    Ok(transaction.commit().await?)
}

async fn run(url: &str) -> Result<(), ItemError> {
    let store = Store::open(url.parse()?, &StoreOptions::default()).await?;
    store.initialise(Init::Always).await?; // in production, run `tidemill db migrate`
    let mut tx = store.begin().await?;
    let table = "create table if not exists payment (id bigint not null primary key, cents bigint not null)";
    tx.execute(table, ()).await?;
    tx.commit().await?;

    let mut tx = store.begin().await?;
    pay(&mut tx, 1, 500).await?;
    tx.commit().await?;

    let mut tx = store.begin().await?;
    pay(&mut tx, 2, 700).await?;
    tx.rollback().await?; // neither the payment nor its event is stored

    if url.starts_with("postgres") {
        pay_by_sqlx(url, 3, 900).await?;
    }
    for event in store.read().await?.outbox().events(&EventFilter::default(), 10).await?.iter().rev() {
        println!("{} {} to {}", event.aggregate, event.event_type, event.topic);
    }
    store.close().await;
    Ok(())
}

fn main() -> ExitCode {
    let url = std::env::args().nth(1).unwrap_or_else(|| "sqlite::memory:".to_owned());
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be started");
    match runtime.block_on(run(&url)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
