//! A number that was counted only so far: what is not known is not shown as if it were.

use std::fmt;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Count {
    Exactly(u64),
    /// So many or more: nobody counted further. None means that nothing is known.
    AtLeast(u64),
}

impl Count {
    /// Of a count that was stopped when it had passed `most`.
    pub fn up_to(most: u64, counted: u64) -> Self {
        if counted > most { Self::AtLeast(most) } else { Self::Exactly(counted) }
    }

    /// How many there are for sure.
    pub const fn least(self) -> u64 {
        match self {
            Self::Exactly(count) | Self::AtLeast(count) => count,
        }
    }

    pub const fn is_exact(self) -> bool {
        matches!(self, Self::Exactly(_))
    }

    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        let sum = self.least().saturating_add(other.least());
        if self.is_exact() && other.is_exact() { Self::Exactly(sum) } else { Self::AtLeast(sum) }
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(count) => write!(f, "{count}"),
            Self::AtLeast(0) => f.write_str("unknown"),
            Self::AtLeast(count) => write!(f, "at least {count}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_counted_is_not_claimed() {
        assert_eq!(Count::up_to(10, 10), Count::Exactly(10));
        assert_eq!(Count::up_to(10, 11).to_string(), "at least 10");
        assert_eq!(Count::AtLeast(0).to_string(), "unknown");
        assert_eq!(Count::Exactly(1).plus(Count::AtLeast(2)), Count::AtLeast(3));
        assert_eq!(Count::Exactly(1).plus(Count::Exactly(2)).to_string(), "3");
    }
}
