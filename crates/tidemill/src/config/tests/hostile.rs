//! Input that was not written in good faith: it is read or refused, never a panic, never slow.

use super::property::{cases, text};
use super::stage::Stage;
use crate::config::layer::Layers;
use crate::config::{document, env, key};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use std::path::Path;
use tidemill_domain::code::Code;
use tidemill_testkit::long::long_or;

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
    proptest!(cases(20_000), |(pieces in vec(select(PIECES), 0..40))| {
        let mut layers = Layers::default();

        document::read(Path::new("x"), pieces.concat().as_bytes(), &mut layers);

        for problem in &layers.problems {
            let _told = format!("{problem} {} {}", problem.why(), problem.fix());
        }
    });
}

#[test]
fn any_bytes_as_toml_are_read_or_refused() {
    proptest!(cases(5_000), |(bytes in vec(any::<u8>(), 0..60))| {
        document::read(Path::new("x"), &bytes, &mut Layers::default());
    });
}

#[test]
fn any_text_in_the_environment_is_read_or_refused() {
    let stem = select(&[
        "DATABASE_URL",
        "DATABASE_PASSWORD",
        "PROCESS_LEASE",
        "PROCESS_NAME",
        "OUTPUT",
        "PORT_",
        "DB_PORT",
        "DB_PORT_5432",
        "한",
    ]);
    let name = (stem, text("_AB1한", 2)).prop_map(|(stem, rest)| format!("TIDEMILL_{stem}{rest}"));
    let value = text("ab1:/?@=&%한\n\u{0} file:env:sm", 30);

    proptest!(cases(5_000), |(name in name, value in value)| {
        let mut layers = Layers::default();

        env::read(&[(name, value.clone())], Path::new(""), &mut layers);

        let is_told = layers.values.len() + layers.problems.len() == 1;
        prop_assert!(is_told || value.is_empty());
    });
}

#[test]
fn any_value_for_any_key_is_accepted_or_refused_with_a_remedy() {
    let stage = Stage::new();
    let words = &["", "15s", "json", "always", "10", "sqlite://x", "\u{0}", "-1", "99999999999", "한글"];

    proptest!(cases(long_or(3_000, 400)), |(chosen in vec(select(words), key::all().count()))| {
        let mut sources = stage.sources.clone();
        for (key, word) in key::all().zip(chosen) {
            sources.environment.push((key.env_name(), word.to_owned()));
        }

        if let Err(error) = crate::config::load(&sources) {
            for problem in error.problems() {
                prop_assert!(!problem.fix().is_empty() && !problem.why().is_empty(), "{}", problem);
            }
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
    let count = long_or(50_000, 5_000);
    let line: String = (0..count).map(|number| format!("k{number} = 1, ")).collect();
    let error = Stage::new().project(format!("process = {{ {line} }}")).load().unwrap_err();
    assert_eq!(error.problems().len(), count);
}

#[test]
fn strange_names_are_shown_short_and_escaped() {
    let problem = Stage::new().project(format!("\"\\u001b[2J{}\" = 1", "x".repeat(1_000))).problem();
    let told = problem.to_string();
    assert!(told.starts_with("unknown key \"\\u{1b}[2Jxxx"), "{told}");
    assert!(told.chars().filter(|c| *c == 'x').count() < 80, "{told}");
    assert!(!told.contains('\u{1b}'));
}
