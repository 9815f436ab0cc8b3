//! The compose files, read by the loader of the Compose specification itself.

use crate::{read, run, tools};
use std::fs;

/// A compose file with values for its variables: the program around the loader gives it none.
fn filled(text: &str) -> String {
    let Some((before, rest)) = text.split_once("${") else { return text.to_owned() };
    let (variable, after) = rest.split_once('}').unwrap();
    let value = variable.split_once(":-").map_or("secret", |(_, default)| default);
    format!("{before}{value}{}", filled(after))
}

#[test]
fn compose_understands_the_files_and_all_that_they_refer_to() {
    let Some(tools) = tools() else { return };
    let folder = tempfile::tempdir().unwrap();
    let load = |text: &str| {
        let file = folder.path().join("compose.yaml");
        fs::write(&file, filled(text)).unwrap();
        run(&tools.join("compose"), &["--format", "json", &file.display().to_string()])
    };
    for (name, services) in [
        ("compose.yaml", &["kafka", "migrate", "postgres", "relay", "server"][..]),
        ("compose-render.yaml", &["migrate", "nexrender", "postgres", "worker"]),
    ] {
        let text = read(&format!("deploy/{name}"));

        let loaded: serde_json::Value = serde_json::from_str(&load(&text).succeeds()).unwrap();

        let mut found: Vec<&String> = loaded["services"].as_object().unwrap().keys().collect();
        found.sort();
        assert_eq!(found, services, "{name}");
        load(&text.replacen("healthcheck:", "healthchek:", 1)).fails("healthchek");
        load(&text.replacen("interval: 2s", "interval: soon", 1)).fails("interval");
    }
}
