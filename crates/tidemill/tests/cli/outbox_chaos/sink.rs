//! Where relays publish to, and what can be read there.

use super::broker::Broker;
use super::ledger::Records;
use crate::Stage;
use std::fs;

/// The file that all relays of a run append to.
const FILE: &str = "events.jsonl";

/// Where relays publish to.
pub(super) enum Sink {
    /// One file.
    File,
    /// A topic of several partitions.
    Kafka(Box<Broker>),
}

impl Sink {
    /// As a relay is told.
    pub(super) fn address(&self) -> String {
        match self {
            Self::File => format!("file:{FILE}"),
            Self::Kafka(broker) => format!("kafka:{}", broker.servers()),
        }
    }

    /// With what else it is told.
    pub(super) fn dress(&self, stage: Stage) -> Stage {
        match self {
            Self::File => stage,
            Self::Kafka(broker) => {
                let settings = broker.delivery.settings.iter();
                settings.fold(stage, |stage, (name, value)| stage.with(name, value))
            }
        }
    }

    /// Everything that was published, in the order in which readers get it.
    pub(super) fn records(&self, stage: &Stage) -> Records {
        match self {
            Self::File => Records::of_file(&stage.path(FILE)),
            Self::Kafka(broker) => broker.records(),
        }
    }

    /// Something that grows whenever a record arrives.
    pub(super) fn growth(&self, stage: &Stage) -> Box<dyn Fn() -> u64 + Send> {
        match self {
            Self::File => {
                let path = stage.path(FILE);
                Box::new(move || fs::metadata(&path).map_or(0, |found| found.len()))
            }
            Self::Kafka(broker) => broker.growth(),
        }
    }

    pub(super) fn broker(&mut self) -> Option<&mut Broker> {
        match self {
            Self::File => None,
            Self::Kafka(broker) => Some(broker),
        }
    }

    /// How many batches of a relay may be there twice when it could so often not say, or not know, what has arrived.
    /// A file tells at once whether it has a batch, so one relay leaves one behind at most, as it ends. A broker that does
    /// not answer may have the batch all the same, and then it is sent again.
    pub(super) fn batches_in_vain(&self, excuses: usize) -> usize {
        match self {
            Self::File => excuses.min(1),
            Self::Kafka(broker) if broker.delivery.is_exactly_once => 0,
            Self::Kafka(_) => excuses,
        }
    }
}
