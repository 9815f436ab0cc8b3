//! Databases that job files name.

use super::stage::Stage;
use tidemill_domain::code::Code;

const SHOP: &str =
    "[connections.shop]\nurl = \"postgres://reader@shop.example/orders\"\npassword = \"env:SHOP\"\n";

#[test]
fn a_connection_is_read_and_its_password_is_nowhere_to_be_seen() {
    let stage = Stage::new()
        .env("SHOP", "geheim")
        .project(format!("{SHOP}[connections.old]\nurl = \"sqlite://o.db\"\n"));
    let loaded = stage.load().unwrap();

    let names: Vec<&String> = loaded.settings.connections.keys().collect();
    assert_eq!(names, ["old", "shop"]);
    let shop = &loaded.settings.connections["shop"];
    assert_eq!(shop.password.as_ref().unwrap().expose(), "geheim");
    assert!(shop.database().unwrap().to_string().contains("shop.example"));
    assert!(!format!("{loaded:?}").contains("geheim"));
    let shown: Vec<_> =
        loaded.sections.iter().filter(|value| value.path.starts_with("connections.shop")).collect();
    assert_eq!(
        (shown[0].shown.as_str(), shown[1].shown.as_str()),
        ("postgres://reader@shop.example/orders", "***")
    );
}

#[test]
fn a_password_comes_from_a_file_too() {
    let toml = SHOP.replace("env:SHOP", "file:pw");

    let loaded = Stage::new().file("project/pw", "geheim\n").project(toml).load().unwrap();

    assert_eq!(loaded.settings.connections["shop"].password.as_ref().unwrap().expose(), "geheim");
}

#[test]
fn what_is_missing_misspelt_open_or_no_database_is_refused() {
    for (text, code, helps) in [
        ("[connections.shop]\npassword = \"env:SHOP\"", Code::BadValue, "add url"),
        ("[connections.shop]\nurl = \"oracle://u@h/d\"", Code::BadValue, "postgres://"),
        (
            "[connections.shop]\nurl = \"postgres://h/d\"\npassword = \"env:SHOP\"",
            Code::BadValue,
            "user@host",
        ),
        ("[connections.shop]\nurl = \"postgres://u:geheim@h/d\"", Code::OpenSecret, "password ="),
        (
            "[connections.shop]\nurl = \"postgres://u@h/d\"\npassword = \"geheim\"",
            Code::OpenSecret,
            "env:NAME",
        ),
        ("[connections.shop]\nurk = \"postgres://u@h/d\"", Code::UnknownKey, "connections.shop.url"),
        ("[connection.shop]\nurl = \"postgres://u@h/d\"", Code::UnknownKey, "connections"),
        ("[connections.Shop]\nurl = \"postgres://u@h/d\"", Code::UnknownKey, ""),
        ("connections = 1", Code::UnknownKey, ""),
    ] {
        let error = Stage::new().env("SHOP", "geheim").project(text).load().unwrap_err();
        let told: Vec<_> = error.problems().iter().filter(|problem| problem.code() == code).collect();
        assert!(
            !told.is_empty() && told[0].fix().contains(helps),
            "{text}: {error:?} {:?}",
            told.first().map(|p| p.fix())
        );
        assert!(!format!("{error:?} {error}").contains("geheim"), "{error:?}");
    }
}
