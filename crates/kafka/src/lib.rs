//! Kafka: the outbox's publisher, a reader of topics for jobs, and what reads back for `outbox verify`.
//!
//! Reading order: [`options`] (what can be set), [`client`] (the settings of the client, as an allow-list),
//! [`security`] (TLS and SASL), [`route`] (which topic), [`header`] (what goes with a record), [`failure`] (why a topic
//! cannot be read, and whose fault a failure is), then `order` (what may be sent at once, and what became of it),
//! `delivery` (the reports of one wave), `producer` (one producer and its life, and whether brokers answer), `topic` (which
//! topics there are) and [`publisher`], which brings them together; in transactions do so `transaction` (what a client has
//! of them), `receipt` (what was sent, read back by whoever comes next), `group` (the producer of one group) and
//! [`transactional`]. Then those who read: [`consumer`] (given partitions, from one offset to another), [`reader`] (the
//! items of a step) and [`verify`].

pub mod client;
pub mod consumer;
pub mod failure;
pub mod header;
pub mod options;
pub mod publisher;
pub mod reader;
pub mod route;
pub mod security;
pub mod transactional;
pub mod verify;

mod delivery;
mod group;
mod order;
mod producer;
mod receipt;
mod topic;
mod transaction;

pub use client::ClientOptions;
pub use consumer::Isolation;
pub use failure::ReadFailure;
pub use options::{Compression, KafkaError, KafkaOptions, delivery_timeout};
pub use producer::Cluster;
pub use publisher::KafkaPublisher;
pub use reader::plan::From;
pub use reader::record::{Format, KafkaRecord, RowFormat};
pub use reader::{KafkaReader, PATIENCE};
pub use route::{Route, Topics};
pub use security::{Mechanism, Sasl, Security, Tls};
pub use transactional::TransactionalPublisher;
pub use verify::TopicsBack;
