//! The button of the demo: kills one of its workers, as a power cut would. That worker is a process of its own, and it is
//! killed for real.

use super::processes::Supervisor;
use std::sync::Arc;
use tidemill_domain::process::ProcessId;
use tidemill_server::action::{CannotPerform, ExtraAction, Performed, Performing};
use tidemill_store::{Store, StoreError};

/// More processes than the demo ever has at once.
const PROCESSES_MAX: u32 = 1_000;

/// Kills the worker that holds most.
pub(super) struct KillWorker {
    pub(super) workers: Arc<Supervisor>,
    pub(super) store: Store,
}

impl std::fmt::Debug for KillWorker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KillWorker").finish_non_exhaustive()
    }
}

struct Victim {
    id: ProcessId,
    name: String,
    pid: u32,
    leases: usize,
}

impl KillWorker {
    /// Of our workers that live the one with the most leases, by what the database says.
    async fn choose(&self) -> Result<Option<Victim>, StoreError> {
        let pids = self.workers.pids();
        let mut tx = self.store.read().await?;
        let now = tx.now().await?;
        let mut chosen: Option<Victim> = None;
        for process in tx.processes().list(PROCESSES_MAX).await? {
            if !process.state.is_live(now) || !pids.contains(&process.identity.pid) {
                continue;
            }
            let leases = tx.leases().of_process(process.id).await?.len();
            if chosen.as_ref().is_none_or(|chosen| chosen.leases < leases) {
                let (name, pid) = (process.identity.name, process.identity.pid);
                chosen = Some(Victim { id: process.id, name, pid, leases });
            }
        }
        Ok(chosen)
    }
}

impl ExtraAction for KillWorker {
    fn name(&self) -> &'static str {
        "demo.kill"
    }

    fn title(&self) -> &'static str {
        "Kill a worker (kill -9)"
    }

    fn explanation(&self) -> &'static str {
        "The worker process that holds the most leases gets SIGKILL. Look at the leases below: in a few seconds they have \
         other owners and a higher epoch. A new worker comes after that."
    }

    fn unavailable(&self) -> Option<String> {
        let none_yet = "There is no worker yet: the demo starts some when it has verified itself.";
        self.workers.pids().is_empty().then(|| none_yet.to_owned())
    }

    fn perform(&self) -> Performing<'_> {
        Box::pin(async {
            let cannot =
                |why: String| CannotPerform { why, remedy: "wait a few seconds, and try again".to_owned() };
            let chosen = self.choose().await.map_err(|error| cannot(error.to_string()))?;
            match chosen {
                Some(Victim { id, name, pid, leases }) if self.workers.kill(pid) => Ok(Performed {
                    object: format!("process/{id}"),
                    story: format!("{name}, process {pid}, got SIGKILL while it held {leases} leases"),
                }),
                _ => Err(cannot(
                    "no worker runs that could be killed; the demo starts some when it has verified itself"
                        .to_owned(),
                )),
            }
        })
    }
}
