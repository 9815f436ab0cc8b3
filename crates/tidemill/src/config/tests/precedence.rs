//! Which layer wins, and who is said to have set a value.

use super::stage::Stage;
use crate::config::{Events, Init, LogLevel, Origin, Output, key};
use std::time::Duration;

/// The layers from weakest to strongest. Each sets `process.lease` to its own number of seconds.
const LAYERS: [&str; 6] = ["default", "system", "user", "project", "env", "flag"];

fn seconds(layer: &str) -> usize {
    LAYERS.iter().position(|other| *other == layer).unwrap() + 1
}

fn with(stage: Stage, layer: &str) -> Stage {
    let lease = format!("{}s", seconds(layer));
    let toml = format!("[process]\nlease = \"{lease}\"\n");
    match layer {
        "system" => stage.system(toml),
        "user" => stage.user(toml),
        "project" => stage.project(toml),
        "env" => stage.env("TIDEMILL_PROCESS_LEASE", &lease),
        "flag" => stage.flag("process.lease", "--lease", &lease),
        _ => stage,
    }
}

fn origin(stage: &Stage, layer: &str) -> Origin {
    let file = |name: &str| Origin::File { path: stage.path(name), line: 2, column: 9 };
    match layer {
        "system" => file("system/tidemill.toml"),
        "user" => file("user/tidemill/config.toml"),
        "project" => file("project/tidemill.toml"),
        "env" => Origin::Env("TIDEMILL_PROCESS_LEASE".to_owned()),
        "flag" => Origin::Flag("--lease"),
        _ => Origin::Default,
    }
}

#[test]
fn of_any_two_layers_the_stronger_wins_and_is_named() {
    for (strength, strong) in LAYERS.iter().enumerate() {
        for weak in &LAYERS[..strength] {
            let stage = with(with(Stage::new(), weak), strong);

            let value = stage.value("process.lease");

            assert_eq!(value.shown, format!("{}s", seconds(strong)), "{strong} over {weak}");
            assert_eq!(value.origin, origin(&stage, strong), "{strong} over {weak}");
        }
    }
}

#[test]
fn nothing_at_all_gives_the_defaults() {
    let loaded = Stage::new().load().unwrap();

    let settings = &loaded.settings;
    assert_eq!(settings.database.url.expose(), "sqlite://tidemill.db");
    assert_eq!(settings.database.password, None);
    assert_eq!(settings.database.max_connections, 10);
    assert_eq!(settings.database.init, Init::Embedded);
    assert_eq!(settings.database.connect_timeout, Duration::from_secs(5));
    assert_eq!(settings.process.name, None);
    assert_eq!(settings.process.lease, None);
    assert_eq!((settings.jobs.max_running, settings.jobs.max_partitions), (32, 4));
    assert_eq!((&settings.jobs.folder, &settings.jobs.roots), (&None, &None));
    assert_eq!((settings.jobs.keep_for, settings.jobs.keep_instances), (None, None));
    assert_eq!(settings.log.level, LogLevel::Warn);
    assert_eq!(settings.output, Output::Table);
    assert!(loaded.files.is_empty());
    assert!(loaded.values.iter().all(|value| value.origin == Origin::Default));
    assert!(loaded.values.iter().map(|value| value.key).eq(key::all()));
    for value in &loaded.values {
        assert_eq!(value.shown, value.key.default.unwrap_or_default(), "{}", value.key.path);
    }
}

#[test]
fn without_a_setting_the_folder_jobs_is_used_if_it_exists() {
    let stage = Stage::new();
    std::fs::create_dir(stage.sources.working_folder.join("jobs")).unwrap();
    let folder = |stage: Stage| {
        let loaded = stage.load().unwrap();
        let value = loaded.values.into_iter().find(|value| value.path == "jobs.folder").unwrap();
        (value.shown, value.origin == Origin::Default)
    };

    assert_eq!(folder(stage), ("jobs".to_owned(), true));
    assert_eq!(folder(Stage::new()), (String::new(), true));
    let other = Stage::new().project("[jobs]\nfolder = \"other\"\n");
    std::fs::create_dir(other.sources.working_folder.join("jobs")).unwrap();
    assert_eq!(folder(other), ("other".to_owned(), false));
}

