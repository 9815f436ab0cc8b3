//! Named points at which a test kills the process, as a power cut would, or freezes it.
//!
//! `TIDEMILL_CRASH_AT=name:n` aborts the process when it passes the point `name` for the n-th time;
//! `TIDEMILL_FREEZE_AT` stops it there until it receives `SIGCONT`. Without the feature `crash-points` a point compiles
//! to nothing, so release builds ignore both variables.

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

/// Use [`crash_point!`](crate::crash_point).
#[cfg(not(feature = "crash-points"))]
#[inline(always)]
pub fn pass(_name: &str) {}

/// Use [`crash_point!`](crate::crash_point).
#[cfg(feature = "crash-points")]
pub fn pass(name: &str) {
    use rustix::process::{Signal, getpid, kill_process};

    static CRASH: Point = Point::named_by("TIDEMILL_CRASH_AT");
    static FREEZE: Point = Point::named_by("TIDEMILL_FREEZE_AT");

    if CRASH.is_reached(name) {
        // Not a panic: it must not unwind, flush or roll back anything.
        std::process::abort();
    }
    if FREEZE.is_reached(name) {
        // Stops the whole process, as suspending its host would.
        let _stopped = kill_process(getpid(), Signal::STOP);
        // The process stops once any of its threads takes the signal. This thread must not go on until then.
        while is_stop_pending() {
            std::thread::yield_now();
        }
    }
}

/// Whether a `SIGSTOP` is pending that no thread has taken yet.
#[cfg(feature = "crash-points")]
fn is_stop_pending() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let pending = status.lines().find_map(|line| line.strip_prefix("ShdPnd:"));
    let pending = pending.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    let stop = rustix::process::Signal::STOP.as_raw();
    pending >> (stop - 1) & 1 == 1
}

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

    /// Counts a pass of this point; whether it is the n-th.
    fn is_reached(&self, name: &str) -> bool {
        let target = self.target.get_or_init(|| std::env::var(self.variable).ok().as_deref().and_then(parse));
        let Some((target, n)) = target else { return false };
        target == name && self.passed.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1 == *n
    }
}

/// `name:n`; `name` alone means the first time.
#[cfg(feature = "crash-points")]
fn parse(text: &str) -> Option<(String, u64)> {
    match text.split_once(':') {
        Some((name, n)) => Some((name.to_owned(), n.parse().ok()?)),
        None => Some((text.to_owned(), 1)),
    }
}
