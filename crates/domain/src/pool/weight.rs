//! What a request costs: how many units a degree of parallelism takes.
//!
//! A batch opens `sessions` connections (Spark's `prttCnt`), and each may use `parallel` servers, in one set or two. The
//! weight model says which of these a pool counts. All models are linear in the one number that can be lowered, the
//! lever, so a ticket keeps just the two coefficients: later changes of the pool do not change what a running batch
//! weighs.

use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;

crate::words! {
    #[derive(Default, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum WeightModel: "a weight model is hint_units, sessions, px or processes" => about: &'static str {
        #[default]
        HintUnits = "hint_units" => "The number in the hint, as in the EMR Batch Agent API: PARALLEL(8) is 8 units.",
        Sessions = "sessions" => "The sessions that a request opens.",
        Px = "px" => "The parallel servers of all sessions.",
        Processes = "processes" => "The parallel servers and the sessions themselves.",
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    pub parallel: NonZeroU32,
    pub sessions: NonZeroU32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lever {
    Parallel,
    Sessions,
}

/// `base + per × lever` units.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Weight {
    base: u32,
    per: NonZeroU32,
}

impl Weight {
    pub const PLAIN: Self = Self { base: 0, per: NonZeroU32::MIN };

    pub fn units(self, lever: NonZeroU32) -> u64 {
        u64::from(self.base) + u64::from(self.per.get()) * u64::from(lever.get())
    }

    /// The smallest lever that takes at least `units`.
    pub fn covering(self, units: u64) -> NonZeroU32 {
        let least = units.saturating_sub(self.base.into()).div_ceil(self.per.get().into());
        NonZeroU32::new(u32::try_from(least).unwrap_or(u32::MAX)).unwrap_or(NonZeroU32::MIN)
    }
}

/// Where hints are ignored, or only sessions are counted, lowering the degree changes nothing.
pub fn lever(model: WeightModel, hint_effective: bool) -> Lever {
    match model {
        WeightModel::Sessions => Lever::Sessions,
        _ if !hint_effective => Lever::Sessions,
        WeightModel::HintUnits | WeightModel::Px | WeightModel::Processes => Lever::Parallel,
    }
}

/// The upper bound where the cost depends on the statement's plan: servers of all `sets` count, even of a serial session.
pub fn weigh(
    model: WeightModel,
    hint_effective: bool,
    sets: u8,
    shape: Shape,
) -> (Lever, NonZeroU32, Weight) {
    let lever = lever(model, hint_effective);
    let asked = match lever {
        Lever::Parallel => shape.parallel,
        Lever::Sessions => shape.sessions,
    };
    let sets = u32::from(sets.max(1));
    let servers = shape.parallel.get().saturating_mul(sets);
    let per_session = |count: u32| NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN);
    let weight = match (model, lever) {
        (WeightModel::HintUnits | WeightModel::Sessions, _) => Weight::PLAIN,
        (WeightModel::Px, Lever::Parallel) => {
            Weight { base: 0, per: per_session(shape.sessions.get().saturating_mul(sets)) }
        }
        (WeightModel::Px, Lever::Sessions) => Weight { base: 0, per: per_session(servers) },
        // One more for the driver's own session, which reads schema and bounds.
        (WeightModel::Processes, Lever::Parallel) => Weight {
            base: shape.sessions.get().saturating_add(1),
            per: per_session(shape.sessions.get().saturating_mul(sets)),
        },
        (WeightModel::Processes, Lever::Sessions) => {
            Weight { base: 1, per: per_session(servers.saturating_add(1)) }
        }
    };
    (lever, asked, weight)
}

/// The shape of a request with this lever and weight: the inverse of [`weigh`].
pub fn shape_of(
    model: WeightModel,
    hint_effective: bool,
    sets: u8,
    asked: NonZeroU32,
    weight: Weight,
) -> Shape {
    let lever = lever(model, hint_effective);
    let own = u32::from((model, lever) == (WeightModel::Processes, Lever::Sessions));
    let other = NonZeroU32::new((weight.per.get() - own) / u32::from(sets.max(1))).unwrap_or(NonZeroU32::MIN);
    match lever {
        Lever::Parallel => Shape { parallel: asked, sessions: other },
        Lever::Sessions => Shape { parallel: other, sessions: asked },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::tests::some;
    use proptest::prelude::*;

    #[test]
    fn the_documents_batch_weighs_what_the_research_says() {
        let shape = Shape { parallel: some(8), sessions: some(3) };
        let units = |model, effective, sets| {
            let (_, asked, weight) = weigh(model, effective, sets, shape);
            weight.units(asked)
        };

        assert_eq!(units(WeightModel::HintUnits, true, 2), 8);
        assert_eq!(units(WeightModel::Sessions, true, 2), 3);
        assert_eq!(units(WeightModel::Px, true, 1), 24);
        assert_eq!(units(WeightModel::Px, true, 2), 48);
        assert_eq!(units(WeightModel::Processes, true, 1), 28);
        assert_eq!(units(WeightModel::Processes, true, 2), 52);
        assert_eq!(units(WeightModel::HintUnits, false, 2), 3);
        assert_eq!(units(WeightModel::Processes, false, 2), 52);
    }

    /// The largest lever that takes at most `units`; none when even one takes more.
    fn fitting(weight: Weight, units: u64) -> Option<NonZeroU32> {
        let most = units.checked_sub(weight.base.into())? / u64::from(weight.per.get());
        NonZeroU32::new(u32::try_from(most).unwrap_or(u32::MAX))
    }

    proptest! {
        #[test]
        fn less_never_weighs_more_and_what_fits_is_the_largest(
            model in prop::sample::select(WeightModel::ALL.to_vec()),
            effective: bool,
            sets in 0_u8..4,
            parallel in 1_u32..5_000,
            sessions in 1_u32..500,
            room in 0_u64..2_000_000,
        ) {
            let shape = Shape { parallel: some(parallel), sessions: some(sessions) };
            let (_, asked, weight) = weigh(model, effective, sets, shape);

            let same = shape_of(model, effective, sets, asked, weight);
            prop_assert_eq!(weigh(model, effective, sets, same), weigh(model, effective, sets, shape));
            prop_assert!(weight.units(some(1)) >= 1);
            prop_assert!(weight.units(some(1)) <= weight.units(asked));
            match fitting(weight, room) {
                Some(most) => {
                    prop_assert!(weight.units(most) <= room);
                    prop_assert!(weight.units(most.saturating_add(1)) > room);
                    prop_assert_eq!(weight.covering(weight.units(most)), most);
                }
                None => prop_assert!(weight.units(some(1)) > room),
            }
        }
    }
}
