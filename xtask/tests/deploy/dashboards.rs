//! The dashboards of `deploy/grafana`: what Grafana needs to show them, and queries that promtool can parse.

use crate::{run, tools, workspace};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;

fn dashboards() -> Vec<(String, Value)> {
    let files = fs::read_dir(workspace().join("deploy/grafana")).unwrap();
    let parse = |path: std::path::PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        (path.file_stem().unwrap().to_string_lossy().into_owned(), serde_json::from_str(&text).unwrap())
    };
    files.map(|file| parse(file.unwrap().path())).collect()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

/// Where a panel is, by column and row.
fn cells(panel: &Value) -> Vec<(u64, u64)> {
    let place = |key: &str| panel["gridPos"][key].as_u64().unwrap_or_default();
    let rows = place("y")..place("y") + place("h");
    rows.flat_map(|row| (place("x")..place("x") + place("w")).map(move |column| (column, row))).collect()
}

/// What Grafana would not show, or not as it is meant.
fn problems(dashboard: &Value) -> Vec<String> {
    let (mut found, mut ids, mut taken) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    let variables = list(&dashboard["templating"], "list");
    let source = json!({ "type": "prometheus", "uid": "${datasource}" });
    let is_source = |one: &&Value| {
        one["name"] == "datasource" && one["type"] == "datasource" && one["query"] == "prometheus"
    };
    if variables.iter().filter(is_source).count() != 1 {
        found.push("it has no variable for the data source".to_owned());
    }
    if dashboard["schemaVersion"].as_u64() < Some(39) || dashboard["id"].is_u64() {
        found.push("it is of an old version, or of one installation".to_owned());
    }
    for variable in variables.iter().filter(|one| one["type"] == "query") {
        if variable["datasource"] != source || !variable["query"]["query"].is_string() {
            found.push(format!("the variable {} has no query", variable["name"]));
        }
    }
    for panel in list(dashboard, "panels") {
        let title = panel["title"].as_str().unwrap_or_default();
        let mut refuse = |what: &str| found.push(format!("{title:?} {what}"));
        if title.is_empty() || !["stat", "timeseries"].contains(&panel["type"].as_str().unwrap_or_default()) {
            refuse("has no title, or a type that nobody has tried");
        }
        if !panel["id"].is_u64() || !ids.insert(panel["id"].as_u64()) {
            refuse("has the id of another panel");
        }
        let cells = cells(panel);
        if cells.is_empty() || cells.iter().any(|(column, _)| *column >= 24) {
            refuse("is not within the 24 columns");
        }
        if !cells.iter().all(|cell| taken.insert(*cell)) {
            refuse("lies over another panel");
        }
        let mut letters = BTreeSet::new();
        let is_good = |target: &Value| target["datasource"] == source && target["expr"].is_string();
        if list(panel, "targets").is_empty()
            || panel["datasource"] != source
            || !list(panel, "targets").iter().all(is_good)
        {
            refuse("has no query, or not of the variable data source");
        }
        if !list(panel, "targets").iter().all(|target| letters.insert(target["refId"].as_str())) {
            refuse("has two queries of one letter");
        }
    }
    found
}

/// The queries, with values for the variables of Grafana.
fn queries(dashboard: &Value) -> Vec<String> {
    let targets = list(dashboard, "panels").iter().flat_map(|panel| list(panel, "targets"));
    let text = targets.map(|target| target["expr"].as_str().unwrap().to_owned());
    text.map(|expr| expr.replace("$__rate_interval", "5m").replace("$pool", ".*").replace("$job", ".*"))
        .collect()
}

/// A file of rules with a query in each.
fn as_rules(queries: &[String]) -> String {
    let rule = |(number, expr)| json!({ "record": format!("panel:{number}"), "expr": expr });
    let rules: Vec<Value> = queries.iter().enumerate().map(rule).collect();
    json!({ "groups": [{ "name": "panels", "rules": rules }] }).to_string()
}

#[test]
fn grafana_can_show_the_dashboards() {
    let dashboards = dashboards();
    let uids: BTreeSet<&str> = dashboards.iter().map(|(_, one)| one["uid"].as_str().unwrap()).collect();

    let names: BTreeSet<&str> = dashboards.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["jobs", "outbox", "overview", "pools", "render"].into());
    assert_eq!(
        uids,
        names
            .iter()
            .map(|name| format!("tidemill-{name}"))
            .collect::<BTreeSet<_>>()
            .iter()
            .map(String::as_str)
            .collect()
    );
    for (name, dashboard) in &dashboards {
        assert_eq!(problems(dashboard), Vec::<String>::new(), "{name}");
    }
}

/// `increase` alone does not see the first event of a counter, as the rules say.
#[test]
fn the_numbers_of_a_day_count_the_first_event_of_a_counter() {
    let all: Vec<String> = dashboards().iter().flat_map(|(_, one)| queries(one)).collect();
    let day: Vec<&String> = all.iter().filter(|query| query.contains("[24h]")).collect();

    assert!(day.len() >= 6, "{day:?}");
    for query in day {
        let (_, counter) = query.split_once("increase(").unwrap();
        let (counter, _) = counter.split_once("[24h]").unwrap();
        let new = format!("({counter} unless {counter} offset 24h) or increase({counter}[24h])");
        assert!(query.contains(&new), "{query}");
    }
}

#[test]
fn planted_faults_of_a_dashboard_are_found() {
    let (_, sound) = dashboards().into_iter().find(|(name, _)| name == "pools").unwrap();
    for (pointer, value) in [
        ("/panels/1/id", json!(1)),
        ("/panels/1/gridPos/x", json!(0)),
        ("/panels/1/gridPos/x", json!(22)),
        ("/panels/1/datasource/uid", json!("mine")),
        ("/panels/1/targets/0/datasource", json!(null)),
        ("/panels/6/targets/1/refId", json!("A")),
        ("/panels/1/title", json!("")),
        ("/templating/list/0/type", json!("query")),
        ("/schemaVersion", json!(16)),
    ] {
        let mut planted = sound.clone();
        *planted.pointer_mut(pointer).unwrap() = value;

        assert!(!problems(&planted).is_empty(), "{pointer}");
    }
}

#[test]
fn promtool_parses_every_query_of_the_dashboards() {
    let Some(tools) = tools() else { return };
    let mut all: Vec<String> = dashboards().iter().flat_map(|(_, one)| queries(one)).collect();
    assert!(all.len() > 80 && !all.iter().any(|query| query.contains('$')), "{all:?}");
    let file = tempfile::NamedTempFile::new().unwrap();
    let check = |queries: &[String]| {
        fs::write(file.path(), as_rules(queries)).unwrap();
        run(&tools.join("promtool"), &["check", "rules", "--lint=none", &file.path().display().to_string()])
    };

    check(&all).succeeds();
    all.push("sum by (pool) tidemill_pool_in_use_units".to_owned());
    check(&all).fails("parse error");
}
