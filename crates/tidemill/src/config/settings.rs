//! The settings as the program uses them: plain fields, each with its type.

use super::alert::Alert;
use super::check::Checked;
use super::choice::{
    Auth, ColorChoice, Events, Init, LambdaSignature, LogFormat, LogLevel, Output, Pooler, Synchronous, Tls,
    Unknown,
};
use super::connection::ConnectionSettings;
use super::jwt::IssuerSettings;
use super::kafka::{Kafka, RouteSettings};
use super::key::{self, Key};
use super::lambda::LambdaKey;
use super::render::{Render, RenderKey};
use super::secret::Secret;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;
use tidemill_engine::pool::Probe;

/// Every setting. The keys of the same names are described in [`key`].
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    pub database: Database,
    pub process: Process,
    pub server: Server,
    pub jobs: Jobs,
    pub pools: Pools,
    pub outbox: Outbox,
    pub render: Render,
    /// The answers to the document's clients.
    pub document: Document,
    /// Callers in the form of AWS Lambda.
    pub lambda: Lambda,
    pub alert: Alert,
    /// Whose JSON Web Tokens the server accepts.
    pub issuers: Vec<IssuerSettings>,
    /// Databases that job files name.
    pub connections: Vec<ConnectionSettings>,
    /// Programs that look after leases in doubt.
    pub probes: Vec<Probe>,
    pub log: Log,
    /// What the answer of a command looks like.
    pub output: Output,
    pub color: ColorChoice,
}

/// How the database is reached and used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Database {
    /// Where it is. Hidden as a whole, because it may hold a password.
    pub url: Secret,
    /// The password, when it is not part of the URL.
    pub password: Option<Secret>,
    /// Most connections that this process opens.
    pub max_connections: u32,
    /// When the schema is created or upgraded without being asked.
    pub init: Init,
    /// What stands between us and PostgreSQL.
    pub pooler: Pooler,
    /// How long to wait for a connection.
    pub connect_timeout: Duration,
    /// How long to wait for another writer of the same SQLite file.
    pub busy_timeout: Duration,
    /// How much SQLite waits for the disk.
    pub sqlite_synchronous: Synchronous,
}

/// How this process takes part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Process {
    /// Its name in lists, when it is given one.
    pub name: Option<String>,
    /// How long it counts as alive after its last word.
    pub lease: Duration,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Server {
    pub listen: SocketAddr,
    /// What stands before every path; empty for none.
    pub base_path: String,
    /// Whether callers have to prove who they are.
    pub auth: Auth,
    /// What this installation is called.
    pub instance: String,
    /// Whether browsers reach it over TLS.
    pub tls: Tls,
    /// Whether it prints the metrics of pools in CloudWatch's embedded metric format.
    pub emf: bool,
    /// Most connections of one address; half of all unless given.
    pub max_connections_per_address: Option<u32>,
}

/// How a server runs jobs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Jobs {
    /// Most executions that it runs at once.
    pub max_running: u32,
    /// Most partitions of other processes' executions that it runs at once.
    pub max_partitions: u32,
    pub folder: Option<PathBuf>,
    /// Where the files have to lie that they read and write, if somebody says so.
    pub roots: Option<Vec<PathBuf>>,
    /// How long it keeps instances after their end, if not for ever.
    pub keep_for: Option<Duration>,
    /// How many of the newest instances of each job it keeps, if not all.
    pub keep_instances: Option<u32>,
    /// Whether what happens to executions becomes events.
    pub events: Events,
}

/// What is taken of pools where nothing else is said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pools {
    /// Of a new pool, how much may be in use, in percent.
    pub default_threshold_percent: u32,
    /// How long pollers are told to wait at least.
    pub default_wait: Duration,
    /// How long pollers are told to wait at most.
    pub max_wait: Duration,
    /// What a request gets of a new pool that does not say how much it wants.
    pub default_units: u32,
    /// The least that a downgrade in a new pool gives.
    pub min_units: u32,
    /// How long tickets are kept after their end.
    pub history: Duration,
    /// The view that shows tickets to other tools.
    pub registry_view: String,
    /// The view that shows limits to other tools.
    pub limits_view: String,
    /// Whether what happens to pools becomes events.
    pub events: Events,
}

