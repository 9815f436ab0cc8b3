//! What a request asks of a pool: its number, else the degree of its hint, else the pool's default.
//!
//! A hint is lowered to the grant; one that cannot be lowered is granted in full or waits.

use super::settings::Settings;
use super::weight::{Lever, lever};
use crate::hint::{CannotRewrite, Degree, Hint, HintTooLong, Warning, rewrite};
use std::num::NonZeroU32;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnitRequest {
    pub parallel: NonZeroU32,
    /// The minimum; the pool's if none.
    pub least: Option<NonZeroU32>,
    /// What the pool lowers when it does not have enough.
    pub lever: Lever,
    /// What is odd about the hint, or about the hint and the number.
    pub warnings: Vec<Warning>,
    /// With the greatest degree that the statement can run with as written.
    hint: Option<(Hint, NonZeroU32)>,
}

impl UnitRequest {
    pub fn new(
        settings: &Settings,
        number: Option<NonZeroU32>,
        least: Option<NonZeroU32>,
        hint: Option<&str>,
    ) -> Result<Self, HintTooLong> {
        let lever = lever(settings.weight, settings.hint_effective);
        let Some(text) = hint else {
            let parallel = number.unwrap_or(settings.default_units);
            return Ok(Self { parallel, least, lever, warnings: Vec::new(), hint: None });
        };
        let hint = Hint::parse(text)?;
        let degree = hint.degree().upper_bound(settings.default_degree, settings.default_units);
        let parallel = number.unwrap_or(degree);
        let lowest = least.unwrap_or(settings.min_units).max(settings.min_units).min(parallel);
        // A text between both is no longer than these, so it can be lowered as well.
        let can_be_lowered = [lowest, parallel].into_iter().all(|granted| rewrite(&hint, granted).is_ok());
        let unchanged = hint.clause_degree().upper_bound(settings.default_degree, NonZeroU32::MIN);
        // Where sessions are granted, the degree of each stays. A hint may have no effect there, but a clause has.
        let (parallel, least) = match lever {
            Lever::Parallel if !can_be_lowered => (parallel.max(degree), Some(parallel.max(degree))),
            Lever::Parallel => (parallel, least),
            Lever::Sessions => (parallel.max(unchanged), least),
        };
        let mut warnings = hint.warnings().to_vec();
        if let Some(number) = number.filter(|number| hint.degree() != Degree::None && *number != degree) {
            warnings.push(if parallel == number { Warning::NumberCounts } else { Warning::HintCounts });
        }
        Ok(Self { parallel, least, lever, warnings, hint: Some((hint, degree)) })
    }

