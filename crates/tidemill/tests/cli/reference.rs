//! The reference of commands is made of what the program itself says; what people have written about flags, keys and routes
//! agrees with it.
//!
//! After a change: `UPDATE_SNAPSHOT=1 cargo test -p tidemill --test cli -- reference`.

use crate::{Stage, workspace};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;

const PAGE: &str = "docs/reference/commands.md";

const HEAD: &str = "# Every command

The `--help` text of every command, without the flags that every command has. A test generates and checks this page. For
examples, output and exit codes, see [command line](cli.md).
";

/// What the program says of a command and of all below it, in their order.
fn helps(stage: &Stage, path: &mut Vec<String>, found: &mut Vec<(Vec<String>, String)>) {
    let mut arguments: Vec<&str> = path.iter().map(String::as_str).collect();
    arguments.push("--help");
    let help = stage.run(&arguments).succeeds().stdout.clone();
    let first_word = |line: &str| line.split_whitespace().next().unwrap_or_default().to_owned();
    let commands: Vec<String> = section(&help, "Commands:").into_iter().map(first_word).collect();
    found.push((path.clone(), help));
    for name in commands.into_iter().filter(|name| name != "help") {
        path.push(name);
        helps(stage, path, found);
        path.pop();
    }
}

/// The first line of each entry of a section; further lines of an entry stand further to the right.
fn section<'a>(help: &'a str, heading: &str) -> Vec<&'a str> {
    let lines = help.lines().skip_while(|line| *line != heading).skip(1);
    let entries = lines.take_while(|line| !line.is_empty());
    entries.filter(|line| !line.starts_with("          ")).collect()
}

/// The long flags that a text names.
fn flags(text: &str) -> BTreeSet<&str> {
    let word = |rest: &str| rest.find(|c: char| !c.is_ascii_lowercase() && c != '-').unwrap_or(rest.len());
    let named = text.split("--").skip(1).filter(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase()));
    named.map(|rest| rest[..word(rest)].trim_end_matches('-')).collect()
}

/// A help without the flags that every command has.
fn own(help: &str, everywhere: &BTreeSet<&str>) -> String {
    let mut is_left_out = false;
    let mut kept = String::new();
    for line in help.lines() {
        let is_entry = line.trim_start().starts_with('-') && !line.starts_with("          ");
        if is_entry || line.is_empty() {
            is_left_out = is_entry && flags(line).first().is_some_and(|flag| everywhere.contains(flag));
        }
        if !is_left_out {
            writeln!(kept, "{line}").unwrap();
        }
    }
    let parts = kept.split("\n\n").map(str::trim_end);
    let is_heading = |part: &&str| part.ends_with("ptions:") && !part.contains('\n');
    parts.filter(|part| !is_heading(part)).collect::<Vec<_>>().join("\n\n").trim_end().to_owned()
}

/// The page.
fn page(helps: &[(Vec<String>, String)]) -> String {
    let everywhere: BTreeSet<&str> = ["Options:", "Global options:"]
        .into_iter()
        .flat_map(|heading| section(&helps[0].1, heading))
        .flat_map(flags)
        .filter(|flag| *flag != "version")
        .collect();
    let mut page = HEAD.to_owned();
    for (path, help) in helps.iter().skip(1) {
        writeln!(page, "\n## tidemill {}\n\n```text\n{}\n```", path.join(" "), own(help, &everywhere))
            .unwrap();
    }
    page
}

fn all() -> Vec<(Vec<String>, String)> {
    let mut found = Vec::new();
    helps(&Stage::new(), &mut Vec::new(), &mut found);
    found
}

#[test]
fn the_page_of_commands_is_what_the_program_says() {
    let page = page(&all());
    let path = workspace().join(PAGE);

    if std::env::var_os("UPDATE_SNAPSHOT").is_some() {
        fs::write(&path, &page).unwrap();
    }

    assert!(page.matches("\n## ").count() >= 80, "{page}");
    assert!(
        page == fs::read_to_string(&path).unwrap_or_default(),
        "{PAGE} is not up to date: see {}",
        file!()
    );
}

#[test]
fn every_flag_of_the_command_line_that_is_described_exists() {
    let helps = all();
    let known: BTreeSet<&str> = helps.iter().flat_map(|(_, help)| flags(help)).collect();
    let described = fs::read_to_string(workspace().join("docs/reference/cli.md")).unwrap();

    let unknown: Vec<&str> = flags(&described).difference(&known).copied().collect();
    assert_eq!(unknown, Vec::<&str>::new());
    // And the other way round: nobody adds one without a word about it.
    let silent: Vec<&str> = known.difference(&flags(&described)).copied().collect();
    assert_eq!(silent, Vec::<&str>::new());
}

