//! A relay: a process that publishes events. Joining again makes it another relay, so a retired one never comes back.

use super::{Instance, Unit};
use crate::time::Timestamp;
use uuid::Uuid;

crate::newtype::ids! {
    /// One relay, from joining to its end. Never reused.
    pub struct RelayId(Uuid);
}

crate::newtype::parsed!(
    RelayId, |text| Uuid::try_parse(text).ok().map(Self),
    BadRelayId: "the id of a relay is a UUID such as 018f3c5e-1d2b-7cc3-9b1a-6f0a4e7d2c11"
);

/// It has joined, has not ended, and its lease has not passed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LiveRelay {
    pub id: RelayId,
    pub name: String,
    pub host: String,
    pub pid: u32,
    /// Its fixed share; none: it shares fairly.
    pub instance: Option<Instance>,
    pub transactional_id: Option<String>,
    pub joined_at: Timestamp,
    pub slots: usize,
}

impl LiveRelay {
    pub const fn unit(&self) -> Unit {
        match self.transactional_id {
            Some(_) => Unit::Group,
            None => Unit::Slot,
        }
    }
}

const TRANSACTIONAL: &str = "kafka-transactional:";

/// The name of a transactional sink, which contains the transactional id.
pub fn transactional_sink(id: &str, servers: &str) -> String {
    format!("{TRANSACTIONAL}{id}@{servers}")
}

/// The transactional id in the name of a sink; other relays know only the name.
pub fn transactional_id(sink: &str) -> Option<&str> {
    Some(sink.strip_prefix(TRANSACTIONAL)?.split_once('@')?.0)
}

crate::newtype::display!(
    LiveRelay,
    relay => "relay {} (process {} on host {}, {})",
    relay.name, relay.pid, relay.host, relay.instance.map_or("without a fixed share".to_owned(), Instance::settings)
);

#[cfg(test)]
pub(super) mod tests;
