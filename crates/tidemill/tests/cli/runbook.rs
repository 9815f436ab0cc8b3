//! Every alert leads to a page of the runbook, and every page is whole.

use crate::{Stage, workspace};
use std::collections::BTreeMap;
use std::fs;

/// What every page has.
const PARTS: &[&str] =
    &["**Symptom.** ", "**Alerts.** ", "\n## Check first\n", "\n## Causes\n", "\n## Do not\n"];

/// The pages by their file names, the index among them.
fn pages() -> BTreeMap<String, String> {
    let folder = workspace().join("docs/runbook");
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let page = |entry: fs::DirEntry| {
        (entry.file_name().to_string_lossy().into_owned(), fs::read_to_string(entry.path()).unwrap())
    };
    entries.map(page).collect()
}

/// What is wrong with the pages, for these rules and this table of them.
fn problems(rules: &[&str], reference: &str, pages: &BTreeMap<String, String>) -> Vec<String> {
    let mut problems = Vec::new();
    let index = pages.get("README.md").map_or("", String::as_str);
    for rule in rules {
        let told = |line: &&str| line.starts_with(&format!("| `{rule}` |")) && line.contains("(../runbook/");
        let link = reference.lines().find(told).and_then(|line| line.split("(../runbook/").nth(1));
        let page = link.and_then(|rest| rest.split(')').next()).unwrap_or("no page");
        let text = pages.get(page).map_or("", String::as_str);
        let alerts = text.lines().find(|line| line.starts_with("**Alerts.** ")).unwrap_or_default();
        let is_indexed = index
            .lines()
            .any(|line| line.contains(&format!("]({page})")) && line.contains(&format!("`{rule}`")));
        if !alerts.contains(&format!("`{rule}`")) || !is_indexed {
            problems.push(format!("{rule} leads to {page}, which does not say so, or is not in the index"));
        }
    }
    for (name, page) in pages.iter().filter(|(name, _)| *name != "README.md") {
        problems.extend(
            PARTS.iter().filter(|part| !page.contains(*part)).map(|part| format!("{name}: no {part}")),
        );
        if !index.contains(&format!("]({name})")) {
            problems.push(format!("{name} is not in the index"));
        }
    }
    problems
}

#[test]
fn every_alert_leads_to_a_page_and_every_page_is_whole() {
    let listed = Stage::new().run(&["alert", "rules", "-o", "csv"]);
    let rules: Vec<&str> =
        listed.succeeds().stdout.lines().skip(1).filter_map(|line| line.split(',').next()).collect();
    let reference = fs::read_to_string(workspace().join("docs/reference/alerts.md")).unwrap();

    assert!(rules.len() >= 20, "{rules:?}");
    assert_eq!(problems(&rules, &reference, &pages()), Vec::<String>::new());
}

#[test]
fn an_alert_without_a_page_and_a_page_without_a_part_are_found() {
    let reference = "| `lag` | [the relay lags](../runbook/lag.md) |\n| `slow` | none |\n";
    let whole = format!("# Lag\n{}", PARTS.concat().replace("**Alerts.** ", "\n**Alerts.** `lag`"));
    let with = |index: &str, page: &str| {
        BTreeMap::from([("README.md".to_owned(), index.to_owned()), ("lag.md".to_owned(), page.to_owned())])
    };
    let index = "| late | [the relay lags](lag.md) | `lag` |";

    assert_eq!(problems(&["lag"], reference, &with(index, &whole)), Vec::<String>::new());
    assert_eq!(problems(&["slow"], reference, &with(index, &whole)).len(), 1);
    assert_eq!(problems(&["lag"], reference, &with("", &whole)).len(), 2);
    assert_eq!(problems(&["lag"], reference, &with(index, &whole.replace("`lag`", ""))).len(), 1);
    assert_eq!(problems(&[], reference, &with(index, &whole.replace("## Do not", ""))).len(), 1);
}
