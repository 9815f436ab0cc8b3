//! Counts the delivery reports of one wave, so that the sender waits once and not per record.

use rdkafka::types::RDKafkaErrorCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use tokio::sync::Notify;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Report {
    /// No report yet.
    Silent,
    /// Never given to the producer.
    NotSent,
    /// The producer rejected this record.
    Refused(RDKafkaErrorCode),
    Delivered,
    /// Sent, or queued for sending, and failed.
    Failed(RDKafkaErrorCode),
}

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

    /// Call it once per record.
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

    /// Waits until every record has a report or one has failed: in a transaction the others would wait for its end.
    pub(crate) async fn decided(&self) {
        self.wait_until(|wave| wave.is_done() || wave.has_failed()).await;
    }

    pub(crate) async fn done(&self) {
        self.wait_until(Self::is_done).await;
    }

    fn is_done(&self) -> bool {
        self.left.load(Ordering::Acquire) == 0
    }

    async fn wait_until(&self, is_over: impl Fn(&Self) -> bool) {
        loop {
            let changed = self.done.notified();
            if is_over(self) {
                return;
            }
            changed.await;
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
