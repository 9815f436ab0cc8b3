//! The section `pools`, and the variables of the document that say the same.

use super::stage::Stage;
use crate::config::{Origin, key};
use std::time::Duration;

/// Key, its variable in the document, a text for it, and what that shows as.
const DOCUMENT: [(&str, &str, &str, &str); 7] = [
    ("pools.default_threshold_percent", "DEFAULT_THRESHOLD_PERCENT", "90", "90"),
    ("pools.default_wait", "DEFAULT_WAIT_SECONDS", "45", "45s"),
    ("pools.max_wait", "MAX_WAIT_SECONDS", "600", "10m"),
    ("pools.default_units", "DEFAULT_PARALLEL", "4", "4"),
    ("pools.min_units", "MIN_PARALLEL", "3", "3"),
    ("pools.registry_view", "EMR_AGENT_TABLE_REGISTRY", "registry", "registry"),
    ("pools.limits_view", "EMR_AGENT_TABLE_LIMITS", "limits", "limits"),
];

#[test]
fn nothing_at_all_gives_the_defaults_of_the_document() {
    let pools = Stage::new().load().unwrap().settings.pools;

    assert_eq!((pools.default_threshold_percent, pools.default_units, pools.min_units), (95, 1, 2));
    assert_eq!((pools.default_wait, pools.max_wait), (Duration::from_secs(30), Duration::from_secs(300)));
    assert_eq!(
        pools.history,
        Duration::from_secs(8 * 86_400),
        "advice needs three nights, and a week has seven"
    );
    assert_eq!(
        (&*pools.registry_view, &*pools.limits_view),
        ("emr_connection_registry", "emr_connection_limits")
    );
}

#[test]
fn the_variables_of_the_document_are_read_and_named() {
    for (path, name, text, shown) in DOCUMENT {
        let value = Stage::new().env(name, text).value(path);

        assert_eq!((&*value.shown, value.origin), (shown, Origin::Env(name.to_owned())), "{path}");
        assert_eq!(key::find(path).unwrap().compat_variable, Some(name));
    }
    let of_pools = key::all().filter(|key| key.path.starts_with("pools."));
    assert_eq!(of_pools.filter(|key| key.compat_variable.is_some()).count(), DOCUMENT.len());
}

#[test]
fn a_variable_of_ours_wins_over_the_documents_and_that_over_a_file() {
    let stage = Stage::new().project("[pools]\nmax_wait = \"2m\"\n");
    assert_eq!(stage.value("pools.max_wait").shown, "2m");

    let stage = stage.env("MAX_WAIT_SECONDS", "180");
    assert_eq!(stage.value("pools.max_wait").shown, "3m");

    // In whichever order the environment has them.
    let stage = stage.env("TIDEMILL_POOLS_MAX_WAIT", "4m");
    assert_eq!(stage.value("pools.max_wait").origin, Origin::Env("TIDEMILL_POOLS_MAX_WAIT".to_owned()));
    let stage = Stage::new().env("TIDEMILL_POOLS_MAX_WAIT", "4m").env("MAX_WAIT_SECONDS", "180");
    assert_eq!(stage.value("pools.max_wait").shown, "4m");
}

#[test]
fn a_bad_value_is_refused_by_the_name_that_brought_it() {
    let problem = Stage::new().env("DEFAULT_THRESHOLD_PERCENT", "0.95").problem();

    let text = format!("{problem} {}", problem.why());
    assert!(text.contains("DEFAULT_THRESHOLD_PERCENT") && text.contains("from 1 to 100"), "{text}");
    assert_eq!(Stage::new().env("DEFAULT_PARALLEL", "").value("pools.default_units").shown, "1");
}
