//! The queries of the documents, dashboards and alerts match what a server exposes: names of series and of labels.

use crate::serve::Served;
use crate::{Stage, workspace};
use saphyr::{LoadableYamlNode, Yaml};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

/// The series that can be selected, with the names of their labels.
type Exposed = BTreeMap<String, BTreeSet<String>>;

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Every document for readers.
fn documents() -> Vec<(PathBuf, String)> {
    let mut folders = vec![workspace().join("docs")];
    let mut found = vec![workspace().join("README.md"), workspace().join("README.ko.md")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

/// The lines of the blocks of PromQL.
fn queries(text: &str) -> Vec<&str> {
    let blocks = text.split("```promql\n").skip(1);
    blocks.flat_map(|rest| rest.split("```").next().unwrap().lines()).collect()
}

/// The code in sentences that selects series.
fn selectors(text: &str) -> Vec<&str> {
    let lines = text.split("```").step_by(2).flat_map(str::lines);
    let spans = lines.flat_map(|line| line.split('`').skip(1).step_by(2));
    spans.filter(|span| span.contains("tidemill_") && span.contains(['{', '['])).collect()
}

/// The series of a query with the labels that it names in braces.
fn series(query: &str) -> Vec<(String, BTreeSet<String>)> {
    let mut found = Vec::new();
    for (at, _) in query.match_indices("tidemill_") {
        let rest = &query[at..];
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let matchers = rest[end..].strip_prefix('{').and_then(|inside| inside.split('}').next());
        let labels = matchers.unwrap_or_default().split(',').map(str::trim);
        let labels = labels.map(|one| one.chars().take_while(|c| is_word(*c)).collect::<String>());
        found.push((rest[..end].to_owned(), labels.filter(|label| !label.is_empty()).collect()));
    }
    found
}

/// The labels that a query groups by.
fn groups(query: &str) -> impl Iterator<Item = &str> {
    let lists = query.split(" by (").skip(1).filter_map(|rest| rest.split(')').next());
    lists.flat_map(|list| list.split(',').map(str::trim))
}

fn problems(query: &str, exposed: &Exposed) -> Vec<String> {
    let mut problems = Vec::new();
    let mut known = BTreeSet::new();
    for (name, labels) in series(query) {
        let Some(has) = exposed.get(&name) else {
            problems.push(format!("{query}: there is no series {name}"));
            continue;
        };
        known.extend(has);
        let wrong = labels.iter().filter(|label| !has.contains(*label));
        problems.extend(wrong.map(|label| format!("{query}: {name} has no label {label}")));
    }
    let wrong = groups(query).filter(|label| !known.iter().any(|has| has == label));
    problems.extend(wrong.map(|label| format!("{query}: nothing has the label {label}")));
    problems
}

/// The series of a scrape: lines such as `name{label="value"} 1`.
fn of_scrape(scrape: &str) -> Exposed {
    let mut exposed = Exposed::new();
    for line in scrape.lines().filter(|line| line.starts_with("tidemill_")) {
        for (name, labels) in series(line).into_iter().take(1) {
            exposed.entry(name).or_default().extend(labels);
        }
    }
    exposed
}

/// The series of the tables on the reference page, which another test compares with the code.
fn of_page() -> Exposed {
    let page = fs::read_to_string(workspace().join("docs/reference/metrics.md")).unwrap();
    let mut exposed = Exposed::new();
    for row in page.lines().filter(|line| line.starts_with("| `tidemill_")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let labels = cells[3].split(", ").map(|label| label.trim_matches('`').to_owned());
        let labels: BTreeSet<String> = labels.filter(|label| label != "none").collect();
        let name = cells[1].trim_matches('`');
        if cells[2] == "histogram" {
            for ending in ["_sum", "_count", "_bucket"] {
                exposed.insert(format!("{name}{ending}"), labels.clone());
            }
            exposed.entry(format!("{name}_bucket")).or_default().insert("le".to_owned());
        } else {
            exposed.insert(name.to_owned(), labels);
        }
    }
    exposed
}

/// What a server exposes after a request was downgraded and another one waited.
fn scrape() -> String {
    let stage = Stage::new().with("TIDEMILL_DATABASE_INIT", "always");
    stage.run(&["pool", "create", "ADW", "--id", "4", "--max", "10", "--threshold", "100"]).succeeds();
    let served = Served::start(&stage, &[]);
    let body = |run: &str| {
        format!(
            "{{\"dag_id\":\"batch\",\"dag_run_id\":\"{run}\",\"src_db_id\":4,\"parallel_hint\":8,\"table_name\":\"T\"}}"
        )
    };
    for (run, answer) in [("a", "\"allowed\":true"), ("b", "\"downgraded\":true"), ("c", "\"allowed\":false")]
    {
        let (status, text) = served.post("/acquire", &body(run));
        assert!(status == 200 && text.replace(": ", ":").contains(answer), "{run}: {status} {text}");
    }
    let (status, text) = served.post("/release", &body("a"));
    assert_eq!(status, 200, "{text}");
    served.get("/metrics", None).1
}

/// What a server has only after something has gone wrong, or if a feature is used that the demo does not use.
const SELDOM: [&str; 25] = [
    "alert_changes",
    "alert_deliveries",
    "alert_signal_failures",
    "fencing_rejections",
    "job_instances_purged",
    "job_partitions",
    "job_recoveries",
    "lease_takeovers",
    "outbox_attached",
    "outbox_batch",
    "outbox_joins_refused",
    "outbox_published_total",
    "outbox_refused",
    "outbox_relays_retired",
    "outbox_sink_failures",
    "outbox_slots",
    "pool_acquire_timeouts",
    "pool_on_demand",
    "render_concerns",
    "render_copy",
    "render_duration",
    "render_ended",
    "render_failures",
    "render_paused",
    "render_recoveries",
];

/// The values of `expr` in a document of JSON.
fn expressions(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("expr").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|inner| expressions(inner, found));
        }
        Value::Array(items) => items.iter().for_each(|inner| expressions(inner, found)),
        _ => {}
    }
}

