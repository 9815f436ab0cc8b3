//! Fault tolerance of a step: which errors are skipped, which are retried, and which need no rollback.

use crate::error_chain::listed;
use crate::item::ErrorKind;
use std::collections::BTreeSet;
use std::fmt;

pub const SKIP_LIMIT: u64 = 10;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Kinds {
    all: bool,
    some: BTreeSet<ErrorKind>,
    except: BTreeSet<ErrorKind>,
}

impl Kinds {
    pub fn none() -> Self {
        Self::default()
    }

    pub fn all() -> Self {
        Self { all: true, ..Self::default() }
    }

    pub fn of(kinds: impl IntoIterator<Item = ErrorKind>) -> Self {
        Self { some: kinds.into_iter().collect(), ..Self::default() }
    }

    pub fn add(&mut self, kinds: impl IntoIterator<Item = ErrorKind>) {
        self.some.extend(kinds);
    }

    pub fn exclude(&mut self, kinds: impl IntoIterator<Item = ErrorKind>) {
        self.except.extend(kinds);
    }

    /// A fatal error is in no set.
    pub fn contains(&self, kind: &ErrorKind) -> bool {
        *kind != ErrorKind::FATAL && (self.all || self.some.contains(kind)) && !self.except.contains(kind)
    }

    pub fn is_empty(&self) -> bool {
        !self.all && self.some.difference(&self.except).next().is_none()
    }

    fn is_within(&self, other: &Self) -> bool {
        if self.all {
            return other.all && other.except.is_subset(&self.except);
        }
        self.some.iter().filter(|kind| self.contains(kind)).all(|kind| other.contains(kind))
    }
}

/// `all kinds`, `all kinds but a, b`, `a, b` or `no kind`.
impl fmt::Display for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.all, self.except.is_empty()) {
            (true, true) => f.write_str("all kinds"),
            (true, false) => write!(f, "all kinds but {}", listed(&self.except, ", ")),
            (false, _) if self.is_empty() => f.write_str("no kind"),
            (false, _) => f.write_str(&listed(self.some.difference(&self.except), ", ")),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FaultPolicy {
    pub skip: Kinds,
    /// Maximum of skips in all phases together.
    pub skip_limit: u64,
    pub retry: Kinds,
    /// In total; 0 and 1 mean one.
    pub attempts_max: u32,
    /// Errors of a processor or writer that leave the transaction usable. They must be skippable as well.
    pub no_rollback: Kinds,
    /// Whether a repeated chunk processes its items again. Otherwise it keeps their outputs.
    pub is_processor_transactional: bool,
}

impl Default for FaultPolicy {
    fn default() -> Self {
        Self {
            skip: Kinds::default(),
            skip_limit: SKIP_LIMIT,
            retry: Kinds::default(),
            attempts_max: 1,
            no_rollback: Kinds::default(),
            is_processor_transactional: true,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadPolicy {
    #[error("an error that needs no rollback must be skippable, or its item would be lost without a trace")]
    NoRollbackWithoutSkip,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SkipDecision {
    Skip,
    NotSkippable,
    LimitExceeded,
}

impl FaultPolicy {
    pub fn check(&self) -> Result<(), BadPolicy> {
        if self.no_rollback.is_within(&self.skip) { Ok(()) } else { Err(BadPolicy::NoRollbackWithoutSkip) }
    }

    /// Whether an error may be skipped after `skips` others.
    pub fn skip(&self, kind: &ErrorKind, skips: u64) -> SkipDecision {
        if !self.skip.contains(kind) {
            SkipDecision::NotSkippable
        } else if skips < self.skip_limit {
            SkipDecision::Skip
        } else {
            SkipDecision::LimitExceeded
        }
    }

    /// Whether there is another attempt after `attempts`, the last of which failed with `kind`.
    pub fn may_retry(&self, kind: &ErrorKind, attempts: u32) -> bool {
        attempts < self.attempts_max && self.retry.contains(kind)
    }

    /// Whether all items are written once more after `attempts`. Spring Batch always repeats a write that needs no
    /// rollback, because the rollback was forced.
    pub fn may_write_again(&self, kind: &ErrorKind, attempts: u32) -> bool {
        let is_forced = attempts < self.attempts_max && self.no_rollback.contains(kind);
        is_forced || self.may_retry(kind, attempts)
    }
}

/// Skipped read errors after which a chunk is closed even if it is not full.
pub fn read_skips_max(chunk_size: usize) -> usize {
    chunk_size.max(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without(mut kinds: Kinds, excluded: impl IntoIterator<Item = ErrorKind>) -> Kinds {
        kinds.exclude(excluded);
        kinds
    }

    #[test]
    fn a_set_of_kinds_is_told_in_words() {
        let two = || [ErrorKind::PARSE, ErrorKind::VALIDATION];
        for (kinds, words) in [
            (Kinds::default(), "no kind"),
            (Kinds::all(), "all kinds"),
            (without(Kinds::all(), [ErrorKind::PARSE]), "all kinds but parse"),
            (Kinds::of(two()), "parse, validation"),
            (without(Kinds::of(two()), [ErrorKind::PARSE]), "validation"),
            (without(Kinds::of([ErrorKind::PARSE]), two()), "no kind"),
        ] {
            assert_eq!(kinds.to_string(), words);
        }
    }

    #[test]
    fn a_fatal_error_is_never_skipped_or_tried_again() {
        let policy = FaultPolicy {
            skip: Kinds::all(),
            retry: Kinds::all(),
            attempts_max: 3,
            ..FaultPolicy::default()
        };

        assert_eq!(policy.skip(&ErrorKind::FATAL, 0), SkipDecision::NotSkippable);
        assert!(!policy.may_retry(&ErrorKind::FATAL, 1));
        assert!(policy.may_retry(&ErrorKind::WRITE, 2) && !policy.may_retry(&ErrorKind::WRITE, 3));
    }

    #[test]
    fn the_limit_counts_what_was_skipped_before() {
        let policy =
            FaultPolicy { skip: Kinds::of([ErrorKind::PARSE]), skip_limit: 1, ..FaultPolicy::default() };

        assert_eq!(policy.skip(&ErrorKind::PARSE, 0), SkipDecision::Skip);
        assert_eq!(policy.skip(&ErrorKind::PARSE, 1), SkipDecision::LimitExceeded);
        assert_eq!(policy.skip(&ErrorKind::WRITE, 0), SkipDecision::NotSkippable);
    }

    #[test]
    fn what_needs_no_rollback_must_be_skippable() {
        let policy =
            |skip: Kinds, no_rollback: Kinds| FaultPolicy { skip, no_rollback, ..FaultPolicy::default() };
        let some = || Kinds::of([ErrorKind::PARSE]);

        assert!(policy(Kinds::all(), some()).check().is_ok());
        assert!(policy(some(), some()).check().is_ok());
        assert!(policy(Kinds::default(), Kinds::default()).check().is_ok());
        assert!(policy(Kinds::default(), some()).check().is_err());
        assert!(policy(some(), Kinds::all()).check().is_err());
        assert!(policy(without(Kinds::all(), [ErrorKind::PARSE]), some()).check().is_err());
    }
}
