//! Secrets: how they may be given, how they may not, and that nobody gets to see them.

use super::stage::Stage;
use crate::config::{ConfigError, Kind, Origin, key};
use tidemill_domain::code::Code;

const PASSWORD: &str = "hunter2-한글";

fn password(stage: &Stage) -> String {
    stage.load().unwrap().settings.database.password.unwrap().expose().to_owned()
}

fn url(stage: &Stage) -> String {
    stage.load().unwrap().settings.database.url.expose().to_owned()
}

#[track_caller]
fn refused(stage: &Stage, code: Code) -> ConfigError {
    let problem = stage.problem();
    assert_eq!(problem.code(), code, "{problem:?}");
    problem
}

#[test]
fn a_secret_comes_from_the_environment_or_from_a_file_that_it_names() {
    assert_eq!(password(&Stage::new().env("TIDEMILL_DATABASE_PASSWORD", PASSWORD)), PASSWORD);

    for content in [PASSWORD.to_owned(), format!("{PASSWORD}\n"), format!("{PASSWORD}\r\n")] {
        let stage = Stage::new().file("project/pw", content).env("TIDEMILL_DATABASE_PASSWORD_FILE", "pw");
        assert_eq!(password(&stage), PASSWORD);
        let origin = Origin::EnvFile("TIDEMILL_DATABASE_PASSWORD_FILE".to_owned(), stage.path("project/pw"));
        assert_eq!(stage.value("database.password").origin, origin);
    }

    let stage = Stage::new().file("project/u", "postgres://a:b@c/d\n").env("TIDEMILL_DATABASE_URL_FILE", "u");
    assert_eq!(url(&stage), "postgres://a:b@c/d");
    assert_eq!(stage.value("database.url").shown, "postgres://a:***@c/d");
}

#[test]
fn a_file_refers_to_a_secret_by_file_or_variable() {
    let stage = Stage::new().env("PGPASSWORD", PASSWORD).project("database.password = \"env:PGPASSWORD\"");
    assert_eq!(password(&stage), PASSWORD);

    let stage = Stage::new().file("user/tidemill/pw", PASSWORD).user("database.password = \"file:pw\"");
    assert_eq!(password(&stage), PASSWORD);

    let stage = Stage::new().file("pw", format!("{PASSWORD}\n"));
    let toml = format!("[database]\npassword = \"file:{}\"", stage.path("pw").display());
    let stage = stage.project(toml);
    assert_eq!(password(&stage), PASSWORD);
    let path = stage.path("project/tidemill.toml");
    assert_eq!(stage.value("database.password").origin, Origin::File { path, line: 2, column: 12 });

    let stage = Stage::new().env("URL", "postgres://a:b@c/d").project("database.url = \"env:URL\"");
    assert_eq!(url(&stage), "postgres://a:b@c/d");
}

#[test]
fn a_secret_in_the_open_is_refused_with_the_way_to_hide_it() {
    let stage = Stage::new().project(format!("[database]\npassword = \"{PASSWORD}\""));
    let problem = refused(&stage, Code::OpenSecret);
    assert_eq!(
        stage.short(&problem),
        "database.password contains a secret in plain text (project/tidemill.toml:2:12)"
    );
    assert_eq!(
        problem.fix(),
        "remove it and set TIDEMILL_DATABASE_PASSWORD or TIDEMILL_DATABASE_PASSWORD_FILE, or write \
         password = \"file:/path\" or \"env:NAME\" in the file"
    );

    let problem = refused(&Stage::new().flag("database.password", "--password", PASSWORD), Code::OpenSecret);
    assert_eq!(problem.to_string(), "database.password contains a secret in plain text (flag --password)");
    assert_eq!(problem.why(), "every user of this host can read the command line");

    refused(&Stage::new().project("database.password = 12345"), Code::OpenSecret);
    // A flag is no place for a reference either: the rule stays simple.
    refused(&Stage::new().flag("database.password", "--password", "env:X"), Code::OpenSecret);
}

