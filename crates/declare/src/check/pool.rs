//! What a step says about a pool elsewhere than under `pool`.

use super::Checker;
use crate::model::{PartitionBy, StepFile, Work};

/// What the texts of a step may name because of its pool.
pub(super) fn granted_names(step: &StepFile) -> &'static [&'static str] {
    match &step.pool {
        Some(pool) if pool.value.hint.is_some() => &["units", "hint"],
        Some(_) => &["units"],
        None => &[],
    }
}

/// What helps whoever names what only a pool grants.
pub(super) fn missing(name: &str) -> Option<&'static str> {
    match name {
        "hint" => Some(
            "hint is known in a step whose pool has one: pool: { name: adw, hint: \"/*+ PARALLEL(16) */\" }",
        ),
        "units" => Some("units is known in a step with a pool, such as pool: adw; declare it otherwise"),
        _ => None,
    }
}

impl Checker<'_> {
    /// As many partitions as a pool grants need a pool.
    pub(super) fn granted(&mut self, step: &StepFile) {
        if let Work::Chunk(chunk) = &step.work
            && let Some(partitions) = &chunk.partitions
            && matches!(partitions.value.by, PartitionBy::Range { count: None, .. })
            && step.pool.is_none()
        {
            let what = "the partitions are as many as a pool grants, and the step has no pool";
            let fix = "add pool: with its name to the step, or write a number for count";
            self.wrong_at(partitions.place, 1, what, fix);
        }
    }
}
