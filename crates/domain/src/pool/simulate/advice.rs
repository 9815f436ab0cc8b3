//! Advice for a pool: simulates its past nights with other capacities, thresholds and cron times, and keeps what helps.
//!
//! A night is the time from noon to noon in the zone of the pool. Each is simulated alone, also with the present settings:
//! so both sides of a comparison have the same errors.

use super::past::Past;
use super::score::{Score, score};
use super::{PoolStart, Workload, simulate};
use crate::pool::Settings;
use crate::pool::ledger::Contradiction;
use crate::pool::usage::step_of;
use crate::time::Timestamp;
use crate::words::plural;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// With fewer nights, advice would rest on chance.
pub const NIGHTS_LEAST: usize = 3;

pub const NIGHTS_MOST: usize = 30;

/// The cron marks with the most units that are looked at.
const MARKS: usize = 3;

/// A shorter wait by less than this is no gain, in seconds.
const GAIN_LEAST: f64 = 10.0;

/// An SLA miss counts as much as this wait, in seconds.
const MISS: f64 = 600.0;

const NOON: Duration = Duration::from_secs(12 * 3600);

#[derive(Clone, PartialEq, Debug)]
pub struct Advice {
    /// How many nights it rests on; with fewer than [`NIGHTS_LEAST`] there are no proposals.
    pub nights: usize,
    /// The mean of the nights with the present settings.
    pub now: Score,
    /// The best of each kind, the greatest gain first.
    pub proposals: Vec<Proposal>,
}

impl Advice {
    /// Why there are no proposals.
    pub const fn without_proposals(&self) -> &'static str {
        match self.nights < NIGHTS_LEAST {
            true => "Too little history for advice.",
            false => "No other capacity, threshold or cron time would have helped.",
        }
    }

    /// How many nights it rests on, and how to keep more if it would use them.
    pub fn basis(&self) -> String {
        let nights = plural(self.nights, "night", "nights");
        match self.nights {
            ..NIGHTS_LEAST => format!(
                "the log has {nights}, and advice needs {NIGHTS_LEAST}: let `serve` run with `pools.history` of 4d \
                 or more, and try again later"
            ),
            NIGHTS_LEAST..NIGHTS_MOST => format!(
                "based on {nights}; with a longer `pools.history`, advice uses up to {NIGHTS_MOST} nights"
            ),
            _ => format!("based on {nights}"),
        }
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct Proposal {
    pub text: String,
    /// The DAGs to start later.
    pub dags: BTreeSet<String>,
    /// The mean of the nights with the change.
    pub then: Score,
}

/// Of each kind, only the best change is proposed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Kind {
    Smaller,
    Larger,
    Threshold,
    Shift,
}

struct Candidate {
    kind: Kind,
    text: String,
    dags: BTreeSet<String>,
    /// By how many units the pool becomes smaller.
    saved: u32,
    change: Box<dyn Fn(&mut Workload)>,
}

/// `progress` is called before each candidate with its number and their count.
pub fn advise(past: &Past, mut progress: impl FnMut(usize, usize)) -> Result<Advice, Contradiction> {
    let nights = nights(past);
    let now = mean(&nights, |_| {})?;
    let candidates =
        if nights.len() < NIGHTS_LEAST { Vec::new() } else { candidates(&past.present, &nights) };
    let (count, mut best) = (candidates.len(), BTreeMap::<Kind, (f64, Proposal)>::new());
    for (number, Candidate { kind, text, dags, saved, change }) in (1..).zip(candidates) {
        progress(number, count);
        let then = mean(&nights, change)?;
        let (misses, wait) = (now.sla_misses - then.sla_misses, now.wait_p95 - then.wait_p95);
        // A smaller pool is a gain by itself, if nobody notices. The saved units decide only among these.
        let gain = match kind {
            Kind::Smaller if misses >= 0.0 && wait > -GAIN_LEAST => {
                GAIN_LEAST + f64::from(saved) / f64::from(u32::MAX)
            }
            Kind::Smaller => 0.0,
            Kind::Larger | Kind::Threshold | Kind::Shift => misses * MISS + wait,
        };
        let is_best = best.get(&kind).map_or(gain >= GAIN_LEAST, |(known, _)| gain > *known);
        if is_best && then.failures <= now.failures {
            best.insert(kind, (gain, Proposal { text, dags, then }));
        }
    }
    let mut best: Vec<(f64, Proposal)> = best.into_values().collect();
    best.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    let proposals = best.into_iter().map(|(_, proposal)| proposal).collect();
    Ok(Advice { nights: nights.len(), now, proposals })
}

/// The last nights, with the present settings. A day without batches is none.
fn nights(past: &Past) -> Vec<Workload> {
    let workload = &past.workload;
    let settings = Settings { paused: None, ..past.present.clone() };
    let run_times = workload.pools.first().map(|pool| pool.run_times.clone()).unwrap_or_default();
    let pool = PoolStart { settings, run_times, changes: Vec::new() };
    let mut nights: BTreeMap<_, Workload> = BTreeMap::new();
    for batch in workload.batches.iter().filter(|batch| batch.arrives_at >= workload.begins_at) {
        let day = pool.settings.zone.local(batch.arrives_at.plus(NOON)).map(|local| local.date());
        let empty = || Workload { pools: vec![pool.clone()], batches: Vec::new(), ..*workload };
        nights.entry(day).or_insert_with(empty).batches.push(batch.clone());
    }
    let skipped = nights.len().saturating_sub(NIGHTS_MOST);
    nights.into_values().skip(skipped).collect()
}

