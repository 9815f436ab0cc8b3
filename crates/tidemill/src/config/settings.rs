//! All settings: each key is declared once, with its type, its kind, its default and its description.
//!
//! A declaration makes a field, its place in a TOML file, its environment variable, its line in the configuration that
//! `tidemill init` writes, and what is accepted.

use super::alert::Alert;
use super::check::{Field, Values};
use super::choice::{
    Auth, ColorChoice, Compression, Events, Init, KafkaMechanism, KafkaSecurity, LambdaSignature, LogFormat,
    LogLevel, Output, Pooler, RenderDialect, Synchronous, Tls, Unknown,
};
use super::key::{Key, Kind, duration, number, text};
use super::named::{ConnectionSettings, IssuerSettings, RenderKey};
use super::secret::Secret;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use tidemill_engine::pool::Probe;
use tidemill_kafka::Route;
use tidemill_server::lambda::CallerKey;

/// Every setting: the tables of keys, then the tables that a file has once per name.
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
    pub log: Log,
    pub output: Output,
    pub color: ColorChoice,
    pub alert: Alert,
    /// Whose JSON Web Tokens the server accepts.
    pub issuers: Vec<IssuerSettings>,
    /// Databases that job files name.
    pub connections: Vec<ConnectionSettings>,
    /// Whose signed calls in the form of AWS Lambda the server accepts.
    pub lambda_keys: Vec<CallerKey>,
    /// Programs that look after leases in doubt.
    pub probes: Vec<Probe>,
    /// Which topic of Kafka events of a type go to.
    pub routes: Vec<Route>,
    /// Keys with which the data of renders is encrypted.
    pub render_keys: Vec<RenderKey>,
}

/// Declares a struct for each table of keys, by what their paths begin with: `field: type, kind, default, description`. A
/// field without a default is an `Option`.
macro_rules! settings {
    ($(
        $(#[$about:meta])*
        $prefix:literal $name:ident {
            $($field:ident: $type:ty, $kind:expr, $default:expr, $doc:literal;)+
        }
    )+) => {
        $(
            $(#[$about])*
            #[derive(Clone, PartialEq, Eq, Debug)]
            pub struct $name {
                $(#[doc = $doc] pub $field: $type,)+
            }

            impl $name {
                const KEYS: &'static [Key] = &[$(Key {
                    path: concat!($prefix, stringify!($field)),
                    kind: $kind,
                    default: $default,
                    doc: $doc,
                },)+];

                pub(super) fn read(values: &Values) -> Self {
                    Self { $($field: Field::read(values.get(concat!($prefix, stringify!($field)))),)+ }
                }
            }
        )+

        /// The keys of each table, in the order in which they are shown.
        pub(super) static TABLES: &[&[Key]] = &[$($name::KEYS,)+];
    };
}

