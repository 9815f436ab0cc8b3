//! Named points at which a test makes the real process die, as a power cut would.
//!
//! `TIDEMILL_CRASH_AT=name:n` aborts the process when it passes the point `name` for the n-th time. Without the
//! feature `crash-points` a point is nothing at all, so release builds ignore the variable.

/// Marks a point at which a crash test may kill the process.
///
/// ```
/// tidemill_store::crash_point!("after_commit");
/// ```
#[macro_export]
macro_rules! crash_point {
    ($name:literal) => {
        $crate::crash::pass($name)
    };
}

/// Passes the point `name`; use [`crash_point!`](crate::crash_point).
#[cfg(not(feature = "crash-points"))]
#[inline(always)]
pub fn pass(_name: &str) {}

/// Passes the point `name`; use [`crash_point!`](crate::crash_point).
#[cfg(feature = "crash-points")]
pub fn pass(name: &str) {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    static PASSED: AtomicU64 = AtomicU64::new(0);
    static TARGET: LazyLock<Option<(String, u64)>> =
        LazyLock::new(|| std::env::var("TIDEMILL_CRASH_AT").ok().as_deref().and_then(parse));

    if let Some((target, n)) = TARGET.as_ref()
        && target == name
        && PASSED.fetch_add(1, Ordering::SeqCst) + 1 == *n
    {
        // Not a panic: nothing may be unwound, flushed or rolled back by us.
        std::process::abort();
    }
}

/// `name:n`, or `name` for the first time.
#[cfg(feature = "crash-points")]
fn parse(text: &str) -> Option<(String, u64)> {
    match text.split_once(':') {
        Some((name, n)) => Some((name.to_owned(), n.parse().ok()?)),
        None => Some((text.to_owned(), 1)),
    }
}
