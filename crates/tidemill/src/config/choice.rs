//! The words that some keys choose from, each list as a type.

pub use tidemill_domain::render::answer::Dialect as RenderDialect;
pub use tidemill_kafka::Compression;
pub use tidemill_server::access::jwt::Signature as JwtAlgorithm;
pub use tidemill_server::api::pool::document::UnknownPool as Unknown;
pub use tidemill_server::lambda::SignatureMode as LambdaSignature;
pub use tidemill_server::webhook::Format as WebhookFormat;
pub use tidemill_store::{Init, Synchronous};

tidemill_domain::words! {
    /// What stands between us and PostgreSQL.
    pub enum Pooler {
        /// Found out at the first connection.
        Auto = "auto",
        None = "none",
        /// A pooler that keeps one server connection per session.
        Session = "session",
        /// A pooler that may change the server connection between transactions.
        Transaction = "transaction",
    }

    pub enum LogLevel {
        /// Only what somebody must act on.
        Error = "error",
        /// Also what will need attention.
        Warn = "warn",
        /// Also what happens in the large.
        Info = "info",
        /// Also what happens in the small.
        Debug = "debug",
        Trace = "trace",
    }

    /// What a log line looks like.
    pub enum LogFormat {
        Pretty = "pretty",
        /// One JSON object per line.
        Json = "json",
        /// `[time] LEVEL | Worker#1 | Job#1 | text`.
        Columns = "columns",
    }

    /// Whether callers of the server have to prove who they are.
    pub enum Auth {
        /// Unless the server listens on loopback only.
        Auto = "auto",
        /// Always.
        Required = "required",
        /// Never; then the server listens on loopback only.
        None = "none",
    }

    /// Whether what happens becomes events of the outbox.
    pub enum Events {
        /// It does not.
        Off = "off",
        /// It does, in the same transaction.
        On = "on",
    }

    /// What the brokers of Kafka ask for.
    pub enum KafkaSecurity {
        Plaintext = "plaintext",
        Ssl = "ssl",
        /// A name and a password, in the open.
        SaslPlaintext = "sasl_plaintext",
        SaslSsl = "sasl_ssl",
    }

    /// How a name and a password are shown to Kafka.
    pub enum KafkaMechanism {
        Plain = "plain",
        ScramSha256 = "scram-sha-256",
        /// By a proof with a longer hash.
        ScramSha512 = "scram-sha-512",
    }

    /// Whether browsers reach the server over TLS.
    pub enum Tls {
        /// They do not.
        None = "none",
        /// A proxy before the server speaks TLS with them.
        Proxy = "proxy",
    }

    /// What the answer of a command looks like.
    pub enum Output {
        Table = "table",
        /// One JSON document.
        Json = "json",
        /// One JSON object per line.
        Jsonl = "jsonl",
        /// Comma-separated values with a header.
        Csv = "csv",
    }

    pub enum ColorChoice {
        /// When it goes to a terminal that can.
        Auto = "auto",
        Always = "always",
        Never = "never",
    }
}
