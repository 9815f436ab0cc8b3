//! Kafka: the outbox's publisher, a topic reader and writer for jobs, and the reader of `outbox verify`.

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
pub mod writer;

mod delivery;
mod group;
mod order;
mod producer;
mod receipt;
mod topic;

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
pub use writer::{KafkaMessage, KafkaWriter};
