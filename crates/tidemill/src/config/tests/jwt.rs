//! Issuers of JSON Web Tokens.

use super::stage::Stage;
use crate::config::{IssuerKey, JwtAlgorithm};
use tidemill_domain::code::Code;

const SHARED: &str = "[jwt.issuers.sso]\nissuer = \"https://sso\"\naudience = \"tidemill\"\nalgorithm = \"hs256\"\nsecret = \"env:SECRET\"\n";

#[test]
fn an_issuer_is_read_with_its_key_and_its_secret_is_masked() {
    let loaded = Stage::new().env("SECRET", "geheim").project(SHARED).load().unwrap();

    let issuer = &loaded.settings.issuers["sso"];
    assert_eq!((issuer.issuer.as_str(), issuer.algorithm), ("https://sso", JwtAlgorithm::Hs256));
    assert!(matches!(issuer.key(), Some(IssuerKey::Shared(secret)) if secret.expose() == "geheim"));
    assert_eq!(issuer.role_claim, "role");
    assert!(!format!("{loaded:?}").contains("geheim"));
    assert!(
        loaded.sections.iter().any(|value| value.path == "jwt.issuers.sso.secret" && value.shown == "***")
    );
}

#[test]
fn the_key_has_to_be_of_the_kind_that_the_algorithm_needs() {
    let with = |lines: &str| format!("[jwt.issuers.sso]\nissuer = \"i\"\naudience = \"a\"\n{lines}");
    for lines in [
        "algorithm = \"hs256\"",
        "algorithm = \"hs256\"\npublic_key = \"/key.pem\"",
        "secret = \"env:SECRET\"",
        "algorithm = \"es256\"",
    ] {
        let problem = Stage::new().env("SECRET", "geheim").project(with(lines)).problem();
        assert_eq!(problem.code(), Code::BadValue, "{lines}");
    }
    assert!(Stage::new().project(with("public_key = \"/key.pem\"")).load().is_ok());
}

#[test]
fn what_is_missing_misspelt_or_open_is_refused() {
    for (text, code) in [
        ("[jwt.issuers.sso]\naudience = \"a\"\npublic_key = \"/k\"", Code::BadValue),
        ("[jwt.issuers.sso]\nissuer = \"i\"\npublic_key = \"/k\"", Code::BadValue),
        ("[jwt.issuers.sso]\nissuer = \"i\"\naudiense = \"a\"", Code::UnknownKey),
        ("[jwt.isuers.sso]\nissuer = \"i\"", Code::UnknownKey),
        ("[jwt.issuers.sso]\nalgorithm = \"none\"", Code::BadValue),
        ("[jwt.issuers.sso]\nalgorithm = \"hs256\"\nsecret = \"in the open\"", Code::OpenSecret),
    ] {
        let error = Stage::new().project(text).load().unwrap_err();
        assert!(error.problems().iter().any(|problem| problem.code() == code), "{text}: {error:?}");
    }
}
