//! Settings: brokers, delivery and timeouts.

use crate::client::{BadOption, ClientOptions};
use crate::route::{BadRoute, Topics};
use crate::security::Security;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use std::time::Duration;
use tidemill_domain::code::Code;

#[derive(Clone, Debug)]
pub struct KafkaOptions {
    /// `HOST:PORT`, separated by commas.
    pub bootstrap_servers: String,
    pub security: Security,
    pub compression: Compression,
    /// How long a record waits for others to share its batch.
    pub linger: Duration,
    pub client: ClientOptions,
    pub topics: Topics,
    /// The CloudEvents source; `None` omits the CloudEvents headers.
    pub cloud_events_source: Option<String>,
    /// See [`delivery_timeout`].
    pub delivery_timeout: Duration,
    /// The longest record that readers accept, in bytes.
    pub max_record_bytes: Option<usize>,
}

impl KafkaOptions {
    pub fn new(bootstrap_servers: impl Into<String>) -> Self {
        Self {
            bootstrap_servers: bootstrap_servers.into(),
            security: Security::default(),
            compression: Compression::Lz4,
            linger: Duration::from_millis(5),
            client: ClientOptions::default(),
            topics: Topics::default(),
            cloud_events_source: None,
            delivery_timeout: Duration::from_secs(3),
            max_record_bytes: None,
        }
    }

    pub(crate) fn check(&self) -> Result<(), KafkaError> {
        if self.bootstrap_servers.trim().is_empty() {
            return Err(KafkaError::NoServers);
        }
        self.security.check()
    }

    /// The settings of a client: our defaults, then those that users may set (except `without`), then brokers and
    /// security. Settings that you add later cannot be overridden by users.
    pub(crate) fn client_config(&self, defaults: &[(&str, &str)], without: &[&str]) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set_log_level(RDKafkaLogLevel::Warning).set("client.id", "tidemill");
        for (name, value) in defaults {
            config.set(*name, *value);
        }
        for (name, value) in self.client.iter().filter(|(name, _)| !without.contains(name)) {
            config.set(name, value);
        }
        config.set("bootstrap.servers", &self.bootstrap_servers);
        self.security.apply(&mut config);
        config
    }
}

tidemill_domain::words! {
    pub enum Compression {
        None = "none",
        Lz4 = "lz4",
        Zstd = "zstd",
        /// For readers that support nothing else.
        Snappy = "snappy",
    }
}

/// How long a publication may take. It ends before the relay gives up waiting, so that its outcome is known, and well
/// before the lease ends, so that nothing is in flight when another relay takes over.
///
/// ```
/// # use std::time::Duration;
/// # use tidemill_kafka::delivery_timeout;
/// let timeout = delivery_timeout(Duration::from_secs(5), Duration::from_secs(10));
/// assert_eq!(timeout, Duration::from_secs(3));
/// ```
pub fn delivery_timeout(lease: Duration, timeout: Duration) -> Duration {
    (lease * 3 / 5).min(timeout * 4 / 5)
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KafkaError {
    #[error(transparent)]
    Option(#[from] BadOption),
    #[error(transparent)]
    Route(#[from] BadRoute),
    #[error("no Kafka brokers are configured")]
    NoServers,
    /// Not a valid transactional id for Kafka.
    #[error("{0:?} is not a valid transactional id")]
    TransactionalId(String),
    /// One setting needs another.
    #[error("{0}")]
    Incomplete(&'static str),
    /// The client rejects its settings, for example an unreadable certificate.
    #[error("the Kafka client rejected its settings: {0}")]
    Refused(String),
    #[error("this program was built without TLS and SCRAM for Kafka")]
    BuiltWithoutTls,
}

impl KafkaError {
    pub const fn code(&self) -> Code {
        match self {
            Self::Option(_) => Code::BadKafkaOption,
            Self::Route(_) | Self::NoServers | Self::TransactionalId(_) => Code::BadKafkaSettings,
            Self::Incomplete(_) | Self::Refused(_) | Self::BuiltWithoutTls => Code::BadKafkaSettings,
        }
    }

    pub fn fix(&self) -> String {
        let fix = match self {
            Self::Option(bad) => return bad.fix(),
            Self::Route(_) => "correct the topic, or remove the route",
            Self::NoServers => "set outbox.kafka.bootstrap_servers or KAFKA_BOOTSTRAP_SERVERS to HOST:PORT",
            Self::TransactionalId(_) => {
                "set outbox.kafka.transactional_id to 1 to 240 letters, digits, '.', '_' and '-'"
            }
            Self::Incomplete(_) => "set both, or neither",
            Self::Refused(_) => "correct the setting, or the file that it names",
            Self::BuiltWithoutTls => {
                "build it with `cargo build --release --features kafka-tls`, or use a packaged program"
            }
        };
        fix.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_publication_ends_before_the_lease_and_before_the_relay_gives_up(
            lease in 1_000_u64..3_600_000, timeout in 100_u64..3_600_000,
        ) {
            let (lease, timeout) = (Duration::from_millis(lease), Duration::from_millis(timeout));

            let found = delivery_timeout(lease, timeout);

            // A relay trusts its lease for four fifths of its duration.
            prop_assert!(found < lease * 4 / 5 && found < timeout && !found.is_zero());
        }
    }
}
