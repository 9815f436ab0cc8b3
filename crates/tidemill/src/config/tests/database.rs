//! The variables by which programs with Spring, as the document's are, know their database.

use super::stage::Stage;
use crate::config::Origin;

const URL: &str = "jdbc:postgresql://postgres:5432/transfer?user=transfer";

fn password(stage: &Stage) -> Option<String> {
    stage.load().unwrap().settings.database.password.map(|secret| secret.expose().to_owned())
}

#[test]
fn the_database_of_the_document_wins_over_files_and_ours_over_it() {
    let stage = Stage::new().project("[database]\nurl = \"sqlite://file.db\"\n");
    assert_eq!(stage.value("database.url").shown, "sqlite://file.db");

    let stage = stage.env("SPRING_DATASOURCE_URL", URL);
    let value = stage.value("database.url");
    assert_eq!((&*value.shown, value.origin), (URL, Origin::Env("SPRING_DATASOURCE_URL".to_owned())));

    let stage = stage.env("TIDEMILL_DATABASE_URL", "postgres://me@db/app");
    assert_eq!(stage.value("database.url").shown, "postgres://me@db/app");
    let stage = stage.flag("database.url", "--database", "sqlite://flag.db");
    assert_eq!(stage.value("database.url").origin, Origin::Flag("--database"));
    let empty = Stage::new().env("SPRING_DATASOURCE_URL", "");
    assert_eq!(empty.value("database.url").origin, Origin::Default);
}

#[test]
fn a_password_in_it_is_hidden() {
    let stage = Stage::new().env("SPRING_DATASOURCE_URL", "jdbc:postgresql://h/d?user=u&password=sesame");

    assert_eq!(stage.value("database.url").shown, "jdbc:postgresql://h/d?user=u&password=***");
    assert!(!format!("{:?}", stage.load().unwrap()).contains("sesame"));
}

#[test]
fn its_password_comes_with_it_unless_ours_is_there() {
    let stage =
        Stage::new().env("SPRING_DATASOURCE_URL", URL).env("SPRING_DATASOURCE_PASSWORD", "open sesame");

    assert_eq!(password(&stage).as_deref(), Some("open sesame"));
    let value = stage.value("database.password");
    assert_eq!((&*value.shown, value.origin), ("***", Origin::Env("SPRING_DATASOURCE_PASSWORD".to_owned())));
    let stage = stage.env("TIDEMILL_DATABASE_PASSWORD", "ours");
    assert_eq!(password(&stage).as_deref(), Some("ours"));
}

#[test]
fn its_password_is_not_taken_for_another_database() {
    let spring = || Stage::new().env("SPRING_DATASOURCE_PASSWORD", "open sesame");
    assert_eq!(password(&spring()), None);

    let file = "[database]\nurl = \"postgres://me@db/app\"\npassword = \"env:OWN\"\n";
    assert_eq!(password(&spring().project(file).env("OWN", "own")).as_deref(), Some("own"));

    let both = || spring().env("SPRING_DATASOURCE_URL", URL);
    assert_eq!(password(&both().env("TIDEMILL_DATABASE_URL", "postgres://me:own@db/app")), None);
    let named = both().file("project/url", "postgres://me:own@db/app\n");
    assert_eq!(password(&named.env("TIDEMILL_DATABASE_URL_FILE", "url")), None);
}
