//! The table of all keys. A new key is one line here and one field in [`Settings`](super::Settings).
//!
//! Every key is a scalar; its path is both its place in a TOML file and, in capitals, its environment
//! variable.

use super::choice::{
    Auth, ColorChoice, Compression, Events, Init, KafkaMechanism, KafkaSecurity, LambdaSignature, LogFormat,
    LogLevel, Output, Pooler, RenderDialect, Synchronous, Tls, Unknown,
};
use std::time::Duration;
use tidemill_domain::duration;
use tidemill_domain::outbox::instance;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A database URL. It may hold a password, and then it is treated as a secret.
    Url,
    /// A text that is secret as a whole.
    Secret,
    Text {
        /// Most characters.
        longest: usize,
    },
    Number {
        least: u32,
        most: u32,
    },
    /// A duration with its unit.
    Duration {
        least: Duration,
        most: Duration,
    },
    /// An address and a port to listen at.
    Address,
    /// The beginning of a path in an address.
    Path,
    /// A number, with a fraction or without.
    Decimal,
    Truth,
    Names,
    /// A program and its arguments.
    Command,
    /// The address of a webhook. A part of it may be a secret, and nobody can tell which.
    WebhookUrl,
    Word(&'static [&'static str]),
}

impl Kind {
    /// What is accepted, as it is told to people.
    pub fn allowed(self) -> String {
        match self {
            Self::Url => {
                "a database URL such as sqlite://tidemill.db or postgres://user@host/database".to_owned()
            }
            Self::Secret => "a secret of one line".to_owned(),
            Self::Text { longest } => {
                format!("text of 1 to {longest} characters without control characters")
            }
            Self::Number { least, most } => format!("a whole number from {least} to {most}"),
            Self::Duration { least, most } => {
                format!("a duration from {} to {}", duration::show(least), duration::show(most))
            }
            Self::Address => "an address with a port, such as 127.0.0.1:7790 or [::1]:7790".to_owned(),
            Self::Path => "a path such as /tidemill without a slash at its end".to_owned(),
            Self::Decimal => "a number such as 5 or 0.25".to_owned(),
            Self::Truth => "true or false".to_owned(),
            Self::Names => "a list of names such as [\"log\"]".to_owned(),
            Self::Command => {
                "a list of a program and its arguments, such as [\"/opt/probe.sh\", \"ADW\"]".to_owned()
            }
            Self::WebhookUrl => "a URL such as https://host/path".to_owned(),
            Self::Word(words) => format!("one of {}", words.join(", ")),
        }
    }
}

/// One key of the configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key {
    /// Its path in a TOML file, with dots.
    pub path: &'static str,
    pub kind: Kind,
    /// Its value when nobody sets it; some keys then have none.
    pub default: Option<&'static str>,
    /// What it is for, in one line.
    pub doc: &'static str,
}

impl Key {
    /// The environment variable that sets it.
    ///
    /// ```
    /// # use tidemill::config::key;
    /// assert_eq!(key::DATABASE_URL.env_name(), "TIDEMILL_DATABASE_URL");
    /// ```
    pub fn env_name(&self) -> String {
        format!("TIDEMILL_{}", self.path.to_uppercase().replace('.', "_"))
    }

    /// The environment variable of the document that sets it too, if there is one.
    ///
    /// ```
    /// # use tidemill::config::key;
    /// assert_eq!(key::POOLS_MAX_WAIT.document_name(), Some("MAX_WAIT_SECONDS"));
    /// ```
    pub fn document_name(&self) -> Option<&'static str> {
        document_name(self.path)
    }

    /// The environment variable that names a file with the value; only for what is or may be secret.
    pub fn env_file_name(&self) -> Option<String> {
        self.may_be_secret().then(|| format!("{}_FILE", self.env_name()))
    }

    /// The last part of its path.
    pub(super) fn leaf(&self) -> &'static str {
        self.path.rsplit('.').next().unwrap_or(self.path)
    }

    /// Whether its value, or a part of it, must not be shown.
    pub fn may_be_secret(&self) -> bool {
        matches!(self.kind, Kind::Url | Kind::Secret | Kind::WebhookUrl)
    }
}

macro_rules! keys {
    ($($name:ident $path:literal, $kind:expr, $default:expr, $doc:literal;)+) => {
        $(
            #[doc = $doc]
            pub static $name: Key = Key { path: $path, kind: $kind, default: $default, doc: $doc };
        )+

        /// All keys, in the order in which they are shown.
        pub static ALL: &[&Key] = &[$(&$name,)+];
    };
}

