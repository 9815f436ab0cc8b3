//! Every command that README shows for a fresh clone works as written.

use crate::{Stage, workspace};

/// The commands of the program in README's shell blocks.
fn shown(readme: &str) -> Vec<Vec<String>> {
    let mut commands = Vec::new();
    let mut in_shell = false;
    for line in readme.lines() {
        match line {
            "```sh" => in_shell = true,
            "```" => in_shell = false,
            line if in_shell => {
                let command = line.split(" #").next().unwrap_or_default().trim();
                if let Some(rest) = command.strip_prefix("cargo run --release -- ") {
                    commands.push(rest.split_whitespace().map(str::to_owned).collect());
                }
            }
            _ => {}
        }
    }
    commands
}

#[test]
fn the_commands_of_the_readme_work_in_their_order() {
    let readme = std::fs::read_to_string(workspace().join("README.md")).unwrap();
    let commands = shown(&readme);
    assert!(commands.len() >= 5, "{commands:?}");
    assert!(readme.contains("cargo xtask test"));
    let stage = Stage::new();

    // The demo has a test of its own and takes its time.
    for command in commands.iter().filter(|command| command[0] != "demo") {
        let arguments: Vec<&str> = command.iter().map(String::as_str).collect();
        stage.run(&arguments).succeeds();
    }
}

#[test]
fn a_command_that_does_not_exist_would_be_found() {
    let commands = shown("```sh\ncargo run --release -- frobnicate now # and then\n```\n");

    assert_eq!(commands, [["frobnicate", "now"]]);
}
