//! The outbox's publisher on Kafka.
//!
//! Reading order: [`options`] (what can be set), [`client`] (the settings of the client, as an allow-list),
//! [`security`] (TLS and SASL), [`route`] (which topic), [`header`] (what goes with a record), [`blame`] (whose fault a
//! failure is), then `order` (what may be sent at once, and what became of it), `delivery` (the reports of one wave),
//! `producer` (one producer and its life), `topic` (which topics there are) and [`publisher`], which brings them together;
//! in transactions do so `transaction` (what a client has of them), `receipt` (what was sent, read back by whoever comes
//! next), `group` (the producer of one group) and [`transactional`].

pub mod blame;
pub mod client;
pub mod header;
pub mod options;
pub mod publisher;
pub mod route;
pub mod security;
pub mod transactional;

mod delivery;
mod group;
mod order;
mod producer;
mod receipt;
mod topic;
mod transaction;

pub use client::ClientOptions;
pub use options::{Compression, KafkaError, KafkaOptions, delivery_timeout};
pub use publisher::KafkaPublisher;
pub use route::{Route, Topics};
pub use security::{Mechanism, Sasl, Security, Tls};
pub use transactional::TransactionalPublisher;