    /// The warnings of a request for several pools, each once.
    pub fn warnings_of<'r>(
        requests: impl Iterator<Item = &'r Self> + Clone,
    ) -> impl Iterator<Item = Warning> {
        let is_of =
            move |warning: &Warning| requests.clone().any(|request| request.warnings.contains(warning));
        Warning::ALL.into_iter().filter(is_of)
    }

    /// The hint to run with. Fails if the statement would run with more, because the pool was changed after the request.
    pub fn hint_override(&self, granted: NonZeroU32) -> Result<Option<String>, CannotRewrite> {
        let Some((hint, degree)) = &self.hint else { return Ok(None) };
        let text = || hint.text().to_owned();
        match (self.lever, rewrite(hint, granted)) {
            (Lever::Sessions, _) => Ok(Some(text())),
            (Lever::Parallel, Ok(lowered)) => Ok(Some(lowered)),
            (Lever::Parallel, Err(_)) if *degree <= granted => Ok(Some(text())),
            (Lever::Parallel, Err(refusal)) => Err(refusal),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::tests::some;
    use crate::pool::weight::WeightModel;
    use proptest::prelude::*;

    /// Its degree cannot be read.
    const UNREADABLE: &str = "/*+ PARALLEL(a b c d 8) */";

    fn settings() -> Settings {
        Settings { default_units: some(3), ..Settings::new("ADW".parse().unwrap(), 1_000) }
    }

    fn asked(number: Option<u32>, least: Option<u32>, hint: Option<&str>) -> (u32, Option<u32>) {
        let asked = UnitRequest::new(&settings(), number.map(some), least.map(some), hint).unwrap();
        (asked.parallel.get(), asked.least.map(NonZeroU32::get))
    }

    #[test]
    fn the_number_counts_before_the_hint_and_the_hint_before_the_pools_default() {
        assert_eq!(asked(None, None, None), (3, None));
        assert_eq!(asked(Some(4), Some(2), None), (4, Some(2)));
        assert_eq!(asked(Some(4), None, Some("/*+ PARALLEL(16) */")), (4, None));
        assert_eq!(asked(None, Some(4), Some("/*+ PARALLEL(12) */")), (12, Some(4)));
        assert_eq!(asked(None, None, Some("/*+ NO_PARALLEL */")), (1, None));
        assert_eq!(asked(None, None, Some("/*+ FULL(a) */")), (3, None));
    }

    #[test]
    fn what_the_database_would_choose_counts_for_the_most() {
        for hint in
            ["/*+ PARALLEL */", "/*+ PARALLEL(AUTO) */", "/*+ PARALLEL(DEFAULT) */", "/*+ PARALLEL(a) */"]
        {
            assert_eq!(asked(None, None, Some(hint)), (16, None), "{hint}");
        }
    }

    #[test]
    fn a_hint_that_cannot_be_lowered_is_granted_whole() {
        assert_eq!(asked(None, Some(2), Some(UNREADABLE)), (16, Some(16)));
        assert_eq!(asked(Some(4), None, Some(UNREADABLE)), (16, Some(16)), "a number does not make it less");
        assert_eq!(asked(Some(32), None, Some(UNREADABLE)), (32, Some(32)));
    }

    #[test]
    fn a_statement_with_a_parallel_clause_is_granted_whole() {
        let create = "CREATE TABLE t PARALLEL 8 AS SELECT /*+ PARALLEL(4) */ * FROM s";
        assert_eq!(asked(None, None, Some(create)), (8, Some(8)));
        assert_eq!(asked(Some(4), None, Some(create)), (8, Some(8)), "a number does not make it less");
        assert_eq!(asked(Some(12), Some(2), Some(create)), (12, Some(12)));
        assert_eq!(asked(None, None, Some("ALTER INDEX i REBUILD PARALLEL")), (16, Some(16)));
        assert_eq!(asked(None, None, Some("ALTER SESSION FORCE PARALLEL QUERY PARALLEL 32")), (32, Some(32)));
        assert_eq!(asked(None, None, Some("ALTER INDEX i REBUILD NOPARALLEL")), (3, None));
        // Where the database ignores hints, it still follows clauses.
        let settings = Settings { weight: WeightModel::Px, hint_effective: false, ..settings() };
        let request = UnitRequest::new(&settings, Some(some(4)), Some(some(2)), Some(create)).unwrap();
        assert_eq!((request.parallel, request.least), (some(8), Some(some(2))));
        assert_eq!(request.warnings, [Warning::Clause, Warning::HintCounts]);
    }

    #[test]
    fn a_number_that_is_not_that_of_the_hint_is_warned_of() {
        let check = |number: Option<u32>, hint: &str, warnings: &[Warning]| {
            let request = UnitRequest::new(&settings(), number.map(some), None, Some(hint)).unwrap();
            assert_eq!(request.warnings, warnings, "{number:?} {hint}");
        };

        check(Some(16), "/*+ PARALLEL(4) */", &[Warning::NumberCounts]);
        check(Some(4), "/*+ PARALLEL(16) */", &[Warning::NumberCounts]);
        check(Some(8), "/*+ PARALLEL(AUTO) */", &[Warning::NumberCounts]);
        check(Some(8), "/*+ NO_PARALLEL */", &[Warning::NumberCounts]);
        check(Some(8), UNREADABLE, &[Warning::Unreadable, Warning::HintCounts]);
        check(Some(32), UNREADABLE, &[Warning::Unreadable, Warning::NumberCounts]);
        check(Some(4), "ALTER TABLE t MOVE PARALLEL 8", &[Warning::Clause, Warning::HintCounts]);
        check(Some(8), "ALTER TABLE t MOVE PARALLEL 8", &[Warning::Clause]);
        for (number, hint) in
            [(None, "/*+ PARALLEL(4) */"), (Some(4), "/*+ PARALLEL(4) */"), (Some(4), "/*+ FULL(a) */")]
        {
            check(number, hint, &[]);
        }
        let requests = [Some(some(8)), None, Some(some(2))].map(|number| {
            UnitRequest::new(&settings(), number, None, Some("/*+ PARALLEL(4) */, /*+ x */")).unwrap()
        });
        let all: Vec<_> = UnitRequest::warnings_of(requests.iter()).collect();
        assert_eq!(all, [Warning::SecondComment, Warning::NumberCounts], "each once");
    }

    #[test]
    fn the_text_to_run_with_is_lowered_or_whole_or_there_is_none() {
        let told = |hint, granted| {
            UnitRequest::new(&settings(), None, None, hint)
                .unwrap()
                .hint_override(some(granted))
                .map_err(drop)
        };

        let lowered = told(Some("/*+ PARALLEL(16) FULL(A) */"), 8);
        assert_eq!(lowered, Ok(Some("/*+ PARALLEL(8) FULL(A) */".to_owned())));
        assert_eq!(told(Some("/*+ PARALLEL(AUTO) */"), 16), Ok(Some("/*+ PARALLEL(16) */".to_owned())));
        assert_eq!(told(Some(UNREADABLE), 16), Ok(Some(UNREADABLE.to_owned())));
        assert_eq!(told(Some(UNREADABLE), 15), Err(()));
        assert_eq!(told(None, 8), Ok(None));
    }

    #[test]
    fn where_sessions_are_given_out_the_hint_stays_and_fewer_of_them_may_be_granted() {
        for (weight, hint_effective) in [(WeightModel::Sessions, true), (WeightModel::Px, false)] {
            let settings = Settings { weight, hint_effective, ..settings() };
            for hint in ["/*+ PARALLEL(16) */", UNREADABLE] {
                let asked = UnitRequest::new(&settings, None, Some(some(2)), Some(hint)).unwrap();

                assert_eq!((asked.parallel, asked.least), (some(16), Some(some(2))));
                assert_eq!(asked.hint_override(some(2)).unwrap().as_deref(), Some(hint));
            }
        }
    }

    #[test]
    fn a_hint_that_is_too_long_is_refused() {
        assert!(UnitRequest::new(&settings(), None, None, Some(&"x".repeat(1 << 20))).is_err());
    }

    /// Up to three directives, some of them unreadable, alone or within a statement with a clause.
    const HINT: &str = "((CREATE TABLE t (PARALLEL|NOPARALLEL|PARALLEL [1-9][0-9]?|PARALLEL \\(DEGREE [1-9]( INSTANCES [1-9])?\\)) \
        AS SELECT )|(ALTER SESSION (FORCE|ENABLE|DISABLE) PARALLEL (DML|QUERY)( PARALLEL [1-9][0-9]?)?; INSERT ))?/\\*\\+ ((PARALLEL|PARALLEL\\((AUTO|DEFAULT|MANUAL|[1-9][0-9]?|a|a,? [1-9][0-9]?|a b c [1-9])\\)\
        |PARALLEL\\([1-9]|NO_PARALLEL|FULL\\(a\\)) ){0,3}\\*/";

    proptest! {
        #[test]
        fn what_runs_never_weighs_more_than_what_is_counted(
            hint in HINT,
            number in prop::option::of(1_u32..64),
            least in prop::option::of(1_u32..64),
            (min_units, default_units, default_degree) in (1_u32..20, 1_u32..20, 1_u32..40),
            weight in prop::sample::select(WeightModel::ALL.to_vec()),
            hint_effective in any::<bool>(),
            sessions in 1_u32..5,
            percent in 0_u32..=100,
        ) {
            let settings = Settings {
                weight,
                hint_effective,
                min_units: some(min_units),
                default_units: some(default_units),
                default_degree: some(default_degree),
                ..settings()
            };
            let asked = UnitRequest::new(&settings, number.map(some), least.map(some), Some(&hint)).unwrap();
            let (lever, most, counted) = settings.weigh(Some(asked.parallel), Some(some(sessions)));
            // As a pool prices it, and grants anything from the least to all of it.
            let least = asked.least.unwrap_or(settings.min_units).max(settings.min_units).min(most);
            let granted = some(least.get() + (most.get() - least.get()) * percent / 100);

            let text = asked.hint_override(granted).unwrap().unwrap();

            let ran = Hint::parse(&text).unwrap();
            let degree = if hint_effective { ran.degree() } else { ran.clause_degree() };
            let degree = degree.upper_bound(settings.default_degree, NonZeroU32::MIN);
            let ran_sessions = if lever == Lever::Sessions { granted } else { some(sessions) };
            let (_, ran, runs) = settings.weigh(Some(degree), Some(ran_sessions));
            prop_assert!(runs.units(ran) <= counted.units(granted), "{text} with {granted} of {most}");
        }
    }

    #[test]
    fn a_hint_says_how_much_is_asked_for() {
        use crate::pool::{Settings, unit_request::UnitRequest};
        use std::num::NonZeroU32;
        let settings = Settings::new("adw".parse().unwrap(), 1_000);
        let asked = UnitRequest::new(&settings, None, None, Some("/*+ PARALLEL(16) */")).unwrap();
        assert_eq!(asked.parallel.get(), 16);
        assert_eq!(asked.hint_override(NonZeroU32::new(4).unwrap()).unwrap().unwrap(), "/*+ PARALLEL(4) */");
    }
}
