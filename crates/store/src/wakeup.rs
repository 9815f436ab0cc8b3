//! Wake-ups: "look again, there may be work". They carry no data and may be lost, doubled or early; polling is the
//! safety net. Sent after commit, so the woken process sees what was written.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// The waiters of this process, by topic.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hub {
    topics: Arc<Mutex<HashMap<String, watch::Sender<u64>>>>,
}

impl Hub {
    pub(crate) fn subscribe(&self, topic: &str) -> Wakeup {
        let mut topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
        // Drop topics without waiters, so that the map does not grow for ever.
        topics.retain(|_, sender| sender.receiver_count() > 0);
        let sender = topics.entry(topic.to_owned()).or_insert_with(|| watch::channel(0).0);
        Wakeup { receiver: sender.subscribe() }
    }

    pub(crate) fn wake(&self, topic: &str) {
        let topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = topics.get(topic) {
            sender.send_modify(|count| *count = count.wrapping_add(1));
        }
    }

    /// For when notifications may have been missed.
    pub(crate) fn wake_all(&self) {
        let topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
        for sender in topics.values() {
            sender.send_modify(|count| *count = count.wrapping_add(1));
        }
    }
}

#[derive(Debug)]
pub struct Wakeup {
    receiver: watch::Receiver<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Woken {
    /// Woken since the last wait or since registration.
    Called,
    TimedOut,
}

impl Wakeup {
    /// Waits until woken, at most for `limit`. A wake-up since the last wait counts, so none is lost.
    #[crate::boxed]
    pub async fn wait(&mut self, limit: Duration) -> Woken {
        match tokio::time::timeout(limit, self.receiver.changed()).await {
            Ok(Ok(())) => Woken::Called,
            // The sender went away with its store: no wake-up will come, so sleep for the rest.
            Ok(Err(_)) => {
                tokio::time::sleep(limit).await;
                Woken::TimedOut
            }
            Err(_) => Woken::TimedOut,
        }
    }
}
