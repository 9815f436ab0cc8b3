//! Usage of a pool over time: minimum, mean and maximum of every five minutes, the limit, and waiting requests. The plot
//! begins at the first sample of the pool. Later times without samples are marked as unknown.

use super::address::Range;
use crate::dashboard::Times;
use crate::dashboard::part::{list_table, plural, span, value_or};
use maud::{Markup, html};
use std::fmt::Write as _;
use std::time::Duration;
use tidemill_domain::pool::usage::{STEP, UsageStep, step_of};
use tidemill_domain::pool::{PoolName, Settings};
use tidemill_domain::time::Timestamp;
use tidemill_store::{StoreError, Tx};

/// Width of a step and height of the plot, in SVG units.
const WIDTH: u64 = 10;
const HEIGHT: u64 = 1000;
/// Rows of the table with the same data.
const ROWS: usize = 12;
const COLUMNS: &[&str] = &["From", "#Minimum", "#Mean", "#Maximum", "#Limit", "#Maximum waiting"];

#[derive(Clone, Debug)]
pub(crate) struct Past {
    range: Range,
    /// The start of the range, or of the first step that was ever recorded.
    since: Timestamp,
    /// Whether there are samples of the pool, in this range or before it.
    is_recorded: bool,
    /// One for each step; none without samples.
    steps: Vec<Option<UsageStep>>,
    /// The limit at the start of each step; none where it is unknown.
    limits: Vec<Option<u64>>,
    is_sampled: bool,
}

impl Past {
    pub(crate) async fn read(
        tx: &mut Tx,
        name: &PoolName,
        range: Range,
        now: Timestamp,
    ) -> Result<Self, StoreError> {
        let end = step_of(now).plus(STEP);
        let since = end.minus(range.length());
        let first = tx.pools().first_usage(name).await?.map(|step| step.at);
        let steps = tx.pools().usage(name, since).await?;
        let settings = tx.pools().settings_since(name, since).await?;
        Ok(Self::new(end, range, first, &steps, &settings))
    }

    /// `first` is the first step that was ever recorded.
    fn new(
        end: Timestamp,
        range: Range,
        first: Option<Timestamp>,
        seen: &[UsageStep],
        known: &[(Timestamp, Settings)],
    ) -> Self {
        let since = end.minus(range.length());
        let since = first.map_or(since, |first| first.max(since));
        let count = end.since(since).as_secs() / STEP.as_secs();
        let starts = (0..u32::try_from(count).unwrap_or(0)).map(|number| since.plus(STEP * number));
        let (mut steps, mut limits) = (Vec::new(), Vec::new());
        for start in starts {
            let found = seen.binary_search_by_key(&start, |step| step.at).ok();
            steps.push(found.and_then(|place| seen.get(place)).copied());
            // A change of the limit counts from the next step on, except for the first one.
            let in_force = known.iter().rfind(|(at, _)| *at <= start);
            let in_force = in_force.or_else(|| known.first().filter(|(at, _)| *at < start.plus(STEP)));
            limits.push(in_force.map(|(_, settings)| settings.limit_at(start)));
        }
        Self { range, since, is_recorded: first.is_some(), steps, limits, is_sampled: true }
    }

    /// From a simulation or the log instead of samples. The log begins at `first`.
    pub(crate) fn exact(
        since: Timestamp,
        range: Range,
        first: Timestamp,
        steps: &[UsageStep],
        known: &[(Timestamp, Settings)],
    ) -> Self {
        Self { is_sampled: false, ..Self::new(since.plus(range.length()), range, Some(first), steps, known) }
    }

    /// Less than the range if the first sample is in it.
    fn length(&self) -> Duration {
        STEP * u32::try_from(self.steps.len()).unwrap_or(u32::MAX)
    }

    /// The last step with the highest usage; none without samples.
    pub(crate) fn peak(&self) -> Option<UsageStep> {
        self.steps.iter().flatten().copied().rev().max_by_key(|step| step.most)
    }

    /// The value at the top of the plot.
    fn top(&self) -> u64 {
        let most = self.steps.iter().flatten().map(|step| step.most);
        most.chain(self.limits.iter().flatten().copied()).max().unwrap_or(0).max(1)
    }

    fn unknown(&self) -> Duration {
        STEP * u32::try_from(self.steps.iter().filter(|step| step.is_none()).count()).unwrap_or(u32::MAX)
    }

    fn most_waiting(&self) -> u64 {
        self.steps.iter().flatten().map(|step| step.most_waiting).max().unwrap_or(0)
    }