#[test]
fn flags_are_found_in_texts_and_left_out_where_every_command_has_them() {
    let help = "Do it\n\nOptions:\n      --config <FILE>  A file\n                       of two lines --not-here\n  -n, --now        At once\n  -h, --help       Print help\n";

    assert_eq!(flags(help), BTreeSet::from(["config", "help", "not-here", "now"]));
    assert_eq!(
        own(help, &BTreeSet::from(["config", "help"])),
        "Do it\n\nOptions:\n  -n, --now        At once"
    );
    assert_eq!(own(help, &BTreeSet::from(["config", "help", "now"])), "Do it");
    assert_eq!(section(help, "Options:").len(), 3);
    assert_eq!(flags("`--dry-run`, a -- b, ---, --emf."), BTreeSet::from(["dry-run", "emf"]));
}

/// The cells of the rows of tables whose first cell is code, without the marks of code.
fn rows(page: &str) -> Vec<Vec<String>> {
    let is_row = |line: &&str| line.starts_with("| `");
    let cells =
        |line: &str| line.trim_matches('|').split(" | ").map(|cell| cell.trim().replace('`', "")).collect();
    page.lines().filter(is_row).map(cells).collect()
}

/// What is wrong with a table of configuration keys, by what the program says of them without any configuration.
fn wrong_keys(page: &str, told: &[(String, Option<String>)]) -> Vec<String> {
    let written: BTreeMap<String, String> =
        rows(page).into_iter().filter_map(|row| Some((row.first()?.clone(), row.get(1)?.clone()))).collect();
    let mut wrong = Vec::new();
    for (key, value) in told {
        match (written.get(key), value) {
            (None, _) => wrong.push(format!("{key} is not described")),
            (Some(default), Some(value)) if default != value => {
                wrong.push(format!("{key} is {value} unless configured, and not {default}"));
            }
            _ => {}
        }
    }
    wrong
}

#[test]
fn every_configuration_key_is_described_with_its_default() {
    let ran = Stage::new().run(&["config", "show", "-o", "json"]);
    let shown: Value = serde_json::from_str(&ran.succeeds().stdout).unwrap();
    let items = shown["items"].as_array().unwrap();
    // The rules of alerts have a page of their own. The output is what was asked for, and so nothing is known of its default.
    let key = |item: &Value| item["key"].as_str().unwrap().to_owned();
    let value = |item: &Value| item["value"].as_str().filter(|_| key(item) != "output").map(str::to_owned);
    let told: Vec<(String, Option<String>)> = items
        .iter()
        .filter(|item| !key(item).starts_with("alert.rules."))
        .map(|item| (key(item), value(item)))
        .collect();
    let page = fs::read_to_string(workspace().join("docs/reference/configuration.md")).unwrap();

    assert!(told.len() >= 90, "{told:?}");
    assert_eq!(wrong_keys(&page, &told), Vec::<String>::new());
    let told = |default: &str| vec![("a.b".to_owned(), Some(default.to_owned()))];
    assert_eq!(wrong_keys("| `a.b` | `1s` | x |", &told("1s")), Vec::<String>::new());
    assert_eq!(wrong_keys("| `a.b` | `1s` | x |", &told("2s")).len(), 1);
    assert_eq!(wrong_keys("| `a.c` | `1s` | x |", &told("1s")).len(), 1);
}

#[test]
fn every_route_of_the_api_is_described() {
    let description = fs::read_to_string(workspace().join("crates/server/openapi.json")).unwrap();
    let description: Value = serde_json::from_str(&description).unwrap();
    let operations = |(path, item): (&String, &Value)| -> Vec<(String, String)> {
        item.as_object().unwrap().keys().map(|method| (method.to_uppercase(), path.clone())).collect()
    };
    let routes: BTreeSet<_> = description["paths"].as_object().unwrap().iter().flat_map(operations).collect();
    let page = fs::read_to_string(workspace().join("docs/reference/http.md")).unwrap();
    let written: BTreeSet<_> = rows(&page)
        .into_iter()
        .filter_map(|row| Some((row.first()?.clone(), row.get(1)?.clone())))
        .filter(|(method, path)| method.chars().all(char::is_uppercase) && path.starts_with("/api/"))
        .collect();

    assert!(routes.len() >= 70, "{routes:?}");
    assert_eq!(routes.symmetric_difference(&written).collect::<Vec<_>>(), Vec::<&(String, String)>::new());
}
