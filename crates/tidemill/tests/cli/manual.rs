//! Manual pages: every command has one.

use crate::Stage;
use std::collections::BTreeSet;
use std::fs;

/// Every command that the reference has, as the name of its page.
fn commands() -> BTreeSet<String> {
    let reference = fs::read_to_string(crate::workspace().join("docs/reference/commands.md")).unwrap();
    let named = reference.lines().filter_map(|line| line.strip_prefix("## "));
    named.map(|command| format!("{}.1", command.replace(' ', "-"))).collect()
}

#[test]
fn every_command_has_a_page_and_no_other_thing_has() {
    let stage = Stage::new();

    stage.run(&["man", "--out", "share/man1"]).succeeds();

    let entries = fs::read_dir(stage.path("share/man1")).unwrap();
    let mut pages: BTreeSet<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(pages.remove("tidemill.1"));
    assert_eq!(pages, commands());
    let init = fs::read_to_string(stage.path("share/man1/tidemill-init.1")).unwrap();
    assert!(init.contains(r"\-\-force") && init.contains(".SH NAME"), "{init}");
}

#[test]
fn the_page_of_the_program_is_printed_without_a_folder() {
    let stage = Stage::new();

    let page = stage.run(&["man"]).succeeds().stdout.clone();

    assert!(page.contains(".TH tidemill 1") && page.contains("tidemill\\-pool(1)"), "{page}");
    assert!(!page.contains("demo\\-worker"), "what is hidden has no page");
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let stage = Stage::new();
    fs::write(stage.path("file"), "").unwrap();

    let ran = stage.run(&["man", "--out", "file"]);

    ran.fails("TM0003", 1);
    assert!(ran.stderr.contains("file"), "{ran:#?}");
}
