//! Each kind of mistake, with the line and column at which it is reported.

use super::stage::Stage;
use crate::config::Origin;
use tidemill_domain::code::Code;

/// Loads a project file that has one problem, and compares code, place, message, reason and remedy.
#[track_caller]
fn check(toml: impl AsRef<[u8]>, code: Code, place: (usize, usize), what: &str, why: &str, fix: &str) {
    let stage = Stage::new().project(toml);
    let problem = stage.problem();
    let path = stage.path("project/tidemill.toml");
    assert_eq!(problem.code(), code, "{problem:?}");
    assert_eq!(problem.origin(), Some(&Origin::File { path, line: place.0, column: place.1 }));
    assert_eq!(stage.short(&problem), format!("{what} (project/tidemill.toml:{}:{})", place.0, place.1));
    assert_eq!(problem.why(), why);
    assert_eq!(problem.fix(), fix);
}

const TOP: &str = "the top-level names are database, process, server, jobs, pools, outbox, render, lambda, telemetry, log, output, color, alert, jwt, connections";

#[test]
fn an_unknown_key_is_reported_with_its_neighbours() {
    let check = |toml: &str, place, what: &str, why: &str, fix: &str| {
        check(toml, Code::UnknownKey, place, &format!("unknown key {what:?}"), why, fix);
    };

    check("\n\n[databse]\nurl = \"x\"\n", (3, 2), "databse", TOP, "did you mean database?");
    check(
        "[process]\n  leese = \"1s\"\n",
        (2, 3),
        "process.leese",
        "the keys of process are name, lease",
        "did you mean process.lease?",
    );
    check(
        "process.nmae = \"x\"",
        (1, 9),
        "process.nmae",
        "the keys of process are name, lease",
        "did you mean process.name?",
    );
    check(
        "[log]\noutput = \"csv\"",
        (2, 1),
        "log.output",
        "the keys of log are level, format",
        "did you mean output?",
    );
    check("lease = \"1s\"", (1, 1), "lease", TOP, "did you mean process.lease?");
    check("weather = 1", (1, 1), "weather", TOP, "correct it or remove it");
    check("\"process.name\" = \"x\"", (1, 1), "process.name", TOP, "did you mean process.name?");
    check("\"\" = 1", (1, 1), "", TOP, "correct it or remove it");
    check("[\"\"]\noutput = \"csv\"", (1, 2), "", TOP, "correct it or remove it");
}

#[test]
fn tables_lists_and_values_are_not_taken_for_each_other() {
    let check = |toml: &str, place, what: &str, why: &str| {
        let what = format!("unknown key {what:?}");
        check(toml, Code::UnknownKey, place, &what, why, "correct it or remove it");
    };

    let output = "output takes a single value: one of table, json, jsonl, csv";
    check("[output]\nkind = 1", (1, 2), "output", output);
    check("output = [\"json\"]", (1, 1), "output", output);
    check("[[output]]\nkind = 1", (1, 3), "output", output);
    check("process = 5", (1, 1), "process", "process is a table with the keys name, lease");
    check("[[process]]\nname = \"x\"", (1, 3), "process", "process is a table with the keys name, lease");
    check("log = [1]", (1, 1), "log", "log is a table with the keys level, format");
}