fn mean(nights: &[Workload], change: impl Fn(&mut Workload)) -> Result<Score, Contradiction> {
    let mut scores = Vec::with_capacity(nights.len());
    for mut night in nights.iter().cloned() {
        change(&mut night);
        scores.push(score(&night, &simulate(&night)?));
    }
    Ok(Score::mean(&scores))
}

fn candidates(present: &Settings, nights: &[Workload]) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    let mut add = |kind, text, dags, saved, change| {
        candidates.push(Candidate { kind, text, dags, saved, change });
    };
    for window in capacities(present, nights) {
        let (from, at) = match window.and_then(|place| present.capacity.get(place)) {
            Some(capacity) => (capacity.max_units, format!(" at {}", capacity.window)),
            None => (present.max_units, String::new()),
        };
        for percent in [80, 90, 110, 120] {
            let to = u32::try_from(u64::from(from) * percent / 100).unwrap_or(u32::MAX);
            let (kind, text) = match to < from {
                true => (
                    Kind::Smaller,
                    format!("lower the capacity{at} from {from} to {to} units: more is not needed"),
                ),
                false => (Kind::Larger, format!("raise the capacity{at} from {from} to {to} units")),
            };
            let change = move |night: &mut Workload| {
                night.change(|settings| {
                    if let Some(units) = units_of(settings, window) {
                        *units = to;
                    }
                });
            };
            let change: Box<dyn Fn(&mut Workload)> = Box::new(change);
            add(kind, text, BTreeSet::new(), from.saturating_sub(to), change);
        }
    }
    let from = present.threshold_percent;
    for to in [80, 90, 95, 98, 100].into_iter().filter(|to| *to != from) {
        let text = format!("change the threshold from {from} % to {to} %");
        let change = move |night: &mut Workload| night.change(|settings| settings.threshold_percent = to);
        add(Kind::Threshold, text, BTreeSet::new(), 0, Box::new(change));
    }
    for (mark, dags) in fullest_marks(present, nights) {
        for minutes in [5, 10, 15] {
            let text = format!("start {} of the DAGs of {mark} {minutes} minutes later", dags.len());
            let (settings, mark, moved) = (present.clone(), mark.clone(), dags.clone());
            let change = move |night: &mut Workload| {
                for batch in &mut night.batches {
                    let is_at_mark = mark_of(&settings, batch.arrives_at).as_ref() == Some(&mark);
                    if is_at_mark && moved.contains(batch.holder.dag_id()) {
                        batch.arrives_at = batch.arrives_at.plus(Duration::from_secs(minutes * 60));
                    }
                }
                night.batches.sort_by_key(|batch| batch.arrives_at);
            };
            add(Kind::Shift, text, dags.clone(), 0, Box::new(change));
        }
    }
    candidates
}

/// The capacities that applied when batches arrived: that of a window, by its place, or the usual one.
fn capacities(settings: &Settings, nights: &[Workload]) -> BTreeSet<Option<usize>> {
    let open = |at| {
        let local = settings.zone.local(at)?;
        settings.capacity.iter().position(|capacity| capacity.window.contains(local))
    };
    nights.iter().flat_map(|night| &night.batches).map(|batch| open(batch.arrives_at)).collect()
}

fn units_of(settings: &mut Settings, window: Option<usize>) -> Option<&mut u32> {
    match window {
        Some(place) => settings.capacity.get_mut(place).map(|capacity| &mut capacity.max_units),
        None => Some(&mut settings.max_units),
    }
}

/// The times of day at which batches with the most units start together, and every second DAG of each.
fn fullest_marks(settings: &Settings, nights: &[Workload]) -> Vec<(String, BTreeSet<String>)> {
    let mut marks: BTreeMap<String, (u64, BTreeSet<String>)> = BTreeMap::new();
    for batch in nights.iter().flat_map(|night| &night.batches) {
        if let Some(mark) = mark_of(settings, batch.arrives_at) {
            let (units, dags) = marks.entry(mark).or_default();
            *units += u64::from(batch.asked.get());
            dags.insert(batch.holder.dag_id().to_owned());
        }
    }
    let mut marks: Vec<_> = marks.into_iter().filter(|(_, (_, dags))| dags.len() > 1).collect();
    marks.sort_by_key(|(_, (units, _))| Reverse(*units));
    let second = |dags: BTreeSet<String>| dags.into_iter().skip(1).step_by(2).collect();
    marks.into_iter().take(MARKS).map(|(mark, (_, dags))| (mark, second(dags))).collect()
}

/// The time of day of the cron mark, every five minutes, at which a batch was started; none if it came later.
fn mark_of(settings: &Settings, arrives_at: Timestamp) -> Option<String> {
    let mark = step_of(arrives_at);
    let is_by_cron = arrives_at.since(mark) <= Duration::from_secs(60);
    let local = settings.zone.local(mark).filter(|_| is_by_cron)?;
    Some(format!("{:02}:{:02}", local.hour(), local.minute()))
}
