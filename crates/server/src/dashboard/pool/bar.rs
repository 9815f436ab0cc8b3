//! The bar of a pool, which shows units in use, and the state of a pool.

use crate::dashboard::part::{Health, state};
use maud::{Markup, html};
use tidemill_domain::pool::Settings;
use tidemill_domain::pool::command::Level;

/// The bar as wide as its container. `peak` marks the highest usage.
pub(crate) fn bar(level: Level, peak: Option<u64>) -> Markup {
    let whole = u64::from(level.max_units).max(level.usage).max(peak.unwrap_or(0)).max(1);
    let part = |units: u64| percent(units, whole);
    let within = level.usage.min(level.limit);
    html! {
        svg.level viewBox="0 0 100 10" preserveAspectRatio="none" role="img" {
            title { (summary(level, peak)) }
            rect.all width="100" height="10" {}
            rect.used width=(part(within)) height="10" {}
            @if level.over_by() > 0 {
                rect.over x=(part(level.limit)) width=(part(level.over_by())) height="10" {}
            }
            @if level.limit < whole {
                line.limit x1=(part(level.limit)) x2=(part(level.limit)) y1="0" y2="10" {}
            }
            @if let Some(peak) = peak {
                line.peak x1=(part(peak)) x2=(part(peak)) y1="0" y2="10" {}
            }
        }
    }
}

fn summary(level: Level, peak: Option<u64>) -> String {
    let Level { usage, limit, max_units } = level;
    let peak = peak.map_or_else(String::new, |peak| format!(", peak {peak}"));
    format!("{usage} of {max_units} units in use, limit {limit}{peak}")
}

/// With two digits, which is finer than any screen.
fn percent(units: u64, whole: u64) -> String {
    let hundredths = u128::from(units) * 10_000 / u128::from(whole.max(1));
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

pub(crate) fn pool_state(settings: &Settings, level: Level, suspect: u64, waiting: u64) -> Markup {
    let over = format!("over by {}", level.over_by());
    let (health, word) = match () {
        () if level.over_by() > 0 => (Health::Bad, over.as_str()),
        () if settings.paused.is_some() => (Health::Idle, "paused"),
        () if suspect > 0 => (Health::Warn, "suspect leases"),
        () if waiting > 0 => (Health::Warn, "requests waiting"),
        () => (Health::Ok, "open"),
    };
    html! {
        (state(health, word))
        @if level.over_by() > 0 && settings.paused.is_some() { br; (state(Health::Idle, "paused")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(usage: u64, limit: u64, max_units: u32, expected: &[&str]) {
        let markup = bar(Level { usage, limit, max_units }, None).into_string();
        for text in expected {
            assert!(markup.contains(text), "{text} is not in {markup}");
        }
    }

    #[test]
    fn the_bar_has_what_is_in_use_and_where_the_limit_is() {
        check(16, 19, 20, &["used\" width=\"80.00\"", "x1=\"95.00\"", "16 of 20 units in use, limit 19"]);
        check(0, 0, 0, &["used\" width=\"0.00\"", "limit"]);
        check(19, 19, 20, &["used\" width=\"95.00\""]);
    }

    #[test]
    fn what_is_in_use_beyond_the_limit_is_not_cut_off() {
        check(32, 19, 20, &["used\" width=\"59.37\"", "over\" x=\"59.37\" width=\"40.62\""]);
    }
}
