//! A fixed share, as `RELAY_INSTANCE_ID` of `RELAY_TOTAL_INSTANCES`. Relays without one share fairly (`share.rs`).

use super::{Group, Slot, Unit};

pub const ID_VARIABLE: &str = "RELAY_INSTANCE_ID";
pub const TOTAL_VARIABLE: &str = "RELAY_TOTAL_INSTANCES";

/// One for each slot.
const TOTAL_MAX: u32 = 256;

/// One of a fixed number of relays. `id` is below `total`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Instance {
    id: u32,
    total: u32,
}

crate::getters!(Instance { id: u32, total: u32 });

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadInstance {
    /// The id cannot be guessed: two relays might guess the same.
    #[error("{TOTAL_VARIABLE} is {total}, but {ID_VARIABLE} is not set")]
    IdMissing { total: u32 },
    #[error("{ID_VARIABLE} is {id}, but {TOTAL_VARIABLE} is not set")]
    TotalMissing { id: u32 },
    #[error("{ID_VARIABLE} is {id}, but with {TOTAL_VARIABLE}={total} ids go from 0 to {}", .total.saturating_sub(1))]
    IdOutOfRange { id: u32, total: u32 },
    #[error("{TOTAL_VARIABLE} is {total}, but it can be 1 to {TOTAL_MAX}")]
    TotalOutOfRange { total: u32 },
}

crate::code::fixes!(BadInstance {
    IdMissing | TotalMissing => "set both RELAY_INSTANCE_ID and RELAY_TOTAL_INSTANCES, or unset both to share fairly";
    IdOutOfRange => "number the relays from 0 in RELAY_INSTANCE_ID, and set RELAY_TOTAL_INSTANCES to their number";
    TotalOutOfRange => "set RELAY_TOTAL_INSTANCES to the number of relays, or unset it and RELAY_INSTANCE_ID to share fairly";
});

impl Instance {
    pub const fn new(id: u32, total: u32) -> Result<Self, BadInstance> {
        if total == 0 || total > TOTAL_MAX {
            return Err(BadInstance::TotalOutOfRange { total });
        }
        if id >= total {
            return Err(BadInstance::IdOutOfRange { id, total });
        }
        Ok(Self { id, total })
    }

    /// None without both settings.
    pub fn from_settings(id: Option<u32>, total: Option<u32>) -> Result<Option<Self>, BadInstance> {
        match (id, total) {
            (None, None) => Ok(None),
            (Some(id), None) => Err(BadInstance::TotalMissing { id }),
            (None, Some(total)) => Err(BadInstance::IdMissing { total }),
            (Some(id), Some(total)) => Self::new(id, total).map(Some),
        }
    }

    /// All instances of a total together have every slot once, in whole units. There are 16 groups, so with more instances
    /// those with higher ids have none.
    pub fn has(self, slot: Slot, unit: Unit) -> bool {
        let number = match unit {
            Unit::Slot => slot.get(),
            Unit::Group => Group::of(slot).get(),
        };
        u32::from(number) % self.total == self.id
    }

    pub fn settings(self) -> String {
        format!("{ID_VARIABLE}={} and {TOTAL_VARIABLE}={}", self.id, self.total)
    }
}

crate::newtype::display!(Instance, instance => "{}/{}", instance.id, instance.total);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_settings_or_none() {
        assert_eq!(Instance::from_settings(None, None), Ok(None));
        assert_eq!(Instance::from_settings(Some(2), Some(3)), Ok(Some(Instance { id: 2, total: 3 })));
        assert_eq!(Instance::from_settings(Some(0), None), Err(BadInstance::TotalMissing { id: 0 }));
        assert_eq!(Instance::from_settings(None, Some(1)), Err(BadInstance::IdMissing { total: 1 }));
    }

    #[test]
    fn what_is_out_of_range_says_what_is_in_it() {
        fn check(id: u32, total: u32, text: &str) {
            let bad = Instance::from_settings(Some(id), Some(total)).unwrap_err();

            assert_eq!(bad.to_string(), text);
            assert!(bad.fix().contains(ID_VARIABLE) && bad.fix().contains(TOTAL_VARIABLE));
        }

        check(3, 3, "RELAY_INSTANCE_ID is 3, but with RELAY_TOTAL_INSTANCES=3 ids go from 0 to 2");
        check(0, 0, "RELAY_TOTAL_INSTANCES is 0, but it can be 1 to 256");
        check(0, 257, "RELAY_TOTAL_INSTANCES is 257, but it can be 1 to 256");
    }

    proptest! {
        #[test]
        fn every_slot_is_in_one_share(total in 1..=TOTAL_MAX) {
            for slot in Slot::all() {
                for unit in [Unit::Slot, Unit::Group] {
                    let has = |id: &u32| Instance::new(*id, total).unwrap().has(slot, unit);
                    prop_assert_eq!((0..total).filter(has).count(), 1);
                }
            }
        }

        #[test]
        fn any_settings_are_a_share_or_refused(id in 0..300_u32, total in 0..300_u32) {
            let is_good = (1..=256).contains(&total) && id < total;

            prop_assert_eq!(Instance::new(id, total).is_ok(), is_good);
        }
    }

    #[test]
    fn an_instance_has_every_so_many_slots() {
        use crate::outbox::{Instance, Slot};
        let second = Instance::new(1, 3).unwrap();
        assert!(second.has(Slot::new(4), Unit::Slot) && !second.has(Slot::new(5), Unit::Slot));
        assert_eq!(second.to_string(), "1/3");
    }
}
