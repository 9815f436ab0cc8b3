//! The life of an engine process, as the database sees it.
//!
//! ```text
//!   Live ──heartbeat──► Live          while its `until` has not passed
//!   Live ──stop───────► Stopped       orderly shutdown
//!   Live ──expire─────► Dead          its `until` passed; any process may record it
//!   Live ──die────────► Dead          a process on the same machine sees that it has ended
//! ```
//!
//! Death is final. A process whose row has lapsed cannot heartbeat itself back to life, even if its death is not recorded
//! yet: it has to register again under a new id. So leases of a dead process can be given away at once.

use crate::time::{Monotonic, Timestamp};
use std::str::FromStr;
use std::time::Duration;

crate::newtype::ids! {
    /// One run of a process. A restarted program has a new id.
    pub struct ProcessId(uuid::Uuid);
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// Configured name, or `host:pid`.
    pub name: String,
    pub host: String,
    pub pid: u32,
    pub version: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProcessState {
    /// Alive until `until`.
    Live { until: Timestamp },
    /// Shut down in order and released its leases.
    Stopped { at: Timestamp },
    /// Fell silent.
    Dead { at: Timestamp },
}

impl ProcessState {
    /// At `until` itself it is no longer live.
    pub fn is_live(self, now: Timestamp) -> bool {
        matches!(self, Self::Live { until } if now < until)
    }

    /// The state in one word. A process is silent when `until` has passed and its death is not recorded yet.
    pub fn word(self, now: Timestamp) -> &'static str {
        match self {
            Self::Live { .. } if self.is_live(now) => "live",
            Self::Live { .. } => "silent",
            Self::Stopped { .. } => "stopped",
            Self::Dead { .. } => "dead",
        }
    }
}

/// Which process of which kernel a registered process is. It outlives neither a reboot nor its container.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Incarnation {
    /// The boot of the kernel, and the namespaces in which `pid` and `started` have a meaning; without spaces.
    pub place: String,
    pub pid: u32,
    /// When the kernel started it, in clock ticks since the boot.
    pub started: u64,
}

crate::newtype::display!(Incarnation, it => "{} {} {}", it.place, it.pid, it.started);

impl FromStr for Incarnation {
    type Err = NotAnIncarnation;

