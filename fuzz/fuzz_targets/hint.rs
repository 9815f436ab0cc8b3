//! Hints: any bytes are read and lowered to what was granted, or refused. The promises are those that the
//! property tests of the domain check, in the same words.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidemill_domain::hint::{Degree, HINT_BYTES_MAX, Hint, Level, rewrite};

#[path = "../../crates/domain/src/hint/tests/soundness.rs"]
mod soundness;

fuzz_target!(|bytes: &[u8]| soundness::check(bytes));
