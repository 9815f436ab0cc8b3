//! All settings with a fixed path. Each key is declared once: field, type, default, what it accepts, and description.
//!
//! A declaration makes the field, its place in a TOML file, its environment variable and its line in the configuration
//! that `tidemill init` writes. `named.rs` and `alert.rs` declare the tables that a file has once per name.

use super::alert::Alert;
use super::choice::{
    Auth, ColorChoice, Compression, Events, Init, KafkaMechanism, KafkaSecurity, LambdaSignature, LogFormat,
    LogLevel, Output, Pooler, RenderCorrection, RenderDialect, Synchronous, Tls, Unknown,
};
use super::key::tables;
use super::kind::Kind::{Number, Path, Period, Text, Url, WebUrl};
use super::named::{ConnectionSettings, IssuerSettings, RenderKey};
use super::secret::Secret;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use tidemill_engine::pool::{OnDemand, Probe};
use tidemill_kafka::Route;
use tidemill_server::lambda::CallerKey;

/// Every setting: the tables with a fixed path, then those that a file has once per name.
#[derive(Clone, Debug)]
pub struct Settings {
    pub database: Database,
    pub process: Process,
    pub server: Server,
    pub jobs: Jobs,
    pub pools: Pools,
    pub outbox: Outbox,
    pub kafka: Kafka,
    pub render: Render,
    pub lambda: Lambda,
    pub telemetry: Telemetry,
    pub log: Log,
    pub output: Output,
    pub color: ColorChoice,
    pub alert: Alert,
    /// Issuers of the JSON Web Tokens that the server accepts, by name.
    pub issuers: BTreeMap<String, IssuerSettings>,
    /// Databases that job files read from, by name.
    pub connections: BTreeMap<String, ConnectionSettings>,
    /// Keys that sign AWS Lambda calls to the server.
    pub lambda_keys: Vec<CallerKey>,
    /// Programs that count the sessions of suspect leases.
    pub probes: Vec<Probe>,
    /// Programs that add or remove capacity.
    pub on_demand: Vec<OnDemand>,
    /// Kafka topics by event type.
    pub routes: Vec<Route>,
    /// Keys that encrypt render data.
    pub render_keys: Vec<RenderKey>,
}

