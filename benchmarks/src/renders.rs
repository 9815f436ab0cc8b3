//! Renders. Many workers claim from one queue: our workers, and workers that select a row and then try to update it. Also
//! measures the time from an insert by plain SQL until a worker claims the render, and how long a queue of short films takes.

mod films;
mod nobody;
mod pickup;
mod race;

use crate::options::numbers;
use anyhow::{Result, ensure};
use films::{AIM_FILMS, AIM_SECONDS, Films};
use race::Race;
use tidemill_store::{Init, Store};
use tidemill_testkit::{PostgresOptions, PrivatePostgres};

/// The target for the median, in milliseconds.
const PICKUP_AIM: f64 = 50.0;

struct Options {
    workers: u32,
    renders: u32,
    pickups: u32,
    films: u32,
}

impl Options {
    fn parse(words: &[&str]) -> Result<Self> {
        let defaults =
            [("--workers", 16), ("--renders", 2_000), ("--pickups", 200), ("--films", AIM_FILMS.into())];
        let [workers, renders, pickups, films] = numbers(words, defaults)?;
        let options = Self {
            workers: workers.try_into()?,
            renders: renders.try_into()?,
            pickups: pickups.try_into()?,
            films: films.try_into()?,
        };
        ensure!((1..=64).contains(&options.workers), "there are from 1 to 64 workers");
        ensure!((1..=100_000).contains(&options.renders), "there are from 1 to 100000 renders");
        ensure!((1..=10_000).contains(&options.pickups), "from 1 to 10000 are picked up");
        ensure!(options.films <= 10_000, "there are at most 10000 films");
        Ok(options)
    }
}

/// Runs the benchmark and prints its table. Returns an error if a claim was lost, a render was not claimed exactly once,
/// or the default number of films took longer than the aim.
pub(crate) fn run(words: &[&str]) -> Result<()> {
    let options = Options::parse(words)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let settings = vec![("max_connections".to_owned(), "200".to_owned())];
    let postgres = PrivatePostgres::start(&PostgresOptions { standby: false, settings })?;
    let url = postgres.url("postgres");
    runtime.block_on(async {
        let store = Store::open(url.parse()?, &Default::default()).await?;
        store.initialise(Init::Always).await?;
        store.close().await;
        let document = race::document(&url, options.workers, options.renders).await?;
        let ours = race::ours(&url, options.workers, options.renders).await?;
        println!("{} workers, {} renders       claims/s   claimed      lost", options.workers, options.renders);
        for (name, race) in [("the document's way", document), ("ours", ours)] {
            println!("{name:<30} {:>10.0} {:>9} {:>9}", race.speed(), race.claimed, race.lost);
        }
        let waits = pickup::measure(&url, options.pickups).await?;
        println!(
            "from the insert to the claim, {} renders: median {:.1} ms (aim {PICKUP_AIM}), p99 {:.1} ms, worst {:.1} ms",
            waits.count, waits.median, waits.p99, waits.worst
        );
        let Race { claimed, lost, .. } = ours;
        ensure!(claimed == options.renders && lost == 0, "{claimed} claims of {}, {lost} lost", options.renders);
        if options.films == 0 {
            return Ok(());
        }
        let Some(Films { seconds, completed, rendered }) = films::measure(&url, options.films).await? else {
            println!("no films: they need node, npm and ffmpeg");
            return Ok(());
        };
        let aim = if options.films == AIM_FILMS { format!(" (aim {AIM_SECONDS})") } else { String::new() };
        println!("{} films of one second on 3 workers with one place each: {seconds:.0} s{aim}", options.films);
        ensure!(
            completed == options.films && rendered == options.films,
            "{completed} of {} films were published, after {rendered} renders",
            options.films
        );
        let is_in_time = options.films != AIM_FILMS || seconds <= AIM_SECONDS;
        ensure!(is_in_time, "{AIM_FILMS} films took {seconds:.0} s, and the aim is {AIM_SECONDS} s");
        Ok(())
    })
}
