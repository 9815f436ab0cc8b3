//! How a farm says that it has no such job, and how a worker learns that.

/// How a farm says that it has no such job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Absence {
    /// The open-source server: 200 without a body.
    Empty,
    /// The others: 404.
    NotFound,
}

impl Absence {
    /// None if the answer to a look-up says something else.
    pub fn of(status: u16, body: &str) -> Option<Self> {
        match status {
            404 => Some(Self::NotFound),
            200..=299 if status != 204 && body.trim().is_empty() => Some(Self::Empty),
            _ => None,
        }
    }
}

/// After so many checks in a row that say it otherwise, the server was replaced. While a check fails, the next one comes
/// after two seconds: a proxy that loses the server for two minutes is not taken for another server.
const CHECKS_MIN: u32 = 60;

/// What the checks of a farm have shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LearnedAbsence {
    known: Option<Absence>,
    /// Checks in a row that have said it otherwise.
    others: u32,
}

impl LearnedAbsence {
    pub const fn known(self) -> Option<Absence> {
        self.known
    }

    /// Adds what a check has shown. Returns whether it is what the farm is known to say.
    #[must_use]
    pub fn learn(&mut self, seen: Absence) -> bool {
        self.others = match self.known {
            Some(known) if known != seen => self.others + 1,
            _ => 0,
        };
        let is_believed = self.others == 0 || self.others >= CHECKS_MIN;
        if is_believed {
            *self = Self { known: Some(seen), others: 0 };
        }
        is_believed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_learned_first_stays_until_the_farm_has_said_otherwise_for_long() {
        let mut learned = LearnedAbsence::default();
        assert!(learned.learn(Absence::Empty));

        for _ in 1..CHECKS_MIN {
            assert!(!learned.learn(Absence::NotFound));
        }
        assert!(learned.learn(Absence::Empty), "it was a proxy");
        for _ in 1..CHECKS_MIN {
            assert!(!learned.learn(Absence::NotFound));
            assert_eq!(learned.known(), Some(Absence::Empty));
        }

        assert!(learned.learn(Absence::NotFound), "it is another server");
        assert_eq!(learned.known(), Some(Absence::NotFound));
        assert!(learned.learn(Absence::NotFound));
    }
}
