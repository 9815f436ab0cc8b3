//! The object stores of a worker: how many files each takes at once, and whether it answered last.

use crate::locked;
use std::collections::BTreeMap;
use std::sync::Mutex;
use tidemill_domain::render::{Failure, Targets, Trouble};
use tokio::sync::Semaphore;

/// Files are large, and each is sent in several parts at once.
const UPLOADS_AT_ONCE: usize = 2;

#[derive(Debug)]
pub(super) struct Store {
    pub(super) uploads: Semaphore,
    /// For the one render that asks a store that was down.
    asks_again: Semaphore,
    trouble: Mutex<Option<Trouble>>,
}

impl Store {
    /// The stores of all targets, by name.
    pub(super) fn all(targets: &Targets) -> BTreeMap<String, Self> {
        targets.names().map(|name| (name.to_owned(), Self::new())).collect()
    }

    fn new() -> Self {
        Self {
            uploads: Semaphore::new(UPLOADS_AT_ONCE),
            asks_again: Semaphore::new(1),
            trouble: Mutex::default(),
        }
    }

    /// Asks the store. While it is down, one render at a time finds out whether it is back. The others go back to the queue
    /// at once, because one that hangs must not keep a worker from its other renders.
    pub(super) async fn ask<T>(
        &self,
        asking: impl Future<Output = Result<T, Trouble>>,
    ) -> Result<T, Trouble> {
        let known = locked(&self.trouble).clone();
        let _turn = match known {
            Some(trouble) => Some(self.asks_again.try_acquire().map_err(|_| trouble)?),
            None => None,
        };
        let answer = asking.await;
        let is_down = |trouble: &&Trouble| trouble.failure == Failure::TargetDown;
        *locked(&self.trouble) = answer.as_ref().err().filter(is_down).cloned();
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn a_store_that_was_down_is_asked_by_one_at_a_time_until_it_answers() {
        let store = Store::new();
        let down = || Trouble::new(Failure::TargetDown, "no answer");
        store.ask(async { Err::<(), _>(down()) }).await.unwrap_err();

        let (answer, answered) = oneshot::channel::<u8>();
        let hangs = store.ask(async { Ok(answered.await.unwrap()) });
        tokio::pin!(hangs);
        assert!(now(&mut hangs).await.is_none());
        let refused = store.ask(async { Ok(()) }).await;
        answer.send(7).unwrap();
        assert_eq!(hangs.await, Ok(7));

        assert_eq!(refused, Err(down()));
        let (one, other) = tokio::join!(store.ask(async { Ok(1) }), store.ask(async { Ok(2) }));
        assert_eq!((one, other), (Ok(1), Ok(2)));
    }

    /// What it has now.
    async fn now<T>(future: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = future => Some(done),
            () = std::future::ready(()) => None,
        }
    }
}
