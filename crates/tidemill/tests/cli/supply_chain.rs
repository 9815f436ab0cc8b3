//! What may be in our dependency tree: the rules of deny.toml about licences, sources and bans, and the advisories of
//! advisories.toml. `cargo deny check` knows more rules and newer advisories, but takes minutes to build and needs the network.

use crate::workspace;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::process::Command;
use toml::de::{DeTable, DeValue};

const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// A file of TOML, as JSON.
fn toml_file(path: &str) -> Value {
    let text = std::fs::read_to_string(workspace().join(path)).unwrap();
    parse(&text)
}

fn parse(text: &str) -> Value {
    table(DeTable::parse(text).unwrap().get_ref())
}

fn table(table: &DeTable<'_>) -> Value {
    table.iter().map(|(name, value)| (name.get_ref().to_string(), value_of(value.get_ref()))).collect()
}

fn value_of(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => json!(text),
        DeValue::Boolean(truth) => json!(truth),
        DeValue::Integer(number) => json!(number.as_str()),
        DeValue::Float(number) => json!(number.as_str()),
        DeValue::Array(items) => items.iter().map(|item| value_of(item.get_ref())).collect(),
        DeValue::Table(inner) => table(inner),
        other => panic!("nobody needs {other:?} here"),
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("{key} is not in {value}"))
}

/// Every package that this platform builds, and who depends on whom.
fn metadata() -> Value {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let asked = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--offline", "--locked", "--all-features"])
        // Crates of other platforms need not be downloaded.
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(workspace())
        .output()
        .unwrap();
    assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
    serde_json::from_slice(&asked.stdout).unwrap()
}

/// Whether the choices and duties of an SPDX expression can be met with these licences.
fn is_allowed(expression: &str, allowed: &[&str]) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    either(&mut rest, allowed) && rest.is_empty()
}

fn either(words: &mut &[&str], allowed: &[&str]) -> bool {
    let mut is_met = both(words, allowed);
    while let Some(("OR", rest)) = words.split_first().map(|(word, rest)| (*word, rest)) {
        *words = rest;
        is_met |= both(words, allowed);
    }
    is_met
}

fn both(words: &mut &[&str], allowed: &[&str]) -> bool {
    let mut is_met = licence(words, allowed);
    while let Some(("AND", rest)) = words.split_first().map(|(word, rest)| (*word, rest)) {
        *words = rest;
        is_met &= licence(words, allowed);
    }
    is_met
}

fn licence(words: &mut &[&str], allowed: &[&str]) -> bool {
    match **words {
        ["(", ref rest @ ..] => {
            *words = rest;
            let is_met = either(words, allowed);
            *words = words.strip_prefix(&[")"]).expect("a parenthesis is closed");
            is_met
        }
        [name, "WITH", exception, ref rest @ ..] => {
            *words = rest;
            allowed.contains(&format!("{name} WITH {exception}").as_str())
        }
        [name, ref rest @ ..] => {
            *words = rest;
            allowed.contains(&name)
        }
        [] => false,
    }
}

fn bad_licences(metadata: &Value, rules: &Value) -> Vec<String> {
    let allowed: Vec<&str> = list(&rules["licenses"]["allow"]).iter().filter_map(Value::as_str).collect();
    let packages = list(&metadata["packages"]).iter();
    packages
        .map(|package| (text(package, "name"), package["license"].as_str().unwrap_or("no licence")))
        .filter(|(_, licence)| !is_allowed(licence, &allowed))
        .map(|(name, licence)| format!("{name}: {licence}"))
        .collect()
}

/// Crates that somebody uses who may not, and dependencies of ours on just any version.
fn banned(metadata: &Value, rules: &Value) -> Vec<String> {
    let packages = list(&metadata["packages"]);
    let names: HashMap<&str, &str> =
        packages.iter().map(|package| (text(package, "id"), text(package, "name"))).collect();
    let mut found = Vec::new();
    for node in list(&metadata["resolve"]["nodes"]) {
        for dependency in list(&node["deps"]) {
            let (user, used) = (names[text(node, "id")], names[text(dependency, "pkg")]);
            let is_banned = |rule: &Value| {
                let wrappers = list(&rule["wrappers"]);
                text(rule, "crate") == used && !wrappers.iter().any(|wrapper| wrapper == user)
            };
            if list(&rules["bans"]["deny"]).iter().any(is_banned) {
                found.push(format!("{user} uses {used}"));
            }
        }
    }
    for package in packages.iter().filter(|package| package["source"].is_null()) {
        for dependency in list(&package["dependencies"]).iter().filter(|one| one["path"].is_null()) {
            if text(dependency, "req") == "*" {
                let (user, used) = (text(package, "name"), text(dependency, "name"));
                found.push(format!("{user} takes any version of {used}"));
            }
        }
    }
    found
}

fn foreign_sources(lock: &Value) -> Vec<String> {
    let packages = list(&lock["package"]).iter();
    packages
        .filter(|package| package["source"].as_str().is_some_and(|source| source != REGISTRY))
        .map(|package| text(package, "name").to_owned())
        .collect()
}

/// Numbers of a version. What comes before a release counts as the release, and so as better than it is.
fn version(text: &str) -> Vec<u64> {
    let numbers = text.trim().split(['-', '+']).next().unwrap();
    numbers.split('.').map(|number| number.parse().unwrap()).collect()
}

