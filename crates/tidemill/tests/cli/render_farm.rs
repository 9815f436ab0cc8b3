//! The whole of rendering as it runs: the real nexrender with nodes that write real films, the real PostgreSQL, ffprobe and
//! our own workers as processes, which are killed, stopped and cut off. Each render ends once, with one whole file under its
//! final name or with a reason, and nothing is rendered again that is rendering or finished.

mod approval;
mod batch;
mod cancel;
mod crew;
mod death;
mod door;
mod farm;
mod frozen;
mod full;
mod ghost;
mod inventory;
mod mixed;
mod nas;
mod notify;
mod outage;
mod poison;
mod queue;
mod site;
mod target;
mod two_queues;
mod verdict;

use std::time::Duration;

/// Far longer than anything here takes on a busy machine, so that a hang is seen.
const PATIENCE: Duration = Duration::from_secs(300);
