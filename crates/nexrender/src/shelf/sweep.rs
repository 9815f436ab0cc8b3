//! Removing parts that nobody will ever publish: those of workers that were killed, of renders that were given up.

use super::folder::{Folder, is_file};
use crate::apart::Pulse;
use rustix::fs::Stat;
use std::time::Duration;
use tidemill_domain::render::name::part_of;
use tidemill_domain::render::output::BroadcastDate;
use tidemill_domain::render::{Failure, Trouble};
use tidemill_domain::time::Timestamp;

/// Removes the parts in the folder of all output, and in those of its days, that were not touched for `age`.
pub(super) fn sweep(root: &Folder, age: Duration, now: Timestamp, pulse: &Pulse) -> Result<u64, Trouble> {
    let mut removed = 0;
    for name in root.names()? {
        if name.parse::<BroadcastDate>().is_ok() {
            let day = match root.enter(&name) {
                Ok(Some(day)) => day,
                Ok(None) => continue,
                // A link, or no folder: none of ours.
                Err(trouble) if trouble.failure == Failure::NasRefused => continue,
                Err(trouble) => return Err(trouble),
            };
            for name in day.names()? {
                removed += u64::from(remove_if_old(&day, &name, age, now, pulse)?);
            }
        } else {
            removed += u64::from(remove_if_old(root, &name, age, now, pulse)?);
        }
    }
    Ok(removed)
}

fn remove_if_old(
    folder: &Folder,
    name: &str,
    age: Duration,
    now: Timestamp,
    pulse: &Pulse,
) -> Result<bool, Trouble> {
    pulse.beat()?;
    if part_of(name).is_none() {
        return Ok(false);
    }
    let Some(found) = folder.stat_of(name)? else { return Ok(false) };
    let is_old = is_file(&found) && now.since(touched(&found)) >= age;
    if is_old {
        folder.remove(name)?;
    }
    Ok(is_old)
}

fn touched(found: &Stat) -> Timestamp {
    Timestamp::from_micros(found.st_mtime.saturating_mul(1_000_000))
}