#[test]
fn a_bad_value_is_reported_with_what_is_allowed() {
    let check = |toml: &str, place, what: &str, why: &str, fix: &str| {
        check(toml, Code::BadValue, place, what, &format!("allowed: {why}"), fix);
    };

    let words = "one of always, embedded, never";
    check(
        "[database]\ninit = \"alwys\"",
        (2, 8),
        "database.init cannot be \"alwys\"",
        words,
        "did you mean always?",
    );
    check(
        "database.init = true",
        (1, 17),
        "database.init cannot be \"true\"",
        words,
        "set database.init to one of always, embedded, never",
    );

    let number = "a whole number from 1 to 1000";
    let set = "set database.max_connections to a whole number from 1 to 1000";
    let what = |value: &str| format!("database.max_connections cannot be {value:?}");
    check("database.max_connections = 0", (1, 28), &what("0"), number, set);
    check("database.max_connections = 1001", (1, 28), &what("1001"), number, set);
    check("database.max_connections = -1", (1, 28), &what("-1"), number, set);
    check("database.max_connections = 0xFFFF", (1, 28), &what("65535"), number, set);
    check("database.max_connections = 1.5", (1, 28), &what("1.5"), number, set);
    check("database.max_connections = \"5\"", (1, 28), &what("5"), number, "write the number without quotes");

    let lease = "a duration from 1s to 1h";
    let what = |value: &str| format!("process.lease cannot be {value:?}");
    check("process.lease = 15", (1, 17), &what("15"), lease, "add the unit, for example \"15s\" or \"15ms\"");
    check("process.lease = \"999ms\"", (1, 17), &what("999ms"), lease, "make it at least 1s");
    check("process.lease = \"1h1ms\"", (1, 17), &what("1h1ms"), lease, "make it at most 1h");
    check("process.lease = \"soon\"", (1, 17), &what("soon"), lease, "write it as 500ms, 15s, 1h30m or 1d");

    let name = "text of 1 to 200 characters without control characters";
    let set = format!("set process.name to {name}");
    check("process.name = \"\"", (1, 16), "process.name cannot be \"\"", name, &set);
    check("process.name = \"a\\tb\"", (1, 16), "process.name cannot be \"a\\tb\"", name, &set);
    check("process.name = 5", (1, 16), "process.name cannot be \"5\"", name, "write it in quotes");
    let long = "밤".repeat(201);
    let what = format!("process.name cannot be \"{}…\"", "밤".repeat(60));
    check(&format!("process.name = \"{long}\""), (1, 16), &what, name, &set);
}

#[test]
fn a_url_must_be_text_without_spaces() {
    let check = |toml: &str, fix: &str| {
        let why = "allowed: a database URL such as sqlite://tidemill.db or postgres://user@host/database";
        check(toml, Code::BadValue, (1, 16), "database.url is not valid", why, fix);
    };

    check("database.url = 5", "write it in quotes");
    check("database.url = \"sqlite://a b.db\"", "remove the spaces and control characters from the URL");
    check("database.url = \"\"", "it is empty: set a value or remove the key");
}

#[test]
fn the_bounds_themselves_are_allowed() {
    for toml in [
        "database.max_connections = 1",
        "database.max_connections = 1000",
        "process.lease = \"1s\"",
        "process.lease = \"60m\"",
        &format!("process.name = \"{}\"", "밤".repeat(200)),
    ] {
        assert!(Stage::new().project(toml).load().is_ok(), "{toml}");
    }
}

#[test]
fn bad_syntax_is_reported_where_reading_stopped() {
    let check = |toml: &[u8], place, why: &str| {
        let fix = "correct the file here or shortly before";
        check(toml, Code::BadSyntax, place, "not valid TOML", why, fix);
    };

    check(b"output = \n", (1, 10), "string values must be quoted, expected literal string");
    check(b"[database\n", (1, 10), "unclosed table, expected `]`");
    check(b"output = \"csv\"\noutput = \"json\"\n", (2, 1), "duplicate key");
    check(
        "color = \"never\"\noutput = \"한글\" 글\n".as_bytes(),
        (2, 15),
        "unexpected key or value, expected newline, `#`",
    );
    check(b"output = \"csv\"\n# \xff\n", (2, 3), "this byte is not UTF-8");
}

#[test]
fn columns_count_characters_in_any_line_ending_and_after_a_byte_order_mark() {
    let place = |toml: &str| {
        let problem = Stage::new().project(toml).problem();
        assert_eq!(problem.code(), Code::BadValue, "{problem:?}");
        match problem.origin() {
            Some(Origin::File { line, column, .. }) => (*line, *column),
            other => panic!("{other:?}"),
        }
    };

    assert_eq!(place("process = { name = \"한글\", lease = \"x\" }"), (1, 34));
    assert_eq!(place("# 한글\r\n\r\n[log]\r\nlevel = \"x\"\r\n"), (4, 9));
    assert_eq!(place("\u{feff}output = \"x\""), (1, 10));
    assert_eq!(place("\u{feff}\noutput = \"x\""), (2, 10));
    assert_eq!(place("log.level = '''\nwarn'''\r\nprocess.lease = 5"), (3, 17));
}

