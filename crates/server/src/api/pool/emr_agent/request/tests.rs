//! Requests of the EMR Batch Agent API: those of the agent, our fields, and invalid ones.

use super::*;
use proptest::prelude::*;
use serde_json::{Map, json};

fn read(request: Value) -> Result<Request, String> {
    Request::read(&request, None).map_err(|error| error.to_string())
}

/// The document's request with other fields.
fn with(more: Value) -> Value {
    let mut request = json!({
        "action": "acquire",
        "dag_id": "batch_001",
        "dag_run_id": "batch_001_2024-01-25T00:05:00",
        "src_db_id": 4,
        "parallel_hint": 8,
        "table_name": "SALES_ORDER",
    });
    request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    request
}

fn acquired(request: Value) -> Acquire {
    match read(request) {
        Ok(Request::Acquire(acquire)) => *acquire,
        other => panic!("{other:?}"),
    }
}

fn holder() -> Holder {
    Holder::run("batch_001", "batch_001_2024-01-25T00:05:00").unwrap()
}

#[test]
fn the_documents_acquire_is_read() {
    let expected = Acquire {
        pool: PoolKey::SrcDbId(4),
        holder: holder(),
        table_name: Some("SALES_ORDER".to_owned()),
        parallel_hint: NonZeroU32::new(8),
        hint: None,
        partitions: None,
        class: Class::Normal,
        min_parallel: None,
        wait_seconds: 0,
        heartbeat_seconds: None,
    };

    assert_eq!(acquired(with(json!({}))), expected);
}

#[test]
fn the_documents_release_is_read_with_the_text_that_a_template_makes_of_the_number() {
    let expected =
        Release { pool: PoolKey::SrcDbId(4), holder: holder(), epoch: None, outcome: None, error: None };
    for id in [json!(4), json!("4")] {
        let request = json!({
            "action": "release",
            "dag_id": "batch_001",
            "dag_run_id": "batch_001_2024-01-25T00:05:00",
            "src_db_id": id,
        });
        assert_eq!(read(request), Ok(Request::Release(expected.clone())));
    }
}

#[test]
fn a_status_may_be_about_one_pool() {
    assert_eq!(read(json!({ "action": "status" })), Ok(Request::Status(None)));
    let one = Some(PoolKey::Name("adw".to_owned()));
    assert_eq!(read(json!({ "action": "status", "pool": "adw" })), Ok(Request::Status(one)));
}

#[test]
fn what_we_add_is_read() {
    let acquire = acquired(json!({
        "action": "acquire", "dag_id": "d", "dag_run_id": "r", "pool": "adw", "task_id": "extract", "map_index": "3",
        "class": "critical", "min_parallel": "2", "wait_seconds": "50", "epoch": 7,
        "heartbeat_seconds": 60, "hint": "/*+ PARALLEL(8)\n FULL(A) */", "something_else": [1],
    }));

    assert_eq!(acquire.pool, PoolKey::Name("adw".to_owned()));
    assert_eq!((acquire.holder.task(), acquire.holder.map_index()), ("extract", 3));
    assert_eq!((acquire.class, acquire.min_parallel), (Class::Critical, NonZeroU32::new(2)));
    assert_eq!((acquire.wait_seconds, acquire.heartbeat_seconds), (50, Some(60)));
    assert_eq!(acquire.hint.as_deref(), Some("/*+ PARALLEL(8)\n FULL(A) */"));

    let release = with(json!({ "action": "release", "epoch": "7", "outcome": "failed" }));
    let Ok(Request::Release(release)) = read(release) else { panic!() };
    assert_eq!((release.epoch, release.outcome), (Some(7), Some(ReleaseOutcome::Failed)));
}

#[test]
fn a_batch_spec_fills_in_what_the_request_does_not_say() {
    let spec = json!({
        "athenaMetaData": { "athenaMetaId": 323, "srcDbId": 4, "srcDbTp": "oracle", "tableName": "SALES_ORDER" },
        "rsrcSpecData": {
            "rsrcSpecId": 76, "athenaMetaId": 323, "hint": "/*+ PARALLEL(8) FULL(A) */", "prttCnt": 3,
            "prttCol": "Col1", "ftchSz": 1000,
        },
    });
    let mut inside = json!({ "action": "acquire", "dag_id": "d", "dag_run_id": "r" });
    let mut beside = inside.clone();
    inside["batch_spec"] = spec.clone();
    beside.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());

    let acquire = acquired(inside.clone());
    assert_eq!(acquire, acquired(beside));
    assert_eq!((acquire.pool, acquire.partitions), (PoolKey::SrcDbId(4), NonZeroU32::new(3)));
    assert_eq!(acquire.table_name.as_deref(), Some("SALES_ORDER"));
    assert_eq!(acquire.hint.as_deref(), Some("/*+ PARALLEL(8) FULL(A) */"));

    inside["src_db_id"] = json!(5);
    inside["table_name"] = json!("OTHER");
    inside["batch_spec"]["rsrcSpecData"]["prttCnt"] = json!(0);
    let acquire = acquired(inside.clone());
    assert_eq!((acquire.pool, acquire.partitions), (PoolKey::SrcDbId(5), None));
    assert_eq!(acquire.table_name.as_deref(), Some("OTHER"));

    inside["src_db_id"] = json!(null);
    inside["pool"] = json!("erp");
    assert_eq!(acquired(inside).pool, PoolKey::Name("erp".to_owned()));
}

