//! Relays for tests.

use super::*;
use uuid::Uuid;

/// The n-th relay, with this many slots.
pub(crate) fn relay(n: u32, instance: Option<Instance>, slots: usize) -> LiveRelay {
    LiveRelay {
        id: RelayId::new(Uuid::from_u128(u128::from(n))),
        name: format!("relay-{n}"),
        host: "mill".to_owned(),
        pid: 100 + n,
        instance,
        transactional_id: None,
        joined_at: Timestamp::from_micros(i64::from(n)),
        slots,
    }
}

#[test]
fn an_id_comes_back_from_its_text() {
    let id = relay(7, None, 0).id;

    assert_eq!(id.to_string().parse(), Ok(id));
    assert_eq!("7".parse::<RelayId>(), Err(BadRelayId));
}

#[test]
fn people_can_find_it() {
    let fixed = Instance::new(1, 3).unwrap();

    assert_eq!(
        relay(7, Some(fixed), 0).to_string(),
        "relay relay-7 (process 107 on host mill, RELAY_INSTANCE_ID=1 and RELAY_TOTAL_INSTANCES=3)"
    );
    assert_eq!(
        relay(8, None, 0).to_string(),
        "relay relay-8 (process 108 on host mill, without a fixed share)"
    );
}

#[test]
fn the_name_of_a_sink_contains_its_transactional_id() {
    use crate::outbox::relay::{transactional_id, transactional_sink};
    let name = transactional_sink("shop", "broker-1:9092");
    assert_eq!(name, "kafka-transactional:shop@broker-1:9092");
    assert_eq!(transactional_id(&name), Some("shop"));
    assert_eq!(transactional_id("kafka:broker-1:9092"), None);
}
