//! The reports of one wave: counted as they come, so that nobody waits for a single record.

use rdkafka::types::RDKafkaErrorCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use tokio::sync::Notify;

/// What is known of a record of a wave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Report {
    /// Nothing has been heard of it.
    Silent,
    /// It was not given to the producer.
    NotSent,
    /// The producer itself did not take it, and this is about this record.
    Refused(RDKafkaErrorCode),
    Delivered,
    /// It was sent, or was to be, and this is what came of it.
    Failed(RDKafkaErrorCode),
}

/// Records that were sent together.
#[derive(Debug)]
pub(crate) struct Wave {
    reports: Mutex<Vec<Report>>,
    left: AtomicUsize,
    has_failed: AtomicBool,
    done: Notify,
}

impl Wave {
    pub(crate) fn new(len: usize) -> Self {
        Self {
            reports: Mutex::new(vec![Report::Silent; len]),
            left: AtomicUsize::new(len),
            has_failed: AtomicBool::new(false),
            done: Notify::new(),
        }
    }

    /// The one report of a record.
    pub(crate) fn report(&self, n: usize, report: Report) {
        if matches!(report, Report::Failed(_)) {
            self.has_failed.store(true, Ordering::Release);
        }
        if let Some(place) = self.reports.lock().unwrap_or_else(PoisonError::into_inner).get_mut(n) {
            *place = report;
        }
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 || self.has_failed() {
            self.done.notify_waiters();
        }
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }

    /// Waits until there is a report of each, or one has failed: in a transaction the others then wait for its end.
    pub(crate) async fn decided(&self) {
        loop {
            let done = self.done.notified();
            if self.left.load(Ordering::Acquire) == 0 || self.has_failed() {
                return;
            }
            done.await;
        }
    }

    pub(crate) async fn done(&self) {
        loop {
            let done = self.done.notified();
            if self.left.load(Ordering::Acquire) == 0 {
                return;
            }
            done.await;
        }
    }

    pub(crate) fn reports(&self) -> Vec<Report> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Duration;

    #[tokio::test]
    async fn a_wave_is_decided_with_the_first_failure() {
        let wave = Arc::new(Wave::new(3));
        wave.report(0, Report::Delivered);
        let early = tokio::time::timeout(Duration::from_millis(20), wave.decided()).await;

        wave.report(2, Report::Failed(RDKafkaErrorCode::MessageTimedOut));
        tokio::time::timeout(Duration::from_secs(10), wave.decided()).await.unwrap();

        assert!(early.is_err() && wave.has_failed());
    }

    #[tokio::test]
    async fn a_wave_is_done_with_its_last_report() {
        let wave = Arc::new(Wave::new(2));
        wave.report(1, Report::Delivered);

        let early = tokio::time::timeout(Duration::from_millis(20), wave.done()).await;
        let reporting = wave.clone();
        let thread = std::thread::spawn(move || reporting.report(0, Report::NotSent));
        tokio::time::timeout(Duration::from_secs(10), wave.done()).await.unwrap();
        thread.join().unwrap();

        assert!(early.is_err());
        assert_eq!(wave.reports(), [Report::NotSent, Report::Delivered]);
    }
}