/// Whether a version lies in a range such as `>=1.2.1, <1.11.1`.
fn is_within(candidate: &str, range: &str) -> bool {
    range.split(',').map(str::trim).all(|bound| match bound.strip_prefix(">=") {
        Some(least) => version(candidate) >= version(least),
        None => version(candidate) < version(bound.strip_prefix('<').expect("a bound is >= or <")),
    })
}

fn vulnerable(lock: &Value, advisories: &Value, rules: &Value) -> Vec<String> {
    let ignored = |id: &str| list(&rules["advisories"]["ignore"]).iter().any(|rule| text(rule, "id") == id);
    let mut found = Vec::new();
    for advisory in list(&advisories["advisory"]).iter().filter(|advisory| !ignored(text(advisory, "id"))) {
        for package in list(&lock["package"]).iter().filter(|package| package["name"] == advisory["crate"]) {
            let locked = text(package, "version");
            if list(&advisory["affected"]).iter().any(|range| is_within(locked, range.as_str().unwrap())) {
                found.push(format!("{} {locked}: {}", text(package, "name"), text(advisory, "id")));
            }
        }
    }
    found
}

#[test]
fn dependencies_have_licences_that_are_allowed_and_are_used_by_who_may() {
    let (metadata, rules) = (metadata(), toml_file("deny.toml"));
    assert!(list(&metadata["packages"]).len() > 200);

    assert_eq!(bad_licences(&metadata, &rules), Vec::<String>::new());
    assert_eq!(banned(&metadata, &rules), Vec::<String>::new());
}

#[test]
fn no_dependency_has_a_known_weakness_or_comes_from_elsewhere() {
    let (rules, advisories) = (toml_file("deny.toml"), toml_file("advisories.toml"));
    assert!(!list(&advisories["advisory"]).is_empty());

    for path in ["Cargo.lock", "fuzz/Cargo.lock"] {
        let lock = toml_file(path);
        assert!(list(&lock["package"]).len() > 10, "{path}");
        assert_eq!(foreign_sources(&lock), Vec::<String>::new(), "{path}");
        assert_eq!(vulnerable(&lock, &advisories, &rules), Vec::<String>::new(), "{path}");
    }
}

#[test]
fn what_is_ignored_has_a_reason() {
    for rule in list(&toml_file("deny.toml")["advisories"]["ignore"]) {
        assert!(text(rule, "reason").len() > 20, "{rule}");
    }
}

#[test]
fn planted_faults_are_found() {
    let rules = parse(
        r#"licenses.allow = ["MIT", "Apache-2.0 WITH LLVM-exception"]
           bans.deny = [{ crate = "sqlx", wrappers = ["store"] }]
           advisories.ignore = [{ id = "RUSTSEC-0000-0002", reason = "it is not called" }]"#,
    );
    let package = |name: &str, licence: Value, req: &str| {
        let dependencies = json!([{ "name": "sqlx", "req": req, "path": null }]);
        json!({ "id": name, "name": name, "license": licence, "source": null, "dependencies": dependencies })
    };
    let uses_sqlx = |name: &str| json!({ "id": name, "deps": [{ "pkg": "sqlx" }] });
    let metadata = json!({
        "packages": [
            package("sqlx", json!("MIT"), "^1"),
            package("store", json!("GPL-3.0/MIT"), "^1"),
            package("server", json!("GPL-3.0 OR MIT"), "^1"),
            package("a", json!("MIT AND GPL-3.0"), "*"),
            package("b", json!("(GPL-3.0 OR MIT) AND (MIT)"), "^1"),
            package("c", json!("Apache-2.0 WITH LLVM-exception"), "^1"),
            package("d", json!("Apache-2.0"), "^1"),
            package("e", Value::Null, "^1"),
        ],
        "resolve": { "nodes": [uses_sqlx("store"), uses_sqlx("server")] },
    });
    let lock = json!({ "package": [
        { "name": "rsa", "version": "0.9.10", "source": REGISTRY },
        { "name": "time", "version": "0.3.9", "source": "git+https://example.invalid/time" },
        { "name": "time", "version": "0.3.47+x", "source": null },
        { "name": "log", "version": "0.1.0", "source": "registry+https://example.invalid/index" },
    ]});
    let advisories = parse(
        r#"advisory = [
             { id = "RUSTSEC-0000-0001", crate = "rsa", affected = [">=0.0.0"] },
             { id = "RUSTSEC-0000-0002", crate = "log", affected = ["<1.0.0"] },
             { id = "RUSTSEC-0000-0003", crate = "time", affected = ["<0.2.0", ">=0.3.6, <0.3.47"] },
           ]"#,
    );

    assert_eq!(
        bad_licences(&metadata, &rules),
        ["a: MIT AND GPL-3.0", "d: Apache-2.0", "e: no licence"].map(str::to_owned)
    );
    assert_eq!(
        banned(&metadata, &rules),
        ["server uses sqlx", "a takes any version of sqlx"].map(str::to_owned)
    );
    assert_eq!(foreign_sources(&lock), ["time", "log"].map(str::to_owned));
    assert_eq!(
        vulnerable(&lock, &advisories, &rules),
        ["rsa 0.9.10: RUSTSEC-0000-0001", "time 0.3.9: RUSTSEC-0000-0003"].map(str::to_owned)
    );
}