    fn summary(&self) -> String {
        let Some(peak) = self.peak() else {
            let length = span(self.range.length());
            let when = if self.is_recorded { format!("in the last {length}") } else { "yet".to_owned() };
            return format!("No data {when}: a running server records the usage every ten seconds.");
        };
        let unknown = match self.unknown() {
            Duration::ZERO => String::new(),
            length => format!("; no data for {}", span(length)),
        };
        let sampled =
            if self.is_sampled { format!(" (sampled every ten seconds{unknown})") } else { unknown };
        format!(
            "Peak: {} in use, {} waiting{sampled}.",
            plural(peak.most, "unit", "units"),
            plural(self.most_waiting(), "request", "requests"),
        )
    }
}

/// The plot, and a table with the same data; only a sentence if there are no data.
pub(crate) fn figure(past: &Past, times: &Times) -> Markup {
    let (top, summary) = (past.top(), past.summary());
    if past.peak().is_none() {
        return html! { p { (summary) } };
    }
    let width = WIDTH * past.steps.len() as u64;
    let middle = past.since.plus(past.length() / 2);
    html! {
        figure.graph {
            p {
                (summary)
                @if past.length() < past.range.length() { " No data before " (times.at(past.since)) "." }
            }
            div.axes {
                div.y { span { (top) } span { "0" } }
                svg.plot viewBox={ "0 0 " (width) " " (HEIGHT) } preserveAspectRatio="none" role="img" {
                    title { "Units in use in the last " (span(past.length())) }
                    desc { (summary) " The table below has the numbers." }
                    @for (from, to) in gaps(past) {
                        rect.gap x=(from) width=(to - from) height=(HEIGHT) {}
                    }
                    path.band d=(band(past, top)) {}
                    path.mean d=(line(past.steps.iter().map(|step| step.map(mean)), top)) {}
                    path.limit d=(line(past.limits.iter().copied(), top)) {}
                }
                div.y.low { span { (past.most_waiting()) } }
                svg.plot.low viewBox={ "0 0 " (width) " " (HEIGHT) } preserveAspectRatio="none" role="img" {
                    title { "Waiting requests" }
                    path.waiting d=(waiting(past)) {}
                }
                div.x { (times.at(past.since)) (times.at(middle)) (times.at(past.since.plus(past.length()))) }
            }
            figcaption.legend {
                span.mean { "mean in use" } " " span.band { "minimum to maximum" } " " span.limit { "limit" } " "
                span.waiting { "maximum waiting" } " " span.gap { "unknown" }
            }
            details {
                summary { "Show as a table" }
                (data_table(past, times))
            }
        }
    }
}

fn mean(step: UsageStep) -> u64 {
    step.total / step.samples.max(1)
}

fn height(value: u64, top: u64) -> u64 {
    HEIGHT.saturating_sub(value.saturating_mul(HEIGHT) / top)
}

fn place(step: usize) -> u64 {
    WIDTH * step as u64
}

/// A stepped line, interrupted where there is no value.
fn line(values: impl Iterator<Item = Option<u64>>, top: u64) -> String {
    let (mut text, mut last) = (String::new(), None);
    let heights = values.map(|value| value.map(|value| height(value, top))).chain([None]);
    for (step, y) in heights.enumerate() {
        let x = place(step);
        let _infallible = match (last, y) {
            (Some(before), Some(y)) if before != y => write!(text, "H{x}V{y}"),
            (Some(_), None) => write!(text, "H{x}"),
            (None, Some(y)) => write!(text, "M{x} {y}"),
            _ => Ok(()),
        };
        last = y;
    }
    text
}

/// The shapes of all steps with samples; `shape` gets the left side of the step.
fn shapes(past: &Past, shape: impl Fn(u64, &UsageStep) -> String) -> String {
    let steps = past.steps.iter().enumerate();
    steps.filter_map(|(number, step)| Some(shape(place(number), step.as_ref()?))).collect()
}

/// From the minimum to the maximum of each step.
fn band(past: &Past, top: u64) -> String {
    shapes(past, |x, step| {
        format!("M{x} {}h{WIDTH}V{}h-{WIDTH}Z", height(step.most, top), height(step.least, top))
    })
}

fn waiting(past: &Past) -> String {
    let top = past.most_waiting().max(1);
    shapes(past, |x, step| match step.most_waiting {
        0 => String::new(),
        most => format!("M{x} {HEIGHT}V{}h{WIDTH}V{HEIGHT}Z", height(most, top)),
    })
}

/// Start and end of the times without samples.
fn gaps(past: &Past) -> Vec<(u64, u64)> {
    let mut gaps: Vec<(u64, u64)> = Vec::new();
    for (number, _) in past.steps.iter().enumerate().filter(|(_, step)| step.is_none()) {
        let from = place(number);
        match gaps.last_mut() {
            Some((_, to)) if *to == from => *to += WIDTH,
            _ => gaps.push((from, from + WIDTH)),
        }
    }
    gaps
}

