//! The names of our jobs at nexrender: `rq-<id>-<epoch>`, one for each claim that submits.
//!
//! nexrender accepts the same name twice without an error, and then renders the first of the two repeatedly. So a name is
//! never used for a second job, and a worker checks before it posts one.

use crate::lease::Epoch;

crate::newtype::ids! {
    /// A row of `render_queue`.
    pub struct RenderId(i64);
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Uid {
    render: RenderId,
    epoch: Epoch,
}

crate::getters!(Uid { render: RenderId, epoch: Epoch });

impl Uid {
    pub const BYTES_MAX: usize = "rq--".len() + 20 + 20;

    pub const fn new(render: RenderId, epoch: Epoch) -> Self {
        Self { render, epoch }
    }

    fn read(text: &str) -> Option<Self> {
        let (render, epoch) = text.strip_prefix("rq-")?.rsplit_once('-')?;
        let uid = Self::new(RenderId::new(render.parse().ok()?), Epoch::new(epoch.parse().ok()?));
        // Number parsing also accepts `+1` and `01`, which would be second names of the same job.
        (uid.to_string() == text).then_some(uid)
    }
}

crate::newtype::display!(Uid, uid => "rq-{}-{}", uid.render, uid.epoch);

crate::newtype::parsed!(Uid, Uid::read, NotAUid: "not the name of a job of ours, such as rq-4711-2");

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn other_names_are_none_of_ours() {
        for foreign in [
            "",
            "rq",
            "rq-1",
            "rq--1-2x",
            "rq-01-2",
            "rq-+1-2",
            "rq-1-2-3",
            "RQ-1-2",
            "XSxHoF6n6oo-hwgrlPZPr",
        ] {
            assert_eq!(foreign.parse::<Uid>(), Err(NotAUid), "{foreign}");
        }
    }

    proptest! {
        #[test]
        fn names_read_back_and_fit(id in 0..=i64::MAX, epoch in 0..=i64::MAX) {
            let uid = Uid::new(RenderId::new(id), Epoch::new(epoch));

            prop_assert_eq!(uid.to_string().parse(), Ok(uid));
            prop_assert!(uid.to_string().len() <= Uid::BYTES_MAX);
        }
    }

    #[test]
    fn the_name_of_a_job_has_its_render_and_epoch() {
        use crate::lease::Epoch;
        use crate::render::{RenderId, Uid};
        let uid = Uid::new(RenderId::new(4711), Epoch::new(2));
        assert_eq!(uid.to_string(), "rq-4711-2");
        assert_eq!("rq-4711-2".parse(), Ok(uid));
    }
}
