//! Payments from a file with bad lines, sent to a bank that is sometimes busy.
//!
//! Lines that make no sense are skipped, at most ten, and kept with their error in `rejects.jsonl`. When the bank is
//! busy, the chunk is tried again after a pause that grows.
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

/// A line of the file. It is `Serialize` so that it can be kept when it is rejected.
#[derive(Deserialize, Serialize)]
struct Payment {
    account: String,
    amount: i64,
}

/// What the bank says to it.
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
            // The kind decides what is done about it.
            return Err(ItemError::new(ErrorKind::TRANSIENT, "the bank is busy"));
        }
        Ok(Some(Receipt { account: payment.account.clone(), amount: payment.amount, attempts: *attempts }))
    }
}

fn main() -> ExitCode {
    let send = Step::chunk("send", 5)
        // A reader that depends on the parameters of the job is made when the step starts.
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
