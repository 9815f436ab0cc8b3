//! The samples of one rule and subject, over the rule's window, in bounded memory.
//!
//! Samples that are close together share one of at most [`BUCKETS_MAX`] buckets. Maximum, minimum, latest and mean stay
//! exact over the samples that are kept; only the far end of a long window is cut up to one bucket late.

use super::Reading;
use super::rule::{Aggregate, Rule};
use crate::time::Monotonic;
use std::collections::VecDeque;
use std::time::Duration;

pub const BUCKETS_MAX: usize = 240;

/// Samples by monotonic time, so that a changed wall clock neither loses nor keeps any.
#[derive(Clone, Debug)]
pub struct Window {
    length: Duration,
    pub(super) buckets: VecDeque<Bucket>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    first_at: Monotonic,
    latest_at: Monotonic,
    latest: f64,
    greatest: f64,
    smallest: f64,
    sum: f64,
    count: u32,
}

impl Window {
    pub fn new(length: Duration) -> Self {
        Self { length, buckets: VecDeque::new() }
    }

    /// Adds a sample and drops those that are too old. Values that are not finite are ignored.
    pub fn add(&mut self, value: f64, now: Monotonic) {
        let is_old = |bucket: &Bucket| now.since(bucket.latest_at) > self.length;
        while self.buckets.front().is_some_and(is_old) {
            self.buckets.pop_front();
        }
        if !value.is_finite() {
            return;
        }
        let width = self.length / u32::try_from(BUCKETS_MAX).unwrap_or(u32::MAX);
        match self.buckets.back_mut() {
            Some(last) if now.since(last.first_at) < width => last.add(value, now),
            _ => self.buckets.push_back(Bucket::new(value, now)),
        }
        while self.buckets.len() > BUCKETS_MAX {
            self.buckets.pop_front();
        }
    }

    pub fn value(&self, aggregate: Aggregate) -> Option<f64> {
        let all = self.buckets.iter();
        match aggregate {
            Aggregate::Last => self.buckets.back().map(|bucket| bucket.latest),
            Aggregate::Max => all.map(|bucket| bucket.greatest).reduce(f64::max),
            Aggregate::Min => all.map(|bucket| bucket.smallest).reduce(f64::min),
            Aggregate::Average => {
                let (least, most) = (self.value(Aggregate::Min)?, self.value(Aggregate::Max)?);
                let count: f64 = all.clone().map(|bucket| f64::from(bucket.count)).sum();
                let mean: f64 = all.map(|bucket| bucket.sum / count).sum();
                // Rounding must not push the mean of equal values past a threshold.
                Some(mean.clamp(least, most))
            }
        }
    }
}

impl Bucket {
    fn new(value: f64, at: Monotonic) -> Self {
        Self {
            first_at: at,
            latest_at: at,
            latest: value,
            greatest: value,
            smallest: value,
            sum: value,
            count: 1,
        }
    }

    fn add(&mut self, value: f64, at: Monotonic) {
        self.latest_at = at;
        self.latest = value;
        self.greatest = self.greatest.max(value);
        self.smallest = self.smallest.min(value);
        self.sum += value;
        self.count = self.count.saturating_add(1);
    }
}

pub fn read(rule: &Rule, window: &Window) -> Reading {
    match window.value(rule.aggregate()) {
        Some(value) => rule.condition().read(value),
        None => Reading::Unknown,
    }
}