const fn duration(least_ms: u64, most_secs: u64) -> Kind {
    Kind::Duration { least: Duration::from_millis(least_ms), most: Duration::from_secs(most_secs) }
}

keys! {
    DATABASE_URL "database.url", Kind::Url, Some("sqlite://tidemill.db"),
        "The database that holds everything.";
    DATABASE_PASSWORD "database.password", Kind::Secret, None,
        "The password for the database, so that it need not stand in the URL.";
    DATABASE_MAX_CONNECTIONS "database.max_connections", Kind::Number { least: 1, most: 1000 }, Some("10"),
        "Most connections that one process opens to the database.";
    DATABASE_INIT "database.init", Kind::Word(Init::NAMES), Some("embedded"),
        "When the schema is created or upgraded without being asked.";
    DATABASE_POOLER "database.pooler", Kind::Word(Pooler::NAMES), Some("auto"),
        "What kind of connection pooler stands before PostgreSQL.";
    DATABASE_CONNECT_TIMEOUT "database.connect_timeout", duration(100, 600), Some("5s"),
        "How long to wait for a connection to the database.";
    DATABASE_BUSY_TIMEOUT "database.busy_timeout", duration(0, 600), Some("5s"),
        "How long to wait for a lock: of the SQLite file, or of a row in PostgreSQL.";
    DATABASE_SQLITE_SYNCHRONOUS "database.sqlite_synchronous", Kind::Word(Synchronous::NAMES), Some("full"),
        "Whether a commit to SQLite waits until it is on the disk.";
    PROCESS_NAME "process.name", Kind::Text { longest: 200 }, None,
        "The name of this process in lists; host and process id when not set.";
    PROCESS_LEASE "process.lease", duration(1_000, 3_600), Some("15s"),
        "How long a silent process still counts as alive.";
    SERVER_LISTEN "server.listen", Kind::Address, Some("127.0.0.1:7790"),
        "Where the server listens.";
    SERVER_BASE_PATH "server.base_path", Kind::Path, Some(""),
        "What stands before every path of the server.";
    SERVER_AUTH "server.auth", Kind::Word(Auth::NAMES), Some("auto"),
        "Whether callers of the server have to prove who they are.";
    SERVER_INSTANCE "server.instance", Kind::Text { longest: 60 }, Some("tidemill"),
        "What this installation is called on every page.";
    SERVER_TLS "server.tls", Kind::Word(Tls::NAMES), Some("none"),
        "Whether browsers reach the server over TLS, through a proxy before it.";
    SERVER_EMF "server.emf", Kind::Truth, Some("false"),
        "Whether the server prints the metrics of pools in CloudWatch's embedded metric format.";
    SERVER_MAX_CONNECTIONS_PER_ADDRESS "server.max_connections_per_address",
        Kind::Number { least: 1, most: 10_000 }, None,
        "Most connections that one address may have; half of all when not set.";
    JOBS_MAX_RUNNING "jobs.max_running", Kind::Number { least: 1, most: 1000 }, Some("32"),
        "Most executions that a server runs at once.";
    JOBS_MAX_PARTITIONS "jobs.max_partitions", Kind::Number { least: 0, most: 1000 }, Some("4"),
        "Most partitions of other processes' executions that a server runs at once.";
    JOBS_FOLDER "jobs.folder", Kind::Text { longest: 4096 }, None,
        "A folder whose job files are jobs of this program.";
    JOBS_ROOTS "jobs.roots", Kind::Text { longest: 8192 }, None,
        "The folders whose files job files may read and write, several separated by semicolons.";
    JOBS_KEEP_FOR "jobs.keep_for", duration(3_600_000, 3650 * 86_400), None,
        "How long a server keeps instances of jobs after their end; for ever when not set.";
    JOBS_KEEP_INSTANCES "jobs.keep_instances", Kind::Number { least: 1, most: 1_000_000 }, None,
        "How many of the newest instances of each job a server keeps; all when not set.";
    JOBS_EVENTS "jobs.events", Kind::Word(Events::NAMES), Some("off"),
        "Whether what happens to executions of jobs becomes events of the outbox.";
    POOLS_DEFAULT_THRESHOLD_PERCENT "pools.default_threshold_percent",
        Kind::Number { least: 1, most: 100 }, Some("95"),
        "Of a new pool, how much may be in use, in percent.";
    POOLS_DEFAULT_WAIT "pools.default_wait", duration(1_000, 3_600), Some("30s"),
        "How long pollers of a pool are told to wait at least.";
    POOLS_MAX_WAIT "pools.max_wait", duration(1_000, 86_400), Some("5m"),
        "How long pollers of a pool are told to wait at most.";
    POOLS_DEFAULT_UNITS "pools.default_units", Kind::Number { least: 1, most: 1_000_000 }, Some("1"),
        "What a request gets of a new pool that does not say how much it wants.";
    POOLS_MIN_UNITS "pools.min_units", Kind::Number { least: 1, most: 1_000_000 }, Some("2"),
        "The least that a downgrade in a new pool gives.";
    POOLS_HISTORY "pools.history", duration(3_600_000, 3650 * 86_400), Some("1d"),
        "How long tickets of pools are kept after their end.";
    POOLS_REGISTRY_VIEW "pools.registry_view", Kind::Text { longest: 63 }, Some("emr_connection_registry"),
        "The view that shows the tickets of pools to other tools.";
    POOLS_LIMITS_VIEW "pools.limits_view", Kind::Text { longest: 63 }, Some("emr_connection_limits"),
        "The view that shows the limits of pools to other tools.";
    POOLS_COMPAT_AVAILABLE "pools.compat_available", Kind::Truth, Some("false"),
        "Whether `available` of a grant is counted up to the end of the pool, as the document does.";
    POOLS_UNKNOWN "pools.unknown", Kind::Word(Unknown::NAMES), Some("refuse"),
        "What becomes of requests of the document's clients for a pool that does not exist.";
    POOLS_EVENTS "pools.events", Kind::Word(Events::NAMES), Some("off"),
        "Whether what happens to pools becomes events of the outbox.";
    OUTBOX_SINK "outbox.sink", Kind::Text { longest: 4096 }, None,
        "Where relays publish: kafka, file:PATH or stdout; a server has no relay when not set.";
    OUTBOX_BATCH_SIZE "outbox.batch_size", Kind::Number { least: 1, most: 10_000 }, Some("500"),
        "Most events that a relay reads and publishes at once.";
    OUTBOX_POLL "outbox.poll", duration(10, 60), Some("1s"),
        "Longest pause between two looks of a relay.";
    OUTBOX_INITIAL_DELAY "outbox.initial_delay", duration(0, 3_600), Some("0s"),
        "Pause before the first look of a relay.";
    OUTBOX_SENDERS "outbox.senders", Kind::Number { least: 1, most: 256 }, Some("1"),
        "How many publications of one batch run side by side.";
    OUTBOX_TIMEOUT "outbox.timeout", duration(100, 3_600), Some("10s"),
        "How long one publication may take.";
    OUTBOX_BASE_BACKOFF "outbox.base_backoff", duration(1, 86_400), Some("5s"),
        "How long an event that was refused waits for its second attempt.";
    OUTBOX_MAX_BACKOFF "outbox.max_backoff", duration(1, 86_400), Some("10m"),
        "How long an event that was refused waits for another attempt at most.";
    OUTBOX_MAX_ATTEMPTS "outbox.max_attempts", Kind::Number { least: 1, most: 1_000_000 }, Some("10"),
        "After how many attempts an event is parked.";
    OUTBOX_SLOW_BATCH "outbox.slow_batch", duration(1, 86_400), Some("3s"),
        "A batch that takes longer is worth a warning.";
    OUTBOX_LEASE "outbox.lease", duration(1_000, 3_600), Some("5s"),
        "How long a silent relay keeps its slots.";
    OUTBOX_KEEP_FOR "outbox.keep_for", duration(60_000, 3650 * 86_400), Some("7d"),
        "How long events are kept that were published.";
    OUTBOX_KEEP_SEEN_FOR "outbox.keep_seen_for", duration(60_000, 3650 * 86_400), Some("30d"),
        "How long the inbox remembers which messages consumers have seen.";
    OUTBOX_PARTITION_ROWS "outbox.partition_rows", Kind::Number { least: 1_000, most: 1_000_000_000 }, Some("1000000"),
        "Events of one partition of the table of events.";
    OUTBOX_MAX_RECORD "outbox.max_record", Kind::Number { least: 1_000, most: 1_000_000_000 }, None,
        "The longest record that the sink takes, in bytes; any when not set.";
    OUTBOX_INSTANCE_ID "outbox.instance_id", Kind::Number { least: 0, most: 1_000_000 }, None,
        "Which of a fixed number of relays this one is; all share fairly when not set.";
    OUTBOX_TOTAL_INSTANCES "outbox.total_instances", Kind::Number { least: 0, most: 1_000_000 }, None,
        "How many relays there are, when their number is fixed.";
    OUTBOX_EVENTS_TOPIC "outbox.events_topic", Kind::Text { longest: 249 }, Some("tidemill.events"),
        "The topic of the events of jobs and pools.";
    OUTBOX_KAFKA_BOOTSTRAP_SERVERS "outbox.kafka.bootstrap_servers", Kind::Text { longest: 4096 }, None,
        "The brokers of Kafka to begin with: HOST:PORT, several separated by commas.";
    OUTBOX_KAFKA_TOPIC_PREFIX "outbox.kafka.topic_prefix", Kind::Text { longest: 200 }, None,
        "What stands before every topic.";
    OUTBOX_KAFKA_COMPRESSION "outbox.kafka.compression", Kind::Word(Compression::NAMES), Some("lz4"),
        "How batches of records are made smaller.";
    OUTBOX_KAFKA_LINGER "outbox.kafka.linger", duration(0, 1), Some("5ms"),
        "How long a record waits for others to travel with.";
    OUTBOX_KAFKA_CLOUDEVENTS_SOURCE "outbox.kafka.cloudevents_source", Kind::Text { longest: 500 }, None,
        "The ce_source of events; with it records have the headers of CloudEvents.";
    OUTBOX_KAFKA_OPTIONS "outbox.kafka.options", Kind::Text { longest: 4096 }, None,
        "Further options of the client: name=value, several separated by commas.";
    OUTBOX_KAFKA_TRANSACTIONAL "outbox.kafka.transactional", Kind::Truth, Some("false"),
        "Whether events are published in transactions, so that readers of what was committed see each once.";
    OUTBOX_KAFKA_TRANSACTIONAL_ID "outbox.kafka.transactional_id", Kind::Text { longest: 240 }, Some("tidemill-outbox"),
        "What these transactions are known by; no other database may use it.";
    OUTBOX_KAFKA_SECURITY "outbox.kafka.security", Kind::Word(KafkaSecurity::NAMES), Some("plaintext"),
        "What the brokers ask for.";
    OUTBOX_KAFKA_SSL_CA "outbox.kafka.ssl_ca", Kind::Text { longest: 4096 }, None,
        "The file with the certificates that brokers are known by, in PEM; those of the system when not set.";
    OUTBOX_KAFKA_SSL_CERTIFICATE "outbox.kafka.ssl_certificate", Kind::Text { longest: 4096 }, None,
        "The file with the certificate of this client, in PEM.";
    OUTBOX_KAFKA_SSL_KEY "outbox.kafka.ssl_key", Kind::Text { longest: 4096 }, None,
        "The file with the key of this client, in PEM.";
    OUTBOX_KAFKA_SSL_KEY_PASSWORD "outbox.kafka.ssl_key_password", Kind::Secret, None,
        "The password of that key.";
    OUTBOX_KAFKA_SASL_MECHANISM "outbox.kafka.sasl_mechanism", Kind::Word(KafkaMechanism::NAMES), Some("scram-sha-512"),
        "How name and password are shown to the brokers.";
    OUTBOX_KAFKA_SASL_USERNAME "outbox.kafka.sasl_username", Kind::Text { longest: 500 }, None,
        "The name by which the brokers know this client.";
    OUTBOX_KAFKA_SASL_PASSWORD "outbox.kafka.sasl_password", Kind::Secret, None,
        "The password of that name.";
    RENDER_URL "render.url", Kind::WebhookUrl, None,
        "Where nexrender is; a server renders nothing when not set.";
    RENDER_SECRET "render.secret", Kind::Secret, None,
        "The secret that nexrender asks for.";
    RENDER_DIALECT "render.dialect", Kind::Word(RenderDialect::NAMES), Some("auto"),
        "Which words nexrender uses in its answers.";
    RENDER_WORKER "render.worker", Kind::Text { longest: 200 }, None,
        "What the render worker of this process calls itself; the name of the process when not set.";
    RENDER_CAPACITY "render.capacity", Kind::Number { least: 1, most: 1000 }, Some("1"),
        "Most renders that a worker has at once.";
    RENDER_POOL "render.pool", Kind::Text { longest: 64 }, None,
        "The pool whose units are licences of After Effects; a render needs some before it begins.";
    RENDER_POOL_UNITS "render.pool_units", Kind::Number { least: 1, most: 1_000_000 }, Some("1"),
        "Units of that pool that one render needs.";
    RENDER_MOUNT "render.mount", Kind::Text { longest: 4096 }, None,
        "Where the NAS is mounted on this host.";
    RENDER_MOUNT_CHECK "render.mount_check", Kind::Truth, Some("true"),
        "Whether nothing is written unless something is really mounted there.";
    RENDER_MOUNT_SENTINEL "render.mount_sentinel", Kind::Text { longest: 200 }, None,
        "A file in the folder of published files by which the NAS is known, instead of a mount.";
    RENDER_OUTPUT_FOLDER "render.output_folder", Kind::Text { longest: 4096 }, Some("/broadcast/output"),
        "The folder of the published files, below the mount.";
    RENDER_STAGING_FOLDER "render.staging_folder", Kind::Text { longest: 4096 }, None,
        "The folder on this host in which nodes leave their files; .staging beside the output when not set.";
    RENDER_POSTER_FOLDER "render.poster_folder", Kind::Text { longest: 4096 }, None,
        "The folder on this host for a picture out of each file; .posters beside the output when not set.";
    RENDER_PATHS "render.paths", Kind::Text { longest: 8192 }, None,
        "What nodes call folders of this host: NODE=LOCAL, several separated by semicolons.";
    RENDER_TEMPLATE_FOLDERS "render.template_folders", Kind::Text { longest: 8192 }, None,
        "The folders of After Effects projects as nodes see them, several separated by semicolons.";
    RENDER_ASSET_FOLDERS "render.asset_folders", Kind::Text { longest: 8192 }, None,
        "Further folders of images as nodes see them, several separated by semicolons.";
    RENDER_SCHEMES "render.schemes", Kind::Text { longest: 200 }, None,
        "With what addresses of images may begin besides file, such as https; several separated by commas.";
    RENDER_MODULES "render.modules", Kind::Text { longest: 4096 }, Some("@nexrender/action-copy"),
        "The modules of nexrender that jobs may use, several separated by commas.";
    RENDER_TAGS "render.tags", Kind::Text { longest: 200 }, None,
        "The tags of jobs in nexrender, by which nodes choose; several separated by commas.";
    RENDER_ZONE "render.zone", Kind::Text { longest: 64 }, Some("UTC"),
        "The time zone whose day is the broadcast date of a render that names none.";
    RENDER_LEASE "render.lease", duration(1_000, 3_600), Some("1m"),
        "How long a silent worker keeps its renders.";
    RENDER_RETRIES "render.retries", Kind::Number { least: 0, most: 100 }, Some("3"),
        "How often a render is tried again after a failure that may pass.";
    RENDER_BASE_RETRY_DELAY "render.base_retry_delay", duration(1, 86_400), Some("1m"),
        "How long a render waits before it is tried again the first time.";
    RENDER_POLL_INTERVAL "render.poll_interval", duration(100, 3_600), Some("10s"),
        "Pause between two looks of a worker for renders.";
    RENDER_POLL_INTERVAL_IDLE "render.poll_interval_idle", duration(100, 3_600), Some("30s"),
        "Pause between two looks after ten that found nothing.";
    RENDER_MAX_RENDER_TIME "render.max_render_time", duration(1_000, 86_400), Some("30m"),
        "How long a node may take for a render.";
    RENDER_STALL_TIMEOUT "render.stall_timeout", duration(1_000, 86_400), Some("5m"),
        "How long nothing may be heard of a render; longer than the longest encoding.";
    RENDER_QUEUE_TIMEOUT "render.queue_timeout", duration(1_000, 86_400), None,
        "How long a job may wait in nexrender for a node; for ever when not set.";
    RENDER_FFPROBE "render.ffprobe", Kind::Text { longest: 4096 }, Some("ffprobe"),
        "The program that looks at rendered files.";
    RENDER_FFMPEG "render.ffmpeg", Kind::Text { longest: 4096 }, Some("ffmpeg"),
        "The program that decodes rendered files.";
    RENDER_EVENTS "render.events", Kind::Word(Events::NAMES), Some("off"),
        "Whether the ends of renders become events of the outbox.";
    RENDER_CURRENT_KEY "render.current_key", Kind::Text { longest: 32 }, None,
        "Which of the keys of render.keys encrypts the data of renders; the only one when not set.";
    LAMBDA_FUNCTION "lambda.function", Kind::Text { longest: 64 }, Some("emr-batch-agent"),
        "The function that callers in the form of AWS Lambda find.";
    LAMBDA_SIGNATURE "lambda.signature", Kind::Word(LambdaSignature::NAMES), Some("off"),
        "Whether calls in the form of AWS Lambda have to be signed.";
    LOG_LEVEL "log.level", Kind::Word(LogLevel::NAMES), Some("warn"),
        "How much is logged.";
    LOG_FORMAT "log.format", Kind::Word(LogFormat::NAMES), Some("pretty"),
        "What a log line looks like.";
    OUTPUT "output", Kind::Word(Output::NAMES), Some("table"),
        "What the answer of a command looks like.";
    COLOR "color", Kind::Word(ColorChoice::NAMES), Some("auto"),
        "Whether output is coloured.";
}

