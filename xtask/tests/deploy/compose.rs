//! The compose files, read by the loader of the Compose specification itself.

use crate::{read, run, tools};
use serde_json::Value;
use std::fs;

/// A compose file with values for its variables: the program around the loader gives it none.
fn filled(text: &str) -> String {
    let Some((before, rest)) = text.split_once("${") else { return text.to_owned() };
    let (variable, after) = rest.split_once('}').unwrap();
    let value = variable.split_once(":-").map_or("secret", |(_, default)| default);
    format!("{before}{value}{}", filled(after))
}

/// What a service refers to and the file does not have: the loader leaves that to the engine.
fn loose_ends(file: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for (name, service) in file["services"].as_object().unwrap() {
        let others = service["depends_on"].as_object().into_iter().flat_map(|others| others.keys());
        found.extend(
            others
                .filter(|other| file["services"][other].is_null())
                .map(|other| format!("{name} waits for {other}")),
        );
        for volume in
            service["volumes"].as_array().into_iter().flatten().filter(|one| one["type"] == "volume")
        {
            let source = volume["source"].as_str().unwrap();
            if file["volumes"].get(source).is_none() {
                found.push(format!("{name} mounts {source}"));
            }
        }
    }
    found
}

#[test]
fn compose_understands_the_files_and_they_have_all_that_they_refer_to() {
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

        let loaded: Value = serde_json::from_str(&load(&text).succeeds()).unwrap();

        let mut found: Vec<&String> = loaded["services"].as_object().unwrap().keys().collect();
        found.sort();
        assert_eq!(found, services, "{name}");
        assert_eq!(loose_ends(&loaded), Vec::<String>::new(), "{name}");
        load(&text.replacen("healthcheck:", "healthchek:", 1)).fails("healthchek");
        load(&text.replacen("retries: 30", "retries: [30]", 1)).fails("retries");
        let planted = text.replacen("postgres: { condition", "postgrs: { condition", 1);
        let planted = serde_json::from_str(&load(&planted).succeeds()).unwrap();
        assert_eq!(loose_ends(&planted), ["migrate waits for postgrs"], "{name}");
    }
}
