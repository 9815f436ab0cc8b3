//! How far an execution is: a bar on a terminal, a line now and then elsewhere, nothing when quiet. Looks into the
//! database, as anybody could.

use super::step;
use crate::config::LogLevel;
use crate::context::Context;
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::collections::HashMap;
use std::fmt;
use std::io::IsTerminal;
use std::time::Duration;
use tidemill_domain::job::{ExecutionId, StepExecutionId};
use tidemill_domain::time::{Clock, Monotonic};
use tidemill_engine::SystemClock;
use tidemill_store::job::{ExecutionFilter, StepRecord};
use tidemill_store::{Store, StoreError};

const PAUSE: Duration = Duration::from_millis(500);

/// How many looks lie between two lines, where there is no terminal.
const LOOKS_PER_LINE: u32 = 10;

/// How many earlier executions are looked at for what they have done.
const EARLIER_MAX: u32 = 20;

const WITH_TOTAL: &str = "{prefix} [{wide_bar}] {human_pos}/{human_len}{rate}{left}";
const WITHOUT_TOTAL: &str = "{spinner} {prefix} {human_pos} items{rate}, {elapsed}";

/// Shows how far an execution is, until it is dropped.
pub(super) async fn show(id: ExecutionId, store: &Store, context: &Context) {
    if context.settings().log.level == LogLevel::Error {
        return std::future::pending().await;
    }
    let mut face = if std::io::stderr().is_terminal() { Face::bar() } else { Face::lines(context) };
    // Who cannot look shows no progress; the work itself goes on.
    let earlier = earlier(id, store).await.unwrap_or_default();
    loop {
        tokio::time::sleep(PAUSE).await;
        if let Ok(steps) = steps(id, store).await
            && let Some(progress) = Progress::of(&steps, &earlier)
        {
            face.show(&progress);
        }
    }
}

async fn steps(id: ExecutionId, store: &Store) -> Result<Vec<StepRecord>, StoreError> {
    let mut tx = store.read().await?;
    let steps = tx.jobs().steps(id).await?;
    Ok(steps)
}

/// How many items earlier executions of the same instance have read, by step: a reader's total counts them too.
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
    /// Items behind it, those of earlier runs included where the total is known.
    done: u64,
    total: Option<u64>,
}

impl Progress {
    /// Of the step that runs, or ran last; one that is divided is as far as its partitions are together.
    fn of(steps: &[StepRecord], earlier: &HashMap<String, u64>) -> Option<Self> {
        let at = steps.iter().rposition(|step| !step::is_partition(step))?;
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
            // A chunk that was read and rolled back is counted twice.
            Some(total) => (before + now).min(total),
            None => now,
        };
        Some(Self { id: step.id, step: step.name.clone(), done, total: step.total_items })
    }
}

enum Face<'a> {
    Bar { bar: ProgressBar, step: Option<StepExecutionId> },
    Lines { context: &'a Context, clock: SystemClock, looks: u32, first: Option<(Progress, Monotonic)> },
}

impl<'a> Face<'a> {
    fn bar() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        Self::Bar { bar, step: None }
    }

    fn lines(context: &'a Context) -> Self {
        Self::Lines { context, clock: SystemClock::new(), looks: 0, first: None }
    }

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
            Self::Lines { context, clock, looks, first } => {
                *looks += 1;
                let now = clock.monotonic();
                let (begun, at) = match first {
                    Some((begun, at)) if begun.id == progress.id => (begun.done, *at),
                    _ => {
                        *first = Some((progress.clone(), now));
                        (progress.done, now)
                    }
                };
                if looks.is_multiple_of(LOOKS_PER_LINE) {
                    context.note(&line(progress, progress.done.saturating_sub(begun), now.since(at)));
                }
            }
        }
    }
}

impl Drop for Face<'_> {
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
    // What was done before this run says nothing about its pace.
    bar.reset_eta();
    bar.enable_steady_tick(PAUSE / 2);
    bar
}

/// A style whose rate and rest are left out as long as nothing is known about them.
fn style(template: &str) -> ProgressStyle {
    let plain = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    plain
        .with_key("rate", |state: &ProgressState, text: &mut dyn fmt::Write| {
            let rate = state.per_sec();
            let _nobody_fails = if rate > 0.0 { write!(text, ", {rate:.0}/s") } else { Ok(()) };
        })
        .with_key("left", |state: &ProgressState, text: &mut dyn fmt::Write| {
            let is_known = state.per_sec() > 0.0;
            let left = HumanDuration(state.eta());
            let _nobody_fails = if is_known { write!(text, ", {left:#} left") } else { Ok(()) };
        })
}

/// One line: where the step is, at which rate, and how long it will still take if it goes on like this.
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