/// What the programs of the documents read their environment by. These names say the same as ours, and ours win.
fn document_name(path: &str) -> Option<&'static str> {
    Some(match path {
        "database.url" => "SPRING_DATASOURCE_URL",
        "database.password" => "SPRING_DATASOURCE_PASSWORD",
        "pools.default_threshold_percent" => "DEFAULT_THRESHOLD_PERCENT",
        "pools.default_wait" => "DEFAULT_WAIT_SECONDS",
        "pools.max_wait" => "MAX_WAIT_SECONDS",
        "pools.default_units" => "DEFAULT_PARALLEL",
        "pools.min_units" => "MIN_PARALLEL",
        "pools.registry_view" => "EMR_AGENT_TABLE_REGISTRY",
        "pools.limits_view" => "EMR_AGENT_TABLE_LIMITS",
        "outbox.instance_id" => instance::ID_VARIABLE,
        "outbox.total_instances" => instance::TOTAL_VARIABLE,
        "outbox.kafka.bootstrap_servers" => "KAFKA_BOOTSTRAP_SERVERS",
        "render.url" => "NEXRENDER_API_URL",
        "render.secret" => "NEXRENDER_SECRET",
        "render.worker" => "WORKER_ID",
        "render.mount" => "NAS_MOUNT_PATH",
        "render.output_folder" => "NAS_OUTPUT_DIR",
        "render.template_folders" => "AEP_TEMPLATE_DIR",
        "render.retries" => "MAX_RETRIES",
        "render.base_retry_delay" => "BASE_RETRY_DELAY",
        "render.poll_interval" => "POLL_INTERVAL_DEFAULT",
        "render.poll_interval_idle" => "POLL_INTERVAL_IDLE",
        _ => return None,
    })
}

