//! `cargo xtask chaos jobs` and `chaos partitions`: kill a job, or the processes that run its partitions, at random
//! times, again and again, and look whether the work is exact. `chaos outbox` does so with relays, see `outbox`.
//!
//! The job copies a table, on SQLite and on PostgreSQL at the same time. Whenever a copy is complete it is compared
//! with what it was copied from, and another one begins on an empty database, until all kills have been dealt.

mod crew;
mod ledger;
mod outbox;
mod round;
mod stand;

use crate::process::{cargo, run_in_terminal};
use crate::stages::{Stages, now};
use crate::supervise::Cancel;
use fastrand::Rng;
use round::Dealt;
use stand::{Place, Program};
use std::env;
use std::process::ExitCode;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};
use tidemill_testkit::{PostgresOptions, PrivatePostgres};

/// How long all of it may take. With a lease of one second, a kill costs about two.
const WITHIN: Duration = Duration::from_secs(30 * 60);

/// A seed that was not given is below this: short enough to be typed.
const SEEDS: u64 = 1_000_000;

/// What is killed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    /// A job in one process, on both databases.
    Jobs,
    /// A job in several processes, on PostgreSQL.
    Partitions,
}

/// What was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Order {
    what: What,
    kills: u32,
    rows: u64,
    seed: u64,
    /// Processes that run partitions beside the one that runs the job.
    workers: u32,
}

/// What every part of the work looks at.
#[derive(Clone, Copy, Debug)]
struct Limits<'a> {
    cancel: &'a Cancel,
    end: Instant,
}

impl Limits<'_> {
    fn check(&self) -> Result<(), String> {
        if self.cancel.is_asked_for() {
            return Err("cancelled".to_owned());
        }
        if now() >= self.end {
            return Err(format!("not done within {} minutes", WITHIN.as_secs() / 60));
        }
        Ok(())
    }
}

