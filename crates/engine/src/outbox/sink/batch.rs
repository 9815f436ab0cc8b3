//! A batch: records as lines, in one piece, and what becomes of each when all of the piece or only its beginning was
//! written.

use super::super::publisher::Outcome;
use super::SinkOptions;
use std::collections::HashSet;
use tidemill_domain::outbox::{Record, line};

/// Records as lines.
#[derive(Debug)]
pub(super) struct Batch {
    /// A line break, for when the line before has none, and the lines.
    bytes: Vec<u8>,
    fates: Vec<Fate>,
}

/// What is known of a record before anything is written.
#[derive(Debug)]
enum Fate {
    /// Its line ends before this byte.
    Written(usize),
    Decided(Outcome),
}

impl Batch {
    pub(super) fn new(records: &[Record], options: &SinkOptions) -> Self {
        let published_at = options.clock.now();
        let mut bytes = vec![b'\n'];
        let mut refused = HashSet::new();
        let mut fates = Vec::with_capacity(records.len());
        for record in records {
            if refused.contains(&record.aggregate) {
                fates.push(Fate::Decided(Outcome::Held));
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
                    fates.push(Fate::Decided(Outcome::Refused { why, is_permanent: true }));
                }
                _ => fates.push(Fate::Written(bytes.len())),
            }
        }
        Self { bytes, fates }
    }

    /// The lines.
    pub(super) fn lines(&self) -> &[u8] {
        &self.bytes[1..]
    }

    /// The lines behind a line break.
    pub(super) fn lines_on_a_fresh_line(&self) -> &[u8] {
        &self.bytes
    }

    /// What became of each record when the first `written` bytes of the lines are certainly there, and the rest is not
    /// for this reason.
    pub(super) fn outcomes(self, written: usize, why: Option<String>) -> Vec<Outcome> {
        let why = why.unwrap_or_default();
        let outcome = |fate| match fate {
            Fate::Decided(outcome) => outcome,
            // The first byte is the line break.
            Fate::Written(end) if end <= written + 1 => Outcome::Delivered,
            Fate::Written(_) => Outcome::Unavailable { why: why.clone() },
        };
        self.fates.into_iter().map(outcome).collect()
    }
}
