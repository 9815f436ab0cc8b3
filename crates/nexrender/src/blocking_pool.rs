//! File work on its own threads, given up when it makes no progress.
//!
//! A NAS that hangs blocks a thread for as long as it likes. The runtime waits for its own blocking threads when it
//! ends, so this work uses other threads, a limited number of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use tidemill_domain::render::{Failure, Trouble};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

/// Threads that may work, or hang, at once.
const THREADS_MAX: usize = 16;

#[derive(Debug)]
pub(crate) struct BlockingPool {
    places: Arc<Semaphore>,
    patience: Duration,
}

/// The heartbeat of some work; it also tells the work that it was given up.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    beats: AtomicU64,
    is_given_up: AtomicBool,
}

impl Pulse {
    /// Reports progress. Work that was given up ends here, because another worker may be doing it already.
    pub(crate) fn beat(&self) -> Result<(), Trouble> {
        self.beats.fetch_add(1, Ordering::Relaxed);
        if self.is_given_up() {
            return Err(Trouble::new(Failure::NasFailed, "nobody waits for this file any more"));
        }
        Ok(())
    }

    pub(crate) fn is_given_up(&self) -> bool {
        self.is_given_up.load(Ordering::Acquire)
    }
}

/// Gives the work up when the waiting future is dropped.
struct GiveUpOnDrop(Arc<Pulse>);

impl Drop for GiveUpOnDrop {
    fn drop(&mut self) {
        self.0.is_given_up.store(true, Ordering::Release);
    }
}

impl BlockingPool {
    /// Work without progress for `patience` is given up.
    pub(crate) fn new(patience: Duration) -> Self {
        Self { places: Arc::new(Semaphore::new(THREADS_MAX)), patience }
    }

    /// `what` names the work in messages.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        what: impl Into<String>,
        work: impl FnOnce(&Arc<Pulse>) -> Result<T, Trouble> + Send + 'static,
    ) -> Result<T, Trouble> {
        let what = what.into();
        let Ok(Ok(place)) = timeout(self.patience, self.places.clone().acquire_owned()).await else {
            let message =
                format!("{what}: {THREADS_MAX} earlier calls of the file system have not come back");
            return Err(Trouble::new(Failure::NasFailed, &message));
        };
        let pulse = Arc::new(Pulse::default());
        let _give_up = GiveUpOnDrop(pulse.clone());
        let (tell, mut told) = oneshot::channel();
        let theirs = pulse.clone();
        let started = thread::Builder::new().name("tidemill-files".to_owned()).spawn(move || {
            let done = work(&theirs);
            drop(place);
            // The receiver may be gone.
            let _heard = tell.send(done);
        });
        if let Err(error) = started {
            let message = format!("{what}: no thread could be started: {error}");
            return Err(Trouble::new(Failure::Unexpected, &message));
        }
        loop {
            let beats = pulse.beats.load(Ordering::Relaxed);
            match timeout(self.patience, &mut told).await {
                Ok(Ok(done)) => return done,
                Ok(Err(_)) => {
                    let message = format!("{what}: the thread has broken off");
                    return Err(Trouble::new(Failure::Unexpected, &message));
                }
                Err(_) if pulse.beats.load(Ordering::Relaxed) == beats => {
                    let message = format!("{what}: nothing has moved for {:?}", self.patience);
                    return Err(Trouble::new(Failure::NasFailed, &message));
                }
                Err(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    const SHORT: Duration = Duration::from_millis(40);

    #[tokio::test]
    async fn work_that_hangs_is_given_up_and_learns_of_it() {
        let blocking_pool = BlockingPool::new(SHORT);
        let (release, hang) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();

        let trouble = blocking_pool
            .run("/mnt/nas", move |pulse| {
                let _released = hang.recv();
                tell.send(pulse.beat().is_err()).unwrap();
                Ok(())
            })
            .await
            .unwrap_err();

        assert_eq!(trouble.failure, Failure::NasFailed);
        assert!(trouble.message.starts_with("/mnt/nas: nothing has moved"), "{}", trouble.message);
        release.send(()).unwrap();
        assert!(
            told.recv_timeout(Duration::from_secs(30)).unwrap(),
            "the work goes on although nobody waits"
        );
    }

    #[tokio::test]
    async fn work_that_moves_may_take_longer_than_anybody_would_wait() {
        let blocking_pool = BlockingPool::new(SHORT * 5);

        let done = blocking_pool.run("a large file", |pulse| {
            for _ in 0..40 {
                thread::sleep(SHORT / 4);
                pulse.beat()?;
            }
            Ok(7)
        });

        assert_eq!(done.await, Ok(7));
    }

    #[tokio::test]
    async fn whoever_hangs_does_not_take_every_thread() {
        let blocking_pool = BlockingPool::new(SHORT);
        let (release, hang) = mpsc::channel::<()>();
        let hang = Arc::new(std::sync::Mutex::new(hang));
        for _ in 0..THREADS_MAX {
            let hang = hang.clone();
            let hung = blocking_pool.run("x", move |_| {
                let _released = hang.lock().unwrap().recv();
                Ok(())
            });
            hung.await.unwrap_err();
        }

        let refused = blocking_pool.run("y", |_| Ok(())).await.unwrap_err();
        drop(release);
        let mut again = blocking_pool.run("z", |_| Ok(())).await;
        for _ in 0..100 {
            if again.is_ok() {
                break;
            }
            again = blocking_pool.run("z", |_| Ok(())).await;
        }

        assert!(refused.message.contains("have not come back"), "{}", refused.message);
        assert_eq!(again, Ok(()));
    }
}
