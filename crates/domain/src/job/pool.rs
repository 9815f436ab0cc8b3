//! Steps that use units of a pool: their request, holder and grant.

use crate::hint::{CannotRewrite, Degree, Hint, HintTooLong};
use crate::job::ExecutionId;
use crate::job::spark::Granted;
use crate::pool::holder::{BadHolder, Holder};
use crate::pool::{Class, PoolName, Settings, UnitRequest};
use std::num::NonZeroU32;
use std::time::Duration;

/// Prefix of the run id of a holder that is a job execution.
pub const RUN_PREFIX: &str = "execution-";

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolUse {
    pub pool: PoolName,
    /// The default is the degree of the hint, or the pool's default.
    pub units: Option<NonZeroU32>,
    /// The minimum; the default is the pool's.
    pub least: Option<NonZeroU32>,
    /// How many sessions use `units` each; one by default.
    pub sessions: Option<NonZeroU32>,
    pub class: Class,
    /// The hint of the step's statement, which is lowered to the grant; one that cannot be lowered is granted in full.
    pub hint: Option<String>,
    /// How long to wait in the queue; without a limit by default.
    pub wait: Option<Duration>,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadPoolUse {
    #[error("the minimum is {least}, but only {units} are requested")]
    LeastAboveUnits { least: NonZeroU32, units: NonZeroU32 },
    #[error(transparent)]
    HintTooLong(#[from] HintTooLong),
    /// The pool changed after the request.
    #[error("the hint cannot be lowered to what was granted: {0}")]
    HintNotRewritten(#[from] CannotRewrite),
}

impl PoolUse {
    pub fn new(pool: PoolName) -> Self {
        Self {
            pool,
            units: None,
            least: None,
            sessions: None,
            class: Class::default(),
            hint: None,
            wait: None,
        }
    }

    /// Refuses what would fail only after the grant.
    pub fn check(&self) -> Result<(), BadPoolUse> {
        let degree = self.hint.as_deref().map(Hint::parse).transpose()?.map(|hint| hint.degree());
        // A degree that depends on the pool's settings is not known yet.
        let units = self.units.or(match degree {
            Some(Degree::Exact(degree)) => Some(degree),
            Some(Degree::Serial) => Some(NonZeroU32::MIN),
            _ => None,
        });
        match (self.least, units) {
            (Some(least), Some(units)) if least > units => Err(BadPoolUse::LeastAboveUnits { least, units }),
            _ => Ok(()),
        }
    }

    pub fn asked(&self, settings: &Settings) -> Result<UnitRequest, HintTooLong> {
        UnitRequest::new(settings, self.units, self.least, self.hint.as_deref())
    }

    pub fn granted(&self, settings: &Settings, granted: NonZeroU32) -> Result<Granted, BadPoolUse> {
        let hint = self.asked(settings)?.hint_override(granted)?;
        Ok(Granted { units: granted.get(), hint })
    }
}

/// The holder of a step's or partition's units. A restart has another number, so it does not meet old units.
pub fn holder(job: &str, execution: ExecutionId, step: &str) -> Result<Holder, BadHolder> {
    Holder::new(job, &format!("{RUN_PREFIX}{execution}"), step, -1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::WeightModel;

    fn some(number: u32) -> NonZeroU32 {
        NonZeroU32::new(number).unwrap()
    }

    fn wanted(hint: &str) -> PoolUse {
        PoolUse { hint: Some(hint.to_owned()), ..PoolUse::new("adw".parse().unwrap()) }
    }

    #[test]
    fn each_execution_and_each_step_is_a_holder_of_its_own() {
        let of = |execution, step| holder("nightly", ExecutionId::new(execution), step).unwrap();

        assert_eq!(of(42, "load").to_string(), "nightly/execution-42/load");
        assert_ne!(of(42, "load"), of(43, "load"));
        assert_ne!(of(42, "load"), of(42, "load:part1"));
    }

    #[test]
    fn a_grant_lowers_the_hint_unless_the_pool_lowers_the_sessions() {
        let wanted = wanted("/*+ PARALLEL(16) FULL(a) */");
        let by_degree = Settings::new("adw".parse().unwrap(), 100);
        let by_sessions = Settings { weight: WeightModel::Sessions, ..by_degree.clone() };

        let lowered = wanted.granted(&by_degree, some(4)).unwrap();
        let kept = wanted.granted(&by_sessions, some(4)).unwrap();

        assert_eq!(lowered, Granted { units: 4, hint: Some("/*+ PARALLEL(4) FULL(a) */".into()) });
        assert_eq!(kept, Granted { units: 4, hint: Some("/*+ PARALLEL(16) FULL(a) */".into()) });
    }

    #[test]
    fn what_could_only_fail_later_is_refused() {
        let least = |least, units| PoolUse {
            least: Some(some(least)),
            units,
            ..PoolUse::new("adw".parse().unwrap())
        };

        assert_eq!(least(4, Some(some(4))).check(), Ok(()));
        assert_eq!(least(9, None).check(), Ok(()), "the pool's default may be enough");
        assert_eq!(
            least(5, Some(some(4))).check(),
            Err(BadPoolUse::LeastAboveUnits { least: some(5), units: some(4) })
        );
        let by_hint = PoolUse { least: Some(some(9)), ..wanted("/*+ PARALLEL(8) */") };
        assert!(by_hint.check().is_err(), "the hint says how much is asked for");
        assert_eq!(wanted("/*+ PARALLEL(a b c d 8) */").check(), Ok(()), "it is granted whole");
        assert!(matches!(wanted(&"x".repeat(1 << 20)).check(), Err(BadPoolUse::HintTooLong(_))));
    }
}