settings! {
    /// How the database is reached and used.
    "database." Database {
        url: Secret, Kind::Url, Some("sqlite://tidemill.db"),
            "The database that holds everything.";
        password: Option<Secret>, Kind::Secret, None,
            "The password for the database, so that it need not stand in the URL.";
        max_connections: u32, number(1, 1000), Some("10"),
            "Most connections that one process opens to the database.";
        init: Init, Kind::Word(Init::NAMES), Some("embedded"),
            "When the schema is created or upgraded without being asked.";
        pooler: Pooler, Kind::Word(Pooler::NAMES), Some("auto"),
            "What kind of connection pooler stands before PostgreSQL.";
        connect_timeout: Duration, duration(100, 600), Some("5s"),
            "How long to wait for a connection to the database.";
        busy_timeout: Duration, duration(0, 600), Some("5s"),
            "How long to wait for a lock: of the SQLite file, or of a row in PostgreSQL.";
        sqlite_synchronous: Synchronous, Kind::Word(Synchronous::NAMES), Some("full"),
            "Whether a commit to SQLite waits until it is on the disk.";
    }

    /// How this process takes part.
    "process." Process {
        name: Option<String>, text(200), None,
            "The name of this process in lists; host and process id when not set.";
        lease: Duration, duration(1_000, 3_600), Some("15s"),
            "How long a silent process still counts as alive.";
    }

    /// How the server listens.
    "server." Server {
        listen: SocketAddr, Kind::Address, Some("127.0.0.1:7790"),
            "Where the server listens.";
        base_path: String, Kind::Path, Some(""),
            "What stands before every path of the server.";
        auth: Auth, Kind::Word(Auth::NAMES), Some("auto"),
            "Whether callers of the server have to prove who they are.";
        instance: String, text(60), Some("tidemill"),
            "What this installation is called on every page.";
        tls: Tls, Kind::Word(Tls::NAMES), Some("none"),
            "Whether browsers reach the server over TLS, through a proxy before it.";
        emf: bool, Kind::Truth, Some("false"),
            "Whether the server prints the metrics of pools in CloudWatch's embedded metric format.";
        max_connections_per_address: Option<u32>, number(1, 10_000), None,
            "Most connections that one address may have; half of all when not set.";
    }

    /// How a server runs jobs.
    "jobs." Jobs {
        max_running: u32, number(1, 1000), Some("32"),
            "Most executions that a server runs at once.";
        max_partitions: u32, number(0, 1000), Some("4"),
            "Most partitions of other processes' executions that a server runs at once.";
        folder: Option<PathBuf>, text(4096), None,
            "A folder whose job files are jobs of this program.";
        roots: Option<Vec<PathBuf>>, text(8192), None,
            "The folders whose files job files may read and write, several separated by semicolons.";
        keep_for: Option<Duration>, duration(3_600_000, 3650 * 86_400), None,
            "How long a server keeps instances of jobs after their end; for ever when not set.";
        keep_instances: Option<u32>, number(1, 1_000_000), None,
            "How many of the newest instances of each job a server keeps; all when not set.";
        events: Events, Kind::Word(Events::NAMES), Some("off"),
            "Whether what happens to executions of jobs becomes events of the outbox.";
    }

    /// What is taken of pools where nothing else is said.
    "pools." Pools {
        default_threshold_percent: u32, number(1, 100), Some("95"),
            "Of a new pool, how much may be in use, in percent.";
        default_wait: Duration, duration(1_000, 3_600), Some("30s"),
            "How long pollers of a pool are told to wait at least.";
        max_wait: Duration, duration(1_000, 86_400), Some("5m"),
            "How long pollers of a pool are told to wait at most.";
        default_units: u32, number(1, 1_000_000), Some("1"),
            "What a request gets of a new pool that does not say how much it wants.";
        min_units: u32, number(1, 1_000_000), Some("2"),
            "The least that a downgrade in a new pool gives.";
        history: Duration, duration(3_600_000, 3650 * 86_400), Some("1d"),
            "How long tickets of pools are kept after their end.";
        registry_view: String, text(63), Some("emr_connection_registry"),
            "The view that shows the tickets of pools to other tools.";
        limits_view: String, text(63), Some("emr_connection_limits"),
            "The view that shows the limits of pools to other tools.";
        compat_available: bool, Kind::Truth, Some("false"),
            "Whether `available` of a grant is counted up to the end of the pool, as the document does.";
        unknown: Unknown, Kind::Word(Unknown::NAMES), Some("refuse"),
            "What becomes of requests of the document's clients for a pool that does not exist.";
        events: Events, Kind::Word(Events::NAMES), Some("off"),
            "Whether what happens to pools becomes events of the outbox.";
    }

    /// How relays publish, and what is kept.
    "outbox." Outbox {
        sink: Option<String>, text(4096), None,
            "Where relays publish: kafka, file:PATH or stdout; a server has no relay when not set.";
        batch_size: u32, number(1, 10_000), Some("500"),
            "Most events that a relay reads and publishes at once.";
        poll: Duration, duration(10, 60), Some("1s"),
            "Longest pause between two looks of a relay.";
        initial_delay: Duration, duration(0, 3_600), Some("0s"),
            "Pause before the first look of a relay.";
        senders: u32, number(1, 256), Some("1"),
            "How many publications of one batch run side by side.";
        timeout: Duration, duration(100, 3_600), Some("10s"),
            "How long one publication may take.";
        base_backoff: Duration, duration(1, 86_400), Some("5s"),
            "How long an event that was refused waits for its second attempt.";
        max_backoff: Duration, duration(1, 86_400), Some("10m"),
            "How long an event that was refused waits for another attempt at most.";
        max_attempts: u32, number(1, 1_000_000), Some("10"),
            "After how many attempts an event is parked.";
        slow_batch: Duration, duration(1, 86_400), Some("3s"),
            "A batch that takes longer is worth a warning.";
        lease: Duration, duration(1_000, 3_600), Some("5s"),
            "How long a silent relay keeps its slots.";
        keep_for: Duration, duration(60_000, 3650 * 86_400), Some("7d"),
            "How long events are kept that were published.";
        keep_seen_for: Duration, duration(60_000, 3650 * 86_400), Some("30d"),
            "How long the inbox remembers which messages consumers have seen.";
        partition_rows: u32, number(1_000, 1_000_000_000), Some("1000000"),
            "Events of one partition of the table of events.";
        max_record: Option<u32>, number(1_000, 1_000_000_000), None,
            "The longest record that the sink takes, in bytes; any when not set.";
        instance_id: Option<u32>, number(0, 1_000_000), None,
            "Which of a fixed number of relays this one is; all share fairly when not set.";
        total_instances: Option<u32>, number(0, 1_000_000), None,
            "How many relays there are, when their number is fixed.";
        events_topic: String, text(249), Some("tidemill.events"),
            "The topic of the events of jobs and pools.";
    }

    /// How Kafka is reached.
    "outbox.kafka." Kafka {
        bootstrap_servers: Option<String>, text(4096), None,
            "The brokers of Kafka to begin with: HOST:PORT, several separated by commas.";
        topic_prefix: Option<String>, text(200), None,
            "What stands before every topic.";
        compression: Compression, Kind::Word(Compression::NAMES), Some("lz4"),
            "How batches of records are made smaller.";
        linger: Duration, duration(0, 1), Some("5ms"),
            "How long a record waits for others to travel with.";
        cloudevents_source: Option<String>, text(500), None,
            "The ce_source of events; with it records have the headers of CloudEvents.";
        options: Option<String>, text(4096), None,
            "Further options of the client: name=value, several separated by commas.";
        transactional: bool, Kind::Truth, Some("false"),
            "Whether events are published in transactions, so that readers of what was committed see each once.";
        transactional_id: String, text(240), Some("tidemill-outbox"),
            "What these transactions are known by; no other database may use it.";
        security: KafkaSecurity, Kind::Word(KafkaSecurity::NAMES), Some("plaintext"),
            "What the brokers ask for.";
        ssl_ca: Option<PathBuf>, text(4096), None,
            "The file with the certificates that brokers are known by, in PEM; those of the system when not set.";
        ssl_certificate: Option<PathBuf>, text(4096), None,
            "The file with the certificate of this client, in PEM.";
        ssl_key: Option<PathBuf>, text(4096), None,
            "The file with the key of this client, in PEM.";
        ssl_key_password: Option<Secret>, Kind::Secret, None,
            "The password of that key.";
        sasl_mechanism: KafkaMechanism, Kind::Word(KafkaMechanism::NAMES), Some("scram-sha-512"),
            "How name and password are shown to the brokers.";
        sasl_username: Option<String>, text(500), None,
            "The name by which the brokers know this client.";
        sasl_password: Option<Secret>, Kind::Secret, None,
            "The password of that name.";
    }

    /// How renders are made. What of it is a path or a list is read when somebody needs it.
    "render." Render {
        url: Option<Secret>, Kind::WebhookUrl, None,
            "Where nexrender is; a server renders nothing when not set.";
        secret: Option<Secret>, Kind::Secret, None,
            "The secret that nexrender asks for.";
        dialect: RenderDialect, Kind::Word(RenderDialect::NAMES), Some("auto"),
            "Which words nexrender uses in its answers.";
        worker: Option<String>, text(200), None,
            "What the render worker of this process calls itself; the name of the process when not set.";
        capacity: u32, number(1, 1000), Some("1"),
            "Most renders that a worker has at once.";
        pool: Option<String>, text(64), None,
            "The pool whose units are licences of After Effects; a render needs some before it begins.";
        pool_units: u32, number(1, 1_000_000), Some("1"),
            "Units of that pool that one render needs.";
        mount: Option<String>, text(4096), None,
            "Where the NAS is mounted on this host.";
        mount_check: bool, Kind::Truth, Some("true"),
            "Whether nothing is written unless something is really mounted there.";
        mount_sentinel: Option<String>, text(200), None,
            "A file in the folder of published files by which the NAS is known, instead of a mount.";
        output_folder: String, text(4096), Some("/broadcast/output"),
            "The folder of the published files, below the mount.";
        staging_folder: Option<String>, text(4096), None,
            "The folder on this host in which nodes leave their files; .staging beside the output when not set.";
        poster_folder: Option<String>, text(4096), None,
            "The folder on this host for a picture out of each file; .posters beside the output when not set.";
        paths: Option<String>, text(8192), None,
            "What nodes call folders of this host: NODE=LOCAL, several separated by semicolons.";
        template_folders: Option<String>, text(8192), None,
            "The folders of After Effects projects as nodes see them, several separated by semicolons.";
        asset_folders: Option<String>, text(8192), None,
            "Further folders of images as nodes see them, several separated by semicolons.";
        schemes: Option<String>, text(200), None,
            "With what addresses of images may begin besides file, such as https; several separated by commas.";
        modules: String, text(4096), Some("@nexrender/action-copy"),
            "The modules of nexrender that jobs may use, several separated by commas.";
        tags: Option<String>, text(200), None,
            "The tags of jobs in nexrender, by which nodes choose; several separated by commas.";
        zone: String, text(64), Some("UTC"),
            "The time zone whose day is the broadcast date of a render that names none.";
        lease: Duration, duration(1_000, 3_600), Some("1m"),
            "How long a silent worker keeps its renders.";
        retries: u32, number(0, 100), Some("3"),
            "How often a render is tried again after a failure that may pass.";
        base_retry_delay: Duration, duration(1, 86_400), Some("1m"),
            "How long a render waits before it is tried again the first time.";
        poll_interval: Duration, duration(100, 3_600), Some("10s"),
            "Pause between two looks of a worker for renders.";
        poll_interval_idle: Duration, duration(100, 3_600), Some("30s"),
            "Pause between two looks after ten that found nothing.";
        max_render_time: Duration, duration(1_000, 86_400), Some("30m"),
            "How long a node may take for a render.";
        stall_timeout: Duration, duration(1_000, 86_400), Some("5m"),
            "How long nothing may be heard of a render; longer than the longest encoding.";
        queue_timeout: Option<Duration>, duration(1_000, 86_400), None,
            "How long a job may wait in nexrender for a node; for ever when not set.";
        ffprobe: String, text(4096), Some("ffprobe"),
            "The program that looks at rendered files.";
        ffmpeg: String, text(4096), Some("ffmpeg"),
            "The program that decodes rendered files.";
        events: Events, Kind::Word(Events::NAMES), Some("off"),
            "Whether the ends of renders become events of the outbox.";
        current_key: Option<String>, text(32), None,
            "Which of the keys of render.keys encrypts the data of renders; the only one when not set.";
    }

    /// How callers in the form of AWS Lambda are known.
    "lambda." Lambda {
        function: String, text(64), Some("emr-batch-agent"),
            "The function that callers in the form of AWS Lambda find.";
        signature: LambdaSignature, Kind::Word(LambdaSignature::NAMES), Some("off"),
            "Whether calls in the form of AWS Lambda have to be signed.";
    }

    /// What is logged.
    "log." Log {
        level: LogLevel, Kind::Word(LogLevel::NAMES), Some("warn"),
            "How much is logged.";
        format: LogFormat, Kind::Word(LogFormat::NAMES), Some("pretty"),
            "What a log line looks like.";
    }

    /// What belongs to no table.
    "" Top {
        output: Output, Kind::Word(Output::NAMES), Some("table"),
            "What the answer of a command looks like.";
        color: ColorChoice, Kind::Word(ColorChoice::NAMES), Some("auto"),
            "Whether output is coloured.";
    }
}
