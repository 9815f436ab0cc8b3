//! Ends what an earlier run of the step may have left running, before the command runs again.
//!
//! A process that dies takes its commands with it. A frozen process does not; when its execution is restarted on the
//! same machine, the new run ends the old command.

use crate::job::{StepFailure, StepTask};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::fs;
use std::time::Duration;
use tidemill_domain::code::Code;

/// Context key of the process group while the command runs.
const RUNNING: &str = "command.running";

/// How long a killed group may take to end.
const GONE_WITHIN: Duration = Duration::from_secs(10);

const PAUSE: Duration = Duration::from_millis(20);

/// Identifies a process group even if its number is reused.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct GroupTrace {
    /// The boot of the machine, and the PID namespace.
    machine: String,
    group: i32,
    /// Start of its leader, in ticks since the boot.
    started: u64,
}

impl GroupTrace {
    /// None if the system does not provide the data.
    fn of(group: Pid) -> Option<Self> {
        let started = status(group)?.started;
        Some(Self { machine: machine()?, group: group.as_raw_nonzero().get(), started })
    }

    /// None for 1, which is init, and for lower numbers, which mean every process.
    fn group(&self) -> Option<Pid> {
        if self.group > 1 { Pid::from_raw(self.group) } else { None }
    }

    /// The group, if it is still the same.
    fn alive(&self) -> Option<Pid> {
        self.group().filter(|group| Self::of(*group).as_ref() == Some(self))
    }
}

pub(super) fn remember(task: &mut StepTask, group: Pid) {
    match GroupTrace::of(group) {
        Some(trace) => task.context.put(RUNNING, json!(trace)),
        None => forget(task),
    }
}

pub(super) fn forget(task: &mut StepTask) {
    task.context.remove(RUNNING);
}

pub(super) async fn end(task: &mut StepTask) -> Result<(), StepFailure> {
    let saved = task.context.remove(RUNNING).and_then(|saved| GroupTrace::deserialize(saved).ok());
    let Some(group) = saved.and_then(|trace| trace.alive()) else { return Ok(()) };
    tracing::warn!("the command of an earlier run still runs as process group {group}; it is ended");
    let failed = |why: String| {
        let text = format!("the command of an earlier run still runs as process group {group}, and {why}");
        StepFailure::failed(Code::CommandFailed, text)
    };
    match kill_process_group(group, Signal::KILL) {
        // It may have just ended.
        Ok(()) | Err(Errno::SRCH) => {}
        Err(error) => return Err(failed(format!("cannot be ended: {error}"))),
    }
    let gone = async {
        while has_members(group) {
            tokio::time::sleep(PAUSE).await;
        }
    };
    tokio::time::timeout(GONE_WITHIN, gone).await.map_err(|_| failed("does not end".to_owned()))
}

/// The boot and the PID namespace; none without `/proc`.
fn machine() -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{} {}", boot.trim(), namespace.display()))
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Status {
    is_running: bool,
    group: i32,
    started: u64,
}

fn status(process: Pid) -> Option<Status> {
    parse(&fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero())).ok()?)
}

/// Parses `/proc/PID/stat`. The second field is a name in parentheses, which may itself contain parentheses.
fn parse(stat: &str) -> Option<Status> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = fields.split(' ').collect();
    Some(Status {
        // Zombies do nothing any more.
        is_running: !matches!(*fields.first()?, "Z" | "X" | "x"),
        group: fields.get(2)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
    })
}

fn has_members(group: Pid) -> bool {
    let Ok(entries) = fs::read_dir("/proc") else { return false };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|id| status(Pid::from_raw(id)?))
        .any(|found| found.is_running && found.group == group.as_raw_nonzero().get())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "4711 (a) b (c) S 1 4700 4700 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 887766 1 2";

    #[test]
    fn a_name_in_parentheses_does_not_shift_the_fields() {
        let found = parse(STAT).unwrap();

        assert_eq!(found, Status { is_running: true, group: 4700, started: 887_766 });
        assert!(!parse(&STAT.replace(" S ", " Z ")).unwrap().is_running);
        assert_eq!(parse("4711 (sh"), None);
    }

    #[test]
    fn another_process_with_the_same_number_is_not_the_same() {
        let own = rustix::process::getpid();
        let trace = GroupTrace::of(own).unwrap();
        let elsewhere = GroupTrace { machine: "another boot".to_owned(), ..trace.clone() };
        let another = GroupTrace { started: trace.started + 1, ..trace.clone() };

        assert_eq!(GroupTrace::deserialize(json!(trace)).unwrap().alive(), Some(own));
        assert_eq!((another.alive(), elsewhere.alive()), (None, None));
    }

    #[test]
    fn a_record_that_would_mean_everybody_is_not_read() {
        for group in [-7, 0, 1] {
            let saved = json!({ "machine": "m", "group": group, "started": 1 });
            assert_eq!(GroupTrace::deserialize(saved).unwrap().group(), None);
        }
    }
}
