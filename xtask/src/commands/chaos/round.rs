//! One round: a copy on an empty database, killed at random times until it is complete, and then looked at.

use super::Limits;
use super::ledger::{self, Expected};
use super::stand::{LEASE, Place, Program, Stand};
use crate::stages::now;
use fastrand::Rng;
use std::process::ExitStatus;
use std::time::{Duration, Instant};
use std::{fmt, thread};
use tidemill_testkit::Signal;

/// How much later than that a dead process must have been found.
const GRACE: Duration = Duration::from_secs(5);

/// A process is killed at some time before it is so old. Starting takes about a tenth of it.
const AGE_MILLIS_MAX: u64 = 900;

/// About so many rows are refused by the target: the chunk around each is written row by row, and killed there, too.
/// It divides neither rows nor chunks, so that they are at different places of their chunks.
const REFUSED: u64 = 11;

/// A run that nobody kills must have ended within this.
const UNDISTURBED: Duration = Duration::from_secs(300);

/// What a process ends with when the job still counts as running, or when it no longer counts itself.
const CONFLICT: i32 = 5;
const STILL_RUNNING: &str = "error[TM1003]";
const LEASE_LOST: &str = "error[TM030";

/// What was dealt, and what came of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Dealt {
    pub(super) kills: u32,
    /// Executions that did not come to their end; the other kills came before they had begun.
    hits: u32,
    /// Processes that gave themselves up.
    lost: u32,
    rows: u64,
    /// When the last process was gone.
    gone: Option<Instant>,
}

impl Dealt {
    pub(super) fn add(&mut self, other: &Self) {
        self.kills += other.kills;
        self.hits += other.hits;
        self.rows += other.rows;
        self.lost += other.lost;
    }
}

impl fmt::Display for Dealt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kills, hits, lost, rows, .. } = self;
        write!(f, "{kills} kills and {lost} lost leases, {hits} executions cut short, {rows} rows")
    }
}

/// Plays one round, with at most so many kills.
pub(super) fn play(
    place: Place<'_>,
    round: u32,
    program: &Program,
    kills: u32,
    rows: u64,
    chance: &mut Rng,
    limits: Limits<'_>,
) -> Result<Dealt, String> {
    let stand = Stand::new(place, round, program, limits)?;
    let every = (rows / REFUSED).max(1);
    let refused = format!("refused={every}");
    stand.succeed(&["job", "run", "prepare", "-p", &format!("rows={rows}"), "-p", &refused])?;
    let mut dealt = Dealt { rows, ..Dealt::default() };
    let mut is_complete = false;
    while dealt.kills < kills && !is_complete {
        is_complete = stand.kill_one(chance, &mut dealt)?;
    }
    if !is_complete {
        stand.finish(&mut dealt)?;
    }
    stand.succeed(&["job", "run", "verify"])?;
    let entries = stand.entries()?;
    dealt.hits = entries.iter().map(|entry| u32::from(entry.status == "FAILED")).sum();
    let faults = ledger::faults(&entries, Expected { rows, refused: rows / every });
    if faults.is_empty() { Ok(dealt) } else { Err(faults.join("; ")) }
}

impl Stand<'_> {
    /// Runs the copy and kills it at some time; true when it was complete before that.
    fn kill_one(&self, chance: &mut Rng, dealt: &mut Dealt) -> Result<bool, String> {
        let age = Duration::from_millis(chance.u64(..AGE_MILLIS_MAX));
        let mut child = self.start(&["job", "run", "copy"])?;
        if let Some(ended) = child.wait_deadline(age) {
            return self.ended_by_itself(ended, dealt);
        }
        // Fails only when it has ended in this very moment.
        dealt.kills += u32::from(child.signal(Signal::KILL).is_ok());
        let _reaped = child.wait_deadline(GRACE);
        dealt.gone = Some(now());
        // Nobody can go on before that.
        thread::sleep(LEASE);
        Ok(false)
    }

    /// Whether a copy that nobody killed is complete; an error when it should not have ended.
    fn ended_by_itself(&self, ended: ExitStatus, dealt: &mut Dealt) -> Result<bool, String> {
        self.check()?;
        let said = self.said();
        match ended.code() {
            Some(0) => Ok(true),
            Some(CONFLICT) if said.contains(STILL_RUNNING) => {
                let gone = dealt.gone.map_or(Duration::ZERO, |gone| now().duration_since(gone));
                if gone > LEASE + GRACE {
                    return Err(format!("a dead process was not found within {gone:?}"));
                }
                thread::sleep(LEASE / 10);
                Ok(false)
            }
            // The machine was too slow for so short a lease. It is a death like any other.
            Some(CONFLICT) if said.contains(LEASE_LOST) => {
                dealt.gone = Some(now());
                dealt.lost += 1;
                Ok(false)
            }
            _ => Err(format!("the copy ended by itself ({ended}): {said}")),
        }
    }

    /// Lets the copy come to its end.
    fn finish(&self, dealt: &mut Dealt) -> Result<(), String> {
        loop {
            let mut child = self.start(&["job", "run", "copy"])?;
            let ended = child.wait_deadline(UNDISTURBED).ok_or("the copy does not come to its end")?;
            if self.ended_by_itself(ended, dealt)? {
                return Ok(());
            }
        }
    }
}
