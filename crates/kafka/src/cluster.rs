//! Whether the brokers answer, for those who want to know before anything is sent.

use crate::failure::ReadFailure;
use crate::options::{KafkaError, KafkaOptions};
use crate::producer::{Pace, Producer};
use std::time::Duration;

/// What the brokers say of themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cluster {
    pub brokers: usize,
    /// How many topics this client may see.
    pub topics: usize,
}

impl Cluster {
    /// Connects as a relay would, and asks. Nothing is sent.
    pub async fn look(options: &KafkaOptions, within: Duration) -> Result<Self, ReadFailure> {
        if options.bootstrap_servers.trim().is_empty() {
            return Err(KafkaError::NoServers.into());
        }
        options.security.check()?;
        let producer = Producer::new(options, Pace::Together)?;
        let servers = options.bootstrap_servers.clone();
        let asking = tokio::task::spawn_blocking(move || {
            producer.cluster(within).map_err(|code| {
                // Why a broker hung up says more than that nobody answered.
                let why = producer.complaint().unwrap_or_else(|| code.to_string());
                ReadFailure::Unreachable { servers, waited: within, why }
            })
        });
        asking.await.map_err(|_| ReadFailure::Ended)?
    }
}
