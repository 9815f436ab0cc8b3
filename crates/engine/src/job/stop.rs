//! How a run learns that it shall stop.

use tokio::sync::watch;

/// How urgently.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Urgency {
    /// Go on.
    None,
    /// At the end of the chunk in hand.
    AtChunkEnd,
    /// Now: the chunk in hand is rolled back.
    Now,
}

/// Tells one or many runs to stop.
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
    /// Asks to stop; never takes back what was asked before.
    pub fn ask(&self, urgency: Urgency) {
        self.sender.send_if_modified(|current| {
            let is_more = urgency > *current;
            *current = urgency.max(*current);
            is_more
        });
    }

    /// What those see who shall stop.
    pub fn signal(&self) -> StopSignal {
        StopSignal { receiver: self.sender.subscribe() }
    }
}

/// What a run looks at between two chunks.
#[derive(Clone, Debug)]
pub struct StopSignal {
    receiver: watch::Receiver<Urgency>,
}

impl StopSignal {
    /// Whether it shall stop at the end of the chunk in hand.
    pub fn is_asked(&self) -> bool {
        *self.receiver.borrow() >= Urgency::AtChunkEnd
    }

    /// Waits until somebody asks at least so urgently; for ever if nobody can any more.
    pub async fn asked(&self, urgency: Urgency) {
        let mut receiver = self.receiver.clone();
        if receiver.wait_for(|current| *current >= urgency).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
