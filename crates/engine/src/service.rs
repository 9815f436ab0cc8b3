//! A background loop: when the next round is due, how long it may take, how failures are logged, and when it ends.
//!
//! ```text
//! let mut service = Service::new("measuring pools", PAUSE);
//! while service.is_due().await {
//!     service.round(measure(&store)).await;
//! }
//! ```

use crate::{BoxFuture, Process, jitter_unit, pause_after};
use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::time::Duration;
use tidemill_domain::error_chain::ErrorChain;
use tidemill_domain::poll::{Pace, PollResult};
use tidemill_store::wakeup::Wakeup;
use tokio::sync::watch;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// The usual pause.
    Rest,
    /// The usual pause, or this one if it is shorter.
    AtMost(Duration),
    /// The shortest pause: work was found, so more is likely.
    Soon,
    /// Exactly this pause; zero if there is more to do.
    In(Duration),
    /// This was the last round.
    End,
}

impl From<()> for Next {
    fn from((): ()) -> Self {
        Self::Rest
    }
}

pub(crate) struct Service {
    /// For the log: "measuring pools".
    name: String,
    pace: Pace,
    /// The last pause after a successful round.
    last: Duration,
    limit: Duration,
    /// First and longest pause after failures in a row.
    retry: (Duration, Duration),
    wakeup: Option<Wakeup>,
    stop: BoxFuture<'static, ()>,
    /// The pause before the next round; none after the last one.
    next: Option<Duration>,
    failures: FailureLog,
}

impl Service {
    /// The first round is due at once, the others after pauses of this length.
    pub(crate) fn new(name: impl Into<String>, pause: Duration) -> Self {
        Self::polling(name, Pace { min: pause, max: pause })
    }

    /// The first round is due at once. Later pauses grow while rounds find nothing.
    pub(crate) fn polling(name: impl Into<String>, pace: Pace) -> Self {
        Self {
            name: name.into(),
            pace,
            last: pace.min,
            limit: Duration::MAX,
            retry: (pace.min, pace.max),
            wakeup: None,
            stop: Box::pin(std::future::pending()),
            next: Some(Duration::ZERO),
            failures: FailureLog::default(),
        }
    }

    /// Pauses before the first round, too.
    pub(crate) fn later(mut self) -> Self {
        self.next = Some(self.pause_after(PollResult::Nothing));
        self
    }

    /// Fails a [`round`](Self::round) that takes longer.
    pub(crate) fn limit(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// Pauses after failures grow from `first` to `longest`. By default they are the usual ones.
    pub(crate) fn retry(self, first: Duration, longest: Duration) -> Self {
        Self { retry: (first, longest), ..self }
    }

    /// A wake-up ends the pause. None after this call is missed.
    pub(crate) fn wake_by(self, wakeup: Wakeup) -> Self {
        Self { wakeup: Some(wakeup), ..self }
    }

    /// Ends with the process.
    pub(crate) fn until_end_of(self, process: &Process) -> Self {
        let process = process.clone();
        Self { stop: Box::pin(async move { _ = process.ended().await }), ..self }
    }

    /// Ends once `stop` is true, or its sender is gone.
    pub(crate) fn until_stopped(self, mut stop: watch::Receiver<bool>) -> Self {
        Self { stop: Box::pin(async move { _ = stop.wait_for(|stop| *stop).await }), ..self }
    }

    /// Waits for the next round; false if there is none. Cancel safe.
    pub(crate) async fn is_due(&mut self) -> bool {
        let Self { next, wakeup, stop, .. } = self;
        let Some(pause) = *next else { return false };
        let waiting = async {
            match wakeup {
                Some(wakeup) => _ = wakeup.wait(pause).await,
                None => tokio::time::sleep(pause).await,
            }
        };
        tokio::select! {
            biased;
            () = stop => *next = None,
            () = waiting => {}
        }
        next.is_some()
    }

    /// Runs one round within the limit, and plans the next one.
    pub(crate) async fn round<T: Into<Next>, E: Error>(&mut self, work: impl Future<Output = Result<T, E>>) {
        match tokio::time::timeout(self.limit, work).await {
            Ok(done) => self.ended(done),
            Err(_) => self.failed(&format!("it took longer than {:?}", self.limit)),
        }
    }

    /// Plans the next round after one has ended.
    pub(crate) fn ended<T: Into<Next>, E: Error>(&mut self, done: Result<T, E>) {
        let next = match done {
            Ok(next) => next.into(),
            Err(error) => return self.failed(&ErrorChain(&error)),
        };
        self.failures.succeeded(&self.name);
        self.next = match next {
            Next::Rest => Some(self.pause_after(PollResult::Nothing)),
            Next::AtMost(limit) => Some(self.pause_after(PollResult::Nothing).min(limit)),
            Next::Soon => Some(self.pause_after(PollResult::Work)),
            Next::In(pause) => Some(pause),
            Next::End => None,
        };
    }

    /// After a round that cannot fail, or has logged its failures itself.
    pub(crate) fn rest(&mut self) {
        self.ended(Ok::<_, Infallible>(()));
    }

    fn pause_after(&mut self, found: PollResult) -> Duration {
        self.last = self.pace.next(self.last, found, jitter_unit());
        self.last
    }

    fn failed(&mut self, why: &dyn fmt::Display) {
        let failures = self.failures.failed(&self.name, why);
        self.next = Some(pause_after(failures, self.retry.0, self.retry.1));
    }
}

/// Logs the first of several failures in a row as a warning, and their end.
#[derive(Debug, Default)]
pub(crate) struct FailureLog {
    count: u32,
}

impl FailureLog {
    /// Returns the number of failures in a row.
    pub(crate) fn failed(&mut self, what: &str, why: &dyn fmt::Display) -> u32 {
        self.count = self.count.saturating_add(1);
        match self.count {
            1 => tracing::warn!(error = %why, "{what} failed; will try again"),
            count => tracing::debug!(error = %why, "{what} failed {count} times; will try again"),
        }
        self.count
    }

