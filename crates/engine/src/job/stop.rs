//! How a run is told to stop.

use tokio::sync::watch;

/// How urgently to stop.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub enum Urgency {
    /// Do not stop.
    #[default]
    None,
    /// At the end of the current chunk.
    AtChunkEnd,
    /// At once: the current chunk is rolled back.
    Now,
}

/// Stops one or many runs.
#[derive(Clone, Debug, Default)]
pub struct StopSwitch(watch::Sender<Urgency>);

impl StopSwitch {
    /// Requests a stop; never lowers the urgency.
    pub fn ask(&self, urgency: Urgency) {
        self.0.send_if_modified(|current| {
            let is_more = urgency > *current;
            *current = urgency.max(*current);
            is_more
        });
    }

    /// The receiving side, for runs.
    pub fn signal(&self) -> StopSignal {
        StopSignal(self.0.subscribe())
    }
}

/// Checked by a run between two chunks.
#[derive(Clone, Debug)]
pub struct StopSignal(watch::Receiver<Urgency>);

impl StopSignal {
    /// Whether to stop at the end of the current chunk.
    pub fn is_asked(&self) -> bool {
        *self.0.borrow() >= Urgency::AtChunkEnd
    }

    /// Waits for a request of at least this urgency; forever if the switch is gone.
    pub async fn asked(&self, urgency: Urgency) {
        let mut receiver = self.0.clone();
        if receiver.wait_for(|current| *current >= urgency).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
