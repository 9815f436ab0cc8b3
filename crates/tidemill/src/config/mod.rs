//! Configuration: where values come from, what they may be, and who set them.
//!
//! A value is taken from the first of these that has it: a flag, the environment (`TIDEMILL_*`), the
//! project's file (`--config FILE` or `./tidemill.toml`), the user's file, the system's file, the default.
//! What is misspelt is refused everywhere, also in a file whose values are overridden; [`load`] reports every
//! problem of one run, not only the first.

pub mod key;

pub mod alert;

mod check;
mod choice;
mod document;
mod env;
mod error;
mod file;
mod layer;
mod load;
mod named;
mod origin;
mod place;
mod secret;
mod section;
mod settings;
mod sources;
mod table;

#[cfg(test)]
mod tests;

pub use choice::{
    Auth, ColorChoice, Compression, Events, Init, JwtAlgorithm, KafkaMechanism, KafkaSecurity,
    LambdaSignature, LogFormat, LogLevel, Output, Pooler, RenderDialect, Synchronous, Tls, Unknown,
    WebhookFormat,
};
pub use error::ConfigError;
pub use key::{Key, Kind};
pub use load::{Loaded, Value, load};
pub use named::{ConnectionSettings, IssuerKey, IssuerSettings, RenderKey};
pub use origin::Origin;
pub use secret::Secret;
pub use settings::{
    Database, Jobs, Kafka, Lambda, Log, Outbox, Pools, Process, Render, Server, Settings, Top,
};
pub use sources::Sources;
