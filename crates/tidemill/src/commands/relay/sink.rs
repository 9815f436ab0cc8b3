//! The sink that the configuration names.

use crate::config::{self, KafkaSecurity, Secret, Settings};
use crate::report::Result;
use std::sync::Arc;
use tidemill_engine::SystemClock;
use tidemill_engine::outbox::{Publisher, SinkOptions, sink};
use tidemill_kafka::{
    KafkaError, KafkaOptions, KafkaPublisher, Sasl, Security, Tls, Topics, TransactionalPublisher,
    delivery_timeout,
};

/// None if no sink is configured.
pub(super) fn open(settings: &Settings, clock: Arc<SystemClock>) -> Result<Option<Arc<dyn Publisher>>> {
    let Some(name) = &settings.outbox.sink else { return Ok(None) };
    if let Some(given) = kafka(name) {
        let options = kafka_options(settings, given)?;
        if settings.kafka.transactional {
            let id = &settings.kafka.transactional_id;
            return Ok(Some(Arc::new(TransactionalPublisher::new(options, id, clock)?)));
        }
        return Ok(Some(Arc::new(KafkaPublisher::new(options, clock)?)));
    }
    let max_record_bytes = settings.outbox.max_record.map(|bytes| bytes as usize);
    Ok(Some(sink::open(name, SinkOptions { clock, max_record_bytes })?))
}

/// Checks that a file can be written. It does not contact Kafka: relays wait for brokers.
pub(super) fn check(settings: &Settings) -> Result<()> {
    match &settings.outbox.sink {
        Some(name) if kafka(name).is_none() => Ok(sink::check(name)?),
        _ => Ok(()),
    }
}

/// The brokers of `kafka:HOST:PORT`; `Some(None)` for plain `kafka`; `None` for other sinks.
pub(crate) fn kafka(sink: &str) -> Option<Option<&str>> {
    let given = sink.strip_prefix("kafka:").filter(|servers| !servers.is_empty());
    (given.is_some() || sink == "kafka").then_some(given)
}

/// Options for Kafka. Brokers in the name of the sink override the configuration.
pub(crate) fn kafka_options(settings: &Settings, servers: Option<&str>) -> Result<KafkaOptions, KafkaError> {
    let kafka = &settings.kafka;
    let servers = servers.or(kafka.bootstrap_servers.as_deref()).ok_or(KafkaError::NoServers)?;
    Ok(KafkaOptions {
        security: security(kafka)?,
        compression: kafka.compression,
        linger: kafka.linger,
        client: kafka.options.as_deref().unwrap_or_default().parse()?,
        topics: Topics::new(kafka.topic_prefix.as_deref().unwrap_or_default(), settings.routes.clone())?,
        cloud_events_source: kafka.cloudevents_source.clone(),
        delivery_timeout: delivery_timeout(settings.outbox.lease, settings.outbox.timeout),
        max_record_bytes: settings.outbox.max_record.map(|bytes| bytes as usize),
        ..KafkaOptions::new(servers)
    })
}

fn security(kafka: &config::Kafka) -> Result<Security, KafkaError> {
    let secret = |secret: &Option<Secret>| secret.as_ref().map(|secret| secret.expose().to_owned());
    let (wants_tls, wants_sasl) = match kafka.security {
        KafkaSecurity::Plaintext => (false, false),
        KafkaSecurity::Ssl => (true, false),
        KafkaSecurity::SaslPlaintext => (false, true),
        KafkaSecurity::SaslSsl => (true, true),
    };
    let tls = wants_tls.then(|| Tls {
        ca: kafka.ssl_ca.clone(),
        certificate: kafka.ssl_certificate.clone(),
        key: kafka.ssl_key.clone(),
        key_password: secret(&kafka.ssl_key_password),
    });
    let sasl = match (wants_sasl, &kafka.sasl_username, secret(&kafka.sasl_password)) {
        (true, Some(user), Some(password)) => {
            Some(Sasl { mechanism: kafka.sasl_mechanism, user: user.clone(), password })
        }
        (false, None, None) => None,
        (true, ..) => {
            let what = "outbox.kafka.security requires SASL, but outbox.kafka.sasl_username or sasl_password is missing";
            return Err(KafkaError::Incomplete(what));
        }
        // An unused password is a mistake.
        (false, ..) => {
            let what = "a SASL name or password is set, but outbox.kafka.security does not use SASL";
            return Err(KafkaError::Incomplete(what));
        }
    };
    Ok(Security { tls, sasl })
}
