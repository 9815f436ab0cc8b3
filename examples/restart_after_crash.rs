//! A job that fails in the middle, and resumes after its last committed chunk when you run it again.
//!
//! ```text
//! STUMBLE=fail cargo run --example restart_after_crash -- job run squares   # item 57 fails: exit code 10
//! cargo run --example restart_after_crash -- job run squares                # resumes with item 51
//! ```
//!
//! With `STUMBLE=die` the process ends at once, as in a power failure. It cannot report this to the database, so the
//! execution counts as running until the lease of the dead process expires (`process.lease`, 7 seconds on PostgreSQL). Then the next
//! process that checks marks the execution as failed, and you can run the job again.

use std::process::ExitCode;
use tidemill::prelude::*;

/// Items that commit together.
const CHUNK: usize = 10;

/// The item that fails. It is in the sixth chunk, so five chunks have committed.
const STONE: i64 = 57;

fn square(number: &i64) -> Result<Option<i64>, ItemError> {
    if *number == STONE {
        match std::env::var("STUMBLE").as_deref() {
            Ok("fail") => return Err(ItemError::new(ErrorKind::VALIDATION, "stumbled over a stone")),
            Ok("die") => std::process::abort(),
            _ => {}
        }
    }
    Ok(Some(number * number))
}

fn main() -> ExitCode {
    let squares = Step::chunk("square", CHUNK)
        // The position is saved under this name, "numbers". Do not change it between two runs.
        .reader(ItemsReader::new("numbers", 1..=100))
        .process(square)
        // When a restart opens the file, it removes what the crashed run wrote after its last committed chunk.
        .writer(TextWriter::new("squares", "squares.txt", |square: &i64| square.to_string()))
        .build();
    App::new().job(Job::new("squares").step(squares)).run()
}
