//! CPU time of processes, as the kernel counts it.

use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

/// The kernel's unit: the same on all Linux systems.
const TICKS_PER_SECOND: f64 = 100.0;

/// The CPU time of this process, in seconds.
pub(super) fn own_seconds() -> Result<f64> {
    let [user, system, ..] = ticks(Path::new("/proc/self"))?;
    Ok((user + system) as f64 / TICKS_PER_SECOND)
}

/// The CPU time of a process and its children, including those that have ended.
pub(super) fn family_seconds(parent: u32) -> Result<f64> {
    let mut all: u64 = ticks(Path::new(&format!("/proc/{parent}")))?.iter().sum();
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"))?;
    for child in children.split_whitespace() {
        // It may have ended in between: then its parent has its time, at the next look.
        let [user, system, ..] = ticks(&Path::new("/proc").join(child)).unwrap_or_default();
        all += user + system;
    }
    Ok(all as f64 / TICKS_PER_SECOND)
}

/// User and system time, and the same of children that have ended.
fn ticks(process: &Path) -> Result<[u64; 4]> {
    let text = fs::read_to_string(process.join("stat"))?;
    // The name before the last bracket may have spaces.
    let (_, fields) = text.rsplit_once(')').context("the kernel names the process")?;
    let mut fields = fields.split_whitespace().skip(11);
    let mut next = || fields.next().context("the kernel tells it")?.parse().context("a number");
    Ok([next()?, next()?, next()?, next()?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn work_of_this_process_and_of_a_child_is_counted() {
        let before = family_seconds(std::process::id()).unwrap();

        Command::new("sh")
            .args(["-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"])
            .status()
            .unwrap();

        assert!(family_seconds(std::process::id()).unwrap() > before);
        assert!(own_seconds().unwrap() <= family_seconds(std::process::id()).unwrap());
    }
}