/// The outbox: how relays publish, and what is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outbox {
    /// Where relays publish; a server has no relay without it.
    pub sink: Option<String>,
    /// Most events at once.
    pub batch_size: u32,
    /// Longest pause between two looks.
    pub poll: Duration,
    /// Pause before the first look.
    pub initial_delay: Duration,
    /// How many publications of one batch run side by side.
    pub senders: u32,
    /// How long one publication may take.
    pub timeout: Duration,
    /// The first wait of an event that was refused.
    pub base_backoff: Duration,
    /// The longest wait of an event that was refused.
    pub max_backoff: Duration,
    /// After how many attempts an event is parked.
    pub max_attempts: u32,
    /// A batch that takes longer is worth a warning.
    pub slow_batch: Duration,
    /// How long a silent relay keeps its slots.
    pub lease: Duration,
    /// How long events are kept that were published.
    pub keep_for: Duration,
    /// How long the inbox remembers what consumers have seen.
    pub keep_seen_for: Duration,
    pub partition_rows: u32,
    /// The longest record that the sink takes, in bytes.
    pub max_record: Option<u32>,
    /// Which of a fixed number of relays this one is.
    pub instance_id: Option<u32>,
    /// How many relays there are, when their number is fixed.
    pub total_instances: Option<u32>,
    /// The topic of the events of jobs and pools.
    pub events_topic: String,
    pub kafka: Kafka,
}

/// How the clients of the EMR Batch Agent's document are answered. The keys stand below `pools`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Document {
    /// Whether `available` of a grant is counted up to the end of the pool.
    pub compat_available: bool,
    /// What becomes of requests for a pool that does not exist.
    pub unknown: Unknown,
}

/// How callers in the form of AWS Lambda are known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lambda {
    /// The function that they find.
    pub function: String,
    /// Whether they have to sign.
    pub signature: LambdaSignature,
    pub keys: Vec<LambdaKey>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Log {
    pub level: LogLevel,
    /// In which form.
    pub format: LogFormat,
}

#[derive(Debug)]
pub(super) struct Sections {
    pub(super) alert: Alert,
    pub(super) issuers: Vec<IssuerSettings>,
    pub(super) connections: Vec<ConnectionSettings>,
    pub(super) lambda_keys: Vec<LambdaKey>,
    pub(super) probes: Vec<Probe>,
    pub(super) routes: Vec<RouteSettings>,
    pub(super) render_keys: Vec<RenderKey>,
}

/// Folders that are separated by semicolons.
fn folders(text: &str) -> Vec<PathBuf> {
    text.split(';').map(str::trim).filter(|folder| !folder.is_empty()).map(PathBuf::from).collect()
}

impl Settings {
    pub(super) fn read(values: &Values, sections: Sections) -> Self {
        Self {
            database: Database {
                url: values.secret(&key::DATABASE_URL),
                password: values.optional_secret(&key::DATABASE_PASSWORD),
                max_connections: values.number(&key::DATABASE_MAX_CONNECTIONS),
                init: values.choice(&key::DATABASE_INIT),
                pooler: values.choice(&key::DATABASE_POOLER),
                connect_timeout: values.duration(&key::DATABASE_CONNECT_TIMEOUT),
                busy_timeout: values.duration(&key::DATABASE_BUSY_TIMEOUT),
                sqlite_synchronous: values.choice(&key::DATABASE_SQLITE_SYNCHRONOUS),
            },
            process: Process {
                name: values.optional_text(&key::PROCESS_NAME),
                lease: values.duration(&key::PROCESS_LEASE),
            },
            server: Server {
                listen: values.address(&key::SERVER_LISTEN),
                base_path: values.text(&key::SERVER_BASE_PATH),
                auth: values.choice(&key::SERVER_AUTH),
                instance: values.text(&key::SERVER_INSTANCE),
                tls: values.choice(&key::SERVER_TLS),
                emf: values.truth(&key::SERVER_EMF),
                max_connections_per_address: values.optional_number(&key::SERVER_MAX_CONNECTIONS_PER_ADDRESS),
            },
            jobs: Jobs {
                max_running: values.number(&key::JOBS_MAX_RUNNING),
                max_partitions: values.number(&key::JOBS_MAX_PARTITIONS),
                folder: values.optional_text(&key::JOBS_FOLDER).map(PathBuf::from),
                roots: values.optional_text(&key::JOBS_ROOTS).map(|text| folders(&text)),
                keep_for: values.optional_duration(&key::JOBS_KEEP_FOR),
                keep_instances: values.optional_number(&key::JOBS_KEEP_INSTANCES),
                events: values.choice(&key::JOBS_EVENTS),
            },
            pools: Pools {
                default_threshold_percent: values.number(&key::POOLS_DEFAULT_THRESHOLD_PERCENT),
                default_wait: values.duration(&key::POOLS_DEFAULT_WAIT),
                max_wait: values.duration(&key::POOLS_MAX_WAIT),
                default_units: values.number(&key::POOLS_DEFAULT_UNITS),
                min_units: values.number(&key::POOLS_MIN_UNITS),
                history: values.duration(&key::POOLS_HISTORY),
                registry_view: values.text(&key::POOLS_REGISTRY_VIEW),
                limits_view: values.text(&key::POOLS_LIMITS_VIEW),
                events: values.choice(&key::POOLS_EVENTS),
            },
            outbox: Outbox {
                sink: values.optional_text(&key::OUTBOX_SINK),
                batch_size: values.number(&key::OUTBOX_BATCH_SIZE),
                poll: values.duration(&key::OUTBOX_POLL),
                initial_delay: values.duration(&key::OUTBOX_INITIAL_DELAY),
                senders: values.number(&key::OUTBOX_SENDERS),
                timeout: values.duration(&key::OUTBOX_TIMEOUT),
                base_backoff: values.duration(&key::OUTBOX_BASE_BACKOFF),
                max_backoff: values.duration(&key::OUTBOX_MAX_BACKOFF),
                max_attempts: values.number(&key::OUTBOX_MAX_ATTEMPTS),
                slow_batch: values.duration(&key::OUTBOX_SLOW_BATCH),
                lease: values.duration(&key::OUTBOX_LEASE),
                keep_for: values.duration(&key::OUTBOX_KEEP_FOR),
                keep_seen_for: values.duration(&key::OUTBOX_KEEP_SEEN_FOR),
                partition_rows: values.number(&key::OUTBOX_PARTITION_ROWS),
                max_record: values.optional_number(&key::OUTBOX_MAX_RECORD),
                instance_id: values.optional_number(&key::OUTBOX_INSTANCE_ID),
                total_instances: values.optional_number(&key::OUTBOX_TOTAL_INSTANCES),
                events_topic: values.text(&key::OUTBOX_EVENTS_TOPIC),
                kafka: Kafka::read(values, sections.routes),
            },
            render: Render::read(values, sections.render_keys),
            document: Document {
                compat_available: values.truth(&key::POOLS_COMPAT_AVAILABLE),
                unknown: values.choice(&key::POOLS_UNKNOWN),
            },
            lambda: Lambda {
                function: values.text(&key::LAMBDA_FUNCTION),
                signature: values.choice(&key::LAMBDA_SIGNATURE),
                keys: sections.lambda_keys,
            },
            alert: sections.alert,
            issuers: sections.issuers,
            connections: sections.connections,
            probes: sections.probes,
            log: Log { level: values.choice(&key::LOG_LEVEL), format: values.choice(&key::LOG_FORMAT) },
            output: values.choice(&key::OUTPUT),
            color: values.choice(&key::COLOR),
        }
    }
}

