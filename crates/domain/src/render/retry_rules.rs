//! For each failure: how often and when a render is retried, with the same job or a new one, and whether an alert is sent.
//!
//! | failure | retries | first wait | grows | job | alert |
//! |---|---|---|---|---|---|
//! | nexrender down, unexpected | 3 | 60 s | × 2 | same | |
//! | unanswered | 3 | 60 s | × 2 | same | yes |
//! | job lost | 3 | 5 s | × 2 | new | |
//! | render failed | 3 | 60 s | × 2 | new | |
//! | timed out, stalled | 2 | 60 s | × 2 | new | |
//! | output invalid | 3 | 60 s | no | new | |
//! | NAS failed | 3 | 30 s | no | same: only the upload again | |
//! | object store down, or unknown to the worker | always, uncounted | 30 s | no | same: only the upload again | yes |
//! | template missing or not fit, rejected, name taken, not picked, NAS refused, conflict, worker lost | never | | | | yes |
//! | refused, asset missing, cancelled in nexrender, not approved | never | | | | |
//! | wrong secret, not nexrender, path not mapped, NAS unwritable or not mounted, tool missing | always, uncounted | 30 s | no | same | yes |
//!
//! A node that could not write its file leaves nothing to keep: then the job is new, the claim counts, and the wait grows.
//!
//! The numbers are those of the source document; `MAX_RETRIES` replaces 3 and `BASE_RETRY_DELAY` replaces 60 s.

use super::{Failure, RenderId};
use crate::backoff::{Backoff, BadBackoff};
use std::time::Duration;

pub const RETRIES: u32 = 3;
pub const BASE_DELAY: Duration = Duration::from_secs(60);

const TIMEOUT_RETRIES_MAX: u32 = 2;
/// Unless the first wait is longer.
const DELAY_MAX: Duration = Duration::from_secs(15 * 60);
/// This share of a wait is random, so that those who failed together do not retry together.
const JITTER: f64 = 0.1;

