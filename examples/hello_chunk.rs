//! The smallest job: it reads numbers, doubles them, and writes them to a file, ten at a time.
//!
//! ```text
//! cargo run --example hello_chunk -- job run hello
//! ```

use std::process::ExitCode;
use tidemill::prelude::*;

fn main() -> ExitCode {
    // A step works in chunks. Ten items commit together, with the position of the reader.
    let double = Step::chunk("double", 10)
        .reader(ItemsReader::new("numbers", 1..=100))
        // Return `Ok(None)` to filter the item out.
        .process(|number: &i64| Ok(Some(number * 2)))
        // The file gets its final name when it is complete.
        .writer(TextWriter::new("doubled", "doubled.txt", |number: &i64| number.to_string()))
        .build();
    // The program has the whole command line of Tidemill; see `--help`.
    App::new().job(Job::new("hello").step(double)).run()
}
