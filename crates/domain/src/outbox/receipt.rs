//! A receipt: the records of a group that a transactional sink has and the database does not know of yet. It is part of
//! the same transaction, so the group's next owner reads from it what need not be sent again.
//!
//! It names records, not positions: after a crash a database may reuse the numbers of its last transactions. A record is
//! identified by its number and its content, so another record with the same number is not mistaken for it.

use super::{EventId, Payload, Record, Slot, Window};
use md5::{Digest, Md5};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const VERSION: u32 = 1;

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Receipt {
    version: u32,
    /// Identifies the database, if known.
    #[serde(default)]
    pub system: Option<String>,
    pub published: BTreeMap<EventId, u64>,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a receipt cannot be read: {0}")]
pub struct BadReceipt(String);

impl Receipt {
    pub fn new(system: Option<String>, published: BTreeMap<EventId, u64>) -> Self {
        Self { version: VERSION, system, published }
    }

    pub fn to_json(&self) -> String {
        serde_json::json!(self).to_string()
    }

    /// Later versions are refused.
    pub fn from_json(text: &[u8]) -> Result<Self, BadReceipt> {
        let receipt: Self = serde_json::from_slice(text).map_err(|error| BadReceipt(error.to_string()))?;
        if receipt.version == VERSION {
            Ok(receipt)
        } else {
            Err(BadReceipt(format!("its version is {}; this program reads {VERSION}", receipt.version)))
        }
    }

    /// Whether it may belong to this database. Only two known ones can differ.
    pub fn may_be_of(&self, system: Option<&str>) -> bool {
        match (&self.system, system) {
            (Some(theirs), Some(ours)) => theirs == ours,
            (None, _) | (_, None) => true,
        }
    }
}

/// A hash of what is the same whenever a record is published. Its epoch and position may differ.
pub fn fingerprint(record: &Record) -> u64 {
    let mut hash = Md5::new();
    let mut part = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_be_bytes());
        hash.update(bytes);
    };
    for text in [&record.aggregate.kind, &record.aggregate.id, &record.event_type, &record.topic] {
        part(text.as_bytes());
    }
    part(&record.created_at.as_micros().to_be_bytes());
    match &record.payload {
        Payload::Json(text) => {
            part(b"json");
            part(text.as_bytes());
        }
        Payload::Bytes(bytes) => {
            part(b"bytes");
            part(bytes);
        }
        Payload::Tombstone => part(b"none"),
    }
    for (name, value) in &record.headers {
        part(name.as_bytes());
        part(value.as_bytes());
    }
    let [a, b, c, d, e, f, g, h, ..]: [u8; 16] = hash.finalize().into();
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Receipted {
    pub id: EventId,
    pub xid: u64,
    pub slot: Slot,
}

/// Whether a published event may be sent again when its slot is read on. Events up to the floor are not read.
pub fn may_come_again(event: Receipted, window: Option<&Window>, floor: EventId) -> bool {
    event.id > floor && window.is_none_or(|window| !window.covers(event.id, event.xid))
}

#[cfg(test)]
mod tests {
    use super::super::event::Aggregate;
    use super::super::snapshot::Snapshot;
    use super::super::{Headers, Seq};
    use super::*;
    use crate::lease::Epoch;
    use crate::time::Timestamp;
    use proptest::prelude::*;

    fn record(text: &str) -> Record {
        let aggregate = Aggregate { kind: "order".into(), id: "1".into() };
        Record {
            id: EventId::new(7),
            table: None,
            slot: aggregate.slot(),
            epoch: Epoch::new(1),
            seq: Seq::new(3),
            aggregate,
            event_type: "order.paid".into(),
            topic: "orders".into(),
            is_redirected: false,
            headers: Headers::from([("a".into(), "b".into())]),
            payload: Payload::Json(text.into()),
            created_at: Timestamp::EPOCH,
        }
    }

    proptest! {
        #[test]
        fn a_receipt_is_read_back(
            system in prop::option::of("[0-9]{1,20}"),
            published in prop::collection::btree_map((1..i64::MAX).prop_map(EventId::new), any::<u64>(), 0..40),
        ) {
            let receipt = Receipt::new(system, published);

            prop_assert_eq!(Receipt::from_json(receipt.to_json().as_bytes()), Ok(receipt));
        }

        #[test]
        fn any_bytes_are_a_receipt_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _either = Receipt::from_json(&bytes);
        }

        /// With one writer, an event comes again exactly when it is after what was read and after the floor.
        #[test]
        fn what_was_read_does_not_come_again(id in 1..30_i64, read in 0..30_i64, floor in 0..30_i64) {
            let event = Receipted { id: EventId::new(id), xid: id.unsigned_abs(), slot: Slot::new(0) };
            let window = Window::at(Snapshot::up_to(read));

            let comes = may_come_again(event, Some(&window), EventId::new(floor));

            prop_assert_eq!(comes, id > read && id > floor);
        }
    }

    #[test]
    fn a_record_is_known_by_what_it_says() {
        let known = fingerprint(&record("{}"));
        let again = Record { epoch: Epoch::new(2), seq: Seq::new(9), ..record("{}") };
        assert_eq!(fingerprint(&again), known);

        let base = || record("{}");
        let others = [
            record("{ }"),
            Record { payload: Payload::Bytes(b"{}".to_vec()), ..base() },
            Record { payload: Payload::Tombstone, ..base() },
            Record { topic: "orders.v2".into(), ..base() },
            Record { event_type: "order.sent".into(), ..base() },
            Record { headers: Headers::new(), ..base() },
            Record { created_at: Timestamp::from_micros(1), ..base() },
            Record { aggregate: Aggregate { kind: "order".into(), id: "2".into() }, ..base() },
        ];
        for other in others {
            assert_ne!(fingerprint(&other), known, "{other:?}");
        }
    }

    #[test]
    fn a_receipt_of_a_later_version_is_not_guessed_at() {
        let error = Receipt::from_json(br#"{"version":2,"published":{}}"#).unwrap_err();

        assert!(error.to_string().contains("version is 2"), "{error}");
    }

    #[test]
    fn only_two_databases_that_are_known_can_differ() {
        let of = |system: Option<&str>| Receipt::new(system.map(str::to_owned), BTreeMap::new());

        assert!(!of(Some("7")).may_be_of(Some("8")));
        assert!(of(Some("7")).may_be_of(Some("7")) && of(Some("7")).may_be_of(None));
        assert!(of(None).may_be_of(Some("7")) && of(None).may_be_of(None));
    }
}
