//! The last words of a process.

use std::time::Duration;
use tidemill_engine::Process;

/// What is left for them of the 25 seconds in which everything of ours ends.
pub(super) const TIME: Duration = Duration::from_secs(2);

/// Says that this process ends. Who is not heard in time is found to be gone without it, only later.
pub(super) async fn say(process: &Process) {
    let _lapses_otherwise = tokio::time::timeout(TIME, process.stop()).await;
}
