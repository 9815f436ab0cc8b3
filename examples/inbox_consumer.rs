//! A consumer that handles each message once, although some arrive twice.
//!
//! ```text
//! cargo run --example inbox_consumer                                     # in a database in memory
//! cargo run --example inbox_consumer -- postgres://ann@localhost/shop
//! ```

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "an example says what it does")]

use std::process::ExitCode;
use tidemill::prelude::*;
use tidemill::{Init, StoreOptions};

/// Messages as a Kafka client would deliver them: ids and amounts. The second one is delivered twice, as after a crash.
const MESSAGES: [(&str, i64); 4] = [("1", 500), ("2", 700), ("2", 700), ("3", 900)];

const ADD: &str = "update balance set cents = cents + $1";

/// Adds the cents of a message, unless it was handled before. The inbox row and the new balance commit together.
async fn deal_with(store: &Store, id: &str, cents: i64) -> Result<bool, ItemError> {
    let mut tx = store.begin().await?;
    let is_first = tx.first_time("balance", id).await?;
    if is_first {
        tx.execute(ADD, (cents,)).await?;
    }
    tx.commit().await?;
    Ok(is_first) // commit the Kafka offset only after this
}

async fn run(url: &str) -> Result<(), ItemError> {
    let store = Store::open(url.parse()?, &StoreOptions::default()).await?;
    store.initialise(Init::Always).await?; // in production, run `tidemill db migrate`
    let mut tx = store.begin().await?;
    for statement in ["create table balance (cents bigint not null)", "insert into balance values (0)"] {
        tx.execute(statement, ()).await?;
    }
    tx.commit().await?;

    for (id, cents) in MESSAGES {
        let told = if deal_with(&store, id, cents).await? { "is new" } else { "was dealt with before" };
        println!("message {id} {told}");
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
