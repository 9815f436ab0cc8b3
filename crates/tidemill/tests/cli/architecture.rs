//! Who may depend on whom. The table is the one in ARCHITECTURE.md; changing it is an architectural decision.

use crate::workspace;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Crates of this workspace, and which others of it they may use in the product.
const ARROWS: &[(&str, &[&str])] = &[
    ("tidemill-domain", &[]),
    ("tidemill-store", &["tidemill-domain", "tidemill-testkit"]),
    ("tidemill-engine", &["tidemill-domain", "tidemill-store"]),
    ("tidemill-api", &["tidemill-domain", "tidemill-store"]),
    ("tidemill-aws", &["tidemill-domain", "tidemill-engine"]),
    (
        "tidemill-server",
        &["tidemill-api", "tidemill-aws", "tidemill-domain", "tidemill-engine", "tidemill-store"],
    ),
    ("tidemill-lambda", &["tidemill-domain", "tidemill-engine", "tidemill-server", "tidemill-store"]),
    (
        "tidemill-declare",
        &[
            "tidemill-aws",
            "tidemill-columnar",
            "tidemill-domain",
            "tidemill-engine",
            "tidemill-http",
            "tidemill-kafka",
            "tidemill-store",
        ],
    ),
    ("tidemill-columnar", &["tidemill-domain", "tidemill-engine"]),
    ("tidemill-http", &["tidemill-domain", "tidemill-engine"]),
    ("tidemill-kafka", &["tidemill-domain", "tidemill-engine"]),
    ("tidemill-nexrender", &["tidemill-domain", "tidemill-engine"]),
    ("tidemill-objects", &["tidemill-engine"]),
    ("tidemill-otlp", &["tidemill-domain", "tidemill-store"]),
    (
        "tidemill",
        &[
            "tidemill-api",
            "tidemill-aws",
            "tidemill-columnar",
            "tidemill-declare",
            "tidemill-domain",
            "tidemill-engine",
            "tidemill-http",
            "tidemill-kafka",
            "tidemill-nexrender",
            "tidemill-objects",
            "tidemill-otlp",
            "tidemill-server",
            "tidemill-store",
        ],
    ),
    ("tidemill-testkit", &[]),
    (
        "tidemill-bench",
        &["tidemill-domain", "tidemill-engine", "tidemill-kafka", "tidemill-store", "tidemill-testkit"],
    ),
    ("xtask", &["tidemill-testkit"]),
];

/// Crates from outside that only one of ours may use, because it is the only one that knows that world.
const ONLY_IN: &[(&str, &str)] = &[
    ("sqlx", "tidemill-store"),
    ("clap", "tidemill"),
    ("toml", "tidemill"),
    ("axum", "tidemill-server"),
    ("lettre", "tidemill-server"),
    ("lambda_runtime", "tidemill-lambda"),
    ("cel", "tidemill-declare"),
    ("saphyr-parser", "tidemill-declare"),
    ("rdkafka", "tidemill-kafka"),
    ("parquet", "tidemill-columnar"),
    ("object_store", "tidemill-objects"),
    ("opentelemetry", "tidemill-otlp"),
    ("opentelemetry_sdk", "tidemill-otlp"),
];

/// All that the pure crate may use.
const OF_DOMAIN: &[&str] = &[
    "base64",
    "jiff",
    "md-5",
    "regex",
    "serde",
    "serde_json",
    "strsim",
    "thiserror",
    "unicode-normalization",
    "uuid",
];

type Dependencies = BTreeMap<String, BTreeSet<String>>;

fn dependencies() -> Dependencies {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let asked = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(workspace())
        .output()
        .unwrap();
    assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
    let metadata: Value = serde_json::from_slice(&asked.stdout).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let packages = metadata["packages"].as_array().unwrap();
    let in_product = |dependency: &&Value| dependency["kind"].is_null();
    packages
        .iter()
        .map(|package| {
            let used = package["dependencies"].as_array().unwrap().iter().filter(in_product);
            (text(&package["name"]), used.map(|dependency| text(&dependency["name"])).collect())
        })
        .collect()
}

/// What breaks the table.
fn violations(found: &Dependencies) -> Vec<String> {
    let ours: BTreeSet<&str> = ARROWS.iter().map(|(name, _)| *name).collect();
    let mut problems = Vec::new();
    for (name, used) in found {
        let Some((_, allowed)) = ARROWS.iter().find(|(known, _)| known == name) else {
            problems.push(format!("{name} is not in the table"));
            continue;
        };
        for other in used {
            if ours.contains(other.as_str()) && !allowed.contains(&other.as_str()) {
                problems.push(format!("{name} may not use {other}"));
            }
            if ONLY_IN.iter().any(|(outside, only)| outside == other && only != name) {
                problems.push(format!("{name} may not use {other}"));
            }
            if name == "tidemill-domain" && !OF_DOMAIN.contains(&other.as_str()) {
                problems.push(format!("{name} may not use {other}"));
            }
        }
    }
    for missing in ours.iter().filter(|name| !found.contains_key(**name)) {
        problems.push(format!("{missing} is in the table but not in the workspace"));
    }
    problems
}

#[test]
fn the_crates_use_each_other_as_the_table_says() {
    assert_eq!(violations(&dependencies()), Vec::<String>::new());
}

#[test]
fn a_planted_arrow_is_found() {
    for (from, to) in [
        ("tidemill-domain", "tidemill-store"),
        ("tidemill-domain", "tokio"),
        ("tidemill-engine", "sqlx"),
        ("tidemill-engine", "cel"),
        ("tidemill-engine", "rdkafka"),
        ("tidemill-kafka", "tidemill-store"),
        ("tidemill-nexrender", "tidemill-store"),
        ("tidemill-server", "tidemill-nexrender"),
        ("tidemill-server", "lambda_runtime"),
        ("tidemill-lambda", "tidemill"),
        ("tidemill-server", "tidemill-declare"),
        ("tidemill-store", "tidemill-engine"),
        ("tidemill-new", "serde"),
    ] {
        let mut found = dependencies();
        found.entry(from.to_owned()).or_default().insert(to.to_owned());
        assert!(!violations(&found).is_empty(), "{from} -> {to}");
    }
    let mut found = dependencies();
    found.remove("tidemill-engine");
    assert_eq!(violations(&found).len(), 1);
}

#[test]
fn the_testkit_reaches_the_product_only_behind_the_feature_for_tests() {
    let manifest = std::fs::read_to_string(workspace().join("crates/store/Cargo.toml")).unwrap();

    assert!(manifest.contains("tidemill-testkit = { workspace = true, optional = true }"));
    assert!(!manifest.contains("default = ["), "a default feature could switch it on");
}
