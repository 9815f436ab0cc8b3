//! Finds and removes old files: parts of killed workers and abandoned renders, and staged files that came too late.

use super::folder::Folder;
use crate::blocking_pool::Pulse;
use std::time::Duration;
use tidemill_domain::render::name::part_of;
use tidemill_domain::render::output::{BroadcastDate, staged_for};
use tidemill_domain::render::{Failure, LocalPath, Trouble, Uid};
use tidemill_domain::time::Timestamp;

/// Removes parts not touched for `age`, in the output root and its folders per day.
pub(super) fn sweep(root: &Folder, age: Duration, now: Timestamp, pulse: &Pulse) -> Result<u64, Trouble> {
    let mut removed = 0;
    for name in root.names()? {
        if name.parse::<BroadcastDate>().is_ok() {
            let day = match root.enter(&name) {
                Ok(Some(day)) => day,
                Ok(None) => continue,
                // A link, or not a folder.
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

/// Staged files of ours not touched for `age`.
pub(super) fn left(
    staging: &Folder,
    age: Duration,
    now: Timestamp,
    pulse: &Pulse,
) -> Result<Vec<(Uid, LocalPath)>, Trouble> {
    let mut left = Vec::new();
    for name in staging.names()? {
        pulse.beat()?;
        if let Some(uid) = staged_for(&name)
            && is_old(staging, &name, age, now)?
        {
            left.push((uid, staging.path_of(&name)?));
        }
    }
    Ok(left)
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
    let is_old = is_old(folder, name, age, now)?;
    if is_old {
        folder.remove(name)?;
    }
    Ok(is_old)
}

fn is_old(folder: &Folder, name: &str, age: Duration, now: Timestamp) -> Result<bool, Trouble> {
    let Some(found) = folder.stat_of(name)? else { return Ok(false) };
    let touched = Timestamp::from_micros(found.touched.0.saturating_mul(1_000_000));
    Ok(found.is_file && now.since(touched) >= age)
}