/// Deals the kills that `arguments` ask for.
pub(crate) fn run(arguments: &[String], cancel: &Cancel) -> ExitCode {
    if let Some(("outbox", rest)) = arguments.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        return outbox::run(rest, cancel);
    }
    let order = match parse(arguments, fastrand::u64(..SEEDS)) {
        Ok(order) => order,
        Err(problem) => return misunderstood(&problem),
    };
    println!("{} kills, {} rows, --seed {}", order.kills, order.rows, order.seed);
    let example = match order.what {
        What::Jobs => "copy_table",
        What::Partitions => "partitions",
    };
    let mut stages = Stages::default();
    let limits = Limits { cancel, end: now() + WITHIN };
    let outcome = stages
        .run("build", || run_in_terminal(cargo(&["build", "-p", "tidemill", "--example", example]), cancel))
        .and_then(|()| stages.run("chaos", || deal(order, example, limits)));
    print!("\n{}", stages.table());
    match outcome {
        Ok(summary) => {
            println!("{summary}");
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("xtask: chaos: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// Says what cannot be done, and what can.
fn misunderstood(problem: &str) -> ExitCode {
    eprintln!("xtask: chaos: {problem}\n");
    eprint!("{}", super::help::TEXT);
    ExitCode::from(crate::USAGE)
}

fn deal(order: Order, example: &str, limits: Limits<'_>) -> Result<String, String> {
    let own = env::current_exe().map_err(|error| format!("nobody knows where this program is: {error}"))?;
    let program = Program::new(own.with_file_name("examples").join(example));
    let server = PrivatePostgres::start(&PostgresOptions::default())
        .map_err(|error| format!("no private PostgreSQL: {error:?}"))?;
    let server = Mutex::new(server);
    match order.what {
        What::Jobs => on_both(&server, &program, order, limits),
        What::Partitions => {
            let dealt = crew::play(Place::Postgres(&server), &program, order, limits)?;
            Ok(format!("postgres {dealt}"))
        }
    }
}

/// Both databases at once, because most of the time is spent waiting for leases to lapse.
fn on_both(
    server: &Mutex<PrivatePostgres>,
    program: &Program,
    order: Order,
    limits: Limits<'_>,
) -> Result<String, String> {
    let places = [Place::Sqlite, Place::Postgres(server)];
    let results: Vec<Result<String, String>> = thread::scope(|scope| {
        let deal = |place| scope.spawn(move || on_one(place, program, order, limits));
        let working: Vec<_> = places.into_iter().map(deal).collect();
        working.into_iter().map(|done| done.join().unwrap_or_else(|_| Err("a panic".to_owned()))).collect()
    });
    let summaries = results.into_iter().collect::<Result<Vec<String>, String>>()?;
    Ok(summaries.join("\n"))
}

/// Round after round on one database, until all kills have been dealt.
fn on_one(place: Place<'_>, program: &Program, order: Order, limits: Limits<'_>) -> Result<String, String> {
    let name = place.name();
    // Each database has its own chances, so that one does not change those of the other.
    let mut chance = Rng::with_seed(order.seed ^ u64::from(place.name().len() as u32));
    let mut total = Dealt::default();
    let mut rounds = 0;
    while total.kills < order.kills {
        rounds += 1;
        let wanted = order.kills - total.kills;
        let dealt = round::play(place, rounds, program, wanted, order.rows, &mut chance, limits)
            .map_err(|problem| format!("{name}, round {rounds}, --seed {}: {problem}", order.seed))?;
        println!("{name:<8} round {rounds}: {dealt}, exact");
        total.add(&dealt);
    }
    Ok(format!("{name:<8} {rounds} rounds: {total}; every row once, every counter right"))
}

fn parse(arguments: &[String], seed: u64) -> Result<Order, String> {
    let (mut order, mut rest) = match arguments.split_first() {
        Some((first, rest)) if first == "jobs" => {
            (Order { what: What::Jobs, kills: 100, rows: 200_000, seed, workers: 0 }, rest)
        }
        Some((first, rest)) if first == "partitions" => {
            (Order { what: What::Partitions, kills: 20, rows: 1_000_000, seed, workers: 4 }, rest)
        }
        _ => return Err("say `jobs`, `partitions` or `outbox`".to_owned()),
    };
    while let Some((name, more)) = rest.split_first() {
        let Some((value, more)) = more.split_first() else { return Err(format!("{name} needs a number")) };
        let number: u64 = value.parse().map_err(|_| format!("{name} needs a number, not {value:?}"))?;
        match name.as_str() {
            "--kills" => {
                order.kills = u32::try_from(number).map_err(|_| format!("{number} are too many kills"))?
            }
            "--rows" => order.rows = number,
            "--seed" => order.seed = number,
            "--workers" if order.what == What::Partitions => {
                order.workers = u32::try_from(number).map_err(|_| format!("{number} are too many workers"))?
            }
            _ => return Err(format!("cannot understand {name}")),
        }
        rest = more;
    }
    if order.kills == 0 || order.rows == 0 {
        return Err("without kills and rows there is nothing to see".to_owned());
    }
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(given: &str, expected: Result<Order, &str>) {
        let given: Vec<String> = given.split_whitespace().map(str::to_owned).collect();
        assert_eq!(parse(&given, 7), expected.map_err(str::to_owned));
    }

    #[test]
    fn what_is_not_said_has_a_default() {
        let jobs = Order { what: What::Jobs, kills: 100, rows: 200_000, seed: 7, workers: 0 };
        check("jobs", Ok(jobs));
        check("jobs --kills 3 --seed 9 --rows 50", Ok(Order { kills: 3, rows: 50, seed: 9, ..jobs }));
        let partitions = Order { what: What::Partitions, kills: 20, rows: 1_000_000, seed: 7, workers: 4 };
        check("partitions", Ok(partitions));
        check("partitions --workers 2", Ok(Order { workers: 2, ..partitions }));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        check("", Err("say `jobs`, `partitions` or `outbox`"));
        check("pools", Err("say `jobs`, `partitions` or `outbox`"));
        check("jobs --kills", Err("--kills needs a number"));
        check("jobs --kills many", Err("--kills needs a number, not \"many\""));
        check("jobs --workers 3", Err("cannot understand --workers"));
        check("jobs --speed 3", Err("cannot understand --speed"));
        check("jobs --kills 0", Err("without kills and rows there is nothing to see"));
    }
}
