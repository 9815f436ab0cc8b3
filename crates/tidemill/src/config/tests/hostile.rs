//! Input that was not written in good faith: it is read or refused, never a panic, never slow.

use super::random::for_all;
use super::stage::Stage;
use crate::config::layer::Layers;
use crate::config::{document, env};
use std::path::Path;
use tidemill_domain::code::Code;

const PIECES: &[&str] = &[
    "[",
    "]",
    "[[",
    "]]",
    "{",
    "}",
    "=",
    ".",
    ",",
    "\"",
    "'",
    "'''",
    "\"\"\"",
    "\n",
    "\r\n",
    "\r",
    " ",
    "#",
    "\\",
    "database",
    "url",
    "password",
    "process",
    "lease",
    "name",
    "output",
    "log",
    "level",
    "x",
    "한글",
    "\u{feff}",
    "\u{0}",
    "0x",
    "1_0",
    "1e9",
    "inf",
    "nan",
    "-",
    "true",
    "1979-05-27",
    "\"15s\"",
    "\"file:/\"",
    "\"env:\"",
];

#[test]
fn any_text_as_toml_is_read_or_refused() {
    for_all(20_000, |random| {
        let text: String = (0..random.below(40)).map(|_| *random.pick(PIECES)).collect();
        let mut layers = Layers::default();

        document::read(Path::new("x"), text.as_bytes(), &mut layers);

        for problem in &layers.problems {
            let _told = format!("{problem} {} {}", problem.why(), problem.fix());
        }
    });
}

#[test]
fn any_bytes_as_toml_are_read_or_refused() {
    for_all(5_000, |random| {
        let bytes: Vec<u8> = (0..random.below(60)).map(|_| random.next().to_le_bytes()[0]).collect();
        document::read(Path::new("x"), &bytes, &mut Layers::default());
    });
}

#[test]
fn any_text_in_the_environment_is_read_or_refused() {
    let names =
        ["DATABASE_URL", "DATABASE_PASSWORD", "PROCESS_LEASE", "PROCESS_NAME", "OUTPUT", "PORT_", "한"];
    for_all(5_000, |random| {
        let name = format!("TIDEMILL_{}{}", random.pick(&names), random.text("_AB1한", 2));
        let text = random.text("ab1:/?@=&%한\n\u{0} file:env:sm", 30);
        let mut layers = Layers::default();

        env::read(&[(name.clone(), text.clone())], Path::new(""), &mut layers);

        let is_told = layers.values.len() + layers.problems.len() == 1;
        let is_ignored = text.is_empty() || name.starts_with("TIDEMILL_PORT_");
        assert!(is_told || is_ignored, "{name}={text}");
    });
}

#[test]
fn any_value_for_any_key_is_accepted_or_refused_with_a_remedy() {
    let stage = Stage::new();
    for_all(3_000, |random| {
        let mut sources = stage.sources.clone();
        for key in crate::config::key::ALL {
            let words =
                ["", "15s", "json", "always", "10", "sqlite://x", "\u{0}", "-1", "99999999999", "한글"];
            sources.environment.push((key.env_name(), (*random.pick(&words)).to_owned()));
        }

        if let Err(error) = crate::config::load(&sources) {
            assert!(
                error.problems().iter().all(|problem| !problem.fix().is_empty() && !problem.why().is_empty())
            );
        }
    });
}

#[test]
fn nesting_without_end_is_refused() {
    for text in [
        "a.".repeat(400_000) + "a = 1",
        format!("[{}a]", "a.".repeat(400_000)),
        format!("x = {}", "[".repeat(900_000)),
        format!("x = {}", "{a=".repeat(300_000)),
        format!("x = {{{}a = 1}}", "a.".repeat(400_000)),
    ] {
        assert_eq!(Stage::new().project(text).problem().code(), Code::BadSyntax);
    }
}

#[test]
fn a_file_full_of_mistakes_is_reported_whole() {
    let line: String = (0..50_000).map(|number| format!("k{number} = 1, ")).collect();
    let error = Stage::new().project(format!("process = {{ {line} }}")).load().unwrap_err();
    assert_eq!(error.problems().len(), 50_000);
}

#[test]
fn strange_names_are_shown_short_and_escaped() {
    let problem = Stage::new().project(format!("\"\\u001b[2J{}\" = 1", "x".repeat(1_000))).problem();
    let told = problem.to_string();
    assert!(told.starts_with("unknown key \"\\u{1b}[2Jxxx"), "{told}");
    assert!(told.chars().filter(|c| *c == 'x').count() < 80, "{told}");
    assert!(!told.contains('\u{1b}'));
}
