//! The settings of Kafka: `[outbox.kafka]`, and its sections `[outbox.kafka.routes.NAME]`.

use super::choice::{Compression, KafkaMechanism, KafkaSecurity};
use super::error::ConfigError;
use super::key;
use super::layer::Given;
use super::load::SectionValue;
use super::secret::Secret;
use super::section::ROUTES;
use super::settings::Values;
use super::sources::Sources;
use super::table::{Entry, entry, first_origin, names, refuse, shown, text};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kafka {
    /// The brokers to begin with.
    pub bootstrap_servers: Option<String>,
    /// What stands before every topic.
    pub topic_prefix: Option<String>,
    /// How batches are made smaller.
    pub compression: Compression,
    /// How long a record waits for others.
    pub linger: Duration,
    /// Where events come from, in the words of CloudEvents.
    pub cloudevents_source: Option<String>,
    /// Further options of the client.
    pub options: Option<String>,
    /// Whether events are published in transactions.
    pub transactional: bool,
    /// What these are known by.
    pub transactional_id: String,
    /// What the brokers ask for.
    pub security: KafkaSecurity,
    /// By which certificates they are known.
    pub ssl_ca: Option<PathBuf>,
    pub ssl_certificate: Option<PathBuf>,
    pub ssl_key: Option<PathBuf>,
    /// The password of the key.
    pub ssl_key_password: Option<Secret>,
    /// How name and password are shown.
    pub sasl_mechanism: KafkaMechanism,
    pub sasl_username: Option<String>,
    pub sasl_password: Option<Secret>,
    /// Which topic events of a type go to, by name of the route.
    pub routes: Vec<RouteSettings>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RouteSettings {
    /// The type of the events.
    pub event_type: String,
    pub topic: String,
}

impl Kafka {
    pub(super) fn read(values: &Values, routes: Vec<RouteSettings>) -> Self {
        let file = |key| values.optional_text(key).map(PathBuf::from);
        Self {
            bootstrap_servers: values.optional_text(&key::OUTBOX_KAFKA_BOOTSTRAP_SERVERS),
            topic_prefix: values.optional_text(&key::OUTBOX_KAFKA_TOPIC_PREFIX),
            compression: values.choice(&key::OUTBOX_KAFKA_COMPRESSION),
            linger: values.duration(&key::OUTBOX_KAFKA_LINGER),
            cloudevents_source: values.optional_text(&key::OUTBOX_KAFKA_CLOUDEVENTS_SOURCE),
            options: values.optional_text(&key::OUTBOX_KAFKA_OPTIONS),
            transactional: values.truth(&key::OUTBOX_KAFKA_TRANSACTIONAL),
            transactional_id: values.text(&key::OUTBOX_KAFKA_TRANSACTIONAL_ID),
            security: values.choice(&key::OUTBOX_KAFKA_SECURITY),
            ssl_ca: file(&key::OUTBOX_KAFKA_SSL_CA),
            ssl_certificate: file(&key::OUTBOX_KAFKA_SSL_CERTIFICATE),
            ssl_key: file(&key::OUTBOX_KAFKA_SSL_KEY),
            ssl_key_password: values.optional_secret(&key::OUTBOX_KAFKA_SSL_KEY_PASSWORD),
            sasl_mechanism: values.choice(&key::OUTBOX_KAFKA_SASL_MECHANISM),
            sasl_username: values.optional_text(&key::OUTBOX_KAFKA_SASL_USERNAME),
            sasl_password: values.optional_secret(&key::OUTBOX_KAFKA_SASL_PASSWORD),
            routes,
        }
    }
}

/// The routes, and each value as it is shown; what is wrong is added to `problems`.
pub(super) fn settle(
    given: &BTreeMap<String, Given>,
    sources: &Sources,
    problems: &mut Vec<ConfigError>,
) -> (Vec<RouteSettings>, Vec<SectionValue>) {
    let (mut routes, mut values) = (Vec::new(), Vec::new());
    for name in names(&ROUTES, given) {
        let Some(entry) = entry(&ROUTES, &name, Entry::new(), given, sources, problems) else { continue };
        match (text(&entry, "event_type"), text(&entry, "topic")) {
            (Some(event_type), Some(topic)) => {
                values.extend(shown(&ROUTES, &name, &entry));
                routes.push(RouteSettings { event_type, topic });
            }
            _ => problems.push(refuse(
                format!("{}.{name}", ROUTES.path),
                &first_origin(&ROUTES, &name, given),
                None,
                "a route has an event_type and a topic".to_owned(),
                "add event_type = \"order.*\" and topic = \"orders\"".to_owned(),
            )),
        }
    }
    (routes, values)
}
