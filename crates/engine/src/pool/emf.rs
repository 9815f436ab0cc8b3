//! Pool metrics in CloudWatch's embedded metric format, with the names of the EMR Batch Agent: one JSON line per pool.
//!
//! <https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html>

use super::Sums;
use serde_json::{Map, Value, json};
use tidemill_domain::pool::demand::Demand;
use tidemill_domain::time::Timestamp;
use tidemill_store::pool::PoolLevel;

pub const NAMESPACE: &str = "EmrBatchAgent";

/// The external id of the pool, or its name if it has none.
pub const DIMENSION: &str = "src_db_id";

/// The metric names of the EMR Batch Agent.
pub const UTILIZATION: &str = "ConnectionUtilization";
pub const AVERAGE_WAIT: &str = "AvgWaitTime";
pub const TIMEOUTS: &str = "AcquireTimeout";

/// The current level of a pool, its requests since the last line, and its demand, which is no metric of the agent. Without
/// waits there is no average.
pub fn line(at: Timestamp, seen: &PoolLevel, since: &Sums, demand: &Demand) -> String {
    let settings = &seen.settings;
    let mut metrics = vec![
        ("ConnectionUsage", "Count", json!(seen.level.usage)),
        (UTILIZATION, "Percent", json!(seen.level.percent())),
        ("AcquireRequests", "Count", json!(since.requests)),
        ("AcquireAllowed", "Count", json!(since.allowed)),
        ("AcquireDowngraded", "Count", json!(since.downgraded)),
        ("AcquireWaited", "Count", json!(since.waited)),
        (TIMEOUTS, "Count", json!(since.timeouts)),
        ("QueueLength", "Count", json!(seen.waiting)),
        ("UnitsWantedNow", "Count", json!(demand.now)),
        ("UnitsWantedIn5MinP50", "Count", json!(demand.in_5_min.p50)),
        ("UnitsWantedIn5MinP90", "Count", json!(demand.in_5_min.p90)),
        ("UnitsWantedIn15MinP50", "Count", json!(demand.in_15_min.p50)),
        ("UnitsWantedIn15MinP90", "Count", json!(demand.in_15_min.p90)),
    ];
    metrics.extend(since.average_wait().map(|wait| (AVERAGE_WAIT, "Seconds", json!(wait.as_secs_f64()))));
    let definitions: Vec<Value> =
        metrics.iter().map(|(name, unit, _)| json!({ "Name": name, "Unit": unit })).collect();
    let directive = json!({ "Namespace": NAMESPACE, "Dimensions": [[DIMENSION]], "Metrics": definitions });
    let id = settings.external_id.map_or_else(|| settings.name.to_string(), |id| id.to_string());
    let mut root = Map::new();
    root.insert(
        "_aws".to_owned(),
        json!({ "Timestamp": at.as_micros().div_euclid(1_000), "CloudWatchMetrics": [directive] }),
    );
    root.insert(DIMENSION.to_owned(), json!(id));
    // Not a dimension: it is there for people who search the log.
    root.insert("pool".to_owned(), json!(settings.name.as_str()));
    root.extend(metrics.into_iter().map(|(name, _, value)| (name.to_owned(), value)));
    Value::Object(root).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::time::Duration;
    use tidemill_domain::pool::command::Level;
    use tidemill_domain::pool::demand::LaterDemand;
    use tidemill_domain::pool::{Breaker, Settings};

    fn seen() -> PoolLevel {
        let mut settings = Settings::new("ADW".parse().unwrap(), 1_000);
        settings.external_id = Some(4);
        PoolLevel {
            level: Level::of(&settings, &Breaker::default(), 720, Timestamp::EPOCH),
            breaker: Breaker::default(),
            settings,
            active: 85,
            waiting: 3,
            suspect: 0,
            oldest_wait: Duration::ZERO,
            audit: None,
        }
    }

    fn sums() -> Sums {
        let wait = Duration::from_secs(90);
        Sums { requests: 9, allowed: 4, downgraded: 2, waited: 2, timeouts: 1, wait }
    }

    fn demand() -> Demand {
        let later = |p50, p90| LaterDemand { p50, p90 };
        Demand { now: 740, in_5_min: later(600, 800), in_15_min: later(500, 900) }
    }

    fn parsed(line: &str) -> Value {
        serde_json::from_str(line).unwrap()
    }

    #[test]
    fn a_line_has_the_nine_metrics_of_the_document_and_the_demand() {
        let line = line("2026-11-15T02:30:15.123456Z".parse().unwrap(), &seen(), &sums(), &demand());

        assert!(!line.contains('\n'));
        assert_eq!(
            parsed(&line),
            json!({
                "_aws": {
                    "Timestamp": 1_794_709_815_123_i64,
                    "CloudWatchMetrics": [{
                        "Namespace": "EmrBatchAgent",
                        "Dimensions": [["src_db_id"]],
                        "Metrics": [
                            { "Name": "ConnectionUsage", "Unit": "Count" },
                            { "Name": "ConnectionUtilization", "Unit": "Percent" },
                            { "Name": "AcquireRequests", "Unit": "Count" },
                            { "Name": "AcquireAllowed", "Unit": "Count" },
                            { "Name": "AcquireDowngraded", "Unit": "Count" },
                            { "Name": "AcquireWaited", "Unit": "Count" },
                            { "Name": "AcquireTimeout", "Unit": "Count" },
                            { "Name": "QueueLength", "Unit": "Count" },
                            { "Name": "UnitsWantedNow", "Unit": "Count" },
                            { "Name": "UnitsWantedIn5MinP50", "Unit": "Count" },
                            { "Name": "UnitsWantedIn5MinP90", "Unit": "Count" },
                            { "Name": "UnitsWantedIn15MinP50", "Unit": "Count" },
                            { "Name": "UnitsWantedIn15MinP90", "Unit": "Count" },
                            { "Name": "AvgWaitTime", "Unit": "Seconds" },
                        ],
                    }],
                },
                "src_db_id": "4",
                "pool": "ADW",
                "ConnectionUsage": 720,
                "ConnectionUtilization": 72.0,
                "AcquireRequests": 9,
                "AcquireAllowed": 4,
                "AcquireDowngraded": 2,
                "AcquireWaited": 2,
                "AcquireTimeout": 1,
                "QueueLength": 3,
                "UnitsWantedNow": 740,
                "UnitsWantedIn5MinP50": 600,
                "UnitsWantedIn5MinP90": 800,
                "UnitsWantedIn15MinP50": 500,
                "UnitsWantedIn15MinP90": 900,
                "AvgWaitTime": 45.0,
            })
        );
    }

    /// What the specification requires of every line.
    #[test]
    fn every_metric_and_dimension_that_is_named_is_there_and_within_the_limits() {
        for sums in [sums(), Sums::default()] {
            let root = parsed(&line(Timestamp::EPOCH, &seen(), &sums, &demand()));
            let directive = &root["_aws"]["CloudWatchMetrics"][0];
            let names: BTreeSet<&str> = directive["Metrics"]
                .as_array()
                .unwrap()
                .iter()
                .map(|m| m["Name"].as_str().unwrap())
                .collect();

            assert!(root["_aws"]["Timestamp"].is_i64());
            assert!((1..=100).contains(&names.len()));
            assert_eq!(names.len(), directive["Metrics"].as_array().unwrap().len(), "each once");
            assert!(names.iter().all(|name| root[*name].is_number()), "{root}");
            for dimension in directive["Dimensions"][0].as_array().unwrap() {
                assert!(root[dimension.as_str().unwrap()].is_string(), "{root}");
            }
        }
    }

    #[test]
    fn without_anybody_that_waited_no_average_is_told() {
        let root = parsed(&line(Timestamp::EPOCH, &seen(), &Sums::default(), &demand()));

        assert!(root.get("AvgWaitTime").is_none());
        assert_eq!(root["AcquireRequests"], 0);
    }

    #[test]
    fn a_pool_without_an_external_id_goes_by_its_name() {
        let mut seen = seen();
        seen.settings.external_id = None;

        assert_eq!(parsed(&line(Timestamp::EPOCH, &seen, &sums(), &demand()))["src_db_id"], "ADW");
    }
}
