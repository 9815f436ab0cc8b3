//! One word per idea: what users see has the words of the glossary, and not those that it rules out.

use crate::workspace;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

fn read(path: &str) -> String {
    fs::read_to_string(workspace().join(path)).unwrap()
}

/// The words that the glossary rules out, each with the one to use.
fn ruled_out(glossary: &str) -> BTreeMap<String, String> {
    let rows = glossary.lines().filter(|line| line.starts_with("| **"));
    rows.flat_map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let word = cells[1].trim_matches('*').to_owned();
        let others = cells[3].split(", ").filter(|other| !other.is_empty());
        others.map(|other| (other.to_owned(), word.clone())).collect::<Vec<_>>()
    })
    .collect()
}

/// The names of all fields, parameters and schemas of the API.
fn api_names(value: &Value, names: &mut BTreeSet<String>) {
    if let Value::Object(fields) = value {
        for (name, value) in fields {
            if let ("properties" | "schemas", Value::Object(properties)) = (name.as_str(), value) {
                names.extend(properties.keys().cloned());
            }
            if let ("name", Value::String(parameter)) = (name.as_str(), value) {
                names.insert(parameter.clone());
            }
            api_names(value, names);
        }
    } else if let Value::Array(items) = value {
        items.iter().for_each(|item| api_names(item, names));
    }
}

/// The names of all commands and flags.
fn command_names(reference: &str) -> BTreeSet<String> {
    let commands = reference.lines().filter_map(|line| line.strip_prefix("## tidemill "));
    let flags = reference.lines().map(str::trim).filter(|line| line.starts_with('-'));
    let flags = flags.flat_map(|line| line.split([' ', ',', '=']).filter(|word| word.starts_with("--")));
    commands.chain(flags).map(str::to_owned).collect()
}

/// The heads of all columns of the dashboard.
fn column_heads() -> BTreeSet<String> {
    let mut heads = BTreeSet::new();
    let mut folders = vec![workspace().join("crates/server/src/dashboard")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read_to_string(path).unwrap();
            for (_, list) in text.match_indices("COLUMNS: &[").map(|(at, _)| text.split_at(at)) {
                let list = list.split_once("= &[").map_or("", |(_, list)| list.split("];").next().unwrap());
                heads.extend(list.split('"').skip(1).step_by(2).map(str::to_owned));
            }
        }
    }
    heads
}

/// Names that have a word which is ruled out.
fn wrong<'a>(
    names: impl IntoIterator<Item = &'a String>,
    ruled_out: &BTreeMap<String, String>,
) -> Vec<String> {
    let mut found = Vec::new();
    for name in names {
        let lower = name.to_lowercase();
        let words = lower.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        let words = words.flat_map(|word| word.split('_').chain([word]));
        let wrong: BTreeSet<&str> = words.filter(|word| ruled_out.contains_key(*word)).collect();
        found.extend(wrong.into_iter().map(|word| format!("{name}: not {word} but {}", ruled_out[word])));
    }
    found
}

#[test]
fn fields_flags_and_columns_have_the_words_of_the_glossary() {
    let glossary = read("docs/glossary.md");
    let ruled_out = ruled_out(&glossary);
    let mut names = BTreeSet::new();
    api_names(&serde_json::from_str(&read("crates/server/openapi.json")).unwrap(), &mut names);
    let (commands, heads) = (command_names(&read("docs/reference/commands.md")), column_heads());
    assert!(names.len() > 200 && commands.len() > 150 && heads.len() > 40, "{} names", names.len());

    assert_eq!(wrong(names.iter().chain(&commands).chain(&heads), &ruled_out), Vec::<String>::new());
    let planted = ["lock_until".to_owned(), "--mute".to_owned(), "Poison events".to_owned(), "id".to_owned()];
    assert_eq!(wrong(&planted, &ruled_out).len(), 3, "a planted word passes");
    let words = glossary.lines().filter(|line| line.starts_with("| **")).count();
    assert!(words <= 60, "{words} words are more than anybody learns");
}
