//! `cargo xtask chaos partitions`: a step in many parts, run by several processes of which one is killed again and
//! again, the one that runs the job included.

use super::stand::{Place, Program, Stand};
use super::{Limits, Order};
use crate::stages::now;
use fastrand::Rng;
use std::fmt;
use std::thread;
use std::time::{Duration, Instant};
use tidemill_testkit::{Guarded, Signal};

/// Between two kills lies a time from this range, in milliseconds.
const PAUSES: std::ops::Range<u64> = 300..2_000;

/// A copy that nobody disturbs any more must be complete within this.
const UNDISTURBED: Duration = Duration::from_secs(600);

/// What came of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Dealt {
    pub(super) kills: u32,
    /// Kills of the process that was started to run the job; others run it after its death.
    managers: u32,
    executions: usize,
    rounds: u32,
    rows: u64,
}

impl fmt::Display for Dealt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kills, managers, executions, rounds, rows } = self;
        write!(
            f,
            "{rounds} rounds: {kills} kills, {managers} of them of the first manager; {executions} executions, \
             {rows} rows; every row once, every counter right"
        )
    }
}

/// The processes of one round.
struct Crew<'a> {
    stand: &'a Stand<'a>,
    workers: Vec<Guarded>,
    /// The process that was started to run the job, until it ends.
    manager: Option<Guarded>,
}

/// Rounds on empty databases, until all kills have been dealt.
pub(super) fn play(
    place: Place<'_>,
    program: &Program,
    order: Order,
    limits: Limits<'_>,
) -> Result<Dealt, String> {
    let mut chance = Rng::with_seed(order.seed);
    let mut dealt = Dealt::default();
    while dealt.kills < order.kills {
        dealt.rounds += 1;
        let stand = Stand::new(place, dealt.rounds, program, limits)?;
        stand.succeed(&["job", "run", "prepare", "-p", &format!("rows={}", order.rows)])?;
        round(&stand, order, &mut chance, &mut dealt)
            .map_err(|problem| format!("round {}, --seed {}: {problem}", dealt.rounds, order.seed))?;
        println!("{dealt}");
    }
    Ok(dealt)
}

fn round(stand: &Stand<'_>, order: Order, chance: &mut Rng, dealt: &mut Dealt) -> Result<(), String> {
    let mut crew = Crew { stand, workers: Vec::new(), manager: Some(stand.start(&["job", "run", "copy"])?) };
    for _worker in 0..order.workers {
        crew.hire()?;
    }
    let mut undisturbed: Option<Instant> = None;
    while !crew.is_complete()? {
        stand.check()?;
        thread::sleep(Duration::from_millis(chance.u64(PAUSES)));
        if dealt.kills < order.kills {
            crew.kill_one(chance, dealt)?;
        } else if now().duration_since(*undisturbed.get_or_insert_with(now)) > UNDISTURBED {
            return Err(format!("not complete {UNDISTURBED:?} after the last kill"));
        }
    }
    drop(crew);
    stand.succeed(&["job", "run", "verify"])?;
    let entries = stand.entries()?;
    dealt.executions += entries.len();
    dealt.rows += order.rows;
    let newest = entries.first();
    // The divided step and its parts: what the first counts is what all parts of all executions counted.
    let whole = newest.map(|entry| stand.written(&entry.id, "copy")).transpose()?;
    match whole {
        Some(written) if written == order.rows => Ok(()),
        other => Err(format!("{} rows were copied, and {other:?} were counted", order.rows)),
    }
}

impl Crew<'_> {
    fn hire(&mut self) -> Result<(), String> {
        self.workers.push(self.stand.start(&["job", "work", "--slots", "2"])?);
        Ok(())
    }

    /// Kills anybody, and hires another worker for one that was killed.
    fn kill_one(&mut self, chance: &mut Rng, dealt: &mut Dealt) -> Result<(), String> {
        let all = self.workers.len() + usize::from(self.manager.is_some());
        let chosen = chance.usize(..all);
        let is_manager = chosen == self.workers.len();
        let mut victim = if is_manager {
            let Some(manager) = self.manager.take() else { return Ok(()) };
            manager
        } else {
            self.workers.swap_remove(chosen)
        };
        // Fails only when it has ended in this very moment.
        if victim.signal(Signal::KILL).is_ok() {
            dealt.kills += 1;
            dealt.managers += u32::from(is_manager);
        }
        let _reaped = victim.wait_deadline(Duration::from_secs(5));
        if is_manager { Ok(()) } else { self.hire() }
    }

    /// Whether the newest execution is complete.
    fn is_complete(&mut self) -> Result<bool, String> {
        if let Some(manager) = &mut self.manager
            && manager.wait_deadline(Duration::ZERO).is_some()
        {
            // It has ended well, or lost its lease: then the others go on.
            self.manager = None;
        }
        Ok(self.stand.newest_status()?.as_deref() == Some("COMPLETED"))
    }
}
