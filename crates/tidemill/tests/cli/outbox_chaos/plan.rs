//! What is done to relays, their database and their broker, how often, and under how much load.

use fastrand::Rng;
use std::time::Duration;
use tidemill_testkit::Loss;

/// What is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Incident {
    /// One relay is killed.
    Kill,
    /// One is stopped for longer than its lease, and goes on as a ghost.
    Freeze,
    /// The database ends in order and starts again.
    Restart,
    /// The database crashes and recovers.
    Crash,
    /// One commits what it has done, and one half of that is lost.
    Lose(Loss),
    /// One is killed, and its successor does not hear that it has got its slots.
    LoseTaking,
    /// The broker answers nothing for a while.
    PauseBroker,
    /// The broker is killed and starts again.
    CrashBroker,
}

/// What is done, how often, and to how much.
pub(super) struct Plan {
    pub(super) seed: u64,
    /// Events in a second.
    pub(super) rate: u32,
    /// How many relays there are in the beginning, at most, and in the end.
    pub(super) relays: [usize; 3],
    /// How long it is calm with each of these numbers.
    pub(super) calm: Duration,
    pub(super) incidents: Vec<Incident>,
    /// How long it is on average from one incident to the next.
    pub(super) pause: Duration,
}

impl Plan {
    /// With as many kills as the environment says, or so many; and `further` incidents, each of them as often as the
    /// database crashes.
    pub(super) fn new(kills: usize, further: &[Incident]) -> Self {
        let given = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let seed = given("TIDEMILL_TEST_SEED").unwrap_or_else(|| fastrand::u64(..1_000_000));
        let kills = given("TIDEMILL_TEST_KILLS").map_or(kills, |kills| usize::try_from(kills).unwrap());
        let (several, few) = (kills.div_ceil(5), kills.div_ceil(10));
        let mut incidents = vec![Incident::Kill; kills - few];
        incidents.extend(vec![Incident::LoseTaking; few]);
        incidents.extend(vec![Incident::Freeze; several]);
        incidents.extend(vec![Incident::Lose(Loss::Answer); several]);
        incidents.extend(vec![Incident::Lose(Loss::Request); several]);
        for incident in [&[Incident::Restart, Incident::Crash], further].concat() {
            incidents.extend(vec![incident; few]);
        }
        Rng::with_seed(seed).shuffle(&mut incidents);
        let pause = match given("TIDEMILL_TEST_SECONDS") {
            Some(seconds) => Duration::from_secs(seconds) / u32::try_from(incidents.len()).unwrap(),
            None => Duration::from_millis(900),
        };
        Self { seed, rate: 2_000, relays: [3, 5, 1], calm: Duration::from_millis(2_500), incidents, pause }
    }
}
