//! Reads payments from a file with bad lines, and sends them to a bank that is sometimes busy.
//!
//! The job skips at most ten bad lines, and keeps them with their errors in `rejects.jsonl`. When the bank is busy, the
//! job retries the chunk after a pause, which grows with each attempt.
//!
//! ```text
//! printf 'account,amount\nada,100\nbob,many\neve,300\n' > payments.csv
//! cargo run --example skip_and_retry -- job run pay -p input=payments.csv
//! ```

use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::process::ExitCode;
use std::time::Duration;
use tidemill::prelude::*;

/// A line of the file. It is `Serialize` so that rejected lines can be stored.
#[derive(Deserialize, Serialize)]
struct Payment {
    account: String,
    amount: i64,
}

/// The answer of the bank.
#[derive(Serialize)]
struct Receipt {
    account: String,
    amount: i64,
    attempts: u32,
}

/// A bank that is busy at the first attempt of each third account.
#[derive(Clone, Default)]
struct Bank {
    attempts: HashMap<String, u32>,
}

impl ItemProcessor<Payment> for Bank {
    type Output = Receipt;

    async fn process(&mut self, payment: &Payment) -> Result<Option<Receipt>, ItemError> {
        if payment.amount <= 0 {
            return Err(ItemError::new(ErrorKind::VALIDATION, "an amount has to be positive"));
        }
        let known = self.attempts.len();
        let attempts = self.attempts.entry(payment.account.clone()).or_insert(0);
        *attempts += 1;
        if *attempts == 1 && known % 3 == 2 {
            // The kind of an error decides whether the item is retried, skipped or fails the step.
            return Err(ItemError::new(ErrorKind::TRANSIENT, "the bank is busy"));
        }
        Ok(Some(Receipt { account: payment.account.clone(), amount: payment.amount, attempts: *attempts }))
    }
}

fn main() -> ExitCode {
    let send = Step::chunk("send", 5)
        // `reader_with` creates the reader when the step starts, so it can use the parameters of the job.
        .reader_with(|scope| Ok(CsvReader::<Payment>::new("payments", scope.text("input")?)))
        .process(Bank::default())
        .writer(JsonLinesWriter::new("receipts", "receipts.jsonl"))
        .skip([ErrorKind::PARSE, ErrorKind::VALIDATION], 10)
        .retry([ErrorKind::TRANSIENT], 3)
        .backoff(Backoff::exponential(Duration::from_millis(20), Duration::from_secs(1)))
        .rejects(Rejects::file("rejects.jsonl"))
        .build();
    App::new().job(Job::new("pay").step(send)).run()
}
