//! Steps that take units of a pool: what they ask for, under which key, and what a grant means for them.

use crate::hint::{CannotRewrite, Degree, Hint, HintTooLong, rewrite};
use crate::job::ExecutionId;
use crate::job::spark::Granted;
use crate::pool::holder::{BadHolder, Holder};
use crate::pool::weight::Lever;
use crate::pool::{Class, PoolName};
use std::num::NonZeroU32;
use std::time::Duration;

/// How the run of a holder begins that is an execution of a job.
pub const RUN_PREFIX: &str = "execution-";

/// The units that a step needs while it runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolUse {
    /// Of this pool.
    pub pool: PoolName,
    /// How much may be done at once; the degree of the hint when it is not said, and the pool's default without one.
    pub units: Option<NonZeroU32>,
    /// The least that would do; the pool's when it is not said.
    pub least: Option<NonZeroU32>,
    /// How many sessions that much is in each of; one when it is not said.
    pub sessions: Option<NonZeroU32>,
    /// How urgent it is.
    pub class: Class,
    /// The hint of the step's statement, which is lowered to what is granted.
    pub hint: Option<String>,
    /// How long it waits in the queue; as long as it takes when it is not said.
    pub wait: Option<Duration>,
}

/// Why a step cannot ask like this.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadPoolUse {
    /// The least is more than what it would like to have.
    #[error("the least that would do is {least}, and it asks for {units} only")]
    LeastAboveUnits {
        /// The least.
        least: NonZeroU32,
        /// What it asks for.
        units: NonZeroU32,
    },
    /// The hint is too long.
    #[error(transparent)]
    HintTooLong(#[from] HintTooLong),
    /// The hint could not be lowered if less were granted.
    #[error("the hint could not be lowered to what is granted: {0}")]
    HintNotRewritten(#[from] CannotRewrite),
}

impl PoolUse {
    /// The pool's default, for as long as it takes.
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

    /// Refuses what would fail only once the units are there.
    pub fn check(&self) -> Result<(), BadPoolUse> {
        if let (Some(least), Some(units)) = (self.least, self.parallel()?)
            && least > units
        {
            return Err(BadPoolUse::LeastAboveUnits { least, units });
        }
        self.granted(Lever::Parallel, NonZeroU32::MIN).map(drop)
    }

    /// The degree of parallelism that it asks for; none: the pool's default.
    ///
    /// ```
    /// # use tidemill_domain::job::pool::PoolUse;
    /// let mut wanted = PoolUse::new("adw".parse().unwrap());
    /// assert_eq!(wanted.parallel().unwrap(), None);
    /// wanted.hint = Some("/*+ PARALLEL(16) */".to_owned());
    /// assert_eq!(wanted.parallel().unwrap().unwrap().get(), 16);
    /// ```
    pub fn parallel(&self) -> Result<Option<NonZeroU32>, HintTooLong> {
        match (self.units, &self.hint) {
            (Some(units), _) => Ok(Some(units)),
            (None, None) => Ok(None),
            (None, Some(text)) => Ok(match Hint::parse(text)?.degree() {
                Degree::Exact(degree) => Some(degree),
                Degree::Serial => Some(NonZeroU32::MIN),
                _ => None,
            }),
        }
    }

    /// What the step is told of a grant. Where the pool lowers the number of sessions, the hint stays as it is.
    pub fn granted(&self, lever: Lever, granted: NonZeroU32) -> Result<Granted, BadPoolUse> {
        let hint = match (&self.hint, lever) {
            (Some(text), Lever::Parallel) => Some(rewrite(&Hint::parse(text)?, granted)?),
            (Some(text), Lever::Sessions) => Some(text.clone()),
            (None, _) => None,
        };
        Ok(Granted { units: granted.get(), hint })
    }
}

/// Who holds the units of a step, or of one partition of it. An execution is never run again under the same number, so a
/// restart does not meet what an execution before it has left behind.
pub fn holder(job: &str, execution: ExecutionId, step: &str) -> Result<Holder, BadHolder> {
    Holder::new(job, &format!("{RUN_PREFIX}{execution}"), step, -1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
    fn the_number_counts_before_the_hint_and_the_hint_before_the_pools_default() {
        let both = PoolUse { units: Some(some(4)), ..wanted("/*+ PARALLEL(16) */") };

        assert_eq!(both.parallel(), Ok(Some(some(4))));
        assert_eq!(wanted("/*+ PARALLEL(16) */").parallel(), Ok(Some(some(16))));
        assert_eq!(wanted("/*+ NO_PARALLEL */").parallel(), Ok(Some(some(1))));
        assert_eq!(wanted("/*+ PARALLEL(AUTO) */").parallel(), Ok(None));
        assert_eq!(wanted("/*+ FULL(a) */").parallel(), Ok(None));
    }

    #[test]
    fn a_grant_lowers_the_hint_unless_the_pool_lowers_the_sessions() {
        let wanted = wanted("/*+ PARALLEL(16) FULL(a) */");

        let lowered = wanted.granted(Lever::Parallel, some(4)).unwrap();
        let kept = wanted.granted(Lever::Sessions, some(4)).unwrap();

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
        assert!(matches!(wanted("/*+ PARALLEL(a b c d 8) */").check(), Err(BadPoolUse::HintNotRewritten(_))));
        assert!(matches!(wanted(&"x".repeat(1 << 20)).check(), Err(BadPoolUse::HintTooLong(_))));
    }

    proptest! {
        #[test]
        fn what_passes_the_check_can_be_granted_and_never_asks_for_more_than_that(
            hint in "/\\*\\+ (PARALLEL\\([0-9]{1,3}\\)|PARALLEL\\((a|b) [0-9]{1,3}\\)|FULL\\(a\\)| )* \\*/",
            granted in 1_u32..200,
        ) {
            let wanted = wanted(&hint);
            if wanted.check().is_ok() {
                let told = wanted.granted(Lever::Parallel, some(granted)).unwrap();

                prop_assert_eq!(told.units, granted);
                let read = Hint::parse(told.hint.as_deref().unwrap()).unwrap();
                prop_assert!(read.degree().upper_bound(NonZeroU32::MAX, NonZeroU32::MIN) <= some(granted));
            }
        }
    }
}
