//! Rules for every source file.

use crate::workspace;
use std::fs;
use std::path::{Path, PathBuf};

const LINES_MAX: usize = 500;
const FORBIDDEN_NAMES: &[&str] = &["utils", "util", "helpers", "helper", "common", "types", "misc"];

fn sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = ["crates", "testkit", "xtask", "benchmarks", "examples", "fuzz"]
        .iter()
        .map(|name| workspace().join(name))
        .collect();
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder)
            .unwrap_or_else(|error| panic!("{} cannot be looked through: {error}", folder.display()));
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("target") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found
}

/// What is wrong with a source file.
fn problems(path: &Path, text: &str) -> Vec<String> {
    let name = path.display();
    let mut problems = Vec::new();
    let lines = text.lines().count();
    if lines > LINES_MAX {
        problems.push(format!("{name} has {lines} lines; split it by noun"));
    }
    if !text.starts_with("//! ") {
        problems.push(format!("{name} does not begin with `//!` and its purpose"));
    }
    if path.file_stem().and_then(|stem| stem.to_str()).is_some_and(|stem| FORBIDDEN_NAMES.contains(&stem)) {
        problems.push(format!("{name} is named after no concept"));
    }
    let holds_code = |line: &str| {
        let mut words =
            line.split(' ').filter(|word| !word.starts_with("pub") && *word != "async" && *word != "const");
        words
            .next()
            .and_then(|word| word.split('<').next())
            .is_some_and(|word| ["fn", "struct", "enum", "trait", "impl", "type"].contains(&word))
    };
    if path.ends_with("mod.rs") && text.lines().any(holds_code) {
        problems.push(format!("{name} does more than declare; name its file after the folder"));
    }
    problems
}

#[test]
fn every_source_file_is_short_says_its_purpose_and_is_named_after_it() {
    let files = sources();
    assert!(files.len() > 1000, "only {} files were found", files.len());

    let found: Vec<String> =
        files.iter().flat_map(|path| problems(path, &fs::read_to_string(path).unwrap())).collect();

    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn planted_faults_are_found() {
    let long = format!("//! Long.\n{}", "//\n".repeat(LINES_MAX));

    assert_eq!(problems(Path::new("a.rs"), &long).len(), 1);
    assert_eq!(problems(Path::new("a.rs"), "fn main() {}").len(), 1);
    assert_eq!(problems(Path::new("utils.rs"), "//! Things.").len(), 1);
    assert_eq!(problems(Path::new("a/mod.rs"), "//! Things.\npub(crate) async fn run() {}").len(), 1);
    assert!(problems(Path::new("a/mod.rs"), "//! Good.\npub(crate) mod b;\npub use b::c;").is_empty());
    assert!(problems(Path::new("a.rs"), "//! Good.\nfn main() {}").is_empty());
}

#[test]
fn every_module_of_the_rules_is_on_the_code_map() {
    let read = |path: &str| fs::read_to_string(workspace().join(path)).unwrap();
    let (page, rules) = (read("ARCHITECTURE.md"), read("crates/domain/src/lib.rs"));
    let (_, map) = page.split_once("\n## Code map\n").unwrap();
    let map = map.split("\n## ").next().unwrap().split("\n### Crate dependencies").next().unwrap();
    let modules: Vec<&str> =
        rules.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';')).collect();
    assert!(modules.len() > 10, "only {} modules were found", modules.len());

    let missing: Vec<&str> = modules.into_iter().filter(|name| !map.contains(&format!("`{name}`"))).collect();

    assert_eq!(missing, Vec::<&str>::new());
}

/// The relative links of a Markdown text that lead nowhere.
fn broken_links(path: &Path, text: &str) -> Vec<String> {
    let folder = path.parent().unwrap();
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(target, _)| target));
    targets
        .filter(|target| !target.contains("://") && !target.starts_with('#'))
        .filter(|target| !folder.join(target.split('#').next().unwrap()).exists())
        .map(|target| format!("{}: {target}", path.display()))
        .collect()
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut folders = vec![workspace().to_owned()];
    let (mut found, mut seen) = (Vec::new(), 0);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && !name.starts_with('.') && name != "target" {
                folders.push(path);
            } else if name.ends_with(".md") {
                seen += 1;
                found.extend(broken_links(&path, &fs::read_to_string(&path).unwrap()));
            }
        }
    }

    assert!(seen > 20, "only {seen} documents were found");
    assert_eq!(found, Vec::<String>::new());
    assert_eq!(broken_links(Path::new("/x/a.md"), "[b](nowhere.md#top) [c](https://x)").len(), 1);
}
