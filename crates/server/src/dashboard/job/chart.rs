//! Durations of the last executions as bars.

use super::state::health;
use crate::dashboard::instant::took;
use crate::dashboard::part::plural;
use maud::{Markup, html};
use tidemill_domain::job::track::median;
use tidemill_store::job::RunRecord;

pub(crate) const BARS: u32 = 60;
/// Height of the drawing and width per bar, in its own units.
const HEIGHT: f64 = 100.0;
const ROOM: usize = 10;

/// `runs` has the newest first. Executions that have not ended have no bar.
pub(super) fn durations(runs: &[RunRecord]) -> Markup {
    let ended: Vec<&RunRecord> = runs.iter().rev().filter(|run| run.length().is_some()).collect();
    let lengths = || ended.iter().filter_map(|run| run.length());
    let (Some(longest), Some(middle)) = (lengths().max(), median(lengths())) else { return html! {} };
    let executions = plural(ended.len(), "ended execution", "ended executions");
    let text = format!("Last {executions}: median {}, longest {}.", took(middle), took(longest));
    // All bars have the same width, even if there are few.
    let width = BARS as usize * ROOM;
    html! {
        figure.body {
            svg.chart viewBox={ "0 0 " (width) " " (HEIGHT) } preserveAspectRatio="none" role="img" {
                title { "Duration of executions, the newest on the right" }
                desc { (text) }
                @for (place, run) in ended.iter().enumerate() {
                    (bar(run, width - (ended.len() - place) * ROOM, longest.as_secs_f64()))
                }
            }
            figcaption.soft { (text) }
        }
    }
}

fn bar(run: &RunRecord, x: usize, longest: f64) -> Markup {
    let length = run.length().unwrap_or_default();
    let share = if longest > 0.0 { length.as_secs_f64() / longest } else { 0.0 };
    // Even the shortest bar is visible.
    let height = (share * HEIGHT).clamp(2.0, HEIGHT);
    html! {
        rect.bar.(health(run.status).class()) x=(x) y=(format!("{:.1}", HEIGHT - height)) width=(ROOM - 2)
            height=(format!("{height:.1}")) {
            title { "#" (run.id) " " (run.status) ", " (took(length)) }
        }
    }
}
