//! A running command: it ends by itself, by its timeout, or because the step stops.

use super::{Group, Output, Signal, output, signal_of};
use crate::job::{StopSignal, Urgency};
use std::future::pending;
use std::io;
use std::pin::pin;
use std::process::ExitStatus;
use std::time::Duration;
use tokio::process::Child;
use tokio::time::sleep;

/// How long to wait for the output of a killed group. Only a process that left the group can still hold it open.
const DRAINED_WITHIN: Duration = Duration::from_secs(1);

/// `kill_after` is the time between SIGTERM and SIGKILL.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    pub(super) timeout: Option<Duration>,
    pub(super) kill_after: Duration,
}

#[derive(Debug)]
pub(super) enum CommandEnd {
    NotStarted(io::Error),
    Exited(i32),
    /// By a signal that was not ours.
    Killed(i32),
    TimedOut(Duration),
    Stopped,
}

/// Waits for the end of a command, ends it when it has to, and ends what is left in its group.
pub(super) async fn to_the_end(
    mut child: Child,
    group: Group,
    limits: Limits,
    stop: &StopSignal,
    output: &mut Output,
) -> io::Result<CommandEnd> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let mut reading = pin!(output::read(output, stdout, stderr));
    let mut is_read = false;
    let mut time_is_over = pin!(after(limits.timeout));
    let mut grace_is_over = pin!(after(None));
    let mut reason = None;
    let status: ExitStatus = loop {
        tokio::select! {
            // In this order, so that a command that never stops writing does not starve the others.
            biased;
            status = child.wait() => break status?,
            () = &mut grace_is_over => {
                tracing::warn!("the command did not end within {:?} and is killed", limits.kill_after);
                group.signal(Signal::KILL);
                grace_is_over.set(after(None));
            }
            () = stop.asked(Urgency::AtChunkEnd), if reason.is_none() => {
                reason = Some(CommandEnd::Stopped);
                group.signal(Signal::TERM);
                grace_is_over.set(after(Some(limits.kill_after)));
            }
            () = &mut time_is_over, if reason.is_none() => {
                reason = limits.timeout.map(CommandEnd::TimedOut);
                group.signal(Signal::TERM);
                grace_is_over.set(after(Some(limits.kill_after)));
            }
            () = &mut reading, if !is_read => is_read = true,
        }
    };
    group.disband().await;
    if !is_read && tokio::time::timeout(DRAINED_WITHIN, reading).await.is_err() {
        tracing::warn!("something that the command has started left its process group and still writes");
    }
    Ok(reason.unwrap_or_else(|| match (status.code(), signal_of(status)) {
        (Some(number), _) => CommandEnd::Exited(number),
        (None, signal) => CommandEnd::Killed(signal.unwrap_or_default()),
    }))
}

async fn after(time: Option<Duration>) {
    match time {
        Some(time) => sleep(time).await,
        None => pending().await,
    }
}
