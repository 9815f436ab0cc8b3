//! `render delete`: deletes renders that ended long ago. It shows what it would delete until it is told to do it.

use super::Setup;
use crate::commands::prelude::*;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::duration;
use tidemill_domain::render::retention::{Films, Kept, Retention};
use tidemill_engine::SystemClock;
use tidemill_engine::render::RenderPurge;

/// Troubles to show.
const TROUBLES_MAX: usize = 10;

#[derive(Args, Debug)]
pub(crate) struct Delete {
    /// Only renders that ended longer ago than this, such as 30d
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    older_than: Duration,
    /// Also delete the published files
    #[arg(long)]
    films: bool,
    /// Delete the oldest only until all published files together have at most this size, such as 500GB
    #[arg(long, value_name = "SIZE", requires = "films", value_parser = bytes)]
    max_size: Option<u64>,
    /// Count what would be deleted, delete nothing; this is the default
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Really delete
    #[arg(long)]
    yes: bool,
}

pub(super) async fn run(arguments: &Delete, context: &Context) -> Result<Exit> {
    let settings = &context.settings().render;
    let files = Setup::read(settings)?.files(settings, &Arc::new(SystemClock::new()));
    let films = if arguments.films { Films::Delete { bytes_max: arguments.max_size } } else { Films::Keep };
    let (store, actor) = (context.store().await?, context.actor());
    let retention = Retention { older_than: arguments.older_than, films };
    let purge =
        RenderPurge { store: &store, retention, files: Some(&files), actor: &actor, is_dry: !arguments.yes };
    let report = purge.run().await?;
    for (why, count) in &report.kept {
        context.note(&format!("{count} kept: {}", words(*why)));
    }
    for trouble in report.troubles.iter().take(TROUBLES_MAX) {
        context.note(&format!("warning: {trouble}"));
    }
    if !arguments.yes {
        context.note("dry run: nothing changed; add --yes to delete");
    }
    let values = [
        ("renders", json!(report.renders)),
        ("film_bytes", json!(report.bytes)),
        ("orphan_files", json!(report.orphans)),
        ("is_dry_run", json!(!arguments.yes)),
    ];
    Listing::one("tidemill.render_purge/v1", values).print(context.output())
}

fn words(why: Kept) -> &'static str {
    match why {
        Kept::NotEnded => "they have not ended",
        Kept::Held => "their worker has not noticed the end yet",
        Kept::JobLeft => "their job has not been removed from nexrender yet",
        Kept::TooYoung => "they ended too recently",
        Kept::WithinSize => "the published files are small enough without them",
        Kept::FilesLeft => "their files could not be deleted",
        Kept::Changed => "they were changed meanwhile",
    }
}

/// Such as `500GB`; without a unit, bytes.
fn bytes(text: &str) -> Result<u64, String> {
    let (number, unit) =
        text.split_at(text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len()));
    let factor = match unit.trim() {
        "" | "B" => Some(1),
        "kB" | "KB" => Some(1_000),
        "MB" => Some(1_000_000),
        "GB" => Some(1_000_000_000),
        "TB" => Some(1_000_000_000_000),
        _ => None,
    };
    let number: Option<u64> = number.parse().ok();
    let size = number.zip(factor).and_then(|(number, factor)| number.checked_mul(factor));
    size.ok_or_else(|| "write a whole number and a unit: kB, MB, GB or TB".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_has_a_unit() {
        let read = |text: &str| bytes(text).ok();

        assert_eq!(
            [read("500GB"), read("2 TB"), read("12")],
            [Some(500_000_000_000), Some(2_000_000_000_000), Some(12)]
        );
        assert_eq!([read("GB"), read("1.5GB"), read("-1"), read("9gb"), read("99999999999TB")], [None; 5]);
    }
}
