//! The object stores of a worker: how many files each takes at once, and whether it answered last.

use crate::locked;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;
use tidemill_domain::render::{Failure, RenderId, Targets, Trouble};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Files are large, and each is sent in several parts at once.
const UPLOADS_AT_ONCE: usize = 2;

#[derive(Debug)]
pub(super) struct Store {
    uploads: Semaphore,
    /// For the one render that asks a store that was down.
    asks_again: Semaphore,
    trouble: Mutex<Option<Trouble>>,
    refusal: Mutex<Option<Refusal>>,
}

/// Of a store that did not take the last file. It may answer questions nevertheless.
#[derive(Debug)]
struct Refusal {
    trouble: Trouble,
    /// The one render that tries again.
    tried_by: Option<RenderId>,
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
            refusal: Mutex::default(),
        }
    }

    /// Asks the store, which has this long to answer, if there is a limit. While it is down, one render at a time finds out
    /// whether it is back. The others go back to the queue at once, because one that hangs must not keep a worker from its other
    /// renders.
    pub(super) async fn ask<T>(
        &self,
        within: Option<Duration>,
        asking: impl Future<Output = Result<T, Trouble>>,
    ) -> Result<T, Trouble> {
        let known = locked(&self.trouble).clone();
        let _turn = match known {
            Some(trouble) => Some(self.asks_again.try_acquire().map_err(|_| trouble)?),
            None => None,
        };
        let answer = match within {
            None => asking.await,
            Some(within) => timeout(within, asking).await.unwrap_or_else(|_| Err(no_answer(within))),
        };
        *locked(&self.trouble) = answer.as_ref().err().filter(|trouble| is_down(trouble)).cloned();
        answer
    }

    /// Whether this render may upload. While the store takes no files, only one render may, until it [leaves](Self::leave):
    /// the others need not check and copy their files for that.
    pub(super) fn admit(&self, render: RenderId) -> Result<(), Trouble> {
        let mut refusal = locked(&self.refusal);
        let Some(Refusal { trouble, tried_by }) = &mut *refusal else { return Ok(()) };
        if *tried_by.get_or_insert(render) == render { Ok(()) } else { Err(trouble.clone()) }
    }

    /// The worker does nothing more with this render.
    pub(super) fn leave(&self, render: RenderId) {
        if let Some(refusal) = &mut *locked(&self.refusal) {
            refusal.tried_by = refusal.tried_by.filter(|by| *by != render);
        }
    }

    /// Uploads a file. Only a file that the store takes shows that it takes files again.
    pub(super) async fn upload(
        &self,
        render: RenderId,
        uploading: impl Future<Output = Result<(), Trouble>>,
    ) -> Result<(), Trouble> {
        let _turn = self.uploads.acquire().await.ok();
        // Perhaps the store has refused a file meanwhile.
        self.admit(render)?;
        let done = uploading.await;
        match &done {
            Ok(()) => *locked(&self.refusal) = None,
            Err(trouble) if is_down(trouble) => {
                *locked(&self.refusal) = Some(Refusal { trouble: trouble.clone(), tried_by: None });
            }
            Err(_) => {}
        }
        done
    }
}

fn no_answer(within: Duration) -> Trouble {
    Trouble::new(Failure::TargetDown, &format!("the store has not answered within {within:?}"))
}

fn is_down(trouble: &Trouble) -> bool {
    trouble.failure == Failure::TargetDown
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn a_store_that_was_down_is_asked_by_one_at_a_time_until_it_answers() {
        let store = Store::new();
        let down = || Trouble::new(Failure::TargetDown, "no answer");
        store.ask(None, async { Err::<(), _>(down()) }).await.unwrap_err();

        let (answer, answered) = oneshot::channel::<u8>();
        let hangs = store.ask(None, async { Ok(answered.await.unwrap()) });
        tokio::pin!(hangs);
        assert!(now(&mut hangs).await.is_none());
        let refused = store.ask(None, async { Ok(()) }).await;
        answer.send(7).unwrap();
        assert_eq!(hangs.await, Ok(7));

        assert_eq!(refused, Err(down()));
        let (one, other) = tokio::join!(store.ask(None, async { Ok(1) }), store.ask(None, async { Ok(2) }));
        assert_eq!((one, other), (Ok(1), Ok(2)));
    }

    #[tokio::test]
    async fn a_store_that_has_not_answered_in_time_is_known_to_be_down() {
        let store = Store::new();
        let hangs = || store.ask(None, std::future::pending::<Result<(), Trouble>>());

        let soon = Some(Duration::from_millis(1));
        let late = store.ask(soon, std::future::pending::<Result<(), Trouble>>()).await.unwrap_err();

        assert_eq!(late.failure, Failure::TargetDown);
        let first = hangs();
        tokio::pin!(first);
        assert!(now(&mut first).await.is_none(), "one finds out whether it is back");
        assert_eq!(hangs().await, Err(late));
    }

    #[tokio::test]
    async fn a_store_that_takes_no_files_is_tried_by_one_render_until_it_takes_one() {
        let (store, one, other) = (Store::new(), RenderId::new(1), RenderId::new(2));
        let down = || Trouble::new(Failure::TargetDown, "403");
        assert_eq!((store.admit(one), store.admit(other)), (Ok(()), Ok(())));
        store.upload(one, async { Err(down()) }).await.unwrap_err();

        store.ask(None, async { Ok(()) }).await.unwrap();
        assert_eq!((store.admit(one), store.admit(other)), (Ok(()), Err(down())));
        assert_eq!(store.upload(other, async { Ok(()) }).await, Err(down()), "it is not its turn");
        store.leave(other);
        assert_eq!((store.admit(one), store.admit(other)), (Ok(()), Err(down())));
        store.leave(one);
        assert_eq!((store.admit(other), store.admit(one)), (Ok(()), Err(down())));
        store.upload(other, async { Ok(()) }).await.unwrap();

        assert_eq!((store.admit(one), store.admit(other)), (Ok(()), Ok(())));
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
