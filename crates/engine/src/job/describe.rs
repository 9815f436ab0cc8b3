//! How steps are made, in words for people: what was said when they were defined.

use crate::job::step::Step;
use std::num::NonZeroU32;
use tidemill_domain::job::fault::FaultPolicy;
use tidemill_domain::job::pool::PoolUse;
use tidemill_domain::job::step::StepRules;

/// One thing that was said of a step: what it is about, and what was said.
pub type Described = (&'static str, String);

impl Step {
    /// What was said of it, in the order in which people want to know it; nothing of what goes without saying.
    pub fn describe(&self) -> Vec<Described> {
        let mut all = self.body().describe();
        all.extend(self.pool_use().map(|wanted| ("pool", units(wanted))));
        let StepRules { allow_start_if_complete, start_limit } = self.rules();
        if start_limit != u32::MAX {
            all.push(("starts", format!("at most {start_limit} in one instance")));
        }
        if allow_start_if_complete {
            all.push(("when complete", "runs again in a restart".to_owned()));
        }
        all
    }
}

/// What a step tolerates.
pub(crate) fn tolerated(policy: &FaultPolicy) -> Vec<Described> {
    let mut all = Vec::new();
    if policy.attempts_max > 1 && !policy.retry.is_empty() {
        all.push(("retries", format!("{} attempts, of {}", policy.attempts_max, policy.retry)));
    }
    if !policy.skip.is_empty() {
        all.push(("skips", format!("at most {}, of {}", policy.skip_limit, policy.skip)));
    }
    all
}

fn units(wanted: &PoolUse) -> String {
    let number = |units: Option<NonZeroU32>, without: &str| {
        units.map_or_else(|| without.to_owned(), |units| units.to_string())
    };
    let least = wanted.least.map(|least| format!(", at least {least}")).unwrap_or_default();
    format!("{} units of {}{least}", number(wanted.units, "its default"), wanted.pool)
}

#[cfg(test)]
mod tests {
    use crate::item::{ItemsReader, ItemsWriter};
    use crate::job::{Partition, Step};
    use tidemill_domain::item::ErrorKind;
    use tidemill_domain::job::pool::PoolUse;

    #[test]
    fn what_was_said_of_a_step_is_told_and_nothing_else() {
        let plain = || {
            Step::chunk("load", 500)
                .reader(|_| Ok(ItemsReader::new("numbers", 1..=10_i64)))
                .writer(|_| Ok(ItemsWriter::default()))
        };
        let told = |step: Step| -> Vec<String> {
            step.describe().into_iter().map(|(what, said)| format!("{what}: {said}")).collect()
        };

        assert_eq!(told(plain().build()), ["chunk: 500 items"]);
        let careful = plain().skip([ErrorKind::VALIDATION], 5).retry_all(3).threads(4).build();
        let pool = PoolUse { units: std::num::NonZeroU32::new(8), ..PoolUse::new("ADW".parse().unwrap()) };
        assert_eq!(
            told(careful.pool(pool).start_limit(2)),
            [
                "chunk: 500 items",
                "threads: 4",
                "retries: 3 attempts, of all kinds",
                "skips: at most 5, of validation",
                "pool: 8 units of ADW",
                "starts: at most 2 in one instance",
            ]
        );
        let parts = |_: &_, _: usize| Ok(vec![Partition::new("one")]);
        assert_eq!(
            told(Step::partitioned("all", plain().build(), parts).grid(8).build()),
            ["partitions: 8", "worker: load", "chunk: 500 items"]
        );
    }
}
