//! The table `render`, its keys, and the variables of the document.

use super::stage::Stage;
use crate::config::{Origin, RenderDialect};
use std::time::Duration;
use tidemill_domain::code::Code;

/// The environment of the document, as its file has it.
const DOCUMENT: [(&str, &str); 10] = [
    ("NEXRENDER_API_URL", "http://nexrender-server:8080"),
    ("NEXRENDER_SECRET", "open sesame"),
    ("NAS_MOUNT_PATH", "/mnt/nas"),
    ("NAS_OUTPUT_DIR", "/broadcast/output"),
    ("AEP_TEMPLATE_DIR", "D:\\templates"),
    ("MAX_RETRIES", "5"),
    ("BASE_RETRY_DELAY", "90"),
    ("POLL_INTERVAL_DEFAULT", "7"),
    ("POLL_INTERVAL_IDLE", "20"),
    ("WORKER_ID", "7d0c9a52-6b0e-4a0f-9a5e-1f8c3b2d4e5f"),
];

#[test]
fn nothing_at_all_gives_the_documents_numbers() {
    let settings = Stage::new().load().unwrap().settings;

    let render = settings.render;
    assert_eq!((render.url, render.secret, render.mount), (None, None, None));
    assert_eq!((render.dialect, render.capacity, render.mount_check), (RenderDialect::Auto, 1, true));
    assert_eq!((render.retries, render.base_retry_delay), (3, Duration::from_secs(60)));
    let seconds = Duration::from_secs;
    assert_eq!((render.poll_interval, render.poll_interval_idle), (seconds(10), seconds(30)));
    assert_eq!((render.lease, render.max_render_time), (seconds(7), seconds(1800)));
    assert_eq!((render.stall_timeout, render.queue_timeout), (seconds(300), seconds(1800)));
    assert_eq!((&*render.output_folder, &*render.zone), ("/broadcast/output", "UTC"));
    assert_eq!((&*render.ffprobe, &*render.modules), ("ffprobe", "@nexrender/action-copy"));
    assert!(settings.render_keys.is_empty() && render.current_key.is_none());
}

#[test]
fn the_environment_of_the_document_is_read_with_its_seconds() {
    let stage = DOCUMENT.iter().fold(Stage::new(), |stage, (name, text)| stage.env(name, text));

    let loaded = stage.load().unwrap();

    let render = &loaded.settings.render;
    assert_eq!(render.url.as_ref().unwrap().expose(), "http://nexrender-server:8080");
    assert_eq!(render.secret.as_ref().unwrap().expose(), "open sesame");
    assert_eq!((render.mount.as_deref(), &*render.output_folder), (Some("/mnt/nas"), "/broadcast/output"));
    assert_eq!(render.template_folders.as_deref(), Some("D:\\templates"));
    assert_eq!((render.retries, render.base_retry_delay), (5, Duration::from_secs(90)));
    let seconds = Duration::from_secs;
    assert_eq!((render.poll_interval, render.poll_interval_idle), (seconds(7), seconds(20)));
    assert_eq!(render.worker.as_deref(), Some(DOCUMENT[9].1));
    assert!(!format!("{loaded:?}").contains("sesame"));
    assert_eq!(stage.value("render.secret").shown, "***");
    assert_eq!(stage.value("render.url").shown, "http://nexrender-server:8080");
}

#[test]
fn ours_win_over_the_variables_of_the_document_and_those_over_files() {
    let stage = Stage::new().project("[render]\nretries = 1\nmount = \"/from/file\"\n");
    assert_eq!(stage.value("render.retries").shown, "1");

    let stage = stage.env("MAX_RETRIES", "2");
    let value = stage.value("render.retries");
    assert_eq!((&*value.shown, value.origin), ("2", Origin::Env("MAX_RETRIES".to_owned())));
    assert_eq!(stage.value("render.mount").shown, "/from/file");

    let stage = stage.env("TIDEMILL_RENDER_RETRIES", "4");
    assert_eq!(stage.value("render.retries").shown, "4");
    let stage = stage.flag("render.retries", "--retries", "6");
    assert_eq!(stage.value("render.retries").origin, Origin::Flag("--retries"));
}

#[test]
fn keys_are_read_from_where_they_are_named_and_stay_hidden() {
    let stage = Stage::new()
        .project(
            "[render]\ncurrent_key = \"k2\"\n\
             [render.keys.k1]\nsecret = \"env:OLD_KEY\"\n\
             [render.keys.k2]\nsecret = \"file:key\"\n",
        )
        .env("OLD_KEY", &"0f".repeat(32))
        .file("project/key", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n");

    let loaded = stage.load().unwrap();

    let [old, new] = &loaded.settings.render_keys[..] else { panic!("{:?}", loaded.settings.render_keys) };
    assert_eq!((&*old.name, old.expose()), ("k1", [0x0f; 32]));
    assert_eq!((&*new.name, new.expose()[..3].to_vec()), ("k2", vec![0, 1, 2]));
    assert_eq!(loaded.settings.render.current_key.as_deref(), Some("k2"));
    assert!(!format!("{loaded:?}").contains("0f0f"));
    let shown = loaded.sections.iter().find(|value| value.path == "render.keys.k1.secret").unwrap();
    assert_eq!(shown.shown, "***");
}

#[test]
fn what_is_misspelt_open_or_no_key_is_refused() {
    for (text, code, helps) in [
        ("[render]\nurll = \"http://a\"", Code::UnknownKey, "render.url"),
        ("[render]\nsecret = \"open\"", Code::OpenSecret, ""),
        ("[render]\nurl = \"http://user:word@host/\"", Code::OpenSecret, ""),
        ("[render]\nurl = \"nexrender:3000\"", Code::BadValue, "https://host/path"),
        ("[render]\ndialect = \"v2\"", Code::BadValue, "dialect"),
        ("[render]\nlease = \"60\"", Code::BadValue, "60s"),
        ("[render]\ncapacity = 0", Code::BadValue, "capacity"),
        ("[render.keys.k1]\nsecret = \"0f0f\"", Code::OpenSecret, ""),
        ("[render.keys.k1]\nsecret = \"env:SHORT\"", Code::BadValue, "openssl rand"),
        ("[render.keys.2026]\nsecret = \"env:SHORT\"", Code::UnknownKey, ""),
        ("[render]\nkeys = 1", Code::UnknownKey, ""),
    ] {
        let error = Stage::new().project(text).env("SHORT", "c2hvcnQ=").load().unwrap_err();
        let told: Vec<_> = error.problems().iter().filter(|problem| problem.code() == code).collect();
        assert!(!told.is_empty() && told[0].fix().contains(helps), "{text}: {error:?}");
        assert!(!format!("{error:?} {error}").contains("c2hvcnQ"), "{text}");
    }
}