#[test]
fn every_key_can_be_set_in_a_file_and_arrives_in_its_setting() {
    let stage = Stage::new().env("SECRET", "pw").project(
        r#"
        output = "csv"
        color = "never"
        [database]
        url = "postgres://me@db/app"
        password = "env:SECRET"
        max_connections = 1_0
        init = "never"
        pooler = "transaction"
        connect_timeout = "250ms"
        busy_timeout = "0s"
        sqlite_synchronous = "normal"
        [process]
        name = "밤 작업"
        lease = "1m"
        [server]
        listen = "[::1]:8080"
        base_path = "/tm"
        auth = "required"
        instance = "prod"
        tls = "proxy"
        emf = true
        max_connections_per_address = 300
        [jobs]
        max_running = 5
        max_partitions = 0
        folder = "jobs"
        roots = "in; /data/out;"
        log_dir = "/var/log/tidemill"
        spool = "/var/spool/tidemill"
        keep_for = "90d"
        keep_instances = 100
        events = "on"
        [pools]
        default_threshold_percent = 80
        default_wait = "10s"
        max_wait = "2m"
        default_units = 4
        min_units = 1
        history = "2d"
        registry_view = "registry"
        limits_view = "limits"
        compat_available = true
        unknown = "allow"
        events = "on"
        [outbox]
        sink = "file:/var/spool/events.jsonl"
        batch_size = 100
        poll = "2s"
        initial_delay = "3s"
        senders = 2
        timeout = "4s"
        base_backoff = "1s"
        max_backoff = "5m"
        max_attempts = 3
        slow_batch = "6s"
        lease = "7s"
        keep_for = "8d"
        keep_seen_for = "45d"
        partition_rows = 9000
        max_record = 1048576
        instance_id = 1
        total_instances = 3
        events_topic = "ops"
        [outbox.kafka]
        bootstrap_servers = "broker:9092"
        topic_prefix = "shop."
        compression = "zstd"
        linger = "1ms"
        cloudevents_source = "/shop"
        options = "client.id=shop"
        transactional = true
        transactional_id = "shop-outbox"
        security = "sasl_ssl"
        ssl_ca = "ca.pem"
        ssl_certificate = "shop.pem"
        ssl_key = "shop.key"
        ssl_key_password = "env:SECRET"
        sasl_mechanism = "plain"
        sasl_username = "shop"
        sasl_password = "env:SECRET"
        [render]
        url = "http://render01:3000"
        secret = "env:SECRET"
        dialect = "oss"
        worker = "w1"
        capacity = 4
        pool = "licences"
        pool_units = 2
        mount = "/mnt/nas"
        mount_check = false
        mount_sentinel = ".nas"
        output_folder = "/out"
        staging_folder = "/mnt/nas/in"
        poster_folder = "/mnt/nas/pictures"
        paths = 'D:\=/mnt/d'
        targets = "archive=s3://films"
        template_folders = 'D:\templates'
        asset_folders = 'D:\assets'
        schemes = "https"
        modules = "@nexrender/action-copy,own"
        tags = "hd"
        zone = "Asia/Seoul"
        lease = "20s"
        retries = 5
        base_retry_delay = "90s"
        poll_interval = "7s"
        poll_interval_idle = "21s"
        max_render_time = "20m"
        stall_timeout = "4m"
        queue_timeout = "1h"
        ffprobe = "/opt/ffprobe"
        ffmpeg = "/opt/ffmpeg"
        correction = "replace"
        events = "on"
        keep_for = "30d"
        notify = "ops, failed:desk"
        current_key = "k1"
        [lambda]
        function = "agent"
        signature = "verify"
        [telemetry]
        endpoint = "http://otel:4318"
        headers = "env:SECRET"
        service_name = "batch"
        metrics_interval = "15s"
        [log]
        level = "trace"
        format = "json"
        "#,
    );

    let loaded = stage.load().unwrap();

    assert!(loaded.values.iter().all(|value| matches!(value.origin, Origin::File { .. })));
    let shown: Vec<_> = loaded.values.iter().map(|value| value.shown.as_str()).collect();
    assert_eq!(
        shown,
        [
            "postgres://me@db/app",
            "***",
            "10",
            "never",
            "transaction",
            "250ms",
            "0s",
            "normal",
            "밤 작업",
            "1m",
            "[::1]:8080",
            "/tm",
            "required",
            "prod",
            "proxy",
            "true",
            "300",
            "5",
            "0",
            "jobs",
            "in; /data/out;",
            "/var/log/tidemill",
            "/var/spool/tidemill",
            "90d",
            "100",
            "on",
            "80",
            "10s",
            "2m",
            "4",
            "1",
            "2d",
            "registry",
            "limits",
            "true",
            "allow",
            "on",
            "file:/var/spool/events.jsonl",
            "100",
            "2s",
            "3s",
            "2",
            "4s",
            "1s",
            "5m",
            "3",
            "6s",
            "7s",
            "8d",
            "45d",
            "9000",
            "1048576",
            "1",
            "3",
            "ops",
            "broker:9092",
            "shop.",
            "zstd",
            "1ms",
            "/shop",
            "client.id=shop",
            "true",
            "shop-outbox",
            "sasl_ssl",
            "ca.pem",
            "shop.pem",
            "shop.key",
            "***",
            "plain",
            "shop",
            "***",
            "http://render01:3000",
            "***",
            "oss",
            "w1",
            "4",
            "licences",
            "2",
            "/mnt/nas",
            "false",
            ".nas",
            "/out",
            "/mnt/nas/in",
            "/mnt/nas/pictures",
            "D:\\=/mnt/d",
            "archive=s3://films",
            "D:\\templates",
            "D:\\assets",
            "https",
            "@nexrender/action-copy,own",
            "hd",
            "Asia/Seoul",
            "20s",
            "5",
            "1m30s",
            "7s",
            "21s",
            "20m",
            "4m",
            "1h",
            "/opt/ffprobe",
            "/opt/ffmpeg",
            "replace",
            "on",
            "30d",
            "ops, failed:desk",
            "k1",
            "agent",
            "verify",
            "http://otel:4318",
            "***",
            "batch",
            "15s",
            "trace",
            "json",
            "csv",
            "never"
        ]
    );
    assert_eq!(loaded.settings.database.password.unwrap().expose(), "pw");
    assert!(loaded.settings.server.emf);
    assert_eq!(loaded.settings.server.max_connections_per_address, Some(300));
    assert_eq!(loaded.settings.database.busy_timeout, Duration::ZERO);
    assert_eq!(loaded.settings.process.name.as_deref(), Some("밤 작업"));
    assert_eq!((loaded.settings.jobs.max_running, loaded.settings.jobs.max_partitions), (5, 0));
    assert_eq!(loaded.settings.jobs.folder.as_deref(), Some(std::path::Path::new("jobs")));
    assert_eq!(loaded.settings.jobs.roots, Some(vec!["in".into(), "/data/out".into()]));
    assert_eq!(loaded.settings.jobs.keep_for, Some(Duration::from_secs(90 * 86_400)));
    assert_eq!(loaded.settings.jobs.keep_instances, Some(100));
    assert_eq!(loaded.settings.pools.history, Duration::from_secs(2 * 86_400));
    assert_eq!((&*loaded.settings.pools.registry_view, loaded.settings.pools.min_units), ("registry", 1));
    assert_eq!((loaded.settings.jobs.events, loaded.settings.pools.events), (Events::On, Events::On));
    assert_eq!(loaded.settings.outbox.sink.as_deref(), Some("file:/var/spool/events.jsonl"));
    assert_eq!((loaded.settings.outbox.senders, loaded.settings.outbox.max_attempts), (2, 3));
    assert_eq!(loaded.settings.outbox.keep_for, Duration::from_secs(8 * 86_400));
    assert_eq!(loaded.settings.outbox.keep_seen_for, Duration::from_secs(45 * 86_400));
    assert_eq!(
        (loaded.settings.outbox.max_record, &*loaded.settings.outbox.events_topic),
        (Some(1 << 20), "ops")
    );
    let kafka = &loaded.settings.kafka;
    assert_eq!(kafka.linger, Duration::from_millis(1));
    assert_eq!((kafka.transactional, &*kafka.transactional_id), (true, "shop-outbox"));
    assert_eq!(
        [&kafka.ssl_ca, &kafka.ssl_certificate, &kafka.ssl_key]
            .map(|file| file.as_deref().and_then(std::path::Path::to_str)),
        [Some("ca.pem"), Some("shop.pem"), Some("shop.key")]
    );
    assert_eq!(kafka.ssl_key_password.as_ref().unwrap().expose(), "pw");
    let render = &loaded.settings.render;
    assert_eq!(render.secret.as_ref().unwrap().expose(), "pw");
    assert_eq!((render.capacity, render.pool_units, render.mount_check), (4, 2, false));
    assert_eq!((render.queue_timeout, render.events), (Duration::from_secs(3600), Events::On));
    assert_eq!(loaded.files, [stage.path("project/tidemill.toml")]);
}

