//! Named points at which a test makes the real process die, as a power cut would, or freezes it.
//!
//! `TIDEMILL_CRASH_AT=name:n` aborts the process when it passes the point `name` for the n-th time; `TIDEMILL_FREEZE_AT`
//! stops it there, until somebody sends it `SIGCONT`. Without the feature `crash-points` a point is nothing at all, so
//! release builds ignore both variables.

/// Marks a point at which a crash test may kill or freeze the process.
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
    use rustix::process::{Signal, getpid, kill_process};

    static CRASH: Point = Point::named_by("TIDEMILL_CRASH_AT");
    static FREEZE: Point = Point::named_by("TIDEMILL_FREEZE_AT");

    if CRASH.is_reached(name) {
        // Not a panic: nothing may be unwound, flushed or rolled back by us.
        std::process::abort();
    }
    if FREEZE.is_reached(name) {
        // All of the process stops here, as it does when its host is suspended.
        let _stopped = kill_process(getpid(), Signal::STOP);
        // The signal stops the process once any of its threads takes it. Until then this one must not go on.
        while is_stop_pending() {
            std::thread::yield_now();
        }
    }
}

/// Whether a `SIGSTOP` was sent to this process and no thread has taken it yet.
#[cfg(feature = "crash-points")]
fn is_stop_pending() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let pending = status.lines().find_map(|line| line.strip_prefix("ShdPnd:"));
    let pending = pending.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    let stop = rustix::process::Signal::STOP.as_raw();
    pending >> (stop - 1) & 1 == 1
}

/// A point that a variable names, and how often it was passed.
#[cfg(feature = "crash-points")]
struct Point {
    variable: &'static str,
    target: std::sync::OnceLock<Option<(String, u64)>>,
    passed: std::sync::atomic::AtomicU64,
}

#[cfg(feature = "crash-points")]
impl Point {
    const fn named_by(variable: &'static str) -> Self {
        let passed = std::sync::atomic::AtomicU64::new(0);
        Self { variable, target: std::sync::OnceLock::new(), passed }
    }

    /// Passes it if it is this one; whether it is for the time that was named.
    fn is_reached(&self, name: &str) -> bool {
        let target = self.target.get_or_init(|| std::env::var(self.variable).ok().as_deref().and_then(parse));
        let Some((target, n)) = target else { return false };
        target == name && self.passed.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1 == *n
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
