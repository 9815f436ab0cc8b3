//! The smallest job: numbers are read, doubled, and written to a file, ten at a time.
//!
//! ```text
//! cargo run --example hello_chunk -- job run hello
//! ```

use std::process::ExitCode;
use tidemill::prelude::*;

fn main() -> ExitCode {
    // A step works in chunks. What ten items have led to is committed together, with the position of the reader.
    let double = Step::chunk("double", 10)
        .reader(ItemsReader::new("numbers", 1..=100))
        // None instead of Some would leave the item out.
        .process(|number: &i64| Ok(Some(number * 2)))
        // The file appears under its name when it is complete.
        .writer(TextWriter::new("doubled", "doubled.txt", |number: &i64| number.to_string()))
        .build();
    // The program has the whole command line of Tidemill; see `--help`.
    App::new().job(Job::new("hello").step(double)).run()
}
