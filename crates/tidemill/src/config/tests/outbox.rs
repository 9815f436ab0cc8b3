//! The section `outbox`, and the names of the document that say the same.

use super::stage::Stage;
use crate::config::{Events, Origin, key};
use std::time::Duration;
use tidemill_domain::outbox::instance;

/// The table of the document, as its own configuration has it.
const DOCUMENT: &str = "
    [app.outbox.relay]
    batchSize = 400
    fixedDelayMs = 2000
    initialDelayMs = 5000
    threadPoolSize = 4
    timeoutSeconds = 7
    baseBackoffMs = 2500
    maxBackoffMs = 300000
    slowProcessingThresholdMs = 1500
    instanceId = 1
    totalInstances = 3
";

#[test]
fn nothing_at_all_gives_the_defaults() {
    let settings = Stage::new().load().unwrap().settings;
    let outbox = settings.outbox;

    assert_eq!((outbox.sink, outbox.max_record), (None, None));
    assert_eq!((outbox.batch_size, outbox.senders, outbox.max_attempts), (500, 1, 10));
    assert_eq!((outbox.poll, outbox.initial_delay), (Duration::from_secs(1), Duration::ZERO));
    assert_eq!((outbox.timeout, outbox.slow_batch), (Duration::from_secs(10), Duration::from_secs(3)));
    assert_eq!((outbox.base_backoff, outbox.max_backoff), (Duration::from_secs(5), Duration::from_secs(600)));
    assert_eq!((outbox.lease, outbox.keep_for), (Duration::from_secs(5), Duration::from_secs(7 * 86_400)));
    assert_eq!(outbox.keep_seen_for, Duration::from_secs(30 * 86_400));
    assert_eq!(outbox.partition_rows, 1_000_000);
    assert_eq!((outbox.instance_id, outbox.total_instances), (None, None));
    assert_eq!((settings.jobs.events, settings.pools.events), (Events::Off, Events::Off));
}

#[test]
fn the_table_of_the_document_is_read_with_its_units() {
    let outbox = Stage::new().project(DOCUMENT).load().unwrap().settings.outbox;

    assert_eq!((outbox.batch_size, outbox.senders), (400, 4));
    assert_eq!((outbox.poll, outbox.initial_delay), (Duration::from_secs(2), Duration::from_secs(5)));
    assert_eq!((outbox.timeout, outbox.slow_batch), (Duration::from_secs(7), Duration::from_millis(1500)));
    assert_eq!(
        (outbox.base_backoff, outbox.max_backoff),
        (Duration::from_millis(2500), Duration::from_secs(300))
    );
    assert_eq!((outbox.instance_id, outbox.total_instances), (Some(1), Some(3)));
}

#[test]
fn the_variables_of_the_document_win_over_files_and_ours_over_them() {
    let stage = Stage::new().project(DOCUMENT).env("RELAY_INSTANCE_ID", "2");
    let value = stage.value("outbox.instance_id");
    assert_eq!((&*value.shown, value.origin), ("2", Origin::Env("RELAY_INSTANCE_ID".to_owned())));
    assert_eq!(stage.value("outbox.total_instances").shown, "3");

    let variable = |path: &str| key::find(path).unwrap().compat_variable;
    assert_eq!(variable("outbox.instance_id"), Some(instance::ID_VARIABLE));
    assert_eq!(variable("outbox.total_instances"), Some(instance::TOTAL_VARIABLE));

    let stage = stage.env("TIDEMILL_OUTBOX_INSTANCE_ID", "0");
    assert_eq!(stage.value("outbox.instance_id").shown, "0");

    let stage = stage.flag("outbox.instance_id", "--instance", "1");
    assert_eq!(stage.value("outbox.instance_id").origin, Origin::Flag("--instance"));
}

#[test]
fn a_stronger_file_wins_by_whichever_name() {
    let ours = "[outbox]\nbatch_size = 300\n";

    let stage = Stage::new().user(DOCUMENT).project(ours);
    assert_eq!(stage.value("outbox.batch_size").shown, "300");
    let stage = Stage::new().user(ours).project(DOCUMENT);
    assert_eq!(stage.value("outbox.batch_size").shown, "400");
}

#[test]
fn both_names_in_one_file_must_say_the_same() {
    let stage = Stage::new().project(format!("[outbox]\npoll = \"2s\"\n{DOCUMENT}"));
    assert_eq!(stage.value("outbox.poll").shown, "2s");

    // In whichever order.
    for text in
        [format!("[outbox]\npoll = \"3s\"\n{DOCUMENT}"), format!("{DOCUMENT}\n[outbox]\npoll = \"3s\"")]
    {
        let stage = Stage::new().project(text);

        let problem = stage.problem();

        let text = stage.short(format!("{problem} {} {}", problem.why(), problem.fix()));
        assert!(text.contains("app.outbox.relay.fixedDelayMs cannot be \"2000ms\""), "{text}");
        assert!(text.contains("outbox.poll is the same setting and is \"3s\""), "{text}");
    }
}

#[test]
fn what_the_document_does_not_have_is_refused_with_what_it_has() {
    let problem = Stage::new().project("[app.outbox.relay]\nbatchsize = 1\n").problem();
    assert!(problem.fix().contains("app.outbox.relay.batchSize"), "{}", problem.fix());

    for text in ["app = 1", "[app]\noutbox = 1", "[app.outbox.relay.batchSize]\nx = 1", "[app.other]\nx = 1"]
    {
        assert!(Stage::new().project(text).load().is_err(), "{text}");
    }
    let problem = Stage::new().project("[app.outbox.relay]\ntimeoutSeconds = 0\n").problem();
    assert!(problem.to_string().contains("outbox.timeout cannot be \"0s\""), "{problem}");
}
