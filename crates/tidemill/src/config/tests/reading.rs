//! Files that are missing, closed, too large or no files, and the process as a source.

use super::stage::Stage;
use crate::config::{ConfigError, Origin, Sources};
use std::error::Error;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use tidemill_domain::code::Code;

#[track_caller]
fn unreadable(stage: &Stage, origin: Origin, why: &str) -> ConfigError {
    let problem = stage.problem();
    assert_eq!(problem.code(), Code::FileUnreadable, "{problem:?}");
    assert_eq!(problem.origin(), Some(&origin));
    assert_eq!(problem.why(), why);
    problem
}

#[test]
fn a_named_file_must_exist() {
    let flag =
        unreadable(&Stage::new().config("no.toml"), Origin::Flag("--config"), "the file does not exist");
    assert!(flag.source().is_some());
    assert_eq!(flag.fix(), "correct the path or the file's permissions (flag --config)");

    let env = Origin::Env("TIDEMILL_CONFIG".to_owned());
    unreadable(&Stage::new().env("TIDEMILL_CONFIG", "no.toml"), env, "the file does not exist");
}

#[test]
fn usual_files_may_be_missing_also_with_their_folders() {
    let mut stage = Stage::new().file("plain", "");
    stage.sources.user_folder = Some(stage.path("plain"));
    stage.sources.system_file = stage.path("nowhere/tidemill.toml");
    stage.sources.working_folder = stage.path("nowhere");

    assert!(stage.load().unwrap().files.is_empty());
}

#[test]
fn a_folder_in_place_of_a_file_is_refused() {
    unreadable(&Stage::new().config("."), Origin::Flag("--config"), "it is a folder");
}

#[test]
fn a_file_may_have_one_mebibyte_and_no_more() {
    let comment = |bytes: usize| format!("#{}", "x".repeat(bytes - 1));
    let fits = Stage::new().project(comment(1 << 20));
    assert!(fits.load().is_ok());

    let large = Stage::new().project(comment((1 << 20) + 1));
    unreadable(&large, Origin::Default, "it is larger than 1024 KiB");
}

/// The superuser reads everything, so for it the file can only be read.
#[test]
fn a_usual_file_that_may_not_be_read_is_not_passed_over() {
    let stage = Stage::new().project("output = \"csv\"");
    let path = stage.path("project/tidemill.toml");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();

    match std::fs::read(&path) {
        Ok(_) => assert_eq!(stage.load().unwrap().files, [path]),
        Err(_) => {
            let why = "this user may not read it or may not enter its folder";
            let problem = unreadable(&stage, Origin::Default, why);
            assert_eq!(problem.fix(), "let this user read the file, or move it away");
        }
    }
}

fn variables(pairs: &[(&str, &[u8])]) -> Result<Sources, ConfigError> {
    let pairs = pairs.iter().map(|(name, value)| (OsString::from(name), OsString::from_vec(value.to_vec())));
    Sources::from_variables(pairs, PathBuf::from("/project"))
}

#[test]
fn the_users_folder_follows_the_xdg_rules() {
    let check = |pairs: &[(&str, &[u8])], expected: Option<&str>| {
        assert_eq!(variables(pairs).unwrap().user_folder, expected.map(PathBuf::from));
    };

    check(&[("HOME", b"/home/me"), ("XDG_CONFIG_HOME", b"/xdg")], Some("/xdg"));
    check(&[("XDG_CONFIG_HOME", b"relative"), ("HOME", b"/home/me")], Some("/home/me/.config"));
    check(&[("XDG_CONFIG_HOME", b""), ("HOME", b"/home/me")], Some("/home/me/.config"));
    check(&[("HOME", b"")], None);
    check(&[], None);
}

#[test]
fn variables_of_ours_must_be_text_and_others_need_not() {
    let error = variables(&[("TIDEMILL_OUTPUT", b"\xff"), ("TIDEMILL_COLOR", b"\xff"), ("OTHER", b"\xff")]);

    let error = error.unwrap_err();

    assert_eq!(error.problems().len(), 2);
    let first = &error.problems()[0];
    assert_eq!(first.code(), Code::BadValue);
    assert_eq!(first.to_string(), "TIDEMILL_COLOR is not valid (environment variable TIDEMILL_COLOR)");
    assert_eq!(first.fix(), "set TIDEMILL_COLOR to UTF-8 text, or unset it");

    let sources = variables(&[("OTHER", b"\xff"), ("PLAIN", b"x")]).unwrap();
    assert_eq!(sources.environment, [("PLAIN".to_owned(), "x".to_owned())]);
}

#[test]
fn the_process_itself_is_a_source() {
    let sources = Sources::from_process().unwrap();

    assert_eq!(sources.working_folder, std::env::current_dir().unwrap());
    assert_eq!(sources.system_file, PathBuf::from("/etc/tidemill/tidemill.toml"));
    assert!(sources.environment.iter().any(|(name, _)| name == "PATH"));
}
