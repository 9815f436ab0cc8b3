//! A job that stumbles in the middle, and goes on where it was when it is run again.
//!
//! ```text
//! STUMBLE=fail cargo run --example restart_after_crash -- job run squares   # item 57 fails: exit code 10
//! cargo run --example restart_after_crash -- job run squares                # goes on with item 51
//! ```
//!
//! `STUMBLE=die` is harder: the process ends at once, as if the power had gone. Nobody can tell the database then,
//! so the job counts as running until the word of the dead process has lapsed (`process.lease`, 15 seconds). After
//! that the next process to look finds it and marks it as failed, and it can be run again.

use std::process::ExitCode;
use tidemill::prelude::*;

/// Items that commit together.
const CHUNK: usize = 10;

/// Where it stumbles: in the sixth chunk, so that five are done.
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
        // The name, here "numbers", is what the position is saved under. It must not change between two runs.
        .reader(ItemsReader::new("numbers", 1..=100))
        .process(square)
        // What a crashed run has written of its last chunk is cut off when the next one opens the file.
        .writer(TextWriter::new("squares", "squares.txt", |square: &i64| square.to_string()))
        .build();
    App::new().job(Job::new("squares").step(squares)).run()
}
