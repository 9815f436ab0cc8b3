//! How a run is told to stop.

use tokio::sync::watch;

/// How urgently to stop.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Urgency {
    /// Do not stop.
    None,
    /// At the end of the current chunk.
    AtChunkEnd,
    /// At once: the current chunk is rolled back.
    Now,
}

/// Stops one or many runs.
#[derive(Clone, Debug)]
pub struct StopSwitch {
    sender: watch::Sender<Urgency>,
}

impl Default for StopSwitch {
    fn default() -> Self {
        Self { sender: watch::Sender::new(Urgency::None) }
    }
}

impl StopSwitch {
    /// Requests a stop; never lowers the urgency.
    pub fn ask(&self, urgency: Urgency) {
        self.sender.send_if_modified(|current| {
            let is_more = urgency > *current;
            *current = urgency.max(*current);
            is_more
        });
    }

    /// The receiving side, for runs.
    pub fn signal(&self) -> StopSignal {
        StopSignal { receiver: self.sender.subscribe() }
    }
}

/// Checked by a run between two chunks.
#[derive(Clone, Debug)]
pub struct StopSignal {
    receiver: watch::Receiver<Urgency>,
}

impl StopSignal {
    /// Whether to stop at the end of the current chunk.
    pub fn is_asked(&self) -> bool {
        *self.receiver.borrow() >= Urgency::AtChunkEnd
    }

    /// Waits for a request of at least this urgency; forever if the switch is gone.
    pub async fn asked(&self, urgency: Urgency) {
        let mut receiver = self.receiver.clone();
        if receiver.wait_for(|current| *current >= urgency).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