    pub(crate) fn succeeded(&mut self, what: &str) {
        match std::mem::take(&mut self.count) {
            0 => {}
            count => tracing::info!("{what} works again, after {count} failures"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::JobBench;
    use std::io;
    use tidemill_store::process::PROCESS_ENDED;

    /// Longer than any test waits.
    const LONG: Duration = Duration::from_secs(3600);

    type Done<T> = Result<T, io::Error>;

    fn service() -> Service {
        Service::new("testing", LONG)
    }

    fn is_usual(pause: Option<Duration>) -> bool {
        pause.is_some_and(|pause| pause <= LONG && pause >= LONG.mul_f64(0.9))
    }

    #[tokio::test]
    async fn the_first_round_is_due_at_once_and_the_next_one_after_a_pause() {
        let mut service = service();

        assert!(service.is_due().await);
        service.round(async { Done::Ok(()) }).await;

        assert!(is_usual(service.next));
        assert!(is_usual(self::service().later().next));
    }

    #[tokio::test]
    async fn a_round_says_when_the_next_one_is_due() {
        let mut service = service();
        for (said, pause) in
            [(Next::In(Duration::from_secs(7)), Some(Duration::from_secs(7))), (Next::End, None)]
        {
            service.round(async { Done::Ok(said) }).await;
            assert_eq!(service.next, pause);
        }
        assert!(!service.is_due().await);
    }

    #[tokio::test]
    async fn pauses_grow_while_nothing_is_found_and_begin_anew_when_something_is() {
        let pace = Pace { min: Duration::from_secs(1), max: Duration::from_secs(3) };
        let mut service = Service::polling("testing", pace);
        for (said, least, most) in [
            (Next::Rest, 1.8, 2.0),
            (Next::Rest, 2.7, 3.0),
            (Next::AtMost(Duration::from_millis(500)), 0.5, 0.5),
            (Next::Rest, 2.7, 3.0),
            (Next::Soon, 0.9, 1.0),
        ] {
            service.round(async { Done::Ok(said) }).await;

            let pause = service.next.unwrap().as_secs_f64();
            assert!((least..=most).contains(&pause), "{said:?}: {pause}");
        }
    }

    #[tokio::test]
    async fn pauses_after_failures_grow_up_to_a_bound_and_begin_anew_after_success() {
        let (first, longest) = (Duration::from_millis(100), Duration::from_secs(1));
        let mut service = service().retry(first, longest);
        let mut pauses = Vec::new();
        for _ in 0..10 {
            service.round(async { Done::<()>::Err(io::ErrorKind::TimedOut.into()) }).await;
            pauses.push(service.next.unwrap());
        }

        assert!(
            pauses[0] <= first && pauses[9] >= longest / 2 && pauses.iter().all(|pause| *pause <= longest)
        );
        service.round(async { Done::Ok(()) }).await;
        assert!(is_usual(service.next));
        service.round(async { Done::<()>::Err(io::ErrorKind::TimedOut.into()) }).await;
        assert!(service.next.unwrap() <= first);
    }

    #[tokio::test]
    async fn without_other_wishes_the_pause_after_failures_does_not_grow() {
        let mut service = service();
        for count in 1..5 {
            service.round(async { Done::<()>::Err(io::ErrorKind::TimedOut.into()) }).await;

            assert!(service.next.is_some_and(|pause| pause >= LONG / 2 && pause <= LONG));
            assert_eq!(service.failures.count, count);
        }
    }

    #[tokio::test]
    async fn a_round_that_takes_too_long_has_failed() {
        let mut service = service().limit(Duration::from_millis(1));

        service.round(std::future::pending::<Done<()>>()).await;

        assert_eq!(service.failures.count, 1);
    }

    #[tokio::test]
    async fn who_is_told_to_stop_begins_no_round() {
        let (stop, told) = watch::channel(false);
        let mut service = service().until_stopped(told);
        service.round(async { Done::Ok(()) }).await;

        let (is_due, _) = tokio::join!(service.is_due(), async { stop.send(true) });

        assert!(!is_due && !service.is_due().await);
    }

    #[tokio::test]
    async fn a_cancelled_wait_is_waited_for_anew() {
        let mut service = service();
        service.round(async { Done::Ok(()) }).await;

        let is_cancelled = tokio::time::timeout(Duration::from_millis(1), service.is_due()).await.is_err();

        assert!(is_cancelled && is_usual(service.next));
    }

    #[tokio::test]
    async fn a_call_ends_the_pause_and_the_end_of_the_process_the_service() {
        let bench = JobBench::new().await.unwrap();
        let wakeup = bench.store().wakeup(PROCESS_ENDED);
        let mut woken = service().wake_by(wakeup);
        let mut stopped = service().until_end_of(bench.process());
        woken.round(async { Done::Ok(()) }).await;
        stopped.round(async { Done::Ok(()) }).await;

        let (is_due, is_due_still, told) =
            tokio::join!(woken.is_due(), stopped.is_due(), bench.process().stop());

        assert!(is_due && !is_due_still && told.is_ok());
    }
}