/// Failures are counted per stage.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Stage {
    Submit,
    Render,
    Upload,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Job {
    /// The existing job and its file.
    Same,
    /// The old job is dropped.
    New,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Remedy {
    /// The render fails.
    GiveUp,
    /// Unless the stage has failed too often.
    Again { stage: Stage, retries: u32, backoff: Backoff, job: Job },
    /// Not the render's fault, and others may succeed: it goes back as if not claimed, for after the wait.
    Wait { backoff: Backoff },
    /// Not the render's fault: it goes back as if not claimed, for others to take after the wait, and the worker claims
    /// nothing more until the configuration is fixed.
    StopClaiming { backoff: Backoff },
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Patience {
    pub retries: u32,
    growing: Backoff,
    steady: Backoff,
    upload: Backoff,
    soon: Backoff,
}

impl Patience {
    /// The source document's numbers, unless `MAX_RETRIES` and `BASE_RETRY_DELAY` are set.
    pub fn new(retries: Option<u32>, base: Option<Duration>) -> Result<Self, BadBackoff> {
        let base = base.unwrap_or(BASE_DELAY);
        let backoff = |base: Duration, factor| Backoff::new(base, factor, DELAY_MAX.max(base), JITTER);
        Ok(Self {
            retries: retries.unwrap_or(RETRIES),
            growing: backoff(base, 2.0)?,
            steady: backoff(base, 1.0)?,
            upload: backoff(Duration::from_secs(30), 1.0)?,
            soon: backoff(Duration::from_secs(5), 2.0)?,
        })
    }

    pub fn remedy(&self, failure: Failure) -> Remedy {
        let again = |stage, retries, backoff, job| Remedy::Again { stage, retries, backoff, job };
        let timeout_retries = self.retries.min(TIMEOUT_RETRIES_MAX);
        match failure {
            Failure::NexrenderDown | Failure::Unanswered | Failure::Unexpected => {
                again(Stage::Submit, self.retries, self.growing, Job::Same)
            }
            Failure::Lost => again(Stage::Submit, self.retries, self.soon, Job::New),
            Failure::RenderFailed => again(Stage::Render, self.retries, self.growing, Job::New),
            Failure::TimedOut | Failure::Stalled => {
                again(Stage::Render, timeout_retries, self.growing, Job::New)
            }
            Failure::OutputInvalid => again(Stage::Render, self.retries, self.steady, Job::New),
            Failure::TargetDown => Remedy::Wait { backoff: self.upload },
            Failure::NasFailed => again(Stage::Upload, self.retries, self.upload, Job::Same),
            Failure::Refused
            | Failure::TemplateMissing
            | Failure::AssetMissing
            | Failure::TemplateNotFit
            | Failure::Rejected
            | Failure::NameTaken
            | Failure::NotPicked
            | Failure::RemoteCancelled
            | Failure::NasRefused
            | Failure::OutputConflict
            | Failure::NotApproved
            | Failure::WorkerLost => Remedy::GiveUp,
            Failure::WrongSecret
            | Failure::NotNexrender
            | Failure::PathNotMapped
            | Failure::NasUnwritable
            | Failure::NasNotMounted
            | Failure::ToolMissing => Remedy::StopClaiming { backoff: self.upload },
        }
    }

    /// Whether every other render would fail like this one.
    pub fn stops_claims(&self, failure: Failure) -> bool {
        matches!(self.remedy(failure), Remedy::StopClaiming { .. })
    }

    /// The wait after a node could not write its film in the claim with this number.
    pub fn after_unwritten(&self, attempts: u32, unit: f64) -> Duration {
        self.growing.delay(attempts.max(1), unit)
    }

    /// The wait after the worker has disappeared for the `recoveries`th time: none the first time, because the job goes on.
    pub fn after_recovery(&self, recoveries: u32, unit: f64) -> Duration {
        match recoveries {
            0 | 1 => Duration::ZERO,
            more => self.soon.delay(more - 1, unit),
        }
    }
}

/// Whether the wait after this failure ends as soon as all backends pass their checks again.
pub const fn ends_with_outage(failure: Failure) -> bool {
    matches!(
        failure,
        Failure::NexrenderDown
            | Failure::NasFailed
            | Failure::WrongSecret
            | Failure::NotNexrender
            | Failure::PathNotMapped
            | Failure::NasUnwritable
            | Failure::NasNotMounted
            | Failure::ToolMissing
    )
}

/// Whether an alert is sent, because the failure does not resolve itself.
pub const fn needs_alert(failure: Failure) -> bool {
    matches!(
        failure,
        Failure::TemplateMissing
            | Failure::TemplateNotFit
            | Failure::Rejected
            | Failure::NameTaken
            | Failure::NotPicked
            | Failure::NasRefused
            | Failure::TargetDown
            | Failure::OutputConflict
            | Failure::WorkerLost
            | Failure::WrongSecret
            | Failure::NotNexrender
            | Failure::Unanswered
            | Failure::PathNotMapped
            | Failure::NasUnwritable
            | Failure::NasNotMounted
            | Failure::ToolMissing
    )
}

/// A number from 0 to 1 that is always the same for the same render and count.
pub fn jitter(render: RenderId, count: u32) -> f64 {
    // The finisher of splitmix64: adjacent ids must not have similar waits.
    let mut mixed = render.get().cast_unsigned().wrapping_add(u64::from(count) << 48);
    mixed = mixed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    f64::from((mixed >> 32) as u32) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn waits(patience: &Patience, failure: Failure) -> Vec<u64> {
        match patience.remedy(failure) {
            Remedy::Again { retries, backoff, .. } => {
                (1..=retries).map(|count| backoff.delay(count, 0.0).as_secs()).collect()
            }
            Remedy::GiveUp | Remedy::Wait { .. } | Remedy::StopClaiming { .. } => Vec::new(),
        }
    }

    #[test]
    fn the_waits_are_those_of_the_document() {
        let patience = Patience::new(None, None).unwrap();

        assert_eq!(waits(&patience, Failure::NexrenderDown), [60, 120, 240]);
        assert_eq!(waits(&patience, Failure::TimedOut), [60, 120]);
        assert_eq!(waits(&patience, Failure::NasFailed), [30, 30, 30]);
        assert_eq!(waits(&patience, Failure::OutputInvalid), [60, 60, 60]);
        assert_eq!(patience.remedy(Failure::TemplateMissing), Remedy::GiveUp);
        assert!(needs_alert(Failure::TemplateMissing) && !needs_alert(Failure::NexrenderDown));
    }

    #[test]
    fn the_environment_of_the_document_replaces_its_three_and_its_sixty_seconds() {
        let patience = Patience::new(Some(1), Some(Duration::from_secs(7))).unwrap();

        assert_eq!(waits(&patience, Failure::NexrenderDown), [7]);
        assert_eq!(waits(&patience, Failure::TimedOut), [7]);
        assert_eq!(waits(&patience, Failure::OutputInvalid), [7]);
        assert_eq!(waits(&patience, Failure::NasFailed), [30]);
        let patient = Patience::new(Some(9), None).unwrap();
        assert_eq!(waits(&patient, Failure::TimedOut).len(), 2);
    }

    #[test]
    fn what_is_only_uploaded_again_keeps_its_job_and_a_bad_file_does_not() {
        let patience = Patience::new(None, None).unwrap();
        let job = |failure| match patience.remedy(failure) {
            Remedy::Again { job, .. } => Some(job),
            Remedy::GiveUp | Remedy::Wait { .. } | Remedy::StopClaiming { .. } => None,
        };

        assert_eq!(job(Failure::NasFailed), Some(Job::Same));
        assert_eq!(job(Failure::NexrenderDown), Some(Job::Same));
        assert_eq!(job(Failure::OutputInvalid), Some(Job::New));
        assert_eq!(job(Failure::Lost), Some(Job::New));
    }

    #[test]
    fn whatever_stops_a_worker_no_longer_delays_renders_when_it_is_over() {
        let patience = Patience::new(None, None).unwrap();
        for failure in Failure::ALL {
            let stops = matches!(patience.remedy(failure), Remedy::StopClaiming { .. });
            let passes = matches!(failure, Failure::NexrenderDown | Failure::NasFailed);
            assert_eq!(ends_with_outage(failure), stops || passes, "{failure}");
        }
    }

    proptest! {
        #[test]
        fn every_wait_is_bounded(
            id: i64, retries in 0..1_000_u32, base in 0..86_400_u64, count in 0..10_000_u32,
            failure in 0..Failure::ALL.len(),
        ) {
            let base = Duration::from_secs(base);
            let patience = Patience::new(Some(retries), Some(base)).unwrap();
            let unit = jitter(RenderId::new(id), count);
            prop_assert!((0.0..=1.0).contains(&unit));
            prop_assert_eq!(unit.to_bits(), jitter(RenderId::new(id), count).to_bits());
            let most = DELAY_MAX.max(base);
            prop_assert!(patience.after_recovery(count, unit) <= most);
            prop_assert!(patience.after_unwritten(count, unit) <= most);
            if let Remedy::Again { backoff, .. } | Remedy::Wait { backoff } | Remedy::StopClaiming { backoff } =
                patience.remedy(Failure::ALL[failure])
            {
                prop_assert!(backoff.delay(count, unit) <= most);
            }
        }
    }
}
