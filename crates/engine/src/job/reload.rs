//! Reloads jobs whose files change while the program runs.

use crate::Service;
use crate::job::{JobRegistry, Launcher};
use crate::schedule::{ScheduleRegistry, register};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::audit::Actor;

/// How often to look at the files.
const PAUSE: Duration = Duration::from_secs(2);

/// Looks for changes; returns all jobs and schedules if there are any. May block.
pub type Look = dyn Fn() -> io::Result<Option<(JobRegistry, ScheduleRegistry)>> + Send + Sync;

/// Calls `look` every two seconds until the launcher's process ends. What it returns replaces the launcher's jobs.
/// Running executions keep the definition they began with, and the history of removed jobs stays.
#[crate::boxed]
pub async fn run(launcher: Launcher, look: Arc<Look>) {
    let mut service =
        Service::new("looking for changed job files", PAUSE).later().until_end_of(launcher.process());
    let mut unregistered = None;
    while service.is_due().await {
        let look = Arc::clone(&look);
        let looked = tokio::task::spawn_blocking(move || look()).await;
        match looked.unwrap_or_else(|panic| Err(io::Error::other(panic))) {
            Ok(Some((jobs, schedules))) => {
                launcher.set_jobs(jobs);
                unregistered = Some(schedules);
            }
            Ok(None) => {}
            Err(error) => {
                service.ended(Err::<(), _>(error));
                continue;
            }
        }
        let registered = match &unregistered {
            Some(schedules) => register(launcher.store(), schedules, &Actor::system()).await,
            None => Ok(()),
        };
        // Kept for the next round if the database does not answer.
        if registered.is_ok() {
            unregistered = None;
        }
        service.ended(registered);
    }
}