#[test]
fn a_bad_variable_or_flag_is_named() {
    let stage = Stage::new().env("TIDEMILL_OUTPUT", "jsno");
    let problem = stage.problem();
    assert_eq!(problem.code(), Code::BadValue);
    assert_eq!(problem.to_string(), "output cannot be \"jsno\" (environment variable TIDEMILL_OUTPUT)");
    assert_eq!(problem.fix(), "did you mean json?");

    let stage = Stage::new().flag("log.level", "--log-level", "\u{1b}[31m");
    assert_eq!(stage.problem().to_string(), "log.level cannot be \"\\u{1b}[31m\" (flag --log-level)");

    let stage = Stage::new().flag("no.such", "--no-such", "x");
    assert_eq!(stage.problem().code(), Code::UnknownKey);
}

#[test]
fn an_unknown_variable_is_refused_with_a_suggestion() {
    let check = |name: &str, fix: &str| {
        let problem = Stage::new().env(name, "x").problem();
        assert_eq!(problem.code(), Code::UnknownKey);
        assert_eq!(problem.to_string(), format!("unknown environment variable {name}"));
        assert_eq!(problem.fix(), fix);
    };

    check("TIDEMILL_DATABASE_URI", "did you mean TIDEMILL_DATABASE_URL?");
    check("TIDEMILL_DATABASE_PASSWORD_FIEL", "did you mean TIDEMILL_DATABASE_PASSWORD_FILE?");
    check("TIDEMILL_CONFG", "did you mean TIDEMILL_CONFIG?");
    check("TIDEMILL_WEATHER", "unset TIDEMILL_WEATHER");
    check("TIDEMILL_OUTPUT_FILE", "unset TIDEMILL_OUTPUT_FILE");
    check("TIDEMILL_", "unset TIDEMILL_");
    check("TIDEMILL_DATABASE_PORT", "did you mean TIDEMILL_DATABASE_URL?");
}

#[test]
fn variables_that_belong_to_others_are_left_alone() {
    let mut stage = Stage::new();
    for name in [
        "TIDEMILL_CRASH_AT",
        "TIDEMILL_FREEZE_AT",
        "TIDEMILL_TEST_POSTGRES_URL",
        "TIDEMILL_CLIENT_URL",
        "TIDEMILL_SERVICE_HOST",
        "TIDEMILL_SERVICE_PORT",
        "TIDEMILL_SERVICE_PORT_HTTP",
        "TIDEMILL_PORT",
        "TIDEMILL_PORT_7790_TCP",
        "TIDEMILL_PORT_7790_TCP_ADDR",
        "TIDEMILL_POSTGRES_SERVICE_HOST",
        "TIDEMILL_POSTGRES_SERVICE_PORT_PG",
        "TIDEMILL_POSTGRES_PORT",
        "TIDEMILL_POSTGRES_PORT_5432_TCP_PROTO",
        "tidemill_output",
        "OTHER",
    ] {
        stage = stage.env(name, "tcp://10.0.0.1:7790");
    }
    assert!(stage.load().is_ok());
}

#[test]
fn every_problem_of_every_layer_is_reported_in_the_order_of_the_places() {
    let stage = Stage::new()
        .system("outputt = \"json\"")
        .user("[database")
        .project("output = \"x\"\nweather = 1\n[process]\nlease = 5\npassword = 1\n")
        .env("TIDEMILL_COLOR", "x")
        .env("TIDEMILL_FOO", "x")
        .flag("log.level", "--log-level", "x");

    let error = stage.load().unwrap_err();

    let told: Vec<_> = error.problems().iter().map(|problem| stage.short(problem)).collect();
    assert_eq!(
        told,
        [
            "output cannot be \"x\" (project/tidemill.toml:1:10)",
            "unknown key \"weather\" (project/tidemill.toml:2:1)",
            "process.lease cannot be \"5\" (project/tidemill.toml:4:9)",
            "unknown key \"process.password\" (project/tidemill.toml:5:1)",
            "unknown key \"outputt\" (system/tidemill.toml:1:1)",
            "not valid TOML (user/tidemill/config.toml:1:10)",
            "color cannot be \"x\" (environment variable TIDEMILL_COLOR)",
            "unknown environment variable TIDEMILL_FOO",
            "log.level cannot be \"x\" (flag --log-level)",
        ]
    );
    assert_eq!(error.to_string(), "the configuration has 9 problems");
    assert_eq!(error.code(), Code::BadValue);
    assert_eq!(error.fix(), "correct each of them; `tidemill config check` lists them");
}
