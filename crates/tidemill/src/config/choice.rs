//! Enums of the words that some keys accept.

pub use tidemill_domain::render::answer::Dialect as RenderDialect;
pub use tidemill_domain::render::output::Correction as RenderCorrection;
pub use tidemill_kafka::{Compression, Mechanism as KafkaMechanism};
pub use tidemill_server::access::jwt::Signature as JwtAlgorithm;
pub use tidemill_server::api::pool::emr_agent::UnknownPool as Unknown;
pub use tidemill_server::lambda::SignatureMode as LambdaSignature;
pub use tidemill_server::mail::Security as MailTls;
pub use tidemill_server::sns::SnsFormat;
pub use tidemill_server::webhook::Format as WebhookFormat;
pub use tidemill_store::{Init, Pooler, Synchronous};

tidemill_domain::words! {
    pub enum LogLevel {
        /// Only what a person must act on.
        Error = "error",
        /// Also what will need attention.
        Warn = "warn",
        Info = "info",
        Debug = "debug",
        Trace = "trace",
    }

    pub enum LogFormat {
        Pretty = "pretty",
        /// One JSON object per line.
        Json = "json",
        /// `[time] LEVEL | Worker#1 | Job#1 | text`.
        Columns = "columns",
    }

    /// Whether callers of the server need a token.
    pub enum Auth {
        /// Required unless the server listens on loopback only.
        Auto = "auto",
        Required = "required",
        /// The server then listens on loopback only.
        None = "none",
    }

    /// Whether events are written to the outbox.
    pub enum Events {
        Off = "off",
        /// In the same transaction as the change.
        On = "on",
    }

    /// The security protocol of Kafka brokers.
    pub enum KafkaSecurity {
        Plaintext = "plaintext",
        Ssl = "ssl",
        /// User name and password without encryption.
        SaslPlaintext = "sasl_plaintext",
        SaslSsl = "sasl_ssl",
    }

    /// What terminates TLS for browsers.
    pub enum Tls {
        None = "none",
        /// A proxy in front of the server.
        Proxy = "proxy",
    }

    /// The output format of commands.
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
        /// If the output is a terminal that supports it.
        Auto = "auto",
        Always = "always",
        Never = "never",
    }
}
