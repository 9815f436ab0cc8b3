//! Progress of an execution, read from the database: a bar on a terminal, otherwise a line every few seconds.

use super::detail::read_steps;
use crate::config::LogLevel;
use crate::context::Context;
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::collections::HashMap;
use std::fmt;
use std::io::IsTerminal;
use std::time::Duration;
use tidemill_api::execution::is_partition;
use tidemill_domain::job::{ExecutionId, StepExecutionId};
use tidemill_domain::time::{Clock, Monotonic};
use tidemill_engine::SystemClock;
use tidemill_store::job::{ExecutionFilter, StepRecord};
use tidemill_store::{Store, StoreError};

const PAUSE: Duration = Duration::from_millis(500);

/// Without a terminal, a line is printed after this many pauses.
const PAUSES_PER_LINE: u32 = 10;

const EARLIER_MAX: u32 = 20;

const WITH_TOTAL: &str = "{prefix} [{wide_bar}] {human_pos}/{human_len}{rate}{left}";
const WITHOUT_TOTAL: &str = "{spinner} {prefix} {human_pos} items{rate}, {elapsed}";

/// Shows the progress of an execution until the future is dropped.
pub(super) async fn show(id: ExecutionId, store: &Store, context: &Context) {
    if context.settings().log.level == LogLevel::Error {
        return std::future::pending().await;
    }
    let mut display = if std::io::stderr().is_terminal() {
        Display::Bar { bar: ProgressBar::hidden(), step: None }
    } else {
        Display::Lines { context, clock: SystemClock::new(), pauses: 0, first: None }
    };
    // A database error only hides the progress; the job continues.
    let earlier = earlier(id, store).await.unwrap_or_default();
    loop {
        tokio::time::sleep(PAUSE).await;
        if let Ok(steps) = read_steps(id, store).await
            && let Some(progress) = Progress::of(&steps, &earlier)
        {
            display.show(&progress);
        }
    }
}

/// Items that earlier executions of the instance read, by step: the total of a reader includes them.
async fn earlier(id: ExecutionId, store: &Store) -> Result<HashMap<String, u64>, StoreError> {
    let mut read: HashMap<String, u64> = HashMap::new();
    let mut tx = store.read().await?;
    if let Some(found) = tx.jobs().execution(id).await? {
        let same = ExecutionFilter { instance: Some(found.execution.instance), ..ExecutionFilter::default() };
        for execution in tx.jobs().executions(&same, Some(id), EARLIER_MAX).await? {
            for step in tx.jobs().steps(execution.id).await? {
                *read.entry(step.name).or_default() += step.counters.read + step.counters.read_skip;
            }
        }
    }
    Ok(read)
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Progress {
    id: StepExecutionId,
    step: String,
    /// Items read; includes earlier executions if the total is known.
    done: u64,
    total: Option<u64>,
}

impl Progress {
    /// Of the current or last step. A partitioned step counts the items of its partitions.
    fn of(steps: &[StepRecord], earlier: &HashMap<String, u64>) -> Option<Self> {
        let at = steps.iter().rposition(|step| !is_partition(step))?;
        let (step, partitions) = (&steps[at], &steps[at + 1..]);
        let read = |step: &StepRecord| step.counters.read + step.counters.read_skip;
        if !partitions.is_empty() {
            let ended = partitions.iter().filter(|partition| partition.ended_at.is_some()).count();
            let name = format!("{} ({ended} of {} partitions)", step.name, partitions.len());
            let done = partitions.iter().map(read).sum();
            return Some(Self { id: step.id, step: name, done, total: None });
        }
        let now = read(step);
        let before = earlier.get(&step.name).copied().unwrap_or_default();
        let done = match step.total_items {
            // A chunk that was rolled back is counted twice.
            Some(total) => (before + now).min(total),
            None => now,
        };
        Some(Self { id: step.id, step: step.name.clone(), done, total: step.total_items })
    }
}

enum Display<'a> {
    Bar { bar: ProgressBar, step: Option<StepExecutionId> },
    Lines { context: &'a Context, clock: SystemClock, pauses: u32, first: Option<(Progress, Monotonic)> },
}

impl Display<'_> {
    fn show(&mut self, progress: &Progress) {
        match self {
            Self::Bar { bar, step } => {
                if *step != Some(progress.id) {
                    bar.finish_and_clear();
                    *bar = start_bar(progress);
                    *step = Some(progress.id);
                }
                if let (Some(total), None) = (progress.total, bar.length()) {
                    bar.set_length(total);
                    bar.set_style(style(WITH_TOTAL));
                }
                bar.set_prefix(progress.step.clone());
                bar.set_position(progress.done);
            }
            Self::Lines { context, clock, pauses, first } => {
                *pauses += 1;
                let now = clock.monotonic();
                let (begun, at) = match first {
                    Some((begun, at)) if begun.id == progress.id => (begun.done, *at),
                    _ => {
                        *first = Some((progress.clone(), now));
                        (progress.done, now)
                    }
                };
                if pauses.is_multiple_of(PAUSES_PER_LINE) {
                    context.note(&line(progress, progress.done.saturating_sub(begun), now.since(at)));
                }
            }
        }
    }
}

