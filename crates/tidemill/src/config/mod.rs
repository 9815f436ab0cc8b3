//! Configuration: where values come from, what they may be, and what set them.
//!
//! The first of these sources that has a value wins: a flag, the environment (`TIDEMILL_*`), the project's file
//! (`--config FILE` or `./tidemill.toml`), the user's file, the system's file, the default. A misspelt name is refused in
//! every source, even if another one overrides its value. [`load`] reports every problem, not only the first.

pub mod alert;
pub mod key;

mod choice;
mod document;
mod env;
mod error;
mod kind;
mod layer;
mod load;
mod named;
mod place;
mod reader;
mod secret;
mod settings;
mod sources;

#[cfg(test)]
mod tests;

pub use choice::{
    Auth, ColorChoice, Compression, Events, Init, JwtAlgorithm, KafkaMechanism, KafkaSecurity,
    LambdaSignature, LogFormat, LogLevel, MailTls, Output, Pooler, RenderCorrection, RenderDialect,
    SnsFormat, Synchronous, Tls, Unknown, WebhookFormat,
};
pub use error::ConfigError;
pub use key::Key;
pub use kind::Kind;
pub use layer::Origin;
pub use load::{Loaded, Value, load};
pub use named::{ConnectionSettings, IssuerKey, IssuerSettings, RenderKey};
pub use secret::Secret;
pub(crate) use secret::holds_password;
pub use settings::{
    Database, Jobs, Kafka, Lambda, Log, Outbox, Pools, Process, Render, Server, Settings, Telemetry, Top,
};
pub use sources::Sources;