#[test]
fn a_batch_without_connections_is_told_what_to_do() {
    for none in [json!(0), json!("0"), json!(-8), json!("-8")] {
        for field in ["parallel_hint", "min_parallel"] {
            let why = read(with(json!({ field: none }))).unwrap_err();
            assert!(why.starts_with(field) && why.contains("at least 1"), "{why}");
        }
    }
}

#[test]
fn the_address_and_the_action_agree() {
    let mut request = with(json!({}));
    let read =
        |request: &Value, asked| Request::read(request, Some(asked)).map_err(|error| error.to_string());

    assert!(matches!(read(&request, Action::Acquire), Ok(Request::Acquire(_))));
    assert_eq!(read(&request, Action::Release).unwrap_err(), "action: it does not match the path");
    request.as_object_mut().unwrap().remove("action");
    assert!(matches!(read(&request, Action::Release), Ok(Request::Release(_))));
    assert!(Request::read(&request, None).unwrap_err().to_string().starts_with("action: it is missing"));
}

#[test]
fn what_is_wrong_is_named() {
    for (field, value) in [
        ("action", json!("Acquire")),
        ("action", json!(1)),
        ("dag_id", json!("")),
        ("dag_id", json!(null)),
        ("dag_id", json!("d".repeat(251))),
        ("dag_run_id", json!("a\u{0}b")),
        ("src_db_id", json!(" 4 ")),
        ("src_db_id", json!(-4)),
        ("src_db_id", json!(null)),
        ("src_db_id", json!("None")),
        ("pool", json!("adw")),
        ("parallel_hint", json!("eight")),
        ("parallel_hint", json!(8.5)),
        ("parallel_hint", json!(1_000_001)),
        ("min_parallel", json!(9)),
        ("table_name", json!("t".repeat(251))),
        ("task_id", json!(7)),
        ("map_index", json!(-2)),
        ("class", json!("urgent")),
        ("wait_seconds", json!(51)),
        ("wait_seconds", json!(-1)),
        ("heartbeat_seconds", json!("soon")),
        ("hint", json!("h".repeat(4001))),
        ("batch_spec", json!("spec")),
        ("athenaMetaData", json!([])),
        ("rsrcSpecData", json!(1)),
    ] {
        let why = read(with(json!({ field: value }))).unwrap_err();
        assert!(why.starts_with(&format!("{field}: ")), "{field} {value:.40}: {why}");
    }
    let nested = with(json!({ "batch_spec": { "rsrcSpecData": { "prttCnt": "x" } } }));
    assert!(read(nested).unwrap_err().starts_with("batch_spec.rsrcSpecData.prttCnt: "));
    let epoch = with(json!({ "action": "release", "epoch": -1 }));
    assert!(read(epoch).unwrap_err().starts_with("epoch: "));
    let outcome = with(json!({ "action": "release", "outcome": "well" }));
    assert_eq!(read(outcome).unwrap_err(), "outcome: it is none of completed, failed, refused");
}

/// Every field that is read.
const FIELDS: [&str; 22] = [
    "action",
    "dag_id",
    "dag_run_id",
    "src_db_id",
    "parallel_hint",
    "table_name",
    "pool",
    "task_id",
    "map_index",
    "class",
    "min_parallel",
    "wait_seconds",
    "heartbeat_seconds",
    "hint",
    "batch_spec",
    "athenaMetaData",
    "rsrcSpecData",
    "epoch",
    "outcome",
    "error",
    "request",
    "prttCnt",
];

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-2_i64..60).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
        (-2_i64..60).prop_map(|number| Value::from(number.to_string())),
        prop::sample::select(vec!["acquire", "release", "status", "critical", "failed"])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 10, |inner| {
        let names = prop::sample::select([&FIELDS[..], &["srcDbId", "tableName", "x"]].concat());
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(names, inner, 0..10).prop_map(|pairs| {
                Value::Object(
                    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>(),
                )
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn any_json_is_read_or_refused_with_the_name_of_a_field(request in any_json()) {
        for asked in [None, Some(Action::Acquire), Some(Action::Release), Some(Action::Status)] {
            if let Err(error) = Request::read(&request, asked) {
                let name = error.field.rsplit('.').next().unwrap().to_owned();
                prop_assert!(FIELDS.contains(&name.as_str()) || ["srcDbId", "tableName"].contains(&name.as_str()), "{}", error);
                prop_assert!(error.to_string().len() < 200, "{}", error);
            }
        }
    }

    #[test]
    fn one_field_of_any_kind_is_read_or_refused_by_its_own_name(field in prop::sample::select(&FIELDS[..21]), value in any_json()) {
        if let Err(error) = Request::read(&with(json!({ field: value })), None) {
            prop_assert!(error.field.starts_with(field), "{}: {}", field, error);
        }
    }

    #[test]
    fn any_number_that_is_read_is_within_its_bounds(value in any_json(), field in prop::sample::select(vec!["parallel_hint", "wait_seconds", "map_index"])) {
        if let Ok(Request::Acquire(acquire)) = Request::read(&with(json!({ field: value })), None) {
            prop_assert!(acquire.parallel_hint.is_none_or(|degree| degree.get() <= 1_000_000));
            prop_assert!(acquire.wait_seconds <= 50 && acquire.holder.map_index() >= -1);
        }
    }
}