#[test]
fn a_url_with_a_password_belongs_into_the_environment() {
    for url in [
        "postgres://user:hunter2@host/db",
        "postgres://host/db?user=a&password=hunter2",
        "jdbc:postgresql://host/db?user=a&password=hunter2",
        "jdbc:postgresql://user:hunter2@host/db",
    ] {
        let problem = refused(&Stage::new().project(format!("database.url = \"{url}\"")), Code::OpenSecret);
        assert!(problem.fix().contains("TIDEMILL_DATABASE_PASSWORD"), "{}", problem.fix());
        assert!(problem.fix().contains("\"file:/path\""), "{}", problem.fix());
        refused(&Stage::new().flag("database.url", "--database", url), Code::OpenSecret);

        let stage = Stage::new().env("TIDEMILL_DATABASE_URL", url);
        assert_eq!(self::url(&stage), url);
        assert!(!stage.value("database.url").shown.contains("hunter2"));
    }

    let open = "postgres://user@host/db";
    assert_eq!(url(&Stage::new().project(format!("database.url = \"{open}\""))), open);
    assert_eq!(url(&Stage::new().flag("database.url", "--database", open)), open);
}

#[test]
fn an_overridden_secret_in_the_open_is_still_refused() {
    let stage = Stage::new().system("database.password = \"hunter2\"").env("TIDEMILL_DATABASE_PASSWORD", "x");
    refused(&stage, Code::OpenSecret);
}

#[test]
fn a_value_and_a_file_for_the_same_secret_contradict_each_other() {
    let stage = Stage::new()
        .file("project/pw", PASSWORD)
        .env("TIDEMILL_DATABASE_PASSWORD", PASSWORD)
        .env("TIDEMILL_DATABASE_PASSWORD_FILE", "pw");
    let problem = refused(&stage, Code::BadValue);
    assert_eq!(problem.fix(), "unset TIDEMILL_DATABASE_PASSWORD or TIDEMILL_DATABASE_PASSWORD_FILE");

    let stage = Stage::new()
        .file("project/pw", PASSWORD)
        .env("TIDEMILL_DATABASE_PASSWORD", "")
        .env("TIDEMILL_DATABASE_PASSWORD_FILE", "pw");
    assert_eq!(password(&stage), PASSWORD);
}

#[test]
fn a_reference_that_leads_nowhere_is_refused() {
    let problem = refused(&Stage::new().project("database.password = \"env:NOT_SET\""), Code::BadValue);
    assert_eq!(problem.why(), "the environment variable NOT_SET is not set, or is not UTF-8 text");

    let problem = refused(&Stage::new().project("database.password = \"file:no\""), Code::FileUnreadable);
    assert!(matches!(problem.origin(), Some(Origin::File { line: 1, column: 21, .. })), "{problem:?}");
    let stage = Stage::new().env("TIDEMILL_DATABASE_PASSWORD_FILE", "no");
    assert_eq!(stage.short(refused(&stage, Code::FileUnreadable)), "the file project/no cannot be read");

    let with_file = |content: &[u8]| {
        Stage::new().file("project/pw", content).env("TIDEMILL_DATABASE_PASSWORD_FILE", "pw")
    };
    refused(&with_file(b""), Code::BadValue);
    refused(&with_file(b"\n"), Code::BadValue);
    refused(&with_file(b"two\nlines\n"), Code::BadValue);
    refused(&with_file(b"\xff"), Code::FileUnreadable);
    refused(&with_file(&vec![b'x'; (64 << 10) + 1]), Code::FileUnreadable);
    refused(&Stage::new().project("database.password = \"\""), Code::BadValue);
}

/// Everything that a person or a log could get to see of one load.
fn everything(stage: &Stage) -> String {
    match stage.load() {
        Ok(loaded) => format!("{loaded:?} {loaded:#?} {:?} {}", stage.sources, loaded.settings.database.url),
        Err(error) => {
            let told = error.problems().iter();
            let told = told.map(|p| format!("{p} {p:?} {} {} {:?}", p.why(), p.fix(), p.origin()));
            format!("{error} {error:?} {:?} {}", stage.sources, told.collect::<String>())
        }
    }
}

