//! How many parallel servers a hint requests, as far as its text tells.

use std::num::NonZeroU32;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Degree {
    None,
    /// `NO_PARALLEL` for the whole statement.
    Serial,
    /// The greatest, if there are several objects.
    Exact(NonZeroU32),
    /// `PARALLEL` without a number: the database computes two or more.
    AtLeastTwo,
    /// `DEFAULT`, or an object without a number.
    Default,
    /// `AUTO`: the database computes one or more.
    Auto,
    /// `MANUAL`: the degrees of the objects themselves.
    Manual,
    /// The default degree or this number, whichever is greater: a combination, or unreadable.
    DefaultOr(NonZeroU32),
}

impl Degree {
    /// The most it can mean. `default_degree` is for degrees that the database computes, `none` for hints without a directive.
    pub fn upper_bound(self, default_degree: NonZeroU32, none: NonZeroU32) -> NonZeroU32 {
        match self {
            Self::None => none,
            Self::Serial => NonZeroU32::MIN,
            Self::Exact(degree) => degree,
            _ => default_degree.max(self.least()),
        }
    }

    /// Whether the database's settings decide.
    pub fn depends_on_default(self) -> bool {
        !matches!(self, Self::None | Self::Serial | Self::Exact(_))
    }

    pub fn number(self) -> Option<NonZeroU32> {
        match self {
            Self::Exact(number) | Self::DefaultOr(number) => Some(number),
            _ => None,
        }
    }

    pub(super) fn join(self, other: Self) -> Self {
        match (self, other) {
            (Self::None, known) | (known, Self::None) => known,
            (Self::Serial, known) | (known, Self::Serial) => known,
            (Self::Exact(a), Self::Exact(b)) => Self::Exact(a.max(b)),
            (a, b) if a == b => a,
            (a, b) => Self::DefaultOr(a.least().max(b.least())),
        }
    }

    fn least(self) -> NonZeroU32 {
        match self {
            Self::Exact(number) | Self::DefaultOr(number) => number,
            Self::AtLeastTwo => NonZeroU32::MIN.saturating_add(1),
            Self::None | Self::Serial | Self::Default | Self::Auto | Self::Manual => NonZeroU32::MIN,
        }
    }
}

crate::newtype::named!(Degree, as_str {
    None = "none", Serial = "serial", Exact = "exact", AtLeastTwo = "at_least_two", Default = "default", Auto = "auto",
    Manual = "manual", DefaultOr = "default_or",
});

crate::newtype::display!(Degree {
    Self::None => "none";
    Self::Serial => "serial";
    Self::Exact(number) => "{number}";
    Self::AtLeastTwo => "computed, 2 or more";
    Self::Default => "the default degree";
    Self::Auto => "computed";
    Self::Manual => "that of the objects";
    Self::DefaultOr(number) => "the default degree, or {number} if that is greater";
});