fn data_table(past: &Past, times: &Times) -> Markup {
    let size = past.steps.len().div_ceil(ROWS * if past.steps.len() > 100 { 2 } else { 1 }).max(1);
    let parts = past.steps.chunks(size).zip(past.limits.chunks(size)).enumerate();
    let rows = parts.map(|(number, (steps, limits))| {
        let start = past.since.plus(STEP * u32::try_from(number * size).unwrap_or(u32::MAX));
        row(times.at(start), &steps.iter().flatten().collect::<Vec<_>>(), limits)
    });
    list_table("Units in use", COLUMNS, rows, &html! {})
}

fn row(start: Markup, seen: &[&UsageStep], limits: &[Option<u64>]) -> Markup {
    let sum = |of: fn(&UsageStep) -> u64| seen.iter().map(|step| of(step)).sum::<u64>();
    html! {
        tr {
            th scope="row" { (start) }
            @if seen.is_empty() {
                td.number.soft colspan="3" { "unknown" }
            } @else {
                td.number { (seen.iter().map(|step| step.least).min().unwrap_or(0)) }
                td.number { (sum(|step| step.total) / sum(|step| step.samples).max(1)) }
                td.number { (seen.iter().map(|step| step.most).max().unwrap_or(0)) }
            }
            td.number {
                @match limits.iter().flatten().min().zip(limits.iter().flatten().max()) {
                    Some((least, most)) if least == most => (most),
                    Some((least, most)) => { (least) " to " (most) }
                    None => span.soft { "unknown" },
                }
            }
            td.number { (value_or(seen.iter().map(|step| step.most_waiting).max(), "unknown")) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SINCE: Timestamp = Timestamp::from_micros(1_763_200_800_000_000);

    /// An hour of a pool that was recorded from its beginning.
    fn hour(seen: &[UsageStep], known: &[(Timestamp, Settings)]) -> Past {
        Past::new(at(12), Range::Hour, Some(SINCE), seen, known)
    }

    fn at(step: u32) -> Timestamp {
        SINCE.plus(STEP * step)
    }

    fn step(number: u32, least: u64, most: u64) -> UsageStep {
        UsageStep { at: at(number), least, most, total: least + most, samples: 2, most_waiting: least }
    }

    fn settings(max_units: u32) -> Settings {
        Settings { threshold_percent: 100, ..Settings::new("p".parse().unwrap(), max_units) }
    }

    #[test]
    fn what_nobody_saw_is_a_gap_and_no_zero() {
        let past = hour(&[step(0, 2, 4), step(1, 4, 8), step(5, 1, 1)], &[]);

        assert_eq!(past.peak().unwrap().most, 8);
        assert_eq!(gaps(&past), [(20, 50), (60, 120)]);
        assert_eq!(line(past.steps.iter().map(|step| step.map(mean)), 8), "M0 625H10V250H20M50 875H60");
        assert!(past.summary().contains("no data for 45 min"), "{}", past.summary());
        assert!(line(past.limits.iter().copied(), 8).is_empty(), "the limit is unknown");
    }

    #[test]
    fn the_limit_is_that_of_its_time() {
        let known = [(at(0).minus(STEP), settings(40)), (at(3), settings(20))];
        let past = hour(&[step(0, 10, 30)], &known);

        assert_eq!(past.limits[..4], [Some(40), Some(40), Some(40), Some(20)]);
        assert_eq!(past.top(), 40);
        assert_eq!(line(past.limits.iter().copied(), 40), "M0 0H30V500H120");
    }

    #[test]
    fn before_a_pool_was_made_it_had_no_limit() {
        let past = hour(&[], &[(at(2).plus(Duration::from_secs(9)), settings(40))]);

        assert_eq!(past.limits[..4], [None, None, Some(40), Some(40)]);
    }

    fn drawn(first: Option<Timestamp>, seen: &[UsageStep]) -> String {
        let past = Past::new(at(12), Range::Hour, first, seen, &[]);
        figure(&past, &Times::shared(SINCE)).into_string()
    }

    #[test]
    fn the_plot_begins_at_the_first_sample() {
        let new = drawn(Some(at(10)), &[step(10, 2, 4), step(11, 1, 1)]);
        assert!(new.contains("viewBox=\"0 0 20 1000\"") && new.contains("in the last 10 min"), "{new}");
        assert!(new.contains(" No data before <time ") && !new.contains("<rect class=\"gap\""), "{new}");

        let old = drawn(Some(SINCE.minus(STEP)), &[step(10, 2, 4), step(11, 1, 1)]);
        assert!(old.contains("viewBox=\"0 0 120 1000\"") && !old.contains("No data before"), "{old}");
        assert!(old.contains("<rect class=\"gap\" x=\"0\" width=\"100\""), "{old}");
    }

    #[test]
    fn without_samples_there_is_a_sentence_and_no_plot() {
        for (first, sentence) in
            [(None, "No data yet: "), (Some(SINCE.minus(STEP)), "No data in the last 1 h: ")]
        {
            let markup = drawn(first, &[]);
            assert!(markup.contains(sentence) && !markup.contains("<svg"), "{markup}");
        }
    }
}
