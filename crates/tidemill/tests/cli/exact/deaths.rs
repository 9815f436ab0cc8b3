//! Runs of a job that die at one point after another and then come to their end, on both databases.

use super::{Ground, ScanCommits, arguments, die_at, go_on, sweep};
use crate::examples::Program;
use tidemill_store::scratch::Scratch;

/// Databases of each kind, each with one run at work at a time.
const DATABASES: usize = 2;

const FAST: &str = "pause=0,long,false";

/// The points at which a run dies, the first one first.
pub(super) type Deaths = &'static [&'static str];

/// A run that meets refused numbers, in a folder of its own.
pub(super) struct Run {
    pub(super) program: Program,
    pub(super) deaths: Deaths,
    job: &'static str,
    parameter: String,
}

impl Run {
    fn new(job: &'static str, deaths: Deaths, url: &str, threads: u32, commits: ScanCommits) -> Self {
        let program = sweep(url, threads, commits);
        Self { program, deaths, job, parameter: format!("run=scan {}", deaths.join(" ")) }
    }

    /// The value of the parameter.
    pub(super) fn name(&self) -> &str {
        &self.parameter["run=".len()..]
    }

    fn arguments(&self) -> [&str; 7] {
        arguments(self.job, &self.parameter, FAST)
    }
}

/// Lets a run of the job die for each of these, and go on afterwards. All die once before one dies twice, so that their
/// leases lapse at the same time.
pub(super) async fn survive(
    job: &'static str,
    all: &[Deaths],
    threads: u32,
    commits: ScanCommits,
) -> Vec<(Ground, Vec<Run>)> {
    let mut databases: Vec<Vec<Scratch>> =
        vec![(0..DATABASES).map(|_| Scratch::file()).collect(), Vec::new()];
    for _ in 0..DATABASES {
        databases[1].extend(Scratch::postgres().await);
    }
    let mut shares = Vec::new();
    for kind in databases {
        for (index, database) in kind.into_iter().enumerate() {
            let ground = Ground::new(database).await;
            let own = all.iter().skip(index).step_by(DATABASES);
            let url = ground.database.url();
            let runs = own.map(|deaths| Run::new(job, deaths, url, threads, commits)).collect();
            shares.push((ground, runs));
        }
    }
    let rounds = all.iter().map(|deaths| deaths.len()).max().unwrap_or_default();
    for round in 0..rounds {
        for_all(&shares, |run| {
            if let Some(point) = run.deaths.get(round) {
                die_at(&run.program, &run.arguments(), point);
            }
        });
    }
    for_all(&shares, |run| {
        go_on(&run.program, &run.arguments()).succeeds();
    });
    shares
}

fn for_all(shares: &[(Ground, Vec<Run>)], act: impl Fn(&Run) + Sync) {
    std::thread::scope(|scope| {
        for (_, runs) in shares {
            scope.spawn(|| runs.iter().for_each(&act));
        }
    });
}