#[test]
fn a_named_file_replaces_the_projects_but_not_the_others() {
    let stage = Stage::new()
        .system("color = \"never\"")
        .user("output = \"csv\"")
        .project("this is not read")
        .file("project/other.toml", "output = \"json\"")
        .config("other.toml");

    let loaded = stage.load().unwrap();

    assert_eq!(loaded.settings.output, Output::Json);
    let read = ["system/tidemill.toml", "user/tidemill/config.toml", "project/other.toml"];
    assert_eq!(loaded.files, read.map(|name| stage.path(name)));
}

#[test]
fn the_variable_names_a_file_unless_the_flag_does() {
    let stage = Stage::new()
        .file("project/a.toml", "output = \"json\"")
        .file("project/b.toml", "output = \"csv\"")
        .env("TIDEMILL_CONFIG", "a.toml");
    assert_eq!(stage.load().unwrap().settings.output, Output::Json);

    let stage = stage.config("b.toml");
    assert_eq!(stage.load().unwrap().settings.output, Output::Csv);
}

#[test]
fn an_empty_variable_counts_as_unset() {
    let stage =
        Stage::new().project("output = \"csv\"").env("TIDEMILL_OUTPUT", "").env("TIDEMILL_CONFIG", "");
    assert_eq!(stage.load().unwrap().settings.output, Output::Csv);
}

#[test]
fn an_overridden_value_need_not_be_valid() {
    let stage = Stage::new().project("output = \"nonsense\"").env("TIDEMILL_OUTPUT", "json");
    assert_eq!(stage.load().unwrap().settings.output, Output::Json);
}

#[test]
fn the_systems_file_is_read_once_when_it_is_also_the_projects() {
    let mut stage = Stage::new().system("outputt = 1");
    stage.sources.working_folder = stage.path("system");
    assert_eq!(stage.problem().problems().len(), 1);
}
