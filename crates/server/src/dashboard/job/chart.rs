//! How long the last executions took, as bars.

use super::state::health;
use crate::dashboard::instant::took;
use maud::{Markup, html};
use tidemill_domain::job::track::median;
use tidemill_store::job::RunRecord;

/// How many bars there are.
pub(crate) const BARS: u32 = 60;
/// Height of the drawing, and room for one bar, in its own units.
const HEIGHT: f64 = 100.0;
const ROOM: usize = 10;

/// The bars; `runs` come newest first. What has not ended has none.
pub(super) fn durations(runs: &[RunRecord]) -> Markup {
    let ended: Vec<&RunRecord> = runs.iter().rev().filter(|run| run.length().is_some()).collect();
    let lengths = || ended.iter().filter_map(|run| run.length());
    let (Some(longest), Some(middle)) = (lengths().max(), median(lengths())) else { return html! {} };
    let told = format!(
        "The last {} that ended: half of them took {} or less, the longest {}.",
        ended.len(),
        took(middle),
        took(longest)
    );
    // Bars of one width, however few there are.
    let width = BARS as usize * ROOM;
    html! {
        figure.body {
            svg.chart viewBox={ "0 0 " (width) " " (HEIGHT) } preserveAspectRatio="none" role="img" {
                title { "How long executions took, the newest at the right" }
                desc { (told) }
                @for (place, run) in ended.iter().enumerate() {
                    (bar(run, width - (ended.len() - place) * ROOM, longest.as_secs_f64()))
                }
            }
            figcaption.soft { (told) }
        }
    }
}

fn bar(run: &RunRecord, x: usize, longest: f64) -> Markup {
    let length = run.length().unwrap_or_default();
    let share = if longest > 0.0 { length.as_secs_f64() / longest } else { 0.0 };
    // Also the shortest can be seen.
    let height = (share * HEIGHT).clamp(2.0, HEIGHT);
    html! {
        rect.bar.(health(run.status).class()) x=(x) y=(format!("{:.1}", HEIGHT - height)) width=(ROOM - 2)
            height=(format!("{height:.1}")) {
            title { "#" (run.id) " " (run.status) ", " (took(length)) }
        }
    }
}
