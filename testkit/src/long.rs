//! How much a sweep does: a short form by default, all of it with `cargo xtask test --long`.

use std::env;

/// Makes sweeps run in full.
pub const LONG: &str = "TIDEMILL_TEST_LONG";

/// The first value when sweeps run in full, otherwise the second.
pub fn long_or<T>(long: T, short: T) -> T {
    if env::var_os(LONG).is_some() { long } else { short }
}