    fn from_str(text: &str) -> Result<Self, NotAnIncarnation> {
        let mut parts = text.split(' ');
        let place = parts.next().filter(|place| !place.is_empty()).ok_or(NotAnIncarnation)?;
        let pid = parts.next().and_then(|pid| pid.parse().ok()).ok_or(NotAnIncarnation)?;
        let started = parts.next().and_then(|started| started.parse().ok()).ok_or(NotAnIncarnation)?;
        match parts.next() {
            None => Ok(Self { place: place.to_owned(), pid, started }),
            Some(_) => Err(NotAnIncarnation),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("it is not a place, a pid and a start, separated by spaces")]
pub struct NotAnIncarnation;

/// What the kernel says about a pid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PidState {
    /// No process has it, or only one that has ended and waits for its parent.
    Free,
    /// A process that started then.
    Taken { started: u64 },
    /// There is one, about which this process may know nothing.
    Hidden,
}

impl Incarnation {
    /// Whether the process has certainly ended: this kernel knows its pid, and it is free or belongs to another process.
    pub fn has_ended(&self, place: &str, pid: PidState) -> bool {
        self.place == place
            && match pid {
                PidState::Free => true,
                PidState::Taken { started } => started != self.started,
                PidState::Hidden => false,
            }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProcessEvent {
    /// Alive for another `ttl`.
    Heartbeat { ttl: Duration },
    /// An orderly shutdown.
    Stop,
    /// Records the death of a process that has fallen silent.
    Expire,
    /// Records the death of a process that has [certainly ended](Incarnation::has_ended).
    Die,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ProcessRefusal {
    #[error("the process is alive until {until}")]
    StillLive { until: Timestamp },
    /// It must stop its work and register again.
    #[error("the process was silent for too long and no longer counts as alive")]
    Lapsed,
    #[error("the process has ended")]
    Ended,
}

/// The state after `event`, or the refusal. Total.
pub fn next(
    state: ProcessState,
    event: ProcessEvent,
    now: Timestamp,
) -> Result<ProcessState, ProcessRefusal> {
    use ProcessEvent::{Die, Expire, Heartbeat, Stop};
    use ProcessState::{Dead, Live, Stopped};
    match (state, event) {
        (Live { until }, Heartbeat { ttl }) if now < until => Ok(Live { until: now.plus(ttl) }),
        (Live { .. }, Heartbeat { .. }) => Err(ProcessRefusal::Lapsed),
        (Live { .. }, Stop) => Ok(Stopped { at: now }),
        (Live { until }, Expire) if now < until => Err(ProcessRefusal::StillLive { until }),
        (Live { .. }, Expire | Die) => Ok(Dead { at: now }),
        (Stopped { .. }, Stop | Expire | Die) | (Dead { .. }, Expire | Die) => Ok(state),
        (Stopped { .. } | Dead { .. }, Heartbeat { .. }) | (Dead { .. }, Stop) => Err(ProcessRefusal::Ended),
    }
}

/// How much earlier than the database a process distrusts its own lease: time for clock drift, and to stop its work.
pub fn self_fencing_margin(ttl: Duration) -> Duration {
    ttl / 5
}

/// Until when a process may act on a renewal from `sent`. The database counts `ttl` from `sent` or later: this ends first.
pub fn trusted_until(sent: Monotonic, ttl: Duration) -> Monotonic {
    sent.plus(ttl.saturating_sub(self_fencing_margin(ttl)))
}

/// Two heartbeats may be lost before the process must stop itself. One attempt takes at most as long.
pub fn heartbeat_interval(ttl: Duration) -> Duration {
    ttl / 4
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn state() -> impl Strategy<Value = ProcessState> {
        let at = (0..1_000_000_i64).prop_map(Timestamp::from_micros);
        prop_oneof![
            at.clone().prop_map(|until| ProcessState::Live { until }),
            at.clone().prop_map(|at| ProcessState::Stopped { at }),
            at.prop_map(|at| ProcessState::Dead { at }),
        ]
    }

    fn event() -> impl Strategy<Value = ProcessEvent> {
        prop_oneof![
            (0..1_000_000_u64).prop_map(|us| ProcessEvent::Heartbeat { ttl: Duration::from_micros(us) }),
            Just(ProcessEvent::Stop),
            Just(ProcessEvent::Expire),
            Just(ProcessEvent::Die),
        ]
    }

    fn incarnation() -> impl Strategy<Value = Incarnation> {
        ("[ab]{1,2}", 1..4_u32, 0..4_u64).prop_map(|(place, pid, started)| Incarnation {
            place,
            pid,
            started,
        })
    }

    fn pid_state() -> impl Strategy<Value = PidState> {
        prop_oneof![
            Just(PidState::Free),
            (0..4_u64).prop_map(|started| PidState::Taken { started }),
            Just(PidState::Hidden),
        ]
    }

    proptest! {
        #[test]
        fn who_is_not_alive_never_comes_back(
            start in state(),
            steps in prop::collection::vec((event(), 0..200_000_i64), 1..40),
        ) {
            let mut now = Timestamp::EPOCH;
            let mut state = start;
            let mut was_dead = !state.is_live(now);
            for (event, wait) in steps {
                now = now.plus(Duration::from_micros(wait.unsigned_abs()));
                was_dead |= !state.is_live(now);
                if let Ok(after) = next(state, event, now) {
                    state = after;
                }
                prop_assert!(!(was_dead && state.is_live(now)));
            }
        }

        #[test]
        fn only_a_silent_process_is_declared_dead(start in state(), now in 0..1_000_000_i64) {
            let now = Timestamp::from_micros(now);
            let after = next(start, ProcessEvent::Expire, now);
            if start.is_live(now) {
                prop_assert!(after.is_err());
            } else {
                prop_assert!(!after.unwrap().is_live(now));
            }
        }

        #[test]
        fn an_incarnation_is_read_back(one in incarnation(), text in "[a-z0-9 ]{0,12}") {
            prop_assert_eq!(one.to_string().parse::<Incarnation>(), Ok(one));
            if let Ok(read) = text.parse::<Incarnation>() {
                prop_assert_eq!(read.to_string().parse::<Incarnation>(), Ok(read));
            }
        }

        #[test]
        fn a_process_has_ended_only_if_its_own_kernel_says_so(
            one in incarnation(),
            place in "[ab]{1,2}",
            found in pid_state(),
        ) {
            let itself = PidState::Taken { started: one.started };
            let is_certain = place == one.place && found != itself && found != PidState::Hidden;
            prop_assert_eq!(one.has_ended(&place, found), is_certain);
            prop_assert!(!one.has_ended(&one.place, itself));
        }

        #[test]
        fn a_process_stops_trusting_itself_before_the_database_does(sent in 0..1_000_000_u64, delay in 0..1_000_000_u64, ttl in 1..1_000_000_u64) {
            let ttl = Duration::from_micros(ttl);
            let sent = Duration::from_micros(sent);
            let database_counts_from = sent + Duration::from_micros(delay);
            let trusted = trusted_until(Monotonic::from_origin(sent), ttl).since(Monotonic::from_origin(Duration::ZERO));
            prop_assert!(trusted <= database_counts_from + ttl);
            prop_assert!(ttl < Duration::from_micros(5) || trusted < database_counts_from + ttl);
        }
    }

    #[test]
    fn two_heartbeats_may_be_lost_before_a_process_fences_itself() {
        let ttl = Duration::from_secs(15);

        assert!(heartbeat_interval(ttl) * 3 < ttl - self_fencing_margin(ttl));
    }
}
