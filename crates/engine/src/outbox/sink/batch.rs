//! A batch of records as lines, and the outcome of each if only the beginning was written.

use crate::outbox::{Outcome, SinkOptions};
use std::collections::HashSet;
use tidemill_domain::outbox::{Record, line};

#[derive(Debug)]
pub(super) struct Batch {
    /// A line break, for when the last line has none, and the lines.
    bytes: Vec<u8>,
    plans: Vec<RecordPlan>,
}

#[derive(Debug)]
enum RecordPlan {
    /// Its line ends before this byte.
    Written(usize),
    Decided(Outcome),
}

impl Batch {
    pub(super) fn new(records: &[Record], options: &SinkOptions) -> Self {
        let published_at = options.clock.now();
        let mut bytes = vec![b'\n'];
        let mut refused = HashSet::new();
        let mut plans = Vec::with_capacity(records.len());
        for record in records {
            if refused.contains(&record.aggregate) {
                plans.push(RecordPlan::Decided(Outcome::Held));
                continue;
            }
            let before = bytes.len();
            line::write(record, published_at, &mut bytes);
            let len = bytes.len() - before;
            match options.max_record_bytes {
                Some(most) if len > most => {
                    bytes.truncate(before);
                    refused.insert(&record.aggregate);
                    let why = format!("its line has {len} bytes, and the sink takes {most}");
                    plans.push(RecordPlan::Decided(Outcome::Refused { why, is_permanent: true }));
                }
                _ => plans.push(RecordPlan::Written(bytes.len())),
            }
        }
        Self { bytes, plans }
    }

    pub(super) fn lines(&self) -> &[u8] {
        &self.bytes[1..]
    }

    /// The lines after a line break.
    pub(super) fn lines_on_a_fresh_line(&self) -> &[u8] {
        &self.bytes
    }

    /// The outcome of each record if the first `written` bytes of the lines are durable; `why` is the error of the
    /// rest.
    pub(super) fn outcomes(self, written: usize, why: Option<String>) -> Vec<Outcome> {
        let why = why.unwrap_or_default();
        let outcome = |plan| match plan {
            RecordPlan::Decided(outcome) => outcome,
            // The first byte is the line break.
            RecordPlan::Written(end) if end <= written + 1 => Outcome::Delivered,
            RecordPlan::Written(_) => Outcome::Unavailable { why: why.clone() },
        };
        self.plans.into_iter().map(outcome).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_domain::lease::Epoch;
    use tidemill_domain::outbox::{Aggregate, EventId, Payload, Seq};
    use tidemill_domain::time::Timestamp;

    fn record(id: i64) -> Record {
        let aggregate = Aggregate { kind: "order".into(), id: "a".into() };
        Record {
            id: EventId::new(id),
            table: None,
            slot: aggregate.slot(),
            epoch: Epoch::new(1),
            seq: Seq::new(id),
            aggregate,
            event_type: "order.paid".into(),
            topic: "orders".into(),
            is_redirected: false,
            headers: Default::default(),
            payload: Payload::Tombstone,
            created_at: Timestamp::EPOCH,
        }
    }

    #[test]
    fn of_a_batch_that_was_cut_only_whole_lines_are_delivered() {
        let records = [record(1), record(2), record(3)];
        let batch = || Batch::new(&records, &SinkOptions::default());
        let len = batch().lines().len() / 3;
        let delivered = |written| {
            let outcomes = batch().outcomes(written, Some("full".into()));
            outcomes.iter().take_while(|outcome| **outcome == Outcome::Delivered).count()
        };

        let counts = [0, len - 1, len, 2 * len - 1, 2 * len, 3 * len - 1, 3 * len].map(delivered);

        assert_eq!(counts, [0, 0, 1, 1, 2, 2, 3]);
    }
}
