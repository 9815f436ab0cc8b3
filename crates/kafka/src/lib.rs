//! Kafka: the outbox's publisher, a topic reader for jobs, and the reader of `outbox verify`.
//!
//! Reading order: [`options`], [`client`] (allow-listed client settings), [`security`] (TLS and SASL), [`route`] (which
//! topic), [`header`], [`failure`], then `order` (which records to send at once, and their outcomes), `delivery` (the
//! reports of one wave), `producer`, `topic` (which topics exist) and [`publisher`], which combines them. For
//! transactions: `transaction`, `receipt` (the events that were sent, read back by the next owner), `group` (the
//! producer of one group) and [`transactional`]. Readers: [`consumer`] (given partitions, from one offset to another),
//! [`reader`] (the items of a step) and [`verify`].

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
