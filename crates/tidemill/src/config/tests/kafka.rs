//! The table `outbox.kafka` and its routes.

use super::stage::Stage;
use crate::config::{Compression, KafkaMechanism, KafkaSecurity, Origin};
use tidemill_domain::code::Code;

#[test]
fn everything_about_kafka_is_read_and_secrets_stay_hidden() {
    let text = "[outbox.kafka]\n\
                bootstrap_servers = \"a:9092,b:9092\"\n\
                compression = \"zstd\"\n\
                transactional = true\n\
                security = \"sasl_ssl\"\n\
                sasl_mechanism = \"plain\"\n\
                sasl_username = \"shop\"\n\
                sasl_password = \"env:KAFKA_PASSWORD\"\n\
                [outbox.kafka.routes.payments]\n\
                event_type = \"payment.*\"\n\
                topic = \"payments.v2\"\n";
    let stage = Stage::new().project(text).env("KAFKA_PASSWORD", "open sesame");

    let loaded = stage.load().unwrap();

    let kafka = &loaded.settings.kafka;
    assert_eq!(kafka.bootstrap_servers.as_deref(), Some("a:9092,b:9092"));
    assert_eq!((kafka.compression, kafka.security), (Compression::Zstd, KafkaSecurity::SaslSsl));
    assert!(kafka.transactional);
    assert_eq!(kafka.transactional_id, "tidemill-outbox");
    assert_eq!(kafka.sasl_mechanism, KafkaMechanism::Plain);
    assert_eq!(kafka.sasl_password.as_ref().unwrap().expose(), "open sesame");
    let routes = &loaded.settings.routes;
    assert_eq!((&*routes[0].event_type, &*routes[0].topic), ("payment.*", "payments.v2"));
    assert!(!format!("{loaded:?}").contains("sesame"));
    assert_eq!(stage.value("outbox.kafka.sasl_password").shown, "***");
}

#[test]
fn the_brokers_are_also_named_by_the_variable_that_everybody_knows() {
    let stage = Stage::new().project("[outbox.kafka]\nbootstrap_servers = \"file:1\"\n");

    let stage = stage.env("KAFKA_BOOTSTRAP_SERVERS", "known:2");
    let value = stage.value("outbox.kafka.bootstrap_servers");
    assert_eq!((&*value.shown, value.origin), ("known:2", Origin::Env("KAFKA_BOOTSTRAP_SERVERS".to_owned())));

    let stage = stage.env("TIDEMILL_OUTBOX_KAFKA_BOOTSTRAP_SERVERS", "ours:3");
    assert_eq!(stage.value("outbox.kafka.bootstrap_servers").shown, "ours:3");
}

#[test]
fn what_is_missing_misspelt_or_open_is_refused() {
    for (text, code, helps) in [
        ("[outbox.kafka]\nbootstrap_server = \"a:1\"", Code::UnknownKey, "outbox.kafka.bootstrap_servers"),
        ("[outbox.kafka]\nsasl_password = \"open\"", Code::OpenSecret, ""),
        ("[outbox.kafka]\ncompression = \"gzip\"", Code::BadValue, "lz4"),
        ("[outbox.kafka.routes.a]\ntopic = \"b\"", Code::BadValue, "event_type"),
        ("[outbox.kafka.routes.a]\ntopics = \"b\"", Code::UnknownKey, "outbox.kafka.routes.a.topic"),
        ("[outbox.kafka]\nroutes = 1", Code::UnknownKey, ""),
    ] {
        let error = Stage::new().project(text).load().unwrap_err();
        let told: Vec<_> = error.problems().iter().filter(|problem| problem.code() == code).collect();
        assert!(!told.is_empty() && told[0].fix().contains(helps), "{text}: {error:?}");
    }
}