tables! {
    pub struct Database in "database." {
        url or "SPRING_DATASOURCE_URL": Secret = "sqlite://tidemill.db", Url => "Database URL.";
        password or "SPRING_DATASOURCE_PASSWORD": Option<Secret> =>
            "Database password, if it is not part of the URL.";
        max_connections: u32 = "10", Number(1, 1000) => "Maximum number of database connections per process.";
        init: Init = "embedded" => "When to create or upgrade the schema automatically.";
        pooler: Pooler = "auto" => "Connection pooler in front of PostgreSQL.";
        connect_timeout: Duration = "5s", Period("100ms", "10m") => "Timeout for connecting to the database.";
        busy_timeout: Duration = "5s", Period("0s", "10m") =>
            "Timeout for a lock: on the SQLite file, or on a row in PostgreSQL.";
        sqlite_synchronous: Synchronous = "full" => "Whether a commit to SQLite waits until it is on disk.";
    }

    pub struct Process in "process." {
        name: Option<String>, Text(200) => "Name of this process in lists; host and process id if not set.";
        lease: Option<Duration>, Period("1s", "1h") =>
            "Heartbeat timeout: how long a silent process counts as alive; 7s on PostgreSQL and 15s on SQLite if not set.";
    }

    pub struct Server in "server." {
        listen: SocketAddr = "127.0.0.1:7790" => "Listen address of the server.";
        base_path: String = "", Path => "URL prefix.";
        auth: Auth = "auto" => "Require authentication.";
        instance: String = "tidemill", Text(60) => "Name of this installation on every page.";
        tls: Tls = "none" => "Whether a proxy in front of the server terminates TLS.";
        emf: bool = "false" => "Print the metrics of pools in CloudWatch's embedded metric format.";
        max_connections_per_address: Option<u32>, Number(1, 10_000) =>
            "Maximum number of connections per client address; half of all if not set.";
    }

    pub struct Jobs in "jobs." {
        max_running: u32 = "32", Number(1, 1000) =>
            "Maximum number of executions that a server runs at once.";
        max_partitions: u32 = "4", Number(0, 1000) =>
            "Maximum number of partitions that a server runs at once for other processes.";
        folder: Option<PathBuf> => "Folder with job files. If it is not set, `jobs` is used if that folder exists.";
        roots: Option<Vec<PathBuf>> => "Folders that job files may read and write, separated by semicolons.";
        log_dir: Option<PathBuf> =>
            "Folder for the output of command and Spark steps; tidemill-logs beside the SQLite file or in the working folder if not set.";
        spool: Option<PathBuf> =>
            "Folder for unfinished files of object stores; tidemill-spool beside the SQLite file or in the working folder if not set.";
        keep_for: Option<Duration>, Period("1h", "3650d") =>
            "How long a server keeps finished job instances; forever if not set.";
        keep_instances: Option<u32>, Number(1, 1_000_000) =>
            "Number of newest instances that a server keeps per job; all if not set.";
        events: Events = "off" => "Write job events to the outbox.";
    }

    pub struct Pools in "pools." {
        default_threshold_percent or "DEFAULT_THRESHOLD_PERCENT": u32 = "95", Number(1, 100) =>
            "Usage limit of a new pool, in percent.";
        default_wait or "DEFAULT_WAIT_SECONDS": Duration = "30s", Period("1s", "1h") =>
            "Shortest polling delay for pool clients.";
        max_wait or "MAX_WAIT_SECONDS": Duration = "5m", Period("1s", "1d") =>
            "Longest polling delay for pool clients.";
        default_units or "DEFAULT_PARALLEL": u32 = "1", Number(1, 1_000_000) =>
            "Default units of a request to a new pool.";
        min_units or "MIN_PARALLEL": u32 = "2", Number(1, 1_000_000) =>
            "Smallest grant when a new pool downgrades a request.";
        history: Duration = "8d", Period("1h", "3650d") => "How long ended requests and the log of decisions are kept.";
        registry_view or "EMR_AGENT_TABLE_REGISTRY": String = "emr_connection_registry", Text(63) =>
            "Database view of the tickets, for other tools.";
        limits_view or "EMR_AGENT_TABLE_LIMITS": String = "emr_connection_limits", Text(63) =>
            "Database view of the pool limits, for other tools.";
        compat_available: bool = "false" =>
            "Count `available` of a grant up to the end of the pool, as the EMR Batch Agent does.";
        unknown: Unknown = "refuse" => "How EMR Batch Agent requests for an unknown pool are answered.";
        events: Events = "off" => "Write pool events to the outbox.";
    }

    pub struct Outbox in "outbox." {
        sink: Option<String> => "Sink: kafka, file:PATH or stdout; a server runs no relay if not set.";
        batch_size: u32 = "500", Number(1, 10_000) => "Maximum number of events per batch.";
        poll: Duration = "1s", Period("10ms", "1m") => "Longest pause between two polls of a relay.";
        initial_delay: Duration = "0s", Period("0s", "1h") => "Delay before the first poll of a relay.";
        senders: u32 = "1", Number(1, 256) => "Number of parallel sends per batch.";
        timeout: Duration = "10s", Period("100ms", "1h") => "Timeout for one send.";
        base_backoff: Duration = "5s", Period("1ms", "1d") => "Delay before the first retry of an event.";
        max_backoff: Duration = "10m", Period("1ms", "1d") => "Longest delay before a retry of an event.";
        max_attempts: u32 = "10", Number(1, 1_000_000) =>
            "Number of attempts before an event counts as failed.";
        slow_batch: Duration = "3s", Period("1ms", "1d") =>
            "Log a warning if a batch takes longer than this.";
        lease: Duration = "5s", Period("1s", "1h") => "How long a silent relay keeps its slots.";
        keep_for: Duration = "7d", Period("1m", "3650d") => "How long published events are kept.";
        keep_seen_for: Duration = "30d", Period("1m", "3650d") =>
            "How long the inbox remembers processed messages.";
        partition_rows: u32 = "1000000", Number(1_000, 1_000_000_000) =>
            "Events per partition of the event table.";
        max_record: Option<u32>, Number(1_000, 1_000_000_000) =>
            "Largest record that the sink accepts, in bytes; no limit if not set.";
        instance_id or "RELAY_INSTANCE_ID": Option<u32>, Number(0, 1_000_000) =>
            "Number of this relay, if the number of relays is fixed; otherwise relays share the slots evenly.";
        total_instances or "RELAY_TOTAL_INSTANCES": Option<u32>, Number(0, 1_000_000) =>
            "Fixed number of relays.";
        events_topic: String = "tidemill.events", Text(249) => "Topic of job and pool events.";
    }

    pub struct Kafka in "outbox.kafka." {
        bootstrap_servers or "KAFKA_BOOTSTRAP_SERVERS": Option<String> =>
            "Kafka bootstrap servers: HOST:PORT, separated by commas.";
        topic_prefix: Option<String>, Text(200) => "Prefix of every topic.";
        compression: Compression = "lz4" => "Compression of record batches.";
        linger: Duration = "5ms", Period("0s", "1s") => "How long a record waits for others in its batch.";
        cloudevents_source: Option<String>, Text(500) =>
            "The ce_source of events; adds CloudEvents headers to records.";
        options: Option<String> => "Further client options: name=value, separated by commas.";
        transactional: bool = "false" =>
            "Publish in Kafka transactions, so that read_committed consumers see each event once.";
        transactional_id: String = "tidemill-outbox", Text(240) => "Transactional id; unique per database.";
        security: KafkaSecurity = "plaintext" => "Security protocol of the brokers.";
        ssl_ca: Option<PathBuf> => "PEM file with the CA certificates; those of the system if not set.";
        ssl_certificate: Option<PathBuf> => "PEM file with the client certificate.";
        ssl_key: Option<PathBuf> => "PEM file with the client key.";
        ssl_key_password: Option<Secret> => "Password of the client key.";
        sasl_mechanism: KafkaMechanism = "scram-sha-512" => "SASL mechanism.";
        sasl_username: Option<String>, Text(500) => "SASL user name.";
        sasl_password: Option<Secret> => "SASL password.";
    }

    /// Paths and lists are parsed by the commands that use them.
    pub struct Render in "render." {
        url or "NEXRENDER_API_URL": Option<Secret>, WebUrl =>
            "URL of nexrender; a server renders nothing if not set.";
        secret or "NEXRENDER_SECRET": Option<Secret> => "Secret of the nexrender server.";
        dialect: RenderDialect = "auto" => "API dialect of nexrender.";
        worker or "WORKER_ID": Option<String>, Text(200) =>
            "Name of the render worker; the name of the process if not set.";
        capacity: u32 = "1", Number(1, 1000) => "Maximum number of renders per worker.";
        pool: Option<String>, Text(64) =>
            "Pool of After Effects licences; a render needs units of it to start.";
        pool_units: u32 = "1", Number(1, 1_000_000) => "Units of that pool per render.";
        mount or "NAS_MOUNT_PATH": Option<String> => "Mount point of the NAS on this host.";
        mount_check: bool = "true" => "Write only if a file system is mounted there.";
        mount_sentinel: Option<String>, Text(200) =>
            "File in the output folder that identifies the NAS, in place of the mount check.";
        output_folder or "NAS_OUTPUT_DIR": String = "/broadcast/output" =>
            "Output folder, relative to the mount point.";
        staging_folder: Option<String> =>
            "Folder on this host where render nodes leave their files; .staging beside the output if not set.";
        poster_folder: Option<String> =>
            "Folder on this host for poster images; .posters beside the output if not set.";
        paths: Option<String>, Text(8192) =>
            "Path mapping from render nodes to this host: NODE=LOCAL, separated by semicolons.";
        targets: Option<String>, Text(8192) =>
            "Object stores for published files: NAME=URL, separated by semicolons.";
        template_folders or "AEP_TEMPLATE_DIR": Option<String>, Text(8192) =>
            "Folders of After Effects projects, as render nodes see them, separated by semicolons.";
        asset_folders: Option<String>, Text(8192) =>
            "Further folders of images, as render nodes see them, separated by semicolons.";
        schemes: Option<String>, Text(200) =>
            "URL schemes of images besides file, such as https, separated by commas.";
        modules: String = "@nexrender/action-copy" =>
            "Nexrender modules that jobs may use, separated by commas.";
        tags: Option<String>, Text(200) =>
            "Nexrender tags of jobs, by which render nodes choose, separated by commas.";
        zone: String = "UTC", Text(64) => "Time zone of the broadcast date, for renders that set none.";
        lease: Duration = "7s", Period("1s", "1h") => "How long a silent worker keeps its renders.";
        retries or "MAX_RETRIES": u32 = "3", Number(0, 100) => "Number of retries after a temporary failure.";
        base_retry_delay or "BASE_RETRY_DELAY": Duration = "1m", Period("1ms", "1d") =>
            "Delay before the first retry of a render.";
        poll_interval or "POLL_INTERVAL_DEFAULT": Duration = "10s", Period("100ms", "1h") =>
            "Pause between two polls of a worker.";
        poll_interval_idle or "POLL_INTERVAL_IDLE": Duration = "30s", Period("100ms", "1h") =>
            "Pause between two polls after ten that found nothing.";
        max_render_time: Duration = "30m", Period("1s", "1d") => "Timeout for a render on its node.";
        stall_timeout: Duration = "5m", Period("1s", "1d") =>
            "Timeout for a render without progress; set it above the longest encoding.";
        queue_timeout: Duration = "30m", Period("1s", "1d") =>
            "How long a job may wait in nexrender for a node.";
        ffprobe: String = "ffprobe" => "Program that inspects rendered files.";
        ffmpeg: String = "ffmpeg" => "Program that decodes rendered files.";
        correction: RenderCorrection = "revision" =>
            "What happens to the published file of a render that is rendered again: it stays, or is moved aside.";
        events: Events = "off" => "Write render events to the outbox.";
        keep_for: Option<Duration>, Period("1h", "3650d") =>
            "How long a server keeps ended renders; forever if not set. Published files stay.";
        notify: Option<String>, Text(1000) =>
            "Alert channels that hear when a render ends, such as ops or failed:ops, separated by commas.";
        current_key: Option<String>, Text(32) =>
            "Key of render.keys that encrypts render data; the only one if not set.";
    }

    pub struct Lambda in "lambda." {
        function: String = "emr-batch-agent", Text(64) => "Function name of AWS Lambda calls.";
        signature: LambdaSignature = "off" => "Whether AWS Lambda calls must be signed.";
    }

    pub struct Telemetry in "telemetry." {
        endpoint or "OTEL_EXPORTER_OTLP_ENDPOINT": Option<String>, Text(2000) =>
            "URL of a receiver of OTLP over HTTP; traces, metrics and logs are not sent if not set.";
        headers or "OTEL_EXPORTER_OTLP_HEADERS": Option<Secret> =>
            "Headers for the receiver: NAME=VALUE, separated by commas.";
        service_name or "OTEL_SERVICE_NAME": String = "tidemill", Text(200) => "Name of the service in traces.";
        metrics_interval: Duration = "1m", Period("1s", "1h") => "Pause between two deliveries of metrics.";
    }

    pub struct Log in "log." {
        level: LogLevel = "warn" => "Log level.";
        format: LogFormat = "pretty" => "Log format.";
    }

    pub struct Top in "" {
        output: Output = "table" => "Output format.";
        color: ColorChoice = "auto" => "Whether output is coloured.";
    }
}