/// The key with this path.
pub fn find(path: &str) -> Option<&'static Key> {
    ALL.iter().copied().find(|key| key.path == path)
}

/// The names that may stand directly below `table` (the top is ""), each once: keys and further tables.
pub(super) fn names_below(table: &str) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = Vec::new();
    for key in ALL {
        let below = match table {
            "" => Some(key.path),
            _ => key.path.strip_prefix(table).and_then(|rest| rest.strip_prefix('.')),
        };
        let name = below.and_then(|rest| rest.split('.').next());
        names.extend(name.filter(|name| !names.contains(name)));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_variables_are_unique_and_plain() {
        let mut seen = std::collections::BTreeSet::new();
        for key in ALL {
            let is_plain = |c: char| c.is_ascii_lowercase() || c == '_' || c == '.';
            assert!(key.path.chars().all(is_plain), "{}", key.path);
            assert!(seen.insert(key.env_name()), "{}", key.path);
            assert!(key.env_file_name().is_none_or(|name| seen.insert(name)), "{}", key.path);
            assert!(key.doc.ends_with('.'), "{}", key.path);
            assert_eq!(find(key.path), Some(*key));
        }
    }

    #[test]
    fn no_key_is_also_a_table() {
        for key in ALL {
            assert!(names_below(key.path).is_empty(), "{}", key.path);
        }
    }

    #[test]
    fn names_are_listed_once_per_table() {
        assert_eq!(
            names_below(""),
            [
                "database", "process", "server", "jobs", "pools", "outbox", "render", "lambda", "log",
                "output", "color"
            ]
        );
        assert_eq!(names_below("process"), ["name", "lease"]);
        assert!(names_below("proc").is_empty());
    }
}
