//! Films that go on being rendered for as long as somebody looks. In each round one comes out spoilt, one fails at its first
//! attempt, and both are rendered again.

use super::farm::DemoFarm;
use super::{Nas, submit, until};
use crate::context::Context;
use crate::report::Failure;
use std::path::Path;
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::process::ProcessId;
use tidemill_store::Store;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The films of a round, by the players that they show.
const PLAYERS: [&str; 3] = ["FEDOR HOLZ", "LIV BOEREE", "임요환"];

/// How long what is in hand may take when nobody looks any more.
const STOP_TIME: Duration = Duration::from_secs(5);

pub(in crate::commands::demo) struct Films {
    store: Store,
    actor: Actor,
    stop: watch::Sender<bool>,
    working: JoinHandle<()>,
}

impl Films {
    pub(in crate::commands::demo) fn start(
        context: &Context,
        store: &Store,
        folder: &Path,
        process: ProcessId,
    ) -> Result<Self, Failure> {
        let worker = Nas::make(folder)?.worker(store, &DemoFarm::slow(), process, "renderer-3")?;
        let (stop, told) = watch::channel(false);
        let working = tokio::spawn(async move { worker.run(told).await });
        Ok(Self { store: store.clone(), actor: context.actor(), stop, working })
    }

    pub(in crate::commands::demo) async fn play(&self) -> Result<(), Failure> {
        submit(&self.store, &self.actor, &PLAYERS).await?;
        until("the films of a round", async || {
            let mut tx = self.store.read().await?;
            let counts = tx.renders().counts().await?;
            Ok(counts.by_status.keys().all(|status| status.is_terminal()))
        })
        .await
    }

    pub(in crate::commands::demo) async fn end(self) {
        self.stop.send_replace(true);
        let _left_to_itself = tokio::time::timeout(STOP_TIME, self.working).await;
    }
}