#[test]
fn no_secret_is_shown_by_anything() {
    let word = "hunter2";
    let url = format!("postgres://user:{word}@host/db?password={word}");
    let stages = [
        Stage::new().env("TIDEMILL_DATABASE_PASSWORD", word).env("TIDEMILL_DATABASE_URL", &url),
        Stage::new().file("project/pw", word).env("TIDEMILL_DATABASE_PASSWORD_FILE", "pw"),
        Stage::new().env("NAME", word).project("database.password = \"env:NAME\""),
        Stage::new().project(format!("database.password = \"{word}\"")),
        Stage::new().project(format!("database.password = \"env:{word}\"")),
        Stage::new().project(format!("database.url = \"{url}\"")),
        Stage::new().project(format!("database.pasword = \"{word}\"")),
        Stage::new().project(format!("database.password = [\"{word}\"]")),
        Stage::new().project(format!("database.password = {{ x = \"{word}\" }}")),
        Stage::new().project(format!("database.password = {word}")),
        Stage::new().project(format!("database.password = \"{word}\n")),
        Stage::new().project(format!("password = \"{word}\"\npassword = \"{word}\"")),
        Stage::new().project(format!("password = \"{word}\"\npassword.x = \"{word}\"")),
        Stage::new().flag("database.password", "--password", word),
        Stage::new().flag("database.url", "--database", &url),
        Stage::new().env("TIDEMILL_DATABASE_URL", &format!("{url} x")),
        Stage::new().env("TIDEMILL_DATABASE_PASSWORD", &format!("{word}\n{word}")),
        Stage::new().env("TIDEMILL_DATABASE_PASWORD", word),
        Stage::new().env("TIDEMILL_DATABASE_PASSWORD", word).env("TIDEMILL_DATABASE_PASSWORD_FILE", "pw"),
    ];

    for (number, stage) in stages.iter().enumerate() {
        let seen = everything(stage);
        assert!(!seen.contains(word), "stage {number}: {seen}");
    }
}

#[test]
fn every_variable_that_sets_a_secret_is_known_as_one() {
    let variables = |stage: &Stage| stage.load().unwrap().secret_variables;

    let known = variables(&Stage::new());
    for key in key::all().filter(|key| key.kind.may_be_secret() && key.kind != Kind::Url) {
        assert!(known.contains(&key.env_name()), "{}", key.path);
        assert!(key.compat_variable.is_none_or(|name| known.contains(name)), "{}", key.path);
    }
    for name in ["SPRING_DATASOURCE_PASSWORD", "NEXRENDER_SECRET", "NEXRENDER_API_URL"] {
        assert!(known.contains(name), "{name}");
    }
    for name in ["SPRING_DATASOURCE_URL", "TIDEMILL_DATABASE_URL", "WORKER_ID", "TIDEMILL_LOG_LEVEL"] {
        assert!(!known.contains(name), "{name}");
    }
    let with_password = Stage::new().env("SPRING_DATASOURCE_URL", "jdbc:postgresql://u:pw@h/d");
    assert!(variables(&with_password).contains("SPRING_DATASOURCE_URL"));
    let without = Stage::new().env("SPRING_DATASOURCE_URL", "jdbc:postgresql://h/d");
    assert!(!variables(&without).contains("SPRING_DATASOURCE_URL"));
}

#[test]
fn a_variable_that_a_file_names_is_a_secret_also_when_it_is_covered() {
    let stage = Stage::new()
        .env("OLD_PW", "a")
        .env("SHOP_PW", "b")
        .env("TIDEMILL_DATABASE_PASSWORD", "c")
        .user("database.password = \"env:OLD_PW\"")
        .project("[connections.shop]\nurl = \"postgres://u@h/d\"\npassword = \"env:SHOP_PW\"");

    let known = stage.load().unwrap().secret_variables;

    assert!(["OLD_PW", "SHOP_PW", "TIDEMILL_DATABASE_PASSWORD"].iter().all(|name| known.contains(*name)));
}