/// The checked values by path. A key without default may be missing; every other is there, of its key's kind.
#[derive(Default, Debug)]
pub(super) struct Values(BTreeMap<&'static str, Checked>);

impl Values {
    pub(super) fn insert(&mut self, key: &'static Key, value: Checked) {
        self.0.insert(key.path, value);
    }

    pub(super) fn optional_secret(&self, key: &Key) -> Option<Secret> {
        match self.0.get(key.path) {
            Some(Checked::Secret(secret)) => Some(secret.clone()),
            _ => None,
        }
    }

    pub(super) fn optional_text(&self, key: &Key) -> Option<String> {
        match self.0.get(key.path) {
            Some(Checked::Text(text)) => Some(text.clone()),
            _ => None,
        }
    }

    pub(super) fn text(&self, key: &Key) -> String {
        self.optional_text(key).expect("a text with a default was checked by its kind")
    }

    fn address(&self, key: &Key) -> SocketAddr {
        let address = match self.0.get(key.path) {
            Some(Checked::Address(address)) => Some(*address),
            _ => None,
        };
        address.expect("an address has a default and was checked by its kind")
    }

    fn secret(&self, key: &Key) -> Secret {
        self.optional_secret(key).expect("a URL has a default and was checked by its kind")
    }

    pub(super) fn optional_number(&self, key: &Key) -> Option<u32> {
        match self.0.get(key.path) {
            Some(Checked::Number(number)) => Some(*number),
            _ => None,
        }
    }

    pub(super) fn number(&self, key: &Key) -> u32 {
        self.optional_number(key).expect("a number has a default and was checked by its kind")
    }

    pub(super) fn optional_duration(&self, key: &Key) -> Option<Duration> {
        match self.0.get(key.path) {
            Some(Checked::Duration(duration)) => Some(*duration),
            _ => None,
        }
    }

    pub(super) fn duration(&self, key: &Key) -> Duration {
        self.optional_duration(key).expect("a duration has a default and was checked by its kind")
    }

    pub(super) fn truth(&self, key: &Key) -> bool {
        matches!(self.0.get(key.path), Some(Checked::Truth(true)))
    }

    pub(super) fn choice<T: FromStr>(&self, key: &Key) -> T {
        let choice = match self.0.get(key.path) {
            Some(Checked::Word(word)) => word.parse().ok(),
            _ => None,
        };
        choice.expect("a word has a default and was checked against the names of its type")
    }
}
