//! Callers in the form of AWS Lambda, and what they are told about pools.

use super::stage::Stage;
use crate::config::{LambdaSignature, Unknown};
use tidemill_domain::code::Code;

const KEY: &str = "[lambda.keys.etl]\nid = \"AKIDETL\"\nsecret = \"env:SECRET\"\n";
const SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";

#[test]
fn a_key_is_read_with_its_secret_and_shown_without() {
    let text = format!("[lambda]\nfunction = \"agent\"\nsignature = \"verify\"\n{KEY}");
    let loaded = Stage::new().env("SECRET", SECRET).project(text).load().unwrap();

    let (lambda, keys) = (&loaded.settings.lambda, &loaded.settings.lambda_keys);
    assert_eq!((lambda.function.as_str(), lambda.signature), ("agent", LambdaSignature::Verify));
    assert_eq!((keys[0].name.as_str(), keys[0].key.id()), ("etl", "AKIDETL"));
    assert!(!format!("{loaded:?}").contains(SECRET));
    let shown = |path: &str| loaded.sections.iter().find(|value| value.path == path).unwrap().shown.clone();
    assert_eq!(
        (shown("lambda.keys.etl.id"), shown("lambda.keys.etl.secret")),
        ("AKIDETL".into(), "***".into())
    );
}

#[test]
fn nothing_is_signed_and_no_pool_is_guessed_unless_somebody_says_so() {
    let settings = Stage::new().load().unwrap().settings;
    assert_eq!(
        (settings.lambda.function.as_str(), settings.lambda.signature),
        ("emr-batch-agent", LambdaSignature::Off)
    );
    assert_eq!((settings.pools.compat_available, settings.pools.unknown), (false, Unknown::Refuse));

    let text = "[pools]\ncompat_available = true\nunknown = \"allow\"\n";
    let pools = Stage::new().project(text).load().unwrap().settings.pools;
    assert_eq!((pools.compat_available, pools.unknown), (true, Unknown::Allow));
}

#[test]
fn what_is_missing_weak_misspelt_or_open_is_refused() {
    let second = KEY.replace("etl", "other");
    for (text, code) in [
        ("[lambda.keys.etl]\nid = \"AKIDETL\"\n", Code::BadValue),
        ("[lambda.keys.etl]\nsecret = \"env:SECRET\"\n", Code::BadValue),
        ("[lambda.keys.etl]\nid = \"a/b\"\nsecret = \"env:SECRET\"\n", Code::BadValue),
        ("[lambda.keys.etl]\nid = \"AKID\"\nsecret = \"env:SHORT\"\n", Code::BadValue),
        ("[lambda.keys.etl]\nid = \"AKID\"\nsecret = \"in the open\"\n", Code::OpenSecret),
        ("[lambda.keys.etl]\nid = \"AKID\"\nsecrte = \"env:SECRET\"\n", Code::UnknownKey),
        ("[lambda.kees.etl]\nid = \"AKID\"\n", Code::UnknownKey),
        ("[lambda]\nsignature = \"maybe\"\n", Code::BadValue),
        ("[lambda]\nfunktion = \"f\"\n", Code::UnknownKey),
        ("[pools]\nunknown = \"perhaps\"\n", Code::BadValue),
        (&format!("{KEY}{second}"), Code::BadValue),
    ] {
        let stage = Stage::new().env("SECRET", SECRET).env("SHORT", "short");
        let error = stage.project(text).load().unwrap_err();
        assert!(error.problems().iter().any(|problem| problem.code() == code), "{text}: {error:?}");
        assert!(!format!("{error:?}").contains(SECRET), "{text}");
    }
}
