//! How far a topic was read: the next offset and the end of this run, per partition. It is saved in the execution
//! context, so a restart resumes after the last committed chunk and ends where the first run would have.
//!
//! Keys, prefixed with the reader's name: `.topic`; `.offsets`, next and end by partition; `.total`.

use crate::failure::ReadFailure;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use tidemill_domain::job::ExecutionContext;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Progress {
    pub(super) topic: String,
    /// Offsets to read when the run began.
    pub(super) total: u64,
    pub(super) parts: BTreeMap<i32, Part>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Part {
    /// The first unread offset.
    pub(super) next: i64,
    /// Exclusive.
    pub(super) end: i64,
}

impl Progress {
    /// Starts unread.
    pub(super) fn new(topic: &str, parts: BTreeMap<i32, Part>) -> Self {
        let left = |part: &Part| u64::try_from(part.end - part.next).unwrap_or(0);
        Self { topic: topic.to_owned(), total: parts.values().map(left).sum(), parts }
    }

    pub(super) fn passed(&mut self, partition: i32, offset: i64) {
        if let Some(part) = self.parts.get_mut(&partition) {
            part.next = offset + 1;
        }
    }

    pub(super) fn finished(&mut self, partition: i32) {
        if let Some(part) = self.parts.get_mut(&partition) {
            part.next = part.end;
        }
    }

    pub(super) fn save(&self, reader: &str, context: &mut ExecutionContext) {
        let offsets: Map<String, Value> = self
            .parts
            .iter()
            .map(|(partition, part)| (partition.to_string(), json!([part.next, part.end])))
            .collect();
        context.put(&key(reader, "topic"), self.topic.as_str());
        context.put(&key(reader, "offsets"), offsets);
        context.put(&key(reader, "total"), self.total);
    }

    /// `None` if nothing was saved.
    pub(super) fn saved(reader: &str, context: &ExecutionContext) -> Result<Option<Self>, ReadFailure> {
        let Some(offsets) = context.get(&key(reader, "offsets")) else { return Ok(None) };
        let read = || {
            let parts = offsets.as_object()?.iter().map(|(partition, part)| {
                let [next, end] = part.as_array()?.as_slice() else { return None };
                Some((partition.parse().ok()?, Part { next: next.as_i64()?, end: end.as_i64()? }))
            });
            Some(Self {
                topic: context.get_text(&key(reader, "topic"))?.to_owned(),
                total: context.get(&key(reader, "total"))?.as_u64()?,
                parts: parts.collect::<Option<_>>()?,
            })
        };
        read().map(Some).ok_or_else(|| ReadFailure::Saved { reader: reader.to_owned() })
    }
}

pub(super) fn key(reader: &str, part: &str) -> String {
    format!("{reader}.{part}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_saved_reads_back(
            parts in prop::collection::btree_map(0..10_000_i32, (0..i64::MAX / 2, 0..1_000_000_i64), 0..50),
        ) {
            let parts = parts
                .into_iter()
                .map(|(partition, (next, more))| (partition, Part { next, end: next + more }))
                .collect();
            let progress = Progress::new("orders", parts);
            let mut context = ExecutionContext::new();

            progress.save("read", &mut context);

            prop_assert_eq!(Progress::saved("read", &context), Ok(Some(progress)));
        }
    }

    #[test]
    fn nothing_saved_is_a_first_run_and_nonsense_is_refused() {
        let mut context = ExecutionContext::new();
        assert_eq!(Progress::saved("read", &context), Ok(None));

        for nonsense in [json!(7), json!({ "0": [1] }), json!({ "x": [1, 2] }), json!({ "0": [1, "2"] })] {
            context.put("read.topic", "orders");
            context.put("read.total", 1);
            context.put("read.offsets", nonsense);
            assert!(Progress::saved("read", &context).is_err());
        }
    }

    #[test]
    fn a_partition_is_passed_record_by_record_and_finished_at_its_end() {
        let part = Part { next: 5, end: 9 };
        let mut progress = Progress::new("orders", BTreeMap::from([(0, part), (1, part)]));

        progress.passed(0, 5);
        progress.finished(1);

        assert_eq!(progress.total, 8);
        assert_eq!(
            progress.parts,
            BTreeMap::from([(0, Part { next: 6, end: 9 }), (1, Part { next: 9, end: 9 })])
        );
    }
}