impl Drop for Display<'_> {
    fn drop(&mut self) {
        if let Self::Bar { bar, .. } = self {
            bar.finish_and_clear();
        }
    }
}

fn start_bar(progress: &Progress) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(progress.total, ProgressDrawTarget::stderr());
    bar.set_style(style(if progress.total.is_some() { WITH_TOTAL } else { WITHOUT_TOTAL }));
    bar.set_prefix(progress.step.clone());
    bar.set_position(progress.done);
    // Items of earlier executions must not count for the rate.
    bar.reset_eta();
    bar.enable_steady_tick(PAUSE / 2);
    bar
}

/// A style that hides the rate and the remaining time until they are known.
fn style(template: &str) -> ProgressStyle {
    let plain = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    plain
        .with_key("rate", |state: &ProgressState, text: &mut dyn fmt::Write| {
            let rate = state.per_sec();
            let _infallible = if rate > 0.0 { write!(text, ", {rate:.0}/s") } else { Ok(()) };
        })
        .with_key("left", |state: &ProgressState, text: &mut dyn fmt::Write| {
            let is_known = state.per_sec() > 0.0;
            let left = HumanDuration(state.eta());
            let _infallible = if is_known { write!(text, ", {left:#} left") } else { Ok(()) };
        })
}

/// One line: items of the step, rate and remaining time.
fn line(progress: &Progress, recent: u64, elapsed: Duration) -> String {
    let rate = if elapsed.is_zero() { 0.0 } else { recent as f64 / elapsed.as_secs_f64() };
    let mut text = match progress.total {
        Some(total) => format!("step {}: {} of {total} items", progress.step, progress.done),
        None => format!("step {}: {} items", progress.step, progress.done),
    };
    if rate > 0.0 {
        text.push_str(&format!(", {rate:.0}/s"));
        if let Some(total) = progress.total {
            let left = (total.saturating_sub(progress.done)) as f64 / rate;
            text.push_str(&format!(", about {left:.0} s left"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(done: u64, total: Option<u64>) -> Progress {
        Progress { id: StepExecutionId::new(1), step: "load".into(), done, total }
    }

    #[test]
    fn a_line_tells_rate_and_rest_only_where_they_are_known() {
        let ten = Duration::from_secs(10);

        assert_eq!(
            line(&progress(500, Some(1500)), 500, ten),
            "step load: 500 of 1500 items, 50/s, about 20 s left"
        );
        assert_eq!(line(&progress(500, None), 500, ten), "step load: 500 items, 50/s");
        assert_eq!(line(&progress(500, Some(1500)), 0, ten), "step load: 500 of 1500 items");
        assert_eq!(line(&progress(0, None), 0, Duration::ZERO), "step load: 0 items");
    }

    #[test]
    fn the_templates_of_the_bar_are_sound() {
        assert!(ProgressStyle::with_template(WITH_TOTAL).is_ok());
        assert!(ProgressStyle::with_template(WITHOUT_TOTAL).is_ok());
    }
}
