//! What `deploy/compose.yaml` says, tried without containers: its commands and its environment with our binary, between a
//! PostgreSQL and a Kafka of the tests, and its listeners against each other.

use crate::Stage;
use crate::outbox_kafka::{consume, make_topic};
use saphyr::{LoadableYamlNode, Yaml};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;
use tidemill_store::scratch::Scratch;
use tidemill_testkit::kafka::BOOTSTRAP;
use tidemill_testkit::skip::require;
use tidemill_testkit::{Guarded, Signal};

const PATIENCE: Duration = Duration::from_secs(180);

fn text() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/compose.yaml")).unwrap()
}

/// A value of a service, also if it comes from what it has in common with others.
pub(crate) fn of<'a>(services: &'a Yaml<'a>, service: &str, key: &str) -> &'a Yaml<'a> {
    let service = &services[service];
    service.as_mapping_get(key).unwrap_or_else(|| &service["<<"][key])
}

pub(crate) fn texts(list: &Yaml<'_>) -> Vec<String> {
    list.as_sequence().unwrap().iter().map(|one| one.as_str().unwrap().to_owned()).collect()
}

pub(crate) fn environment(services: &Yaml<'_>, service: &str) -> BTreeMap<String, String> {
    let variables = of(services, service, "environment").as_mapping().unwrap();
    variables
        .iter()
        .map(|(name, value)| (name.as_str().unwrap().into(), value.as_str().unwrap().into()))
        .collect()
}

/// `NAME://HOST:PORT,…` by name.
fn listeners(text: &str) -> BTreeMap<&str, (&str, &str)> {
    text.split(',')
        .map(|listener| {
            let (name, address) = listener.split_once("://").unwrap();
            (name, address.rsplit_once(':').unwrap())
        })
        .collect()
}

#[test]
fn each_side_is_sent_on_to_an_address_that_it_can_reach() {
    let text = text();
    let documents = Yaml::load_from_str(&text).unwrap();
    let services = &documents[0]["services"];
    let kafka = environment(services, "kafka");
    let bound = listeners(&kafka["KAFKA_LISTENERS"]);
    let advertised = listeners(&kafka["KAFKA_ADVERTISED_LISTENERS"]);

    for (name, (_, port)) in &advertised {
        assert_eq!(bound[name].1, *port, "{name} is bound to the port that it advertises");
    }
    let (host, port) = advertised["CONTAINER"];
    assert_eq!(environment(services, "relay")["KAFKA_BOOTSTRAP_SERVERS"], format!("{host}:{port}"));
    assert!(services.as_mapping_get(host).is_some(), "containers resolve names of services");
    let (host, port) = advertised["HOST"];
    assert_eq!(host, "localhost");
    assert_eq!(texts(of(services, "kafka", "ports")), [format!("127.0.0.1:{port}:{port}")]);
    for name in bound.keys() {
        assert!(kafka["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"].contains(&format!("{name}:")), "{name}");
    }
    for port in texts(of(services, "postgres", "ports")) {
        assert!(port.starts_with("127.0.0.1:"), "{port} is reachable from elsewhere");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn its_commands_bring_an_event_to_kafka() {
    let Some(servers) = require("kafka", std::env::var(BOOTSTRAP).ok()) else { return };
    let Some(database) = Scratch::postgres().await else { return };
    let text = text();
    let documents = Yaml::load_from_str(&text).unwrap();
    let services = &documents[0]["services"];
    let mut stage = Stage::new();
    for (name, value) in environment(services, "relay") {
        // Where things are is all that differs here.
        let value = match name.as_str() {
            "TIDEMILL_DATABASE_URL" => database.url().to_owned(),
            "TIDEMILL_DATABASE_PASSWORD" if !database.url().contains("tidemill@") => continue,
            "KAFKA_BOOTSTRAP_SERVERS" => servers.clone(),
            _ => value,
        };
        stage = stage.with(&name, &value);
    }
    let topic = format!("compose-{}", std::process::id());
    make_topic(&servers, &topic, 1);
    let command = |service| texts(of(services, service, "command"));
    let migrate = command("migrate");
    stage.run(&migrate.iter().map(String::as_str).collect::<Vec<_>>()).succeeds();

    let relay = command("relay");
    let relay: Vec<&str> = relay.iter().map(String::as_str).collect();
    let replicas = services["relay"]["deploy"]["replicas"].as_integer().unwrap();
    let mut relays: Vec<Guarded> =
        (0..replicas).map(|_| Guarded::spawn(stage.command(&relay)).unwrap()).collect();
    let insert = format!(
        "insert into outbox_event (aggregate_type, aggregate_id, event_type, topic, payload)
         values ('order', '42', 'order.paid', '{topic}', '{{\"cents\": 500}}')"
    );
    let store = database.store(None).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    tx.execute_for_test(&insert).await.unwrap();
    tx.commit().await.unwrap();
    for _ in 0..1_200 {
        if stage.run(&["outbox", "show", "1", "-o", "json"]).stdout.contains("\"published\"") {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    for relay in &mut relays {
        relay.signal(Signal::TERM).unwrap();
    }

    for mut relay in relays {
        assert!(relay.wait_deadline(PATIENCE).expect("it ends in time").success());
    }
    assert_eq!(replicas, 3);
    let read: serde_json::Value = serde_json::from_str(&consume(&servers, &topic, &[]).unwrap()).unwrap();
    assert_eq!(read["key"], "42");
}