/// The queries of `deploy`: those of the dashboards and of the alerts.
fn deployed() -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(workspace().join("deploy/grafana")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        expressions(&serde_json::from_str(&text).unwrap(), &mut found);
    }
    let text = fs::read_to_string(workspace().join("deploy/prometheus/rules.yaml")).unwrap();
    let rules = Yaml::load_from_str(&text).unwrap();
    for group in rules[0]["groups"].as_sequence().unwrap() {
        let rules = group["rules"].as_sequence().unwrap();
        found.extend(rules.iter().map(|rule| rule["expr"].as_str().unwrap().to_owned()));
    }
    found
}

/// What is wrong with the queries of `deploy` for what a demo exposes.
pub(crate) fn problems_of_deployed(scrape: &str) -> Vec<String> {
    let mut exposed = of_scrape(scrape);
    let is_seldom = |name: &str| {
        let name = name.trim_start_matches("tidemill_");
        name.starts_with("schedule_")
            || name.starts_with("self_")
            || SELDOM.iter().any(|one| name.starts_with(one))
    };
    exposed.extend(of_page().into_iter().filter(|(name, _)| is_seldom(name)));
    with_instance(&mut exposed);
    deployed().iter().flat_map(|query| problems(query, &exposed)).collect()
}

/// Prometheus adds it to every series.
fn with_instance(exposed: &mut Exposed) {
    for labels in exposed.values_mut() {
        labels.insert("instance".to_owned());
    }
}

/// The demo has a test of its own, which looks at what it exposes.
#[test]
fn dashboards_and_alerts_select_series_of_the_reference_page_and_leave_none_out() {
    let (queries, mut page) = (deployed(), of_page());
    assert!(queries.len() > 100, "only {} queries were found", queries.len());
    with_instance(&mut page);

    let found: Vec<String> = queries.iter().flat_map(|query| problems(query, &page)).collect();

    assert_eq!(found, Vec::<String>::new());
    let named: BTreeSet<String> =
        queries.iter().flat_map(|query| series(query)).map(|(name, _)| name).collect();
    let stem = |name: &str| {
        ["_sum", "_count", "_bucket"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name).to_owned()
    };
    let stems: BTreeSet<String> = named.iter().map(|name| stem(name)).collect();
    let left: Vec<&String> = page.keys().filter(|name| !stems.contains(&stem(name))).collect();
    // Shown by others: utilization by units and capacity, polls and queries by their ratios, freed leases by those taken over.
    assert_eq!(
        left,
        [
            "tidemill_lease_expired_total",
            "tidemill_outbox_polls_total",
            "tidemill_outbox_queries_total",
            "tidemill_pool_utilization_ratio"
        ]
    );
}

#[test]
fn every_query_of_the_documents_selects_series_that_a_server_exposes() {
    let (scrape, documents) = (scrape(), documents());
    let exposed = of_scrape(&scrape);

    let mut count = 0;
    let mut found = Vec::new();
    for (path, text) in &documents {
        let queries = queries(text);
        count += queries.len();
        let wrong = queries.iter().flat_map(|query| problems(query, &exposed));
        found.extend(wrong.map(|problem| format!("{}: {problem}", path.display())));
    }

    assert!(count >= 4, "only {count} queries were found");
    assert_eq!(found, Vec::<String>::new(), "{scrape}");
    let (page, bucket) = (of_page(), "tidemill_pool_wait_seconds_bucket");
    assert_eq!(exposed.get(bucket), page.get(bucket), "the page has the same labels");
}

#[test]
fn every_selector_in_a_sentence_is_of_a_series_on_the_reference_page() {
    let (page, documents) = (of_page(), documents());
    let selectors: Vec<&str> = documents.iter().flat_map(|(_, text)| selectors(text)).collect();

    assert!(selectors.len() >= 2, "{selectors:?}");
    let found: Vec<String> = selectors.iter().flat_map(|selector| problems(selector, &page)).collect();
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn queries_that_match_nothing_are_found() {
    let exposed =
        of_scrape("tidemill_wait_seconds_bucket{pool=\"a\",le=\"1\"} 1\ntidemill_asks_total{pool=\"a\"} 2\n");

    for (query, is_wrong) in [
        ("histogram_quantile(0.9, sum by (pool, le) (rate(tidemill_wait_seconds_bucket[5m])))", false),
        ("tidemill_asks_total{pool=\"a\"}", false),
        ("tidemill_wait_seconds{quantile=\"0.9\"}", true),
        ("tidemill_asks_total{quantile=\"0.9\"}", true),
        ("sum by (job) (tidemill_asks_total)", true),
    ] {
        assert_eq!(!problems(query, &exposed).is_empty(), is_wrong, "{query}");
    }
}
